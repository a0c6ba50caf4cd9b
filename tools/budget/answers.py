"""Answers of two programs that print numbers differently."""

import csv


def value(text):
    """Numbers to six significant digits, so that the order of summation does not count."""
    try:
        number = float(text)
    except ValueError:
        return {"t": "true", "True": "true", "f": "false", "False": "false", "None": ""}.get(text, text)
    return f"{number:.6g}"


def read(path):
    """Returns the rows of a CSV file without its header, in an order that depends on them only."""
    with open(path, newline="", errors="replace") as file:
        rows = list(csv.reader(file))[1:]
    return sorted([value(text) for text in row] for row in rows)
