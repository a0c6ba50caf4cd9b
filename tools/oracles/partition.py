"""Checks without another system: a condition is true, false or unknown for each row, and counting agrees with filtering."""

from compare import normal_rows, same_rows


def queries(case):
    """Returns the queries to run for a case that has a condition."""
    columns, source, condition = case.condition
    parts = [f"({condition})", f"NOT ({condition})", f"({condition}) IS NULL"]
    every = f"SELECT {columns} FROM {source}"
    return [
        every,
        *(f"SELECT {columns} FROM {source} WHERE {part}" for part in parts),
        f"SELECT count(*) AS c FROM {source} WHERE {condition}",
        f"SELECT COALESCE(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS c FROM {source}",
    ]


def judge(outcomes):
    """Returns what is wrong with the answers to these queries, or None."""
    failed = [o for o in outcomes if o.rows is None]
    if failed:
        # Errors are found by the comparison with other systems, unless the process ended.
        return f"an error: {failed[0].error}" if failed[0].fatal else None
    every, parts = outcomes[0].rows, sum((o.rows for o in outcomes[1:4]), [])
    kinds = ["text"] * (len(every[0]) if every else 1)
    if not same_rows(normal_rows(every, kinds), normal_rows(parts, kinds)):
        sizes = " + ".join(str(len(o.rows)) for o in outcomes[1:4])
        return f"{len(every)} rows, but {sizes} where the condition is true, false and unknown"
    filtered, counted = outcomes[4].rows[0][0], outcomes[5].rows[0][0]
    return None if filtered == counted else f"{filtered} rows pass the condition, which is true for {counted}"
