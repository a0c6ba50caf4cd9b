"""Answers of two programs that print numbers differently."""

import csv
import math


def value(text):
    """Numbers as such, and the names of a value as one."""
    try:
        return float(text)
    except ValueError:
        return {"t": "true", "True": "true", "f": "false", "False": "false", "None": ""}.get(text, text)


def read(path):
    """Returns the rows of a CSV file without its header, in an order that depends on them only."""
    with open(path, newline="", errors="replace") as file:
        rows = list(csv.reader(file))[1:]
    rows = [[value(text) for text in row] for row in rows]
    return sorted(rows, key=lambda row: [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])


def are_same(rows, others):
    """Returns true for the same rows. The order of summation does not count."""
    return len(rows) == len(others) and all(is_same_row(*pair) for pair in zip(rows, others))


def is_same_row(row, other):
    return len(row) == len(other) and all(is_same_cell(*pair) for pair in zip(row, other))


def is_same_cell(cell, other):
    if isinstance(cell, float) and isinstance(other, float):
        return math.isclose(cell, other, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(cell) and math.isnan(other))
    return cell == other
