"""Windows and sorts: one zero whatever its sign, frames with EXCLUDE, ranks, rows at a limit."""

from places import finished, outer


def keys(g, scope):
    return g.column(scope, "float") if g.chance(0.6) and g.column(scope, "float") else g.column(scope)


def ranks(g):
    """Ranks and partitions by floats and other keys. Rows are told apart by id where a function needs it."""
    table, scope = outer(g)
    key, by = keys(g, scope), keys(g, scope)
    partition = f"PARTITION BY {by.sql} " if g.chance(0.6) else ""
    order = g.order([key.sql])
    function = g.pick("rank()", "dense_rank()", f"count(*)", "row_number()", "sum(a.id)", "cume_dist()", "percent_rank()", "ntile(3)")
    if function in ("row_number()", "ntile(3)"):
        order += ", a.id"
    return finished(g, f"SELECT a.id, {function} OVER ({partition}ORDER BY {order}) AS r FROM {table.name} a")


def frames(g):
    table, scope = outer(g)
    key, by = keys(g, scope), keys(g, scope)
    partition = f"PARTITION BY {by.sql} " if g.chance(0.5) else ""
    unit = g.pick("ROWS", "RANGE", "GROUPS")
    bounds = {
        "ROWS": ["BETWEEN 1 PRECEDING AND 1 FOLLOWING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "BETWEEN 2 PRECEDING AND 1 PRECEDING", "BETWEEN 1 FOLLOWING AND 3 FOLLOWING", "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"],
        "RANGE": ["BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"],
        "GROUPS": ["BETWEEN 1 PRECEDING AND 1 FOLLOWING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "BETWEEN CURRENT ROW AND 1 FOLLOWING"],
    }[unit]
    exclude = g.pick("", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS")
    order = g.order([key.sql]) + (", a.id" if unit == "ROWS" else "")
    x = f"CAST({g.column(scope, 'int').sql} AS bigint)"
    function = g.pick(f"sum({x})", "count(*)", f"min({x})", f"max({x})", f"count({g.column(scope).sql})", f"count(DISTINCT {x})", f"sum({x}) FILTER (WHERE {g.predicate(scope, 0)})")
    if unit == "ROWS":
        function = g.pick(function, f"first_value({x})", f"last_value({x})", f"nth_value({x}, 2)")
    return finished(g, f"SELECT a.id, {function} OVER ({partition}ORDER BY {order} {unit} {g.pick(*bounds)}{exclude}) AS r FROM {table.name} a")


def sorts(g):
    """ORDER BY of several columns; a float is not the last one, so that equal zeros tie."""
    table, scope = outer(g)
    refs = [keys(g, scope) for _ in range(g.pick(1, 2))]
    order = g.order([ref.sql for ref in refs]) + f", a.id {g.pick('ASC', 'DESC')}"
    limit = g.pick("", "", f" LIMIT {g.pick(1, 3, 10)}", f" LIMIT 3 OFFSET {g.pick(1, 2, 9)}")
    where = f" WHERE {g.predicate(scope)}" if g.chance(0.4) else ""
    return finished(g, f"SELECT a.id, {refs[0].sql} AS v FROM {table.name} a{where} ORDER BY {order}{limit}", ordered=True)


def first_rows(g):
    """The first rows of each group."""
    table, scope = outer(g)
    key, by = keys(g, scope), keys(g, scope)
    g.portable = False
    order = g.order([key.sql])
    function = g.pick("rank()", "row_number()")
    if function == "row_number()":
        order += ", a.id"
    place = f"{function} OVER (PARTITION BY {by.sql} ORDER BY {order})"
    if g.chance(0.5):
        return finished(g, f"SELECT a.id FROM {table.name} a QUALIFY {place} <= {g.pick(1, 2, 3)}")
    return finished(g, f"SELECT z.id, z.p FROM (SELECT a.id, {place} AS p FROM {table.name} a) z WHERE z.p {g.pick('= 1', '<= 2', '< 4')}")


CONSTRUCTS = {"window: ranks and partitions": ranks, "window: frames": frames, "window: first rows": first_rows, "sort": sorts}
