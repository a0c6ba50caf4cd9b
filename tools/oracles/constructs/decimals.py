"""Decimals at their limits: the result is exact, or there is an error. Python's decimals say what is exact."""

from decimal import Decimal, localcontext

from case import Case
from places import finished, outer


def big(g, digits, scale):
    """Returns a decimal of up to this many digits, often the greatest."""
    count = g.pick(digits, digits, digits - 1, digits // 2, 1)
    number = "9" * count if g.chance(0.5) else str(g.random.randrange(10**count))
    sign = g.pick("", "-")
    return Decimal(f"{sign}{number}").scaleb(-scale)


def plain(value):
    return format(value, "f")


def typed(value, digits, scale):
    return f"CAST('{plain(value)}' AS decimal({digits}, {scale}))"


def exact_or_error(wanted, tolerance=0):
    """Accepts the value, or any error that is a message."""

    def judge(outcome):
        if outcome.rows is None:
            return "a panic" if outcome.fatal else None
        if len(outcome.rows) != 1 or outcome.rows[0][0] is None:
            return f"{outcome.rows}, where {plain(wanted)} or an error is right"
        with localcontext() as context:
            context.prec = 100
            found = Decimal(outcome.rows[0][0])
            return None if abs(found - wanted) <= tolerance else f"{plain(found)}, where {plain(wanted)} or an error is right"

    return judge


def arithmetic(g):
    digits, scale = g.pick((38, 0), (38, 10), (38, 20), (38, 37), (20, 5), (10, 2))
    more, other = g.pick((38, 0), (38, 10), (18, 3), (38, 30), (5, 1))
    left, right = big(g, digits, scale), big(g, more, other)
    operator = g.pick("+", "-", "*", "*")
    if g.chance(0.4):
        # A product that is just beyond 38 digits.
        right = Decimal(g.pick("10", "99", "2", "-3", "1.5" if other else "1")).quantize(Decimal(1).scaleb(-other)) if other < 30 else right
    with localcontext() as context:
        context.prec = 120
        wanted = {"+": left + right, "-": left - right, "*": left * right}[operator]
    source = f"(SELECT {typed(left, digits, scale)} AS p, {typed(right, more, other)} AS q) z"
    sql = g.pick(f"SELECT p {operator} q AS r FROM {source}", f"SELECT {typed(left, digits, scale)} {operator} {typed(right, more, other)} AS r")
    # A product may be rounded to the scale that its type has.
    return Case(sql, duck=None, exact=exact_or_error(wanted, Decimal("1e-6") if operator == "*" else Decimal("1e-9") if scale + other > 38 else 0))


def sums(g):
    digits, scale = g.pick((38, 0), (38, 10), (38, 37), (18, 2), (10, 2), (38, 38))
    values = [big(g, digits, scale) for _ in range(g.random.randint(1, 6))]
    with localcontext() as context:
        context.prec = 120
        total = sum(values)
        mean = total / len(values)
    rows = ", ".join(f"({typed(v, digits, scale)})" for v in values)
    source = f"(VALUES {rows}) u(v)"
    if g.chance(0.6):
        return Case(f"SELECT {g.pick('sum(v)', 'sum(v) OVER ()')} AS r FROM {source} LIMIT 1", duck=None, exact=exact_or_error(total))
    return Case(f"SELECT avg(v) AS r FROM {source}", duck=None, exact=exact_or_error(mean, max(Decimal("1e-3"), abs(mean) * Decimal("1e-9"))))


def stored(g):
    """UPDATE and INSERT of a value beyond the precision of its column are errors."""
    digits, scale = g.pick((5, 1), (10, 2), (18, 3), (4, 4))
    limit = Decimal(10) ** (digits - scale)
    with localcontext() as context:
        context.prec = 60
        value = g.pick(limit, limit - Decimal(1).scaleb(-scale), -limit, limit * 3, limit / 2, limit + 1)
        fits = abs(value) < limit
        step = g.pick(Decimal(1), Decimal("0.1"), limit / 2)
        start = value - step
    form = g.random.randrange(3)
    made = f"decimal({digits}, {scale})"
    shown = f"CAST('{plain(value)}' AS decimal(38, 10))"
    if form == 0:
        sql = f"SELECT CAST({shown} AS {made}) AS r"
    elif form == 1:
        sql = f"SELECT CAST('{plain(value)}' AS {made}) AS r"
    else:
        sql = f"SELECT CAST(CAST('{plain(start)}' AS decimal(30, 5)) + CAST('{plain(step)}' AS decimal(30, 5)) AS {made}) AS r"

    def judge(outcome):
        if fits and outcome.rows is None:
            return f"an error, where {plain(value)} fits {made}"
        if not fits and outcome.rows is not None:
            return f"{outcome.rows}, where {plain(value)} does not fit {made}"
        return "a panic" if outcome.fatal else exact_or_error(value, Decimal(1).scaleb(-scale))(outcome)

    return Case(sql, duck=None, exact=judge)


def changed(g):
    """A sum in UPDATE that its column cannot hold fails, and changes nothing."""
    table = g.table(rows=True)
    column = next((c for c in table.columns if c.type.kind == "decimal"), None)
    if column is None:
        return stored(g)
    name, type_ = table.name, column.type.name
    digits, scale = map(int, type_[8:-1].split(","))
    step = g.pick("1.5", "9" * (digits - scale), "0.1")
    ids = [row[0] for row in table.rows]
    at = [c.name for c in table.columns].index(column.name)
    with localcontext() as context:
        context.prec = 60
        wanted = [None if row[at] is None else Decimal(row[at]) + Decimal(step) for row in table.rows]
        fits = all(v is None or abs(v) < Decimal(10) ** (digits - scale) for v in wanted)
    change = [f"UPDATE {name} SET {column.name} = {column.name} + CAST('{step}' AS {type_})"]

    def judge(outcome):
        if outcome.rows is None:
            return "an error, where all values fit" if fits or outcome.fatal else None
        if not fits:
            return "an answer, where a value does not fit"
        found = sorted((int(i), None if v is None else Decimal(v)) for i, v in outcome.rows)
        return None if found == sorted(zip(ids, wanted)) else f"{found}"

    return Case(f"SELECT id, {column.name} FROM {name}", duck=None, change=change, exact=judge)


CONSTRUCTS = {"decimal: arithmetic": arithmetic, "decimal: sums": sums, "decimal: casts": stored, "decimal: UPDATE": changed}
