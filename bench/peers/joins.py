"""Queries of the join experiments."""

# The questions of https://duckdblabs.github.io/db-benchmark/ (J1): the rows of x with those of a smaller or as large a
# table, by integers or texts. Their answers are tables of these columns.
QUESTIONS = [
    ("small inner on int", "x.*, small.id4 AS small_id4, v2", "x JOIN small USING (id1)"),
    (
        "medium inner on int",
        "x.*, medium.id1 AS medium_id1, medium.id4 AS medium_id4, medium.id5 AS medium_id5, v2",
        "x JOIN medium USING (id2)",
    ),
    (
        "medium outer on int",
        "x.*, medium.id1 AS medium_id1, medium.id4 AS medium_id4, medium.id5 AS medium_id5, v2",
        "x LEFT JOIN medium USING (id2)",
    ),
    (
        "medium inner on factor",
        "x.*, medium.id1 AS medium_id1, medium.id2 AS medium_id2, medium.id4 AS medium_id4, v2",
        "x JOIN medium USING (id5)",
    ),
    (
        "big inner on int",
        "x.*, big.id1 AS big_id1, big.id2 AS big_id2, big.id4 AS big_id4, big.id5 AS big_id5, big.id6 AS big_id6, v2",
        "x JOIN big USING (id3)",
    ),
]

PAIR = [("sums", "SELECT count(*), sum(build.v), sum(probe.v) FROM probe JOIN build ON probe.k = build.k")]


def questions(answers):
    """The questions, answered by tables, or by the count and the sums that the benchmark compares."""
    columns = {"table": None, "sums": "count(*), sum(v1), sum(v2)"}[answers]
    return [(name, f"SELECT {columns or wanted} FROM {tables}") for name, wanted, tables in QUESTIONS]
