"""The places of a statement that a condition or a scalar expression with subqueries stands in."""

from case import Case
from generator import Ref
from values import TYPES

PLACES = ["where", "where", "where", "select", "case", "having", "on", "left_on", "delete", "update", "aggregate", "join_where", "order"]


def place(g, condition, where=None):
    """Returns a case with the condition that the function makes for a scope in some place."""
    where = where or g.random.choice(PLACES)
    return globals()[f"in_{where}"](g, condition)


def finished(g, sql, **more):
    return Case(sql, lite=sql if g.portable else None, **more)


def outer(g, alias="a"):
    table = g.table(rows=True)
    return table, g.scope(table, alias)


def in_where(g, condition):
    table, scope = outer(g)
    text = g.around(condition(g, scope), scope)
    source = f"{table.name} a"
    return finished(g, f"SELECT a.id, {g.column(scope).sql} AS v FROM {source} WHERE {text}", condition=("a.id", source, text))


def in_join_where(g, condition):
    table, scope = outer(g)
    other = g.table()
    right = g.scope(other, "c")
    a, c = g.common(scope, right)
    text = g.around(condition(g, scope + right), scope + right)
    kind = g.pick("JOIN", "LEFT JOIN", "FULL JOIN")
    source = f"{table.name} a {kind} {other.name} c ON {a.sql} = {c.sql}"
    return finished(g, f"SELECT a.id, c.id AS i FROM {source} WHERE {text}", condition=("a.id, c.id AS i", source, text))


def in_select(g, condition):
    table, scope = outer(g)
    text = condition(g, scope)
    more = f", {condition(g, scope)} AS q" if g.chance(0.2) else ""
    return finished(g, f"SELECT a.id, {text} AS r{more} FROM {table.name} a")


def in_case(g, condition):
    table, scope = outer(g)
    text = condition(g, scope)
    branches = f"CASE WHEN {text} THEN 1 WHEN {g.pick('NOT (' + text + ')', condition(g, scope), g.predicate(scope, 0))} THEN 2 ELSE 3 END"
    return finished(g, f"SELECT a.id, {branches} AS r FROM {table.name} a")


def in_aggregate(g, condition):
    table, scope = outer(g)
    by = g.column(scope).sql
    text = condition(g, scope)
    return finished(g, f"SELECT {by} AS v, sum(CASE WHEN {text} THEN 1 ELSE 0 END) AS r FROM {table.name} a GROUP BY {by}")


def in_having(g, condition):
    table, scope = outer(g)
    by = g.column(scope)
    # Aggregates stay outside of the subquery, where they would be its own.
    text = g.around(condition(g, [by]), [by, Ref("count(*)", "int", TYPES["int"][1], False)])
    return finished(g, f"SELECT {by.sql} AS v, count(*) AS c FROM {table.name} a GROUP BY {by.sql} HAVING {text}")


def in_on(g, condition, kind="JOIN"):
    table, scope = outer(g)
    other = g.table()
    right = g.scope(other, "c")
    a, c = g.common(scope, right)
    text = condition(g, g.pick(scope, right, scope + right))
    equal = f"{a.sql} = {c.sql} AND " if g.chance(0.8) else ""
    return finished(g, f"SELECT a.id, c.id AS i FROM {table.name} a {kind} {other.name} c ON {equal}{text}")


def in_left_on(g, condition):
    return in_on(g, condition, g.pick("LEFT JOIN", "RIGHT JOIN"))


def in_order(g, condition):
    table, scope = outer(g)
    text = condition(g, scope)
    return finished(g, f"SELECT a.id FROM {table.name} a ORDER BY CASE WHEN {text} THEN 0 ELSE 1 END, a.id", ordered=True)


def in_delete(g, condition):
    table, scope = outer(g, "")
    scope = g.scope(table, table.name)
    text = g.around(condition(g, scope), scope)
    query = f"SELECT id FROM {table.name}"
    return finished(g, query, change=[f"DELETE FROM {table.name} WHERE {text}"])


def in_update(g, condition):
    table = g.table(rows=True)
    scope = g.scope(table, table.name)
    text = g.around(condition(g, scope), scope)
    query = f"SELECT id, k FROM {table.name}"
    k = next(c for c in table.columns if c.name == "k")
    value = "k + 1" if not k.nullable or g.chance(0.5) else "NULL"
    return finished(g, query, change=[f"UPDATE {table.name} SET k = {value} WHERE {text}"])
