"""Rules of the simplifier: every operator with NULL, constants and the same column in each place."""

from case import Case
from places import finished, outer


def operand(g, ref, scope):
    return g.pick(ref.sql, ref.sql, ref.sql, g.constant(ref.kind), g.null(ref.kind), g.value(scope, ref.kind, 0))


def three_valued(g):
    """Conditions on one column, which rules for intersections and contradictions fold."""
    table, scope = outer(g)
    ref = g.column(scope, g.pick("int", "int", "text", "bool", "date", "float")) or g.column(scope, "int")

    def atom():
        if ref.kind == "bool" and g.chance(0.6):
            return g.pick(f"{ref.sql}", f"NOT {ref.sql}", f"{ref.sql} = true", f"{ref.sql} <> false", f"{ref.sql} IS TRUE", "true", "false", "CAST(NULL AS boolean)")
        choice = g.random.randrange(7)
        if choice in (0, 6):
            return f"{ref.sql} {g.pick('', '', 'NOT ')}IN ({', '.join(g.constant(ref.kind) for _ in range(g.pick(1, 1, 2, 5)))})"
        if choice == 1:
            return f"{ref.sql} IS {g.pick('', 'NOT ')}NULL"
        if choice == 2:
            return f"({ref.sql} IS {g.pick('', 'NOT ')}DISTINCT FROM {operand(g, ref, scope)})"
        if choice == 3:
            return f"{ref.sql} {g.pick('=', '<>', '<=', '>=', '<', '>')} {ref.sql}"
        return f"{ref.sql} {g.pick('=', '<>', '<=', '>=', '<', '>')} {operand(g, ref, scope)}"

    text = atom()
    if g.chance(0.1):
        # Lists that have nothing in common: the condition is false, but unknown for NULL.
        lists = [f"{ref.sql} IN ({', '.join(g.constant(ref.kind) for _ in range(g.pick(1, 1, 2)))})" for _ in range(2)]
        text = g.pick("{} AND {}", "NOT ({} AND {})", "({} AND {}) IS NULL").format(*lists)
    for _ in range(g.random.randint(0, 3)):
        other = atom()
        text = g.pick(
            f"{text} AND {other}",
            f"{text} OR {other}",
            f"({text}) AND ({other})",
            f"({text}) OR ({other})",
            f"NOT ({text}) OR ({other})",
            f"({text}) = ({other})",
            f"({text}) <> ({other})",
            f"(({text}) AND ({other})) OR ({text})",
            f"(({text}) OR ({other})) AND ({text})",
            f"CASE WHEN {text} THEN {other} END",
            f"CASE WHEN {text} THEN true ELSE {other} END",
            f"CASE WHEN {text} THEN {other} ELSE NOT ({text}) END",
        )
    if g.chance(0.6):
        return finished(g, f"SELECT a.id, {text} AS r FROM {table.name} a")
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def arithmetic(g):
    """Neutral and absorbing elements: x * 0, x % 1, x & 0, x | x, x - x and others are NULL where x is."""
    table, scope = outer(g)
    x = f"CAST({g.column(scope, 'int').sql} AS bigint)"
    element = g.pick("0", "1", x, "CAST(NULL AS bigint)", "-1")
    operator = g.pick("+", "-", "*", "%", "&", "|", "<<")
    if operator == "%":
        element = g.pick("1", "NULLIF(" + x + ", 0)", "2", "CAST(NULL AS bigint)")
    if operator == "<<":
        element = g.pick("0", "CAST(NULL AS int)", "1")
        x = f"abs({x})"
    if operator == "%":
        g.portable = g.portable and element != "CAST(NULL AS bigint)"
    left, right = (x, element) if g.chance(0.6) or operator in ("%", "<<") else (element, x)
    more = g.pick("", "", f" + {x}", f" * {element}") if operator in ("+", "-", "*") else ""
    return finished(g, f"SELECT a.id, ({left} {operator} {right}){more} AS r, ({left} {operator} {right}) = {x} AS q FROM {table.name} a")


def xor_with_itself(g):
    table, scope = outer(g)
    x = f"CAST({g.column(scope, 'int').sql} AS bigint)"
    other = g.pick(x, "0", "CAST(NULL AS bigint)", f"xor({x}, 3)")
    form = g.pick("xor({0}, {1})", "xor({1}, {0})", "xor(xor({0}, {1}), {0})")
    text = form.format(x, other)
    return Case(f"SELECT a.id, {text} AS r FROM {table.name} a")


def strict_functions(g):
    """Functions that rules replace by constants."""
    table, scope = outer(g)
    g.portable = False
    s = (g.column(scope, "text") or g.column(scope, "int")).sql
    s = f"CAST({s} AS varchar)"
    x = f"CAST({g.column(scope, 'int').sql} AS double)"
    text = g.pick(
        f"concat({s}, '', 'a')", f"{s} || ''", f"starts_with({s}, '')", f"{s} LIKE '%'", f"{s} LIKE ''", f"{s} LIKE '%%'", f"{s} NOT LIKE '%'",
        f"power({x}, 0)", f"power({x}, 1)", f"power(1.0e0, {x})", f"COALESCE({s}, {s})", f"NULLIF({s}, {s})", f"substr({s}, 1)", f"length({s}) >= 0", f"{s} ILIKE '%'",
    )
    return finished(g, f"SELECT a.id, {text} AS r FROM {table.name} a")


def meeting_conditions(g):
    """Conditions of a column with constants of either side, some of which are columns of derived tables until filters move."""
    table, scope = outer(g)
    ref = g.column(scope, g.pick("int", "int", "text", "date", "decimal", "float", "bool")) or g.column(scope, "int")
    constants = [g.null(ref.kind) if g.chance(0.25) else g.constant(ref.kind) for _ in range(2)]

    def conditions(most, others):
        atoms = []
        for _ in range(g.random.randint(1, most)):
            pair = [g.pick(ref.sql, ref.sql, ref.sql, *others), g.pick(*others, *constants, g.constant(ref.kind))]
            if g.chance(0.4):
                pair.reverse()
            atoms.append(g.pick("{0} {1} {2}", "{0} {1} {2}", "{0} {1} {2}", "{0} IS NOT NULL").format(pair[0], g.pick("=", "=", "<=", ">=", "<", ">", "<>"), pair[1]))
        return " AND ".join(atoms)

    below = f" WHERE {conditions(2, constants)}" if g.chance(0.5) else ""
    inner = f"(SELECT a.*, {constants[0]} AS c0, {constants[1]} AS c1 FROM {table.name} a{below})"
    above = conditions(3, ["a.c0", "a.c1", "a.c0"])
    if g.chance(0.3):
        inner = f"(SELECT a.* FROM {inner} a WHERE {above})"
        above = conditions(2, ["a.c0", "a.c1"])
    if g.chance(0.2):
        return finished(g, f"SELECT {ref.sql} AS v, count(*) AS c FROM {inner} a GROUP BY {ref.sql}, a.c0, a.c1 HAVING {above}")
    return finished(g, f"SELECT a.id FROM {inner} a WHERE {above}", condition=("a.id", f"{inner} a", above))


CONSTRUCTS = {
    "simplified: conditions": three_valued,
    "simplified: conditions that meet": meeting_conditions,
    "simplified: arithmetic": arithmetic,
    "simplified: xor": xor_with_itself,
    "simplified: functions": strict_functions,
}
