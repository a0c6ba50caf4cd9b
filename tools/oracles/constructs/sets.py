"""Set operations that count, set operations in derived tables, and common table expressions."""

from places import finished


def branch(g, kinds):
    table = g.table()
    scope = g.scope(table, table.name)
    columns = ", ".join(f"{g.value(scope, kind, 0)} AS c{at}" for at, kind in enumerate(kinds))
    where = f" WHERE {g.predicate(scope, 0)}" if g.chance(0.4) else ""
    return f"SELECT {columns} FROM {table.name}{where}"


def drawn_kinds(g):
    return [g.pick("int", "int", "text", "float", "bool", "bool", "date", "decimal") for _ in range(g.pick(1, 1, 1, 2))]


def operation(g, operators):
    kinds = drawn_kinds(g)
    if "decimal" in kinds:
        kinds = ["int"]
    operator = g.pick(*operators)
    if operator in ("INTERSECT ALL", "EXCEPT ALL"):
        g.portable = False
    text = f"{branch(g, kinds)} {operator} {branch(g, kinds)}"
    if g.chance(0.2) and operator.startswith(("UNION", "EXCEPT")):
        text += f" {operator} {branch(g, kinds)}"
    return text, kinds


def bags(g):
    text, _ = operation(g, ["INTERSECT ALL", "EXCEPT ALL"])
    return finished(g, text) if g.chance(0.6) else finished(g, f"SELECT count(*) AS c FROM ({text}) z")


def plain_sets(g):
    text, _ = operation(g, ["INTERSECT", "EXCEPT", "UNION", "UNION ALL"])
    return finished(g, text)


def derived(g):
    """A set operation in a derived table beside ordinary joins."""
    text, kinds = operation(g, ["INTERSECT", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
    table = g.table(rows=True)
    scope = g.scope(table, "a")
    ref = g.column(scope, kinds[0])
    if ref is None:
        return finished(g, f"SELECT count(*) AS c FROM ({text}) z")
    condition = g.pick(f"z.c0 = {ref.sql}", f"(z.c0 IS NOT DISTINCT FROM {ref.sql})")
    other = g.table(rows=True)
    more = f" {g.pick('JOIN', 'LEFT JOIN')} {other.name} b ON a.k = b.k" if g.chance(0.5) else ""
    return finished(g, f"SELECT a.id, z.c0 FROM {table.name} a JOIN ({text}) z ON {condition}{more}")


def ctes(g):
    """CTEs that are used twice, nested, recursive, and named like a table."""
    form = g.random.randrange(4)
    kinds = ["int"]
    if form == 0:
        return finished(g, f"WITH w AS ({branch(g, kinds)}) SELECT p.c0, q.c0 AS d FROM w p {g.pick('JOIN', 'LEFT JOIN', 'FULL JOIN')} w q ON p.c0 = q.c0")
    if form == 1:
        return finished(g, f"WITH w AS ({branch(g, kinds)}), v AS (SELECT c0 FROM w WHERE c0 IS NOT NULL) SELECT c0, (SELECT count(*) FROM v WHERE v.c0 = w.c0) AS n FROM w")
    if form == 2:
        return finished(g, f"WITH RECURSIVE w(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM w WHERE v < {g.random.randint(1, 9)}) SELECT v, (SELECT count(*) FROM {g.table().name} b WHERE b.k = w.v) AS c FROM w")
    table = g.table()
    return finished(g, f"WITH w AS (SELECT id, k FROM {table.name} WHERE id > {g.random.randint(0, 4)}) SELECT id FROM w WHERE k {g.pick('IN', 'NOT IN')} (SELECT k FROM w WHERE id < {g.random.randint(1, 6)})")


CONSTRUCTS = {
    "set: INTERSECT ALL and EXCEPT ALL": bags,
    "set: UNION, INTERSECT, EXCEPT": plain_sets,
    "set: in derived tables": derived,
    "CTE": ctes,
}
