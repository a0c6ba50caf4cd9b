"""The statements: those of public benchmarks, and one for each kind of operator that can need much memory."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench" / "peers"))

import joins  # noqa: E402
import queries  # noqa: E402
import ssb  # noqa: E402

# Over lineitem of TPC-H. The answers are the same in every run: sums of floats are rounded.
OPERATORS = [
    ("count distinct", "SELECT count(DISTINCT l_orderkey), count(DISTINCT l_comment) FROM lineitem"),
    ("distinct by group", "SELECT l_shipmode, count(DISTINCT l_orderkey), count(DISTINCT l_comment), median(l_extendedprice) FROM lineitem GROUP BY l_shipmode ORDER BY 1"),
    ("distinct by many groups", "SELECT count(*), sum(c), sum(d) FROM (SELECT l_partkey, count(DISTINCT l_suppkey) AS c, count(DISTINCT l_shipdate) AS d FROM lineitem GROUP BY l_partkey) t"),
    ("median", "SELECT median(l_extendedprice), median(l_quantity) FROM lineitem"),
    ("lists", "SELECT count(*), sum(n), max(length(s)) FROM (SELECT l_orderkey, count(*) AS n, string_agg(l_shipmode, ',' ORDER BY l_linenumber) AS s FROM lineitem GROUP BY l_orderkey) t"),
    ("group by all columns", "SELECT count(*), sum(n) FROM (SELECT l_orderkey, l_linenumber, l_comment, count(*) AS n FROM lineitem GROUP BY l_orderkey, l_linenumber, l_comment) t"),
    ("distinct rows", "SELECT count(*) FROM (SELECT DISTINCT l_partkey, l_suppkey, l_shipdate, l_comment FROM lineitem) t"),
    ("union", "SELECT count(*) FROM (SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity < 25 UNION SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity > 20) t"),
    ("except", "SELECT count(*) FROM (SELECT l_orderkey, l_partkey FROM lineitem EXCEPT SELECT l_orderkey, l_partkey FROM lineitem WHERE l_quantity < 10) t"),
    ("sort", "SELECT count(*), min(n) FROM (SELECT l_comment, row_number() OVER (ORDER BY l_comment, l_orderkey, l_linenumber) AS n FROM lineitem) t"),
    ("late rows", "SELECT l_orderkey, l_linenumber, l_comment FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber LIMIT 1 OFFSET 1500000"),
    ("window without partitions", "SELECT count(*), max(n), max(m) FROM (SELECT l_orderkey, count(*) OVER () AS n, max(l_comment) OVER () AS m FROM lineitem) t"),
    ("window by partition", "SELECT count(*), sum(n), max(d) FROM (SELECT l_partkey, count(*) OVER (PARTITION BY l_shipmode) AS n, max(l_comment) OVER (PARTITION BY l_suppkey) AS d FROM lineitem) t"),
    ("tiles", "SELECT a, count(*) FROM (SELECT ntile(10) OVER (ORDER BY l_extendedprice, l_orderkey, l_linenumber) AS a FROM lineitem) t GROUP BY a ORDER BY a"),
    ("distribution", "SELECT count(*), round(sum(a), 3), max(f), max(l) FROM (SELECT cume_dist() OVER (ORDER BY l_extendedprice) AS a, first_value(l_comment) OVER (ORDER BY l_extendedprice, l_orderkey, l_linenumber ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS f, last_value(l_comment) OVER (ORDER BY l_extendedprice, l_orderkey, l_linenumber ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM lineitem) t"),
    ("join of all", "SELECT count(*), max(a.l_comment), min(b.l_comment) FROM lineitem a JOIN lineitem b ON a.l_orderkey = b.l_orderkey AND a.l_linenumber = b.l_linenumber"),
    ("nested loops", "SELECT count(*) FROM orders a JOIN nation b ON a.o_totalprice > 1000 * b.n_nationkey + 400000"),
    ("cross join", "SELECT count(*), max(o_comment) FROM orders, region"),
    ("outer join", "SELECT count(*), count(o_comment) FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND o_totalprice > 200000"),
    ("not in", "SELECT count(*) FROM lineitem WHERE l_orderkey NOT IN (SELECT o_orderkey FROM orders WHERE o_totalprice > 200000)"),
]

# Statements that write; run on a copy of the pool, in this order. {work} is a directory.
WRITES = [
    ("create as sorted", "CREATE TABLE s AS SELECT * FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber"),
    ("create as", "CREATE TABLE c AS SELECT l_orderkey, l_linenumber, l_comment, l_extendedprice FROM lineitem"),
    ("create keyed", "CREATE TABLE k (o BIGINT, n BIGINT, c VARCHAR, PRIMARY KEY (o, n)) AS SELECT l_orderkey, l_linenumber, l_comment FROM lineitem"),
    ("create index", "CREATE INDEX by_comment ON c USING elf (l_comment, l_orderkey)"),
    ("update", "UPDATE c SET l_comment = l_comment || '!' WHERE l_orderkey % 2 = 0"),
    ("update keyed", "UPDATE k SET c = c || '!' WHERE n = 1"),
    ("insert keyed", "INSERT INTO k SELECT l_orderkey + 100000000, l_linenumber, l_comment FROM lineitem WHERE l_quantity < 10"),
    ("upsert keyed", "INSERT INTO k SELECT l_orderkey + 50000000 * (l_linenumber % 2), l_linenumber, l_comment FROM lineitem ON CONFLICT (o, n) DO UPDATE SET c = excluded.c || k.c"),
    ("delete keyed", "DELETE FROM k WHERE n = 2"),
    ("copy to csv", "COPY (SELECT * FROM c) TO '{work}/c.csv'"),
    ("copy to parquet", "COPY (SELECT * FROM c ORDER BY l_comment) TO '{work}/c.parquet'"),
    ("copy from csv", "COPY c FROM '{work}/c.csv'"),
    ("copy from parquet", "COPY c FROM '{work}/c.parquet'"),
    ("delete", "DELETE FROM c WHERE l_orderkey % 3 = 0"),
    ("add column", "ALTER TABLE c ADD COLUMN note VARCHAR DEFAULT 'none'"),
    ("vacuum", "VACUUM FULL"),
    ("read back", "SELECT count(*), max(l_comment), min(l_comment) FROM c"),
    ("read keyed back", "SELECT count(*), max(c), min(c) FROM k"),
]


def sets(scale_factor):
    """Returns the questions of each set by its name."""
    return {
        "tpch": queries.tpch(scale_factor),
        "ssb": ssb.queries(None),
        "group-by": queries.GROUP_BY,
        "joins": joins.questions("sums"),
        "operators": OPERATORS,
    }
