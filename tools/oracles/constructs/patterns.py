"""LIKE, ILIKE and SIMILAR TO. The last follows the standard, which DuckDB does not: a rule in Python judges it."""

import re

from case import Case
from generator import Ref
from places import finished, outer
from values import literal, TYPES


def text_column(g, scope):
    ref = g.column(scope, "text")
    return ref.sql if ref else g.constant("text")


def like(g):
    table, scope = outer(g)
    s = text_column(g, scope)
    escape = g.pick("!", "\\", "#")
    pattern = "".join(g.pick("a", "b", "%", "_", "A", escape + "%", escape + "_", escape + escape) for _ in range(g.random.randint(0, 4)))
    operator = g.pick("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE")
    plain = g.chance(0.3)
    if plain:
        pattern, suffix = pattern.replace(escape, ""), ""
    else:
        suffix = f" ESCAPE '{escape}'"
    if "ILIKE" in operator:
        g.portable = False
    value = "CAST(NULL AS varchar)" if g.chance(0.05) else "'" + pattern + "'"
    text = f"{s} {operator} {value}{suffix}"
    if g.chance(0.3):
        text = g.connected(text, g.predicate(scope, 0))
    if g.chance(0.4):
        return finished(g, f"SELECT a.id, {text} AS r FROM {table.name} a")
    return finished(g, f"SELECT a.id FROM {table.name} a WHERE {text}", condition=("a.id", f"{table.name} a", text))


def standard(pattern):
    """Returns the Python expression for a pattern of SIMILAR TO."""
    parts = {"%": ".*", "_": ".", ".": "\\.", "^": "\\^", "$": "\\$"}
    return re.compile("".join(parts.get(c, c) for c in pattern), re.DOTALL)


def similar(g):
    pieces = ["a", "b", "%", "_", "(a|b)", "[ab]", "a*", "b+", "b?", "|", ".", "(ab)", "a{2}", "$", "^"]
    pattern = ""
    for _ in range(g.random.randint(1, 4)):
        piece = g.pick(*pieces)
        if piece == "|" and (not pattern or pattern.endswith("|")):
            continue
        pattern += piece
    pattern = pattern.rstrip("|") or "a"
    texts = [g.pick("", "a", "b", "ab", "aab", "abc", "xab", "a.b", "a\nb", "ba", "A", "^a", "a$") for _ in range(4)]
    rule = standard(pattern)
    negated = g.chance(0.3)
    wanted = [(at, ("true" if (rule.fullmatch(t) is not None) != negated else "false")) for at, t in enumerate(texts)]
    rows = ", ".join(f"({at}, '{t}')" for at, t in enumerate(texts)).replace("\n", "' || chr(10) || '")

    def judge(outcome):
        if outcome.rows is None:
            return "an error"
        found = sorted((int(i), r) for i, r in outcome.rows)
        return None if found == wanted else f"{found}, where {wanted} is right"

    operator = "NOT SIMILAR TO" if negated else "SIMILAR TO"
    return Case(f"SELECT u.i, u.s {operator} '{pattern}' AS r FROM (VALUES {rows}) u(i, s)", duck=None, exact=judge)


def regular(g):
    """`~` of patterns that the simplifier replaces: NULL stays NULL."""
    table, scope = outer(g)
    g.portable = False
    s = text_column(g, scope)
    pattern = g.pick(".*", ".*", "^.*$", "", "^$", "a", "^a", "a$", "^(a|b)$", "a.*", ".+", "^ab$")
    # DuckDB's operator `~` is a full match; the function searches.
    found = f"regexp_matches({s}, '{pattern}')"
    operator = g.pick("~", "!~")
    text, duck = f"{s} {operator} '{pattern}'", found if operator == "~" else f"NOT {found}"
    if g.chance(0.5):
        return Case(f"SELECT a.id, {text} AS r FROM {table.name} a", duck=f"SELECT a.id, {duck} AS r FROM {table.name} a")
    head = f"SELECT a.id FROM {table.name} a WHERE "
    return Case(head + text, duck=head + duck, condition=("a.id", f"{table.name} a", text))


CONSTRUCTS = {"pattern: LIKE": like, "pattern: SIMILAR TO": similar, "pattern: ~": regular}
