"""Output names and expressions that are repeated, in SELECT, INSERT … SELECT, CREATE TABLE AS and subqueries."""

from places import finished, outer


def repeated(g):
    table, scope = outer(g)
    ref, other = g.column(scope), g.column(scope)
    expressions = [ref.sql, ref.sql, f"CAST({ref.sql} AS varchar)" if ref.kind in ("int", "text") else ref.sql, other.sql, "a.id + 1", "a.id + 1", "1", "1", "count(*) OVER ()"]
    chosen = [g.random.choice(expressions) for _ in range(g.random.randint(2, 4))]
    chosen += chosen[:1]
    form = g.random.randrange(6)
    listed = ", ".join(chosen)
    if form == 0:
        return finished(g, f"SELECT {listed} FROM {table.name} a")
    if form == 1:
        return finished(g, f"SELECT {listed}, a.id FROM {table.name} a ORDER BY a.id", ordered=True)
    if form == 2:
        return finished(g, f"SELECT {ref.sql}, count(*), {ref.sql}, count(*) FROM {table.name} a GROUP BY {ref.sql}")
    if form == 3:
        right = g.table()
        return finished(g, f"SELECT a.k, b.k, a.id, b.id FROM {table.name} a JOIN {right.name} b ON a.k = b.k")
    if form == 4:
        return finished(g, f"SELECT DISTINCT {ref.sql}, {ref.sql} FROM {table.name} a")
    return finished(g, f"SELECT {ref.sql} AS v, {other.sql} AS v FROM {table.name} a")


def inserted(g):
    """INSERT … SELECT with the same expression twice."""
    table = g.table(rows=True)
    columns = [c for c in table.columns if c.name in ("k", "x")]
    source = g.table(rows=True)
    names = ", ".join(["id", *(c.name for c in columns)])
    missing = [c for c in table.columns if c.name != "id" and c not in columns and not c.nullable]
    if missing:
        return repeated(g)
    values = ", ".join("a.id % 3" for _ in columns)
    change = [f"INSERT INTO {table.name} ({names}) SELECT a.id + 1000, {values} FROM {source.name} a"]
    return finished(g, f"SELECT {names} FROM {table.name}", change=change)


CONSTRUCTS = {"names: repeated": repeated, "names: INSERT SELECT": inserted}
