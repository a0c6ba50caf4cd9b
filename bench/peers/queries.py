#!/usr/bin/env python3
"""Queries beyond the Star Schema Benchmark, in DuckDB, Hyper and Polars beside halocline: same rows, same queries, same moments.

    python3 bench/peers/queries.py tpch DIR/sf3 --halocline target/release/halocline

Experiments:
    tpch       the 22 queries of TPC-H
    filters    sums over lineitem with filters that keep more or fewer rows, the greatest rows, counts
    strings    conditions on strings of orders, customer and part: prefixes, ranges, parts
    group-by   the ten questions of the db-benchmark over one table (--rows)
    conjunctions  random conjunctions over lineorder of the Star Schema Benchmark, by five indexes
    join       the five join questions of the db-benchmark (--rows), a first and a second run (--runs 1)
    pair       sums over a join of --rows rows of 16 bytes with twice as many

Data is made where it is missing: DIR/sf3 has TPC-H at scale factor 3, and a pool of its tables. Packages come from PyPI
into a virtual environment (--venv), once. All systems are loaded from the Parquet files, get the same CPUs (--threads) by
affinity, and are asked each query in turn: one round to warm up and to compare the answers, then --runs rounds of which
the median counts. Results are fetched; planning is included.
"""

import argparse
import datetime
import math
import random
import re
import sys
from pathlib import Path

import data
import join_data
import joins
import run
from engines import in_environment

TPCH = Path(__file__).resolve().parents[2] / "crates" / "workloads" / "src" / "tpch_queries"

SUMS = "SELECT sum(l_quantity), sum(l_extendedprice), sum(l_discount), sum(l_tax) FROM lineitem"

FILTERS = [
    ("four sums", SUMS),
    ("98 % by date", f"{SUMS} WHERE l_shipdate <= DATE '1998-09-02'"),
    ("50 % by date", f"{SUMS} WHERE l_shipdate <= DATE '1995-06-17'"),
    ("10 % by date", f"{SUMS} WHERE l_shipdate < DATE '1992-11-15'"),
    ("50 % by quantity", f"{SUMS} WHERE l_quantity <= 25"),
    ("10 % by quantity", f"{SUMS} WHERE l_quantity <= 5"),
    ("1 % by part", f"{SUMS} WHERE l_partkey % 100 = 7"),
    ("count", "SELECT count(*) FROM lineitem"),
    ("top 5", "SELECT * FROM lineitem ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 5"),
    (
        "top 5 behind 100,000",
        "SELECT * FROM lineitem ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 5 OFFSET 100000",
    ),
    ("top 5 of orders behind 1 M", "SELECT * FROM orders ORDER BY o_orderkey DESC LIMIT 5 OFFSET 1000000"),
    ("sum by order", "SELECT count(*) FROM (SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey) t WHERE q > 300"),
    ("sum by part", "SELECT max(q) FROM (SELECT l_partkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_partkey) t"),
]

STRINGS = [
    ("prefix of names", "SELECT count(*) FROM customer WHERE c_name LIKE 'Customer#00012%'"),
    ("range of names", "SELECT count(*) FROM customer WHERE c_name > 'Customer#00012' AND c_name < 'Customer#00013'"),
    ("one name", "SELECT c_custkey FROM customer WHERE c_name = 'Customer#000012345'"),
    ("prefix of comments", "SELECT count(*) FROM orders WHERE o_comment LIKE 'sl%'"),
    ("range of comments", "SELECT count(*) FROM orders WHERE o_comment > 's' AND o_comment < 'sm'"),
    ("two parts of comments", "SELECT count(*) FROM orders WHERE o_comment NOT LIKE '%special%requests%'"),
    ("part of comments", "SELECT count(*) FROM orders WHERE o_comment LIKE '%pending%'"),
    ("part of names of parts", "SELECT count(*) FROM part WHERE p_name LIKE '%green%'"),
    ("prefix of names of parts", "SELECT count(*) FROM part WHERE p_name LIKE 'forest%'"),
    ("clerks", "SELECT count(*), max(o_totalprice) FROM orders WHERE o_clerk BETWEEN 'Clerk#000000100' AND 'Clerk#000000199'"),
    ("end of comments", "SELECT count(*) FROM orders WHERE o_comment LIKE '%deposits'"),
]

# The questions of https://duckdblabs.github.io/db-benchmark/, as SQL; 6 and 8 ask for a median with a deviation, and for
# the two greatest values. The many groups of 10 are counted and added up, so that the time is not that of fetching them.
GROUP_BY = [
    ("1", "SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1"),
    ("2", "SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2"),
    ("3", "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3"),
    ("4", "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4"),
    ("5", "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6"),
    ("6", "SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM x GROUP BY id4, id5"),
    ("7", "SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3"),
    (
        "8",
        "SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS place FROM x) t "
        "WHERE place <= 2",
    ),
    ("9", "SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM x GROUP BY id2, id4"),
    (
        "10",
        "SELECT count(*), sum(v3), sum(count) FROM (SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS count FROM x "
        "GROUP BY id1, id2, id3, id4, id5, id6) t",
    ),
]


def conjunctions(scale_factor, count=40, seed=1):
    """Random conjunctions of ranges of two to five columns of lineorder, of 1e-3 to 1e-7 of the rows as far as they are
    independent."""
    choose = random.Random(seed)
    days = [datetime.date(1992, 1, 1) + datetime.timedelta(day) for day in range(2406)]
    parts = int(200_000 * (1 + math.log2(max(scale_factor, 1))))
    columns = {
        "lo_discount": range(11),
        "lo_quantity": range(1, 51),
        "lo_tax": range(9),
        "lo_orderdate": [day.year * 10_000 + day.month * 100 + day.day for day in days],
        "lo_suppkey": range(1, int(2_000 * scale_factor) + 1),
        "lo_custkey": range(1, int(30_000 * scale_factor) + 1),
        "lo_partkey": range(1, parts + 1),
    }
    queries = []
    for number in range(1, count + 1):
        chosen = choose.sample(sorted(columns), choose.randint(2, 5))
        left, conditions = 10 ** choose.uniform(-7, -3), []
        # Columns of few values first, so that the others can make up for what these cannot.
        for position, column in enumerate(sorted(chosen, key=lambda name: len(columns[name]))):
            values = columns[column]
            width = max(1, round(len(values) * left ** (1 / (len(chosen) - position))))
            first = choose.randint(0, len(values) - width)
            left = min(left / (width / len(values)), 1)
            conditions.append(f"{column} BETWEEN {values[first]} AND {values[first + width - 1]}")
        sql = f"SELECT count(*), sum(lo_revenue) FROM lineorder WHERE {' AND '.join(conditions)}"
        queries.append((f"{number}", sql))
    return queries


def tpch(scale_factor):
    files = sorted(TPCH.glob("q*.sql"))
    if len(files) != 22:
        sys.exit(f"{TPCH} has {len(files)} queries instead of 22")
    fraction = f"{0.0001 / scale_factor:.10f}"
    return [(str(int(file.stem[1:])), file.read_text().strip().replace(":fraction", fraction)) for file in files]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["tpch", "filters", "strings", "group-by", "conjunctions", "join", "pair"])
    parser.add_argument("data", type=Path, help="directory of the data; its name is that of the scale factor, as in sf3")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table of group-by, join or pair [default: 10000000]")
    parser.add_argument(
        "--answers",
        choices=["sums", "table"],
        default="sums",
        help="answers of join: the sums that the db-benchmark compares, or tables as it makes them [default: sums]",
    )
    parser.add_argument("--only", help="names of queries, separated by commas")
    run.add_options(parser, "halocline,duckdb,hyper")
    options = parser.parse_args()
    if options.answers == "table" and options.experiment != "join":
        parser.error("--answers table is for join")
    options.first = options.experiment in ("join", "pair") or options.limits != [None]
    return options


def main():
    options = arguments()
    in_environment(options.venv)
    if options.experiment == "group-by":
        tables, options.pool = data.group_by(options.halocline, options.data, options.rows)
        queries, largest = GROUP_BY, "x"
    elif options.experiment == "join":
        tables, options.pool = join_data.questions(options.halocline, options.data, options.rows)
        queries, largest = joins.questions(options.answers), "x"
    elif options.experiment == "pair":
        tables, options.pool = join_data.pair(options.halocline, options.data, options.rows)
        queries, largest = joins.PAIR, "probe"
    else:
        found = re.fullmatch(r"sf([0-9.]+)", options.data.resolve().name)
        if not found:
            sys.exit(f"{options.data} does not name a scale factor; name the directory sf1 or the like")
        scale_factor = float(found[1])
        if options.experiment == "conjunctions":
            tables, options.pool = data.lineorder(options.halocline, options.data, scale_factor)
            queries, largest = conjunctions(scale_factor), "lineorder"
        else:
            tables, options.pool = data.tpch(options.halocline, options.data, scale_factor)
            queries = {"tpch": tpch(scale_factor), "filters": FILTERS, "strings": STRINGS}[options.experiment]
            largest = "lineitem"
    if options.only:
        queries = [(name, sql) for name, sql in queries if name in options.only.split(",")]
    run.compare(options.experiment, options, tables, queries, largest)


if __name__ == "__main__":
    main()
