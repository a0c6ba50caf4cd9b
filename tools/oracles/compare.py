"""Comparison of answers: values become what the types of DuckDB say, rows are compared as a multiset unless they are ordered."""

import datetime
import math
from decimal import Decimal, InvalidOperation

# Relative difference that sums of floats in another order may have.
TOLERANCE = 1e-9


def kind_of(type_name):
    """Returns the kind of value for the name of a type in DuckDB."""
    name = type_name.upper()
    if name == "BOOLEAN":
        return "bool"
    if name in ("FLOAT", "DOUBLE"):
        return "float"
    if name.startswith(("DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")):
        return "number"
    if name == "DATE":
        return "date"
    if name.startswith("TIMESTAMP WITH"):
        return "instant"
    if name.startswith("TIMESTAMP"):
        return "timestamp"
    if name in ('"NULL"', "NULL"):
        return "null"
    return "text"


def normal(value, kind):
    """Returns a value of any system in one form. What does not fit the kind stays a text, which equals nothing else."""
    if value is None:
        return None
    try:
        return FORMS[kind](value)
    except (ValueError, InvalidOperation, TypeError):
        return f"{value} (no {kind})"


def boolean(value):
    if isinstance(value, (bool, int)):
        return bool(value)
    return {"true": True, "false": False}[value] if value in ("true", "false") else f"{value} (no bool)"


def timestamp(value):
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        # Years before 1000 have four digits in ISO format only.
        return text.rstrip("0").rstrip(".") if "." in text else text
    text = str(value).replace("T", " ").removesuffix("Z")
    if len(text) == 10:
        text += " 00:00:00"
    return text.rstrip("0").rstrip(".") if "." in text else text


def instant(value):
    if isinstance(value, datetime.datetime):
        return timestamp(value.astimezone(datetime.timezone.utc))
    parsed = datetime.datetime.fromisoformat(str(value))
    return timestamp(parsed.astimezone(datetime.timezone.utc) if parsed.tzinfo else parsed)


def floating(value):
    number = float(value)
    return 0.0 if number == 0 else number


def loose(value):
    """Returns a value of SQLite, which has neither booleans nor decimals, or one of Halocline that is compared with it."""
    if isinstance(value, str):
        value = {"true": 1, "false": 0}.get(value, value)
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return str(value)


FORMS = {
    "bool": boolean,
    "float": floating,
    "number": lambda value: Decimal(str(int(value) if isinstance(value, bool) else value)),
    "date": lambda value: str(value)[:10] if str(value)[10:] in ("", " 00:00:00", "T00:00:00") else str(value),
    "timestamp": timestamp,
    "instant": instant,
    "text": str,
    "loose": loose,
    "null": str,
}


def normal_rows(rows, kinds):
    return [tuple(normal(value, kind) for value, kind in zip(row, kinds)) if len(row) == len(kinds) or kinds[:1] == ["loose"] else tuple(row) for row in rows]


def key(row):
    """Sorts rows so that those that are nearly equal come to the same place."""
    return tuple(key_of(value) for value in row)


def key_of(value):
    if value is None:
        return (0, "")
    if isinstance(value, float):
        return (1, "nan") if math.isnan(value) else (2, float(f"{value:.8e}"))
    if isinstance(value, Decimal):
        return (1, "nan") if value.is_nan() else (2, float(f"{float(value):.8e}"))
    return (3, str(value))


def equal(left, right):
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=1e-300)
    return left == right and type(left) is type(right)


def same_rows(left, right, ordered=False):
    """Returns true for equal answers of normal values."""
    if len(left) != len(right):
        return False
    if not ordered:
        left, right = sorted(left, key=key), sorted(right, key=key)
    return all(len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(left, right))
