"""Kinds of values: types of columns, literals, and domains that are small, so that joins and comparisons meet."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """A type of columns. `kind` decides which columns can be compared; `lite` is the type in SQLite, if it has one."""

    kind: str
    name: str
    lite: str | None = None


INTS = [Type("int", name, "integer") for name in ["int", "bigint", "smallint", "tinyint", "int"]]
DECIMALS = [Type("decimal", name) for name in ["decimal(10, 2)", "decimal(18, 3)", "decimal(38, 10)", "decimal(5, 1)"]]
TYPES = {
    "int": INTS,
    "float": [Type("float", "double")],
    "decimal": DECIMALS,
    "text": [Type("text", "varchar", "text")],
    "date": [Type("date", "date")],
    "timestamp": [Type("timestamp", "timestamp(6)")],
    "bool": [Type("bool", "boolean", "boolean")],
}

DATES = ["2020-01-01", "2020-02-29", "2021-06-15", "2021-06-16", "1969-12-31", "0001-01-01", "9999-12-31"]
TIMES = ["2020-01-01 00:00:00", "2020-02-29 23:59:59.999999", "2021-06-15 12:30:00", "1969-12-31 23:59:59.5"]
FAR_TIMES = ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "1600-07-01 01:02:03.000004"]
FLOATS = ["1.5", "0.0", "-0.0", "2.0", "NaN", "inf", "-inf", "-5.25", "1e300", "3.0"]
TEXTS = ["", "a", "b", "ab", "A", "a%", "ba_", "ä", "NULL", " a", "xyz"]


def domain(kind):
    """Returns the values that columns and constants of a kind have."""
    return {
        "int": [0, 1, 2, 3, 4, 5, -1, 7, 40],
        "float": FLOATS,
        "decimal": ["0.0", "1.5", "2.0", "-1.5", "3.0", "10.5"],
        "text": TEXTS,
        "date": DATES,
        "timestamp": TIMES + FAR_TIMES,
        "bool": [True, False],
    }[kind]


def literal(type_, value):
    """Writes a value such that all systems read the same."""
    if value is None:
        return "NULL"
    if type_.kind == "int":
        return str(value)
    if type_.kind == "text":
        return "'" + value.replace("'", "''") + "'"
    if type_.kind == "bool":
        return "true" if value else "false"
    if type_.kind == "date":
        return f"DATE '{value}'"
    if type_.kind == "float":
        return f"CAST('{value}' AS double)"
    return f"CAST('{value}' AS {type_.name})"
