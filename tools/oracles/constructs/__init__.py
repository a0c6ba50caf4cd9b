"""All constructs. A new one is a function in one of the files, or a file that is added to the list."""

from constructs import (
    aggregates,
    decimals,
    distinct_on,
    joins,
    names,
    operators,
    patterns,
    rules,
    sets,
    slow,
    subquery_forms,
    subquery_rules,
    times,
    windows,
)

CONSTRUCTS = {}
for file in [subquery_forms, subquery_rules, joins, sets, operators, patterns, rules, aggregates, windows, distinct_on, names, decimals, times, slow]:
    for name, make in file.CONSTRUCTS.items():
        assert name not in CONSTRUCTS, name
        CONSTRUCTS[name] = make
