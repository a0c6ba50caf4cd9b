"""Operators: precedence, powers, exclusive or, integer division, conversions, IN lists, guards of CASE and AND."""

from case import Case
from generator import COMPARISONS
from places import finished, outer


def distinct_from(g):
    """IS [NOT] DISTINCT FROM binds tighter than AND and OR, looser than arithmetic; also in DELETE."""
    table, scope = outer(g)
    change = g.chance(0.25)
    if change:
        scope = g.scope(table, table.name)
    ref = g.column(scope, g.pick("int", "bool", "text")) or g.column(scope, "int")
    test = f"{ref.sql} IS {g.pick('', 'NOT ')}DISTINCT FROM {g.value(scope, ref.kind, 0)}"
    other = g.predicate(scope, 0)
    again = g.column(scope, "int")
    second = f"{again.sql} IS {g.pick('', 'NOT ')}DISTINCT FROM {g.pick(1, 2, 'NULL')}"
    text = g.pick(
        f"{test} AND {other}",
        f"{test} OR {other}",
        f"{test} AND {second}",
        f"{test} OR {second} AND {other}",
        f"{other} AND {test} AND {second}",
        f"{other} OR {test} OR {second}",
        f"NOT {test} AND {other}",
    )
    if change:
        return finished(g, f"SELECT id FROM {table.name}", change=[f"DELETE FROM {table.name} WHERE {text}"])
    if g.chance(0.2):
        return finished(g, f"SELECT a.id, {text} AS r FROM {table.name} a")
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def power(g):
    """`^` is a power of type double that binds tighter than `*`, `//` divides and truncates, `#` is exclusive or."""
    table, scope = outer(g)
    g.portable = False
    x, y = g.column(scope, "int").sql, g.column(scope, "int").sql
    small = g.pick("2", "3", "0", "1")
    sql = g.pick(f"{x} ^ 2", f"2 * {x} ^ 2", f"{x} ^ {small} * 3", f"({x} + 1) ^ 2 - 1", f"{x} ^ 2 + {y} ^ 2", f"2 ^ 3 ^ 2 + {x}", f"2.0e0 ^ {small} + {x}", f"-{x} ^ 2")
    return Case(f"SELECT a.id, {sql} AS r FROM {table.name} a", duck=f"SELECT a.id, CAST({sql} AS double) AS r FROM {table.name} a")


def divide(g):
    table, scope = outer(g)
    g.portable = False
    x, y = (f"CAST({g.column(scope, 'int').sql} AS bigint)" for _ in range(2))
    divisor = g.pick("2", "3", "-2", "7", f"NULLIF({y}, 0)")
    sql = g.pick(f"{x} // {divisor}", f"{x} * 3 // {divisor}", f"{x} % {divisor}", f"{x} // {divisor} * {divisor} + {x} % {divisor}", f"1 + {x} // {divisor}")
    return finished(g, f"SELECT a.id, {sql} AS r FROM {table.name} a")


def exclusive_or(g):
    table, scope = outer(g)
    x, y = (f"CAST({g.column(scope, 'int').sql} AS bigint)" for _ in range(2))
    other = g.pick(y, x, "0", "5", "-1")
    sql = g.pick(f"xor({x}, {other})", f"{x} # {other}")
    duck = f"xor({x}, CAST({other} AS bigint))"
    return Case(f"SELECT a.id, {sql} AS r FROM {table.name} a", duck=f"SELECT a.id, {duck} AS r FROM {table.name} a")


def to_integer(g):
    """Doubles round half to even, decimals half away from zero."""
    table, scope = outer(g)
    g.portable = False
    target = g.pick("int", "bigint", "smallint")
    form = g.random.randrange(4)
    if form == 0:
        value = f"CAST('{g.pick('0.5', '1.5', '2.5', '-0.5', '-1.5', '-2.5', '3.4999', '1e3', '7.5')}' AS double)"
    elif form == 1:
        value = f"CAST('{g.pick('0.5', '1.5', '2.5', '-0.5', '-1.5', '-2.5', '3.49', '7.45')}' AS decimal({g.pick('10, 2', '5, 2', '38, 4')}))"
    elif form == 2 and (ref := g.column(scope, "decimal")):
        value = f"({ref.sql} + CAST({g.column(scope, 'int').sql} AS decimal(9, 0)))"
    else:
        value = f"CAST({g.column(scope, 'int').sql} AS double) / 2"
    return finished(g, f"SELECT a.id, CAST({value} AS {target}) AS r, {g.pick('', 'TRY_')}CAST({value} AS {target}) AS q FROM {table.name} a")


def in_list(g):
    table, scope = outer(g)
    ref = g.column(scope, g.pick("int", "text", "bool", "date", "float")) or g.column(scope, "int")

    def one():
        values = [g.constant(ref.kind) for _ in range(g.random.randint(1, 5))]
        if g.chance(0.3):
            values.append("NULL")
        if g.chance(0.2):
            values.append(g.value(scope, ref.kind, 0))
        return f"{g.value(scope, ref.kind) if g.chance(0.2) else ref.sql} {g.pick('IN', 'IN', 'NOT IN')} ({', '.join(values)})"

    text = one()
    for _ in range(g.random.randint(0, 2)):
        text = g.connected(text, one())
    if g.chance(0.4):
        return finished(g, f"SELECT a.id, {text} AS r FROM {table.name} a")
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def guards(g):
    """A branch that is not taken raises no error."""
    table, scope = outer(g)
    g.portable = False
    x = g.column(scope, "int").sql
    s = (g.column(scope, "text") or g.column(scope, "int")).sql
    danger = g.pick(
        f"CAST(CAST({s} AS varchar) AS int)",
        "CAST('x' AS int)",
        f"CAST('x' || CAST({x} AS varchar) AS int)",
        f"CAST({x} AS bigint) * 9223372036854775807 * 3",
        f"9223372036854775807 + CAST({x} AS bigint) + 9",
        f"CAST(1000 + {x} AS tinyint)",
    )
    is_false = g.pick(f"({x} IS NULL AND {x} IS NOT NULL)", "a.id < 0", "1 = 0")
    # Unknown where the column is NULL: then no branch is taken, but AND needs its other side.
    never = g.pick(f"{x} > 1000", is_false, is_false)
    always = g.pick("a.id >= 0", "1 = 1", "a.id IS NOT NULL")
    sql = g.pick(
        f"SELECT a.id, CASE WHEN {never} THEN {danger} ELSE 0 END AS r FROM {table.name} a",
        f"SELECT a.id, CASE WHEN {always} THEN 1 ELSE {danger} END AS r FROM {table.name} a",
        f"SELECT a.id FROM {table.name} a WHERE {never} AND {danger} > 0",
        f"SELECT a.id FROM {table.name} a WHERE {always} OR {danger} > 0",
        f"SELECT a.id, COALESCE(a.id, {danger}) AS r FROM {table.name} a",
        f"SELECT a.id, CASE a.id WHEN -5 THEN {danger} ELSE a.id END AS r FROM {table.name} a",
        f"SELECT a.id, CASE WHEN {never} THEN {danger} WHEN {always} THEN {x} ELSE {danger} + 1 END AS r FROM {table.name} a",
        f"SELECT sum(CASE WHEN {never} THEN {danger} ELSE 1 END) AS r FROM {table.name} a",
        f"SELECT a.id, ({is_false} AND {danger} > 0) AS r FROM {table.name} a",
        f"SELECT a.id, ({always} OR {danger} > 0) AS r FROM {table.name} a",
    )
    # DuckDB evaluates some of these branches; the safe query has the same meaning.
    safe = sql.replace(danger, "CAST(NULL AS int)")
    return Case(sql, duck=safe)


CONSTRUCTS = {
    "operator: IS DISTINCT FROM beside AND": distinct_from,
    "operator: ^": power,
    "operator: //": divide,
    "operator: xor": exclusive_or,
    "operator: conversion to integers": to_integer,
    "operator: IN lists": in_list,
    "operator: branches not taken": guards,
}
