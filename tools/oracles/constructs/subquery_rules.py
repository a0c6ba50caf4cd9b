"""Subqueries whose right answer follows from a rule: row comparisons, two rows, volatile functions, refused forms."""

from case import Case
from places import finished, outer


def expect(rows):
    """Returns a judge that wants exactly these rows, in any order."""

    def judge(outcome):
        if outcome.rows is None:
            return f"an error, where {rows} is right"
        found = sorted(map(tuple, outcome.rows), key=str)
        wanted = sorted((tuple(None if v is None else str(v) for v in row) for row in rows), key=str)
        return None if found == wanted else f"{found}, where {wanted} is right"

    return judge


def equal_rows(left, right):
    """Three-valued equality of rows, by column."""
    values = [None if a is None or b is None else a == b for a, b in zip(left, right)]
    return False if False in values else None if None in values else True


def shown(value):
    return {True: "true", False: "false", None: None}[value]


def number(value, type_="int"):
    return f"CAST(NULL AS {type_})" if value is None else str(value)


def row_comparison(g):
    draw = lambda: g.pick(None, 1, 2, 3)
    left, rows = (draw(), draw()), [(draw(), draw()) for _ in range(g.random.randint(0, 3))]
    g.portable = False
    row = f"({number(left[0])}, {number(left[1])})"
    form = g.random.randrange(4)
    if form == 0:
        right = (draw(), draw())
        value = equal_rows(left, right)
        return Case(f"SELECT {row} = ({number(right[0])}, {number(right[1])}) AS r", duck=None, exact=expect([(shown(value),)]))
    values = [equal_rows(left, right) for right in rows]
    value = True if True in values else None if None in values else False
    inner = " UNION ALL ".join(f"SELECT {number(a)} AS p, {number(b)} AS q" for a, b in rows) or "SELECT 1 AS p, 1 AS q WHERE false"
    if form == 1:
        return Case(f"SELECT {row} IN ({inner}) AS r", duck=None, exact=expect([(shown(value),)]))
    if form == 2:
        return Case(f"SELECT {row} NOT IN ({inner}) AS r", duck=None, exact=expect([(shown(None if value is None else not value),)]))
    kept = "1" if value is False else "0"
    table = g.table()
    count = len(table.rows) * int(kept)
    return Case(f"SELECT count(*) AS c FROM {table.name} a WHERE {row} NOT IN ({inner})", duck=None, exact=expect([(count,)]))


def two_rows(g):
    """A scalar subquery with two rows is an error exactly when its value is needed."""
    table = g.table(rows=True)
    ids = [row[0] for row in table.rows]
    limit = g.random.choice(ids)
    needed = g.chance(0.5)
    many = "(SELECT v FROM (VALUES (1), (2)) u(v))"
    if g.chance(0.5):
        many = f"(SELECT v FROM (VALUES (1), (2)) u(v) WHERE v >= a.id - a.id)"
    # No row has an id below zero, every one has an id from zero on.
    condition = f"a.id < {0 if not needed else limit + 1}"
    sql = f"SELECT a.id, CASE WHEN {condition} THEN {many} ELSE 0 END AS r FROM {table.name} a"
    if g.chance(0.3):
        sql = f"SELECT a.id, COALESCE({'CAST(NULL AS int)' if needed else '0'}, {many}) AS r FROM {table.name} a"
    elif g.chance(0.3):
        sql = f"SELECT a.id, 0 AS r FROM {table.name} a WHERE a.id >= 0 AND {'true' if needed else f'(a.id >= 0 OR 1 = {many})'}"
        if needed:
            sql = f"SELECT a.id, 0 AS r FROM {table.name} a WHERE {many} >= 0"

    def judge(outcome):
        if needed:
            return None if outcome.rows is None and not outcome.fatal else "an answer, where two rows are an error"
        return expect([(i, 0) for i in ids])(outcome)

    return Case(sql, duck=None, exact=judge)


def volatile(g):
    """A correlated subquery with random() runs for each outer row, an uncorrelated one once."""
    table = g.table(rows=True)
    size = len(table.rows)
    form = g.random.randrange(4)
    if form == 0:
        sql, count = f"SELECT count(DISTINCT r) AS c FROM (SELECT (SELECT random()) AS r FROM {table.name} a) z", 1
    elif form == 1:
        sql, count = f"SELECT count(DISTINCT r) AS c FROM (SELECT (SELECT random() + 0 * a.id) AS r FROM {table.name} a) z", size
    elif form == 2:
        sql, count = f"WITH c AS (SELECT random() AS r FROM {table.name}) SELECT count(*) AS c FROM c p JOIN c q ON p.r = q.r", size
    else:
        sql, count = f"WITH c AS (SELECT id, random() AS r FROM {table.name}) SELECT count(*) AS c FROM c p JOIN c q ON p.id = q.id WHERE p.r = q.r", size
    return Case(sql, duck=None, exact=expect([(count,)]))


def outer_in_limit(g):
    """Outer columns in LIMIT or OFFSET are refused."""
    table, scope = outer(g)
    inner = g.table()
    clause = g.pick("LIMIT a.id", "OFFSET a.id", "LIMIT 1 OFFSET a.id")
    sql = f"SELECT a.id FROM {table.name} a WHERE {g.pick('EXISTS', 'a.id IN')} (SELECT b.id FROM {inner.name} b ORDER BY b.id {clause})"
    judge = lambda outcome: None if outcome.rows is None and not outcome.fatal else "an answer, where the form is refused"
    return Case(sql, duck=None, exact=judge)


def count_over_nothing(g):
    table, scope = outer(g)
    b, inner = g.table(), None
    inner = g.scope(b, "b")
    left, right = g.common(scope, inner)
    value = f"(SELECT count({g.pick('*', 'b.id', right.sql)}) FROM {b.name} b WHERE {right.sql} {g.pick('=', '=', '<', '<>')} {left.sql}{g.pick('', ' AND 1 = 0', ' AND b.id < 0')})"
    if g.chance(0.5):
        return finished(g, f"SELECT a.id, {value} AS c FROM {table.name} a")
    text = g.around(g.pick(f"{value} = 0", f"0 IN {value}", f"0 = {value}", f"{value} IS NULL"), scope)
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


CONSTRUCTS = {
    "subquery: three-valued rows": row_comparison,
    "subquery: two rows of a scalar": two_rows,
    "subquery: volatile functions": volatile,
    "subquery: outer columns in LIMIT": outer_in_limit,
    "subquery: count over nothing": count_over_nothing,
}
