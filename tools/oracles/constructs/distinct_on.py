"""DISTINCT ON, with keys that are repeated, and joins over it."""

from case import Case
from places import finished, outer


def query(g, table, scope, columns):
    keys = [g.column(scope) for _ in range(g.pick(1, 1, 2))]
    on = ", ".join(k.sql for k in keys)
    first = g.order([k.sql for k in keys])
    repeated = g.pick("", f", {keys[0].sql}", f", {keys[0].sql} DESC", ", a.id, a.id", f", {keys[-1].sql}, {keys[0].sql}")
    return f"SELECT DISTINCT ON ({on}) {columns} FROM {table.name} a ORDER BY {first}{repeated}, {g.order([g.column(scope).sql])}, a.id {g.pick('ASC', 'DESC')}"


def distinct_on(g):
    table, scope = outer(g)
    g.portable = False
    return finished(g, query(g, table, scope, g.pick("*", "a.id", f"a.id, {g.column(scope).sql} AS v")))


def joined(g):
    table, scope = outer(g)
    g.portable = False
    other = g.table(rows=True)
    inner = query(g, table, scope, "a.id, a.k")
    return finished(g, f"SELECT b.id AS i, z.id, z.k FROM {other.name} b {g.pick('JOIN', 'LEFT JOIN')} ({inner}) z ON b.k = z.k")


CONSTRUCTS = {"DISTINCT ON": distinct_on, "DISTINCT ON below joins": joined}
