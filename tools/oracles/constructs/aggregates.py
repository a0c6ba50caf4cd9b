"""Aggregates: min and max with NaN and infinities, several orders, grouping sets, FILTER and DISTINCT."""

from places import finished, outer


def extremes(g):
    table, scope = outer(g)
    ref = g.column(scope, "float") or g.column(scope, "int")
    by = g.column(scope, g.pick("int", "text", "bool", "float")) or g.column(scope, "int")
    g.portable = False
    lists = f"min({ref.sql}) AS lo, max({ref.sql}) AS hi, count({ref.sql}) AS c"
    where = f" WHERE {g.predicate(scope, 0)}" if g.chance(0.3) else ""
    form = g.random.randrange(5)
    if form == 0:
        return finished(g, f"SELECT {lists} FROM {table.name} a{where}")
    if form == 1:
        return finished(g, f"SELECT a.id, min({ref.sql}) OVER (PARTITION BY {by.sql}) AS lo, max({ref.sql}) OVER (PARTITION BY {by.sql}) AS hi FROM {table.name} a{where}")
    if form == 2:
        other = g.column(scope).sql
        return finished(g, f"SELECT {by.sql} AS v, {other} AS w, {lists} FROM {table.name} a{where} GROUP BY {by.sql}, {other}")
    having = f" HAVING max({ref.sql}) {g.pick('>', '<', '>=')} {g.constant(ref.kind)}" if form == 3 else ""
    return finished(g, f"SELECT {by.sql} AS v, {lists} FROM {table.name} a{where} GROUP BY {by.sql}{having}")


def several_orders(g):
    table, scope = outer(g)
    g.portable = False
    value = "CAST(a.id AS varchar)"
    # Expressions are ordered totally by `id`.
    orders = [f"{g.order([g.column(scope).sql])}, a.id {g.pick('ASC', 'DESC')}" for _ in range(2)]
    function = lambda at: g.pick(f"string_agg({value}, ',' ORDER BY {orders[at]})", f"first_value(a.id ORDER BY {orders[at]})", f"last_value(a.id ORDER BY {orders[at]})")
    functions = [function(0), function(1)]
    duck = [f.replace("first_value", "first").replace("last_value", "last") for f in functions]
    by = g.column(scope, g.pick("int", "text")) or g.column(scope, "int")
    tail = f"FROM {table.name} a GROUP BY {by.sql}" if g.chance(0.7) else f"FROM {table.name} a"
    head = f"SELECT {by.sql} AS v, " if "GROUP" in tail else "SELECT "
    case = finished(g, f"{head}{functions[0]} AS p, {functions[1]} AS q {tail}")
    case.duck = f"{head}{duck[0]} AS p, {duck[1]} AS q {tail}"
    return case


def grouping_sets(g):
    table, scope = outer(g)
    g.portable = False
    by, other = g.column(scope).sql, g.column(scope).sql
    if by == other:
        other = "a.id % 2"
    sets = g.pick(f"GROUPING SETS (({by}), ({other}))", f"ROLLUP ({by}, {other})", f"CUBE ({by}, {other})", f"GROUPING SETS (({by}, {other}), ())")
    having = f" HAVING count(*) > {g.pick(0, 1, 2)}" if g.chance(0.3) else ""
    return finished(g, f"SELECT {by} AS v, {other} AS w, count(*) AS c, max(a.id) AS m FROM {table.name} a GROUP BY {sets}{having}")


def filtered(g):
    table, scope = outer(g)
    x = f"CAST({g.column(scope, 'int').sql} AS bigint)"
    functions = [f"count(*) FILTER (WHERE {g.predicate(scope)}) AS p", f"sum({x}) FILTER (WHERE {g.predicate(scope, 0)}) AS q", f"count(DISTINCT {g.column(scope).sql}) AS r", f"sum(DISTINCT {x}) AS s"]
    chosen = ", ".join(g.random.sample(functions, 2))
    by = g.column(scope).sql
    tail = f"GROUP BY {by}" if g.chance(0.6) else ""
    head = f"{by} AS v, " if tail else ""
    return finished(g, f"SELECT {head}{chosen} FROM {table.name} a {tail}")


def distinct(g):
    """DISTINCT and GROUP BY of floats: one zero, one NaN."""
    table, scope = outer(g)
    refs = [g.column(scope, g.pick("float", "int", "text", "bool")) or g.column(scope) for _ in range(2)]
    if g.chance(0.5):
        return finished(g, f"SELECT DISTINCT {refs[0].sql} AS v, {refs[1].sql} AS w FROM {table.name} a")
    return finished(g, f"SELECT {refs[0].sql} AS v, count(*) AS c, count(DISTINCT {refs[1].sql}) AS d FROM {table.name} a GROUP BY {refs[0].sql}")


CONSTRUCTS = {
    "aggregate: min and max": extremes,
    "aggregate: several orders": several_orders,
    "aggregate: grouping sets": grouping_sets,
    "aggregate: FILTER and DISTINCT": filtered,
    "aggregate: groups of floats": distinct,
}
