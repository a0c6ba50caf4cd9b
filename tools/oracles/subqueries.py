"""Subqueries of every shape, correlated in every way, and the places of a statement that they stand in."""

from generator import COMPARISONS, Ref
from values import TYPES

SHAPES = ["plain", "plain", "distinct", "aggregate", "grouped", "grouping_sets", "union", "bag", "window", "limit", "offset", "join", "left_join", "nested", "derived", "cte", "values", "having"]
CORRELATIONS = ["none", "equal", "equal", "less", "unequal", "null_safe", "disjunction", "expression", "two"]


def correlated(g, inner, outer, how=None):
    """Returns a condition on inner columns, which mostly depends on outer ones."""
    how = how or g.random.choice(CORRELATIONS)
    if how == "none" or not outer:
        return g.predicate(inner, 0) if g.chance(0.6) else "1 = 1"
    a, b = g.common(inner, outer)
    if how == "equal":
        condition = f"{a.sql} = {b.sql}"
    elif how == "less":
        condition = f"{a.sql} {g.pick('<', '<=', '>', '>=')} {b.sql}"
    elif how == "unequal":
        condition = f"{a.sql} <> {b.sql}"
    elif how == "null_safe":
        condition = f"({a.sql} IS NOT DISTINCT FROM {b.sql})"
    elif how == "disjunction":
        condition = f"({a.sql} = {b.sql} OR {g.predicate(g.pick(inner, outer), 0)})"
    elif how == "expression":
        condition = f"{g.value(inner, b.kind)} = {g.value(outer, b.kind)}"
    else:
        c, d = g.common(inner, outer)
        condition = f"{a.sql} = {b.sql} AND {c.sql} {g.pick(*COMPARISONS)} {d.sql}"
    return f"{condition} AND {g.predicate(inner, 0)}" if g.chance(0.3) else condition


def subquery(g, outer, kinds, shape=None, how=None, depth=1):
    """Returns a query whose columns have the given kinds, without parentheses around it."""
    shape = shape or g.random.choice(SHAPES)
    table, b = g.table(), g.alias("b")
    inner = g.scope(table, b)
    # A kind that the table lacks comes from a constant or from the outer query.
    columns = [g.value(inner, kind) for kind in kinds]
    if outer and g.chance(0.08):
        columns[0] = g.value(outer, kinds[0], 0)
    listed = ", ".join(f"{column} AS c{at}" for at, column in enumerate(columns))
    source = f"{table.name} {b}"
    where = correlated(g, inner, outer, how)
    plain = f"SELECT {listed} FROM {source} WHERE {where}"
    if shape == "distinct":
        return f"SELECT DISTINCT {listed} FROM {source} WHERE {where}"
    if shape == "aggregate":
        return f"SELECT {aggregates(g, inner, kinds)} FROM {source} WHERE {where}"
    if shape == "grouped":
        by = g.column(inner).sql
        return f"SELECT {aggregates(g, inner, kinds)} FROM {source} WHERE {where} GROUP BY {by}"
    if shape == "having":
        by = g.column(inner).sql
        return f"SELECT {aggregates(g, inner, kinds)} FROM {source} WHERE {where} GROUP BY {by} HAVING count(*) {g.pick('>', '=', '<')} {g.pick(1, 2)}"
    if shape == "grouping_sets":
        g.portable = False
        by, other = g.column(inner).sql, g.column(inner).sql
        sets = g.pick(f"GROUPING SETS (({by}), ({other}), ())", f"ROLLUP ({by}, {other})", f"CUBE ({by})", "GROUPING SETS (())")
        return f"SELECT {aggregates(g, inner, kinds)} FROM {source} WHERE {where} GROUP BY {sets}"
    if shape in ("union", "bag"):
        other = subquery(g, outer, kinds, "plain", how)
        operator = g.pick("UNION", "UNION ALL") if shape == "union" else g.pick("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        if operator in ("INTERSECT ALL", "EXCEPT ALL"):
            g.portable = False
        return f"SELECT {listed} FROM {source} WHERE {where} {operator} {other}"
    if shape == "window":
        by = g.column(inner).sql
        ranked = f"SELECT {listed}, row_number() OVER (PARTITION BY {by} ORDER BY {b}.id) AS place FROM {source} WHERE {where}"
        w = g.alias("w")
        return f"SELECT {', '.join(f'{w}.c{at}' for at in range(len(kinds)))} FROM ({ranked}) {w} WHERE {w}.place {g.pick('= 1', '<= 2', '> 1')}"
    if shape in ("limit", "offset"):
        order = g.order([g.column(inner).sql]) + f", {b}.id"
        rows = f"LIMIT {g.pick(1, 1, 2)}" if shape == "limit" else g.pick("LIMIT 1 OFFSET 1", "LIMIT 100 OFFSET 1", "LIMIT 2 OFFSET 2")
        return f"{plain} ORDER BY {order} {rows}"
    if shape in ("join", "left_join"):
        t, c = g.table(), g.alias("c")
        right = g.scope(t, c)
        a, d = g.common(inner, right)
        kind = "JOIN" if shape == "join" else "LEFT JOIN"
        on = f"{a.sql} = {d.sql}"
        if outer and g.chance(0.4):
            e, f = g.common(right, outer)
            on += f" AND {e.sql} {g.pick('=', '<', '<>')} {f.sql}"
        return f"SELECT {listed} FROM {source} {kind} {t.name} {c} ON {on} WHERE {where}"
    if shape == "nested" and depth > 0:
        deep = exists(g, g.pick(inner, outer + inner, outer or inner), depth - 1)
        return f"{plain} AND {deep}"
    if shape == "derived":
        t = g.alias("d")
        return f"SELECT {', '.join(f'{t}.c{at}' for at in range(len(kinds)))} FROM ({plain}) {t}"
    if shape == "cte":
        t = g.alias("w")
        return f"WITH {t} AS ({plain}) SELECT {', '.join(f'c{at}' for at in range(len(kinds)))} FROM {t}"
    if shape == "values" and not outer:
        return f"SELECT {', '.join(g.constant(kind) for kind in kinds)}"
    return plain


def aggregates(g, inner, kinds):
    """Returns a select list of aggregates of the given kinds."""

    def one(kind):
        if kind == "int" and g.chance(0.6):
            return g.pick("count(*)", f"count({g.column(inner).sql})", f"max({g.value(inner, 'int', 0)})")
        function = g.pick("min", "max")
        if kind == "bool":
            return "count(*) > 1"
        return f"{function}({g.value(inner, kind, 0)})"

    return ", ".join(f"{one(kind)} AS c{at}" for at, kind in enumerate(kinds))


def exists(g, outer, depth=1, shape=None, how=None):
    kind = g.pick("int", "text")
    return f"{g.pick('', 'NOT ')}EXISTS ({subquery(g, outer, [kind], shape, how, depth)})"


def member(g, outer, shape=None, how=None, negated=None, kind=None):
    """Returns IN or NOT IN."""
    ref = g.column(outer, kind)
    kind = ref.kind
    left = g.pick(ref.sql, ref.sql, g.value(outer, kind), g.constant(kind), f"NULLIF({ref.sql}, {g.constant(kind)})")
    word = g.pick("IN", "NOT IN") if negated is None else "NOT IN" if negated else "IN"
    return f"{left} {word} ({subquery(g, outer, [kind], shape, how)})"


def rows_member(g, outer, shape=None, how=None):
    """Returns (a, b) IN (…)."""
    left, right = g.column(outer), g.column(outer)
    return f"({left.sql}, {right.sql}) {g.pick('IN', 'NOT IN')} ({subquery(g, outer, [left.kind, right.kind], shape, how)})"


def quantified(g, outer, shape=None, how=None):
    """Returns a comparison with ANY or ALL."""
    g.portable = False
    ref = g.column(outer)
    left = g.pick(ref.sql, g.value(outer, ref.kind), g.constant(ref.kind))
    return f"{left} {g.pick(*COMPARISONS)} {g.pick('ANY', 'ALL')} ({subquery(g, outer, [ref.kind], shape, how)})"


def scalar(g, outer, kind="int", how=None):
    """Returns a scalar subquery in parentheses, of one row at most."""
    shape = g.pick("aggregate", "aggregate", "first", "first", "second", "row", "count", "sum", "nested_max", "window", "union")
    table, b = g.table(), g.alias("b")
    inner = g.scope(table, b)
    where = correlated(g, inner, outer, how)
    source = f"FROM {table.name} {b} WHERE {where}"
    if shape == "count" and kind == "int":
        return f"(SELECT {g.pick('count(*)', f'count({g.column(inner).sql})', 'count(*) + 1', f'COALESCE(max({b}.id), -1)')} {source})"
    if shape == "sum" and kind == "int":
        return f"(SELECT sum(CAST({g.value(inner, 'int', 0)} AS bigint)) {source})"
    if shape in ("first", "second"):
        order = g.order([g.column(inner).sql]) + f", {b}.id"
        return f"(SELECT {g.value(inner, kind)} {source} ORDER BY {order} LIMIT 1{' OFFSET 1' if shape == 'second' else ''})"
    if shape == "row" and any(ref.sql.endswith(".id") for ref in outer):
        id_ = next(ref.sql for ref in outer if ref.sql.endswith(".id"))
        return f"(SELECT {g.value(inner, kind)} {source} AND {b}.id = {id_})"
    if shape == "nested_max":
        deep = exists(g, outer + inner, 0)
        return f"(SELECT {g.pick('min', 'max')}({value_not_bool(g, inner, kind)}) {source} AND {deep})"
    if shape == "window":
        w = g.alias("w")
        return f"(SELECT {g.pick('min', 'max')}({w}.v) FROM (SELECT {value_not_bool(g, inner, kind)} AS v, rank() OVER (ORDER BY {b}.id) AS place {source}) {w} WHERE {w}.place > 1)"
    if shape == "union":
        u = g.alias("u")
        return f"(SELECT {g.pick('min', 'max')}({u}.v) FROM (SELECT {value_not_bool(g, inner, kind)} AS v {source} UNION ALL SELECT {g.value(outer, kind, 0)}) {u})"
    return f"(SELECT {g.pick('min', 'max')}({value_not_bool(g, inner, kind)}) {source})"


def value_not_bool(g, inner, kind):
    if kind == "bool":
        raise ValueError("there is no minimum of booleans in every system")
    return g.value(inner, kind)


FORMS = ["in", "not_in", "exists", "rows", "quantified", "scalar"]


def condition(g, outer, form=None, shape=None, how=None):
    """Returns a condition with a subquery of a form in it."""
    form = form or g.random.choice(FORMS)
    if form == "in":
        return member(g, outer, shape, how, negated=False)
    if form == "not_in":
        return member(g, outer, shape, how, negated=True)
    if form == "exists":
        return exists(g, outer, 1, shape, how)
    if form == "rows":
        return rows_member(g, outer, shape, how)
    if form == "quantified":
        return quantified(g, outer, shape, how)
    kind = g.pick("int", "int", "text", "float", "decimal", "date")
    return f"{g.value(outer, kind)} {g.pick(*COMPARISONS)} {scalar(g, outer, kind, how)}"
