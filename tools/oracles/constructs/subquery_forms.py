"""Subqueries of every form, correlation, shape and place: each construct fixes one of these and draws the others."""

from functools import partial

import places
from places import finished, outer
from subqueries import condition, correlated, member, scalar, subquery


def form(g, form=None, where=None, shape=None, how=None):
    return places.place(g, partial(condition, form=form, shape=shape, how=how), where)


def scalar_selected(g):
    """A scalar subquery as a value in the SELECT list, also within CASE and arithmetic."""
    table, scope = outer(g)
    kind = g.pick("int", "int", "text", "float", "decimal", "date", "timestamp")
    value = scalar(g, scope, kind)
    shown = g.pick(value, f"CASE WHEN {g.predicate(scope, 0)} THEN {value} END", f"COALESCE({value}, {g.constant(kind)})")
    return finished(g, f"SELECT a.id, {shown} AS r FROM {table.name} a")


def scalar_on_double(g):
    """Correlated by equality of doubles."""
    table, scope = outer(g)
    other = g.table()
    inner = g.scope(other, "b")
    left, right = g.column(scope, "float"), g.column(inner, "float")
    if not left or not right:
        return scalar_selected(g)
    value = f"(SELECT {g.pick('max', 'min', 'sum')}(CAST({g.column(inner, 'int').sql} AS bigint)) FROM {other.name} b WHERE {right.sql} = {left.sql})"
    if g.chance(0.5):
        return finished(g, f"SELECT a.id, {value} AS r FROM {table.name} a")
    text = f"{g.column(scope, 'int').sql} {g.pick('<', '=', '>')} {value}"
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def updated_to_scalar(g):
    table = g.table(rows=True)
    scope = g.scope(table, table.name)
    value = scalar(g, scope, "int")
    return finished(g, f"SELECT id, x FROM {table.name}" if any(c.name == "x" and c.nullable and c.type.name != "tinyint" for c in table.columns) else f"SELECT {table.name}.id, {value} AS x FROM {table.name}",
                    change=[f"UPDATE {table.name} SET x = {value}{' WHERE ' + g.predicate(scope, 0) if g.chance(0.4) else ''}"] if any(c.name == "x" and c.nullable and c.type.name != "tinyint" for c in table.columns) else [])


def outer_value_null(g):
    """NOT IN of a constant, NULLIF or nullable column, alone and beside OR."""
    return form(g, "not_in")


def rows(g):
    """Rows on both sides; half of them are not correlated, as DuckDB has no others."""
    return form(g, "rows", how="none" if g.chance(0.5) else None, shape=g.pick(None, "plain", "distinct", "union"))


def lateral(g):
    g.portable = False
    table, scope = outer(g)
    kinds = [g.pick("int", "text", "float", "date")]
    body = subquery(g, scope, kinds)
    if g.chance(0.5):
        return finished(g, f"SELECT a.id, l.c0 FROM {table.name} a CROSS JOIN LATERAL ({body}) l")
    kind = g.pick("JOIN", "LEFT JOIN")
    return finished(g, f"SELECT a.id, l.c0 FROM {table.name} a {kind} LATERAL ({body}) l ON {g.pick('true', g.predicate(scope, 0))}")


def two_levels(g):
    """The innermost query refers to the outermost one."""
    table, scope = outer(g)
    middle, m = g.table(), g.alias("m")
    inner, n = g.table(), g.alias("n")
    mid, deep = g.scope(middle, m), g.scope(inner, n)
    innermost = f"{g.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {inner.name} {n} WHERE {correlated(g, deep, scope)} AND {correlated(g, deep, mid)})"
    if g.chance(0.3):
        innermost = f"{g.column(mid, 'int').sql} {g.pick('<', '=', '>=')} (SELECT {g.pick('count(*)', f'max({n}.id)')} FROM {inner.name} {n} WHERE {correlated(g, deep, scope)})"
    elif g.chance(0.3):
        left = g.column(scope)
        innermost = f"{left.sql} {g.pick('IN', 'NOT IN')} (SELECT {g.value(deep, left.kind)} FROM {inner.name} {n} WHERE {correlated(g, deep, mid)})"
    head = g.pick("EXISTS", "NOT EXISTS", "IN", "NOT IN", "scalar")
    where = f"FROM {middle.name} {m} WHERE {g.pick(correlated(g, mid, scope), '1 = 1')} AND {innermost}"
    if head in ("IN", "NOT IN"):
        left = g.column(scope)
        text = f"{left.sql} {head} (SELECT {g.value(mid, left.kind)} {where})"
    elif head == "scalar":
        text = f"(SELECT count(*) {where}) {g.pick('=', '>', '<')} {g.pick(0, 1, 2)}"
    else:
        text = f"{head} (SELECT 1 {where})"
    text = g.around(text, scope)
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def inner_name(g):
    """An outer column that is named like the inner table or its alias."""
    table, scope = outer(g, "a")
    inner = g.table()
    c = g.pick("k", "id")
    alias = g.pick("k", "x", "s", "id")
    text = f"{g.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {inner.name} {alias} WHERE {alias}.k {g.pick('=', '<', '<>')} a.{c})"
    if g.chance(0.5):
        text = f"a.k {g.pick('IN', 'NOT IN')} (SELECT {alias}.{c} FROM {inner.name} {alias} WHERE {alias}.id >= a.id)"
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


CONSTRUCTS = {
    "subquery: IN": partial(form, form="in"),
    "subquery: NOT IN": outer_value_null,
    "subquery: NOT IN beside OR": partial(form, form="not_in", where="where", how="none", shape="plain"),
    "subquery: EXISTS": partial(form, form="exists"),
    "subquery: EXISTS of an aggregate": partial(form, form="exists", shape="aggregate"),
    "subquery: IN of an aggregate": partial(form, form="in", shape="aggregate"),
    "subquery: ANY and ALL": partial(form, form="quantified"),
    "subquery: rows": rows,
    "subquery: scalar in conditions": partial(form, form="scalar"),
    "subquery: scalar in SELECT": scalar_selected,
    "subquery: scalar correlated by a double": scalar_on_double,
    "subquery: in the SELECT list": partial(form, where="select"),
    "subquery: in CASE": partial(form, where="case"),
    "subquery: in HAVING": partial(form, where="having"),
    "subquery: in ON": partial(form, where="on"),
    "subquery: in ON of outer joins": partial(form, where="left_on"),
    "subquery: in aggregates": partial(form, where="aggregate"),
    "subquery: in ORDER BY": partial(form, where="order"),
    "subquery: above joins": partial(form, where="join_where"),
    "subquery: in DELETE": partial(form, where="delete"),
    "subquery: in UPDATE": partial(form, where="update"),
    "subquery: scalar in SET": updated_to_scalar,
    "subquery: correlated by <": partial(form, how="less"),
    "subquery: correlated by <>": partial(form, how="unequal"),
    "subquery: correlated by IS NOT DISTINCT FROM": partial(form, how="null_safe"),
    "subquery: correlated by OR": partial(form, how="disjunction"),
    "subquery: correlated by expressions": partial(form, how="expression"),
    "subquery: below GROUP BY": partial(form, shape="grouped"),
    "subquery: below HAVING": partial(form, shape="having"),
    "subquery: below GROUPING SETS": partial(form, shape="grouping_sets"),
    "subquery: below UNION": partial(form, shape="union"),
    "subquery: below INTERSECT and EXCEPT": partial(form, shape="bag"),
    "subquery: below windows": partial(form, shape="window"),
    "subquery: below ORDER BY LIMIT": partial(form, shape="limit"),
    "subquery: below OFFSET": partial(form, shape="offset"),
    "subquery: below joins": partial(form, shape="join"),
    "subquery: below outer joins": partial(form, shape="left_join"),
    "subquery: below DISTINCT": partial(form, shape="distinct"),
    "subquery: of a CTE": partial(form, shape="cte"),
    "subquery: of constants": partial(form, shape="values", how="none"),
    "subquery: over two levels": two_levels,
    "subquery: LATERAL": lateral,
    "subquery: names of inner tables": inner_name,
}
