"""Joins: null-safe equality beside =, different types, USING and NATURAL of outer joins, non-equi conditions."""

from case import Case
from generator import Ref
from places import finished
from values import TYPES

KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


def sides(g, count):
    tables = [g.table() for _ in range(count)]
    letters = "abcde"[:count]
    return tables, letters, [g.scope(t, letter) for t, letter in zip(tables, letters)]


def equality(g, left, right, null_safe):
    # Columns of few values, so that chains have partners.
    few = [[ref for ref in scope if ref.sql.endswith((".k", ".x", ".b"))] for scope in (left, right)]
    pairs = [(a, b) for a in few[0] for b in few[1] if a.kind == b.kind]
    a, b = g.random.choice(pairs) if pairs and g.chance(0.75) else g.common(left, right)
    g.note(a.kind)
    return f"{a.sql} IS NOT DISTINCT FROM {b.sql}" if null_safe else f"{a.sql} = {b.sql}"


def null_safe_chain(g):
    """Each join keeps its own equality."""
    count = g.pick(2, 3, 3, 4)
    tables, letters, scopes = sides(g, count)
    source = f"{tables[0].name} a"
    for at in range(1, count):
        terms = [f"({equality(g, g.pick(*scopes[:at]), scopes[at], g.chance(0.5))})"]
        if g.chance(0.25):
            terms.append(f"({equality(g, scopes[at - 1], scopes[at], g.chance(0.5))})")
        if g.chance(0.2):
            terms.append(f"({g.predicate(scopes[at], 0)})")
        source += f" JOIN {tables[at].name} {letters[at]} ON {' AND '.join(terms)}"
    ids = ", ".join(f"{letter}.id AS {letter}" for letter in letters)
    every = sum(scopes, [])
    text = g.predicate(every)
    if g.chance(0.2):
        return finished(g, f"SELECT {ids} FROM {source} WHERE {text}", condition=(ids, source, text))
    return finished(g, f"SELECT {ids} FROM {source}")


def null_safe_outer(g):
    tables, letters, scopes = sides(g, 2)
    terms = " AND ".join(f"({equality(g, *scopes, g.chance(0.6))})" for _ in range(g.pick(1, 2, 2)))
    return finished(g, f"SELECT a.id AS a, b.id AS b FROM {tables[0].name} a {g.pick(*KINDS)} {tables[1].name} b ON {terms}")


def different_types(g):
    """Keys of other types: integers of any width, decimals and doubles, dates and timestamps."""
    g.portable = False
    tables, letters, scopes = sides(g, 2)
    numbers = [[ref for ref in scope if ref.kind in ("int", "float", "decimal")] for scope in scopes]
    times = [[ref for ref in scope if ref.kind in ("date", "timestamp")] for scope in scopes]
    a, b = [g.random.choice(side) for side in (times if all(times) and g.chance(0.3) else numbers)]
    operator = g.pick("=", "IS NOT DISTINCT FROM", "=", "<>", "<")
    condition = f"({a.sql} {operator} {b.sql})"
    if g.chance(0.3):
        condition += f" AND ({equality(g, *scopes, g.chance(0.5))})"
    return finished(g, f"SELECT a.id AS a, b.id AS b FROM {tables[0].name} a {g.pick(*KINDS)} {tables[1].name} b ON {condition}")


def shared(tables):
    """Names of columns that all tables have."""
    names = [c.name for c in tables[0].columns]
    return [n for n in names if all(any(c.name == n for c in t.columns) for t in tables[1:])]


def projected(g, table, names, extra):
    """Returns a derived table with the named columns and its id under another name."""
    return f"(SELECT {', '.join(names)}, id AS {extra} FROM {table.name})"


def using(g, natural=False):
    """USING and NATURAL: the merged column in SELECT, *, WHERE and GROUP BY, of two and three tables."""
    count = g.pick(2, 2, 3)
    tables = [g.table() for _ in range(count)]
    names = [n for n in shared(tables) if n != "id"]
    chosen = g.random.sample(names, min(len(names), g.pick(1, 1, 2)))
    for t in tables:
        for c in t.columns:
            if c.name in chosen:
                g.note(c.type.kind)
    # Merged columns of different integer types have another type in each system, but one value.
    source = f"{projected(g, tables[0], chosen, 'i0')} a"
    for at in range(1, count):
        kind = g.pick("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN", "JOIN")
        right = f"{projected(g, tables[at], chosen, f'i{at}')} {'abc'[at]}"
        source += f" NATURAL {kind} {right}" if natural else f" {kind} {right} USING ({', '.join(chosen)})"
    column = next(c for c in tables[0].columns if c.name == chosen[0])
    merged = Ref(chosen[0], column.type.kind, column.type)
    ids = ", ".join(f"i{at}" for at in range(count))
    form = g.random.randrange(5)
    if form == 0:
        return finished(g, f"SELECT * FROM {source}")
    if form == 1:
        return finished(g, f"SELECT {chosen[0]}, count(*) AS c FROM {source} GROUP BY {chosen[0]}")
    text = g.predicate([merged, merged], 1)
    if form == 2:
        return finished(g, f"SELECT {', '.join(chosen)}, {ids} FROM {source} WHERE {text}", condition=(f"{', '.join(chosen)}, {ids}", source, text))
    if form == 3:
        side = g.pick("a", "b")
        return finished(g, f"SELECT {chosen[0]}, {side}.{chosen[0]} AS own, {ids} FROM {source}")
    order = g.order([chosen[0]])
    return finished(g, f"SELECT {chosen[0]}, {ids} FROM {source} ORDER BY {order}, i0 NULLS FIRST, i1 NULLS FIRST{', i2 NULLS FIRST' if count == 3 else ''}", ordered=True)


def natural(g):
    return using(g, natural=True)


def without_condition(g):
    """JOIN without ON is refused."""
    sql = f"SELECT count(*) AS c FROM {g.table().name} a {g.pick('JOIN', 'LEFT JOIN', 'INNER JOIN', 'FULL JOIN')} {g.table().name} b"
    judge = lambda outcome: None if outcome.rows is None and not outcome.fatal else "an answer, where JOIN without ON is refused"
    return Case(sql, duck=None, exact=judge)


def rejected_nulls(g):
    """An outer join whose NULL rows a later condition rejects, or not."""
    tables, letters, scopes = sides(g, 3)
    source = f"{tables[0].name} a {g.pick(*KINDS)} {tables[1].name} b ON {equality(g, scopes[0], scopes[1], False)} {g.pick(*KINDS)} {tables[2].name} c ON {equality(g, g.pick(*scopes[:2]), scopes[2], g.chance(0.2))}"
    text = g.predicate(g.pick(*scopes))
    ids = "a.id AS a, b.id AS b, c.id AS c"
    return finished(g, f"SELECT {ids} FROM {source} WHERE {text}", condition=(ids, source, text))


def unequal(g):
    """Conditions without any equality, and equality of expressions."""
    tables, letters, scopes = sides(g, 2)
    a, b = g.common(*scopes)
    condition = g.pick(
        f"{a.sql} < {b.sql}",
        f"{a.sql} <> {b.sql}",
        f"{a.sql} = {b.sql} OR {g.predicate(scopes[0] + scopes[1], 0)}",
        f"{g.value(scopes[0], a.kind)} = {g.value(scopes[1], a.kind)}",
        g.predicate(scopes[0] + scopes[1]),
    )
    return finished(g, f"SELECT a.id AS a, b.id AS b FROM {tables[0].name} a {g.pick(*KINDS)} {tables[1].name} b ON {condition}")


CONSTRUCTS = {
    "join: null-safe in a chain": null_safe_chain,
    "join: null-safe outer": null_safe_outer,
    "join: different types": different_types,
    "join: USING": using,
    "join: NATURAL": natural,
    "join: without ON": without_condition,
    "join: outer below a condition": rejected_nulls,
    "join: without equality": unequal,
}
