"""Faults that the program once had, the construct that finds each, and the search for the first case that does."""

import re
from types import SimpleNamespace

# A fault, its construct, and an expression for the query or the difference that shows it.
FAULTS = [
    ("NOT IN with NULL beside OR", "subquery: NOT IN beside OR", ""),
    ("NOT IN of a constant or NULLIF", "subquery: NOT IN", ""),
    ("NOT IN correlated by <", "subquery: correlated by <", "NOT IN"),
    ("IN in the SELECT list", "subquery: in the SELECT list", " IN "),
    ("IN of rows", "subquery: three-valued rows", ""),
    ("EXISTS of an aggregate", "subquery: EXISTS of an aggregate", "EXISTS"),
    ("0 IN (SELECT count(*) …)", "subquery: count over nothing", "0 IN"),
    ("EXISTS with OFFSET", "subquery: below OFFSET", "EXISTS"),
    ("EXISTS with grouping sets", "subquery: below GROUPING SETS", "EXISTS"),
    ("subqueries over two levels", "subquery: over two levels", ""),
    ("scalar subquery correlated by <", "subquery: scalar in SELECT", ""),
    ("correlated ORDER BY … LIMIT 1", "subquery: below ORDER BY LIMIT", ""),
    ("scalar subquery correlated by a double", "subquery: scalar correlated by a double", ""),
    ("two rows in a branch that is not taken", "subquery: two rows of a scalar", "an error"),
    ("volatile functions", "subquery: volatile functions", ""),
    ("ANY and ALL", "subquery: ANY and ALL", ""),
    ("subqueries in DELETE", "subquery: in DELETE", ""),
    ("subqueries in UPDATE", "subquery: in UPDATE", ""),
    ("subqueries in ON", "subquery: in ON", ""),
    ("subqueries in HAVING", "subquery: in HAVING", ""),
    ("subqueries in CASE", "subquery: in CASE", ""),
    ("LATERAL", "subquery: LATERAL", ""),
    ("an outer column named like the inner table", "subquery: names of inner tables", ""),
    ("null-safe equality in a chain of joins", "join: null-safe in a chain", ""),
    ("null-safe equality of INTERSECT in a derived table", "set: in derived tables", ""),
    ("dates beside timestamps as keys", "join: different types", ""),
    ("USING of outer joins", "join: USING", ""),
    ("NATURAL outer joins", "join: NATURAL", ""),
    ("INTERSECT ALL and EXCEPT ALL", "set: INTERSECT ALL and EXCEPT ALL", ""),
    ("a CTE with random() used twice", "subquery: volatile functions", "WITH"),
    ("JOIN without ON", "join: without ON", ""),
    ("IS DISTINCT FROM beside AND", "operator: IS DISTINCT FROM beside AND", ""),
    ("SIMILAR TO", "pattern: SIMILAR TO", ""),
    ("LIKE … ESCAPE", "pattern: LIKE", "ESCAPE"),
    ("i IN (1) AND i IN (2) of NULL", "simplified: conditions", ""),
    ("s ~ '.*' of NULL", "pattern: ~", ""),
    ("i ^ i of NULL, xor() and #", "simplified: xor", ""),
    ("errors of branches not taken", "operator: branches not taken", ""),
    ("min and max by groups with NaN", "aggregate: min and max", ""),
    ("-0.0 in windows", "window: ranks and partitions", ""),
    ("-0.0 in sorts", "sort", ""),
    ("^ as a power", "operator: ^", ""),
    ("//", "operator: //", ""),
    ("rounding to integers", "operator: conversion to integers", ""),
    ("DISTINCT ON with a repeated key", "DISTINCT ON", ""),
    ("frames with EXCLUDE", "window: frames", "EXCLUDE"),
    ("several orders in one aggregate", "aggregate: several orders", ""),
    ("repeated names", "names: repeated", ""),
    ("INSERT … SELECT of repeated expressions", "names: INSERT SELECT", ""),
    ("products of decimals beyond their type", "decimal: arithmetic", ""),
    ("UPDATE beyond the precision of a decimal", "decimal: UPDATE", ""),
    ("far dates beside timestamps", "time: far dates", ""),
    ("date_trunc of far dates", "time: date_trunc", ""),
    ("zones of literals and casts", "time: zones", ""),
    ("gaps and overlaps of daylight saving", "time: daylight saving", ""),
    ("to_char", "time: to_char", ""),
    ("slow: null-safe beside =", "slow: null-safe beside =", ""),
    ("slow: NOT IN of few values", "slow: NOT IN of nullable columns", ""),
    ("slow: EXISTS with <>", "slow: EXISTS with <>", ""),
]


def search(options, names):
    """Prints for each fault how many cases of its construct it takes to find it."""
    from oracle import Oracle

    limit = options.cases or 400
    print(f"\n| fault | construct | found by case (seed {options.seed}) |\n|---|---|---|", flush=True)
    for fault, construct, pattern in FAULTS:
        if construct not in names:
            continue
        given = SimpleNamespace(**{**vars(options), "cases": limit, "minutes": 0, "show": 10**6, "minimise": 0, "findings": None, "variants": 0})
        oracle = Oracle(given, [construct])
        oracle.quiet = True
        oracle.stop = lambda finding: re.search(pattern, finding)
        try:
            oracle.run()
        finally:
            oracle.halocline.close()
        found = next((n for n, text in oracle.findings if re.search(pattern, text)), None)
        said = f"not within {oracle.report.total('cases')}" if found is None else str(found)
        print(f"| {fault} | `{construct}` | {said} |", flush=True)
