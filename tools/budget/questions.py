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
    ("arrays", "SELECT count(*), count(a), count(d) FROM (SELECT l_partkey, array_agg(l_comment) AS a, array_agg(DISTINCT l_shipmode) AS d FROM lineitem GROUP BY l_partkey) t"),
    ("percentiles", "SELECT l_shipmode, percentile_cont(0.9) WITHIN GROUP (ORDER BY l_extendedprice), percentile_cont(0.01) WITHIN GROUP (ORDER BY l_quantity) FROM lineitem GROUP BY l_shipmode ORDER BY 1"),
    ("group by all columns", "SELECT count(*), sum(n) FROM (SELECT l_orderkey, l_linenumber, l_comment, count(*) AS n FROM lineitem GROUP BY l_orderkey, l_linenumber, l_comment) t"),
    ("distinct rows", "SELECT count(*) FROM (SELECT DISTINCT l_partkey, l_suppkey, l_shipdate, l_comment FROM lineitem) t"),
    ("union", "SELECT count(*) FROM (SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity < 25 UNION SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity > 20) t"),
    ("except", "SELECT count(*) FROM (SELECT l_orderkey, l_partkey FROM lineitem EXCEPT SELECT l_orderkey, l_partkey FROM lineitem WHERE l_quantity < 10) t"),
    ("intersect", "SELECT count(*) FROM (SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity < 40 INTERSECT SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity > 10) t"),
    ("intersect all", "SELECT count(*), sum(l_partkey) FROM (SELECT l_partkey, l_suppkey FROM lineitem WHERE l_quantity < 30 INTERSECT ALL SELECT l_partkey, l_suppkey FROM lineitem WHERE l_quantity > 10) t"),
    ("except all", "SELECT count(*), sum(l_partkey) FROM (SELECT l_partkey, l_suppkey FROM lineitem EXCEPT ALL SELECT l_partkey, l_suppkey FROM lineitem WHERE l_quantity < 10) t"),
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

# Over texts of 2,500 characters, most of them several times.
WIDE = [
    ("first rows", "SELECT id, substr(s, 1, 10) FROM (SELECT id, s FROM wide ORDER BY s DESC, id LIMIT 30000) t"),
    ("late rows", "SELECT id, s FROM wide ORDER BY s, id LIMIT 3 OFFSET 39000"),
    ("row numbers", "SELECT count(*), sum(n), sum(length(s)) FROM (SELECT s, row_number() OVER (ORDER BY s, id) AS n FROM wide) t"),
    ("distinct on", "SELECT count(*), sum(id), sum(length(s)) FROM (SELECT DISTINCT ON (h) id, s FROM wide ORDER BY h, s, id) t"),
    ("distinct rows", "SELECT count(*), sum(length(s)) FROM (SELECT DISTINCT s, g FROM wide) t"),
    ("window by partition", "SELECT count(*), sum(length(m)), min(substr(m, 1, 10)) FROM (SELECT max(s) OVER (PARTITION BY g) AS m FROM wide) t"),
    ("window without partitions", "SELECT count(*), count(m), sum(length(m)) FROM (SELECT lag(s) OVER (ORDER BY id) AS m FROM wide) t"),
    ("texts", "SELECT count(*), sum(length(a)) FROM (SELECT g, string_agg(s, ',' ORDER BY id) AS a FROM wide GROUP BY g) t"),
    ("arrays", "SELECT count(*), count(a) FROM (SELECT g, array_agg(s) AS a FROM wide GROUP BY g) t"),
    ("count distinct", "SELECT count(DISTINCT s), max(substr(s, 1, 10)) FROM wide"),
    ("count distinct by group", "SELECT g, count(DISTINCT s) FROM wide GROUP BY g ORDER BY g"),
    ("union", "SELECT count(*), sum(length(s)) FROM (SELECT s FROM wide WHERE g < 60 UNION SELECT s FROM wide WHERE g > 40) t"),
    ("intersect all", "SELECT count(*), sum(length(s)) FROM (SELECT s FROM wide WHERE g < 60 INTERSECT ALL SELECT s FROM wide WHERE g > 40) t"),
    ("except all", "SELECT count(*), sum(length(s)) FROM (SELECT s FROM wide EXCEPT ALL SELECT s FROM wide WHERE g > 40) t"),
    ("join", "SELECT count(*), sum(length(b.s)) FROM wide a JOIN wide b ON a.s = b.s"),
    ("one text", "SELECT length(string_agg(s, ',' ORDER BY id)) FROM wide"),
]
# Rows of that table at scale factor 1 and below; more in proportion to the scale factor.
WIDE_ROWS = 40_000
# A text has one of 30,000 values.
WIDE_TABLE = """
    SELECT i AS id, i % 100 AS g, i * 104729 % 10007 AS h, repeat(lpad(CAST(i % 30000 * 7919 % 100003 AS VARCHAR), 10, 'x'), 250) AS s
    FROM generate_series(0, {last}) AS t(i)
"""

# The side with fewer rows has the texts, of 100 MB together, since it is the one that a join holds in memory. Of the pairs, whose
# number does not depend on the scale factor, few match, so that most rows have no partner.
FEW = "(SELECT h, s || s || s || s AS s FROM wide WHERE id < 10000) a"
MANY = "(SELECT h, id FROM wide WHERE id >= 10000 AND id < 30000) b"
MATCH = "a.h > b.h + 9900"
PRODUCTS = [
    ("inner", f"SELECT count(*), sum(length(a.s)), sum(b.id) FROM {FEW} JOIN {MANY} ON {MATCH}"),
    ("left", f"SELECT count(*), sum(length(a.s)), count(b.id), sum(b.id) FROM {FEW} LEFT JOIN {MANY} ON {MATCH}"),
    ("full", f"SELECT count(*), count(a.s), sum(length(a.s)), count(b.id), sum(b.id) FROM {FEW} FULL JOIN {MANY} ON {MATCH}"),
    ("exists", f"SELECT count(*), sum(length(a.s)) FROM {FEW} WHERE EXISTS (SELECT 1 FROM {MANY} WHERE {MATCH})"),
    ("not exists", f"SELECT count(*), sum(length(a.s)) FROM {FEW} WHERE NOT EXISTS (SELECT 1 FROM {MANY} WHERE {MATCH})"),
    ("or exists", f"SELECT count(*), sum(length(a.s)) FROM {FEW} WHERE a.h % 7 = 0 OR EXISTS (SELECT 1 FROM {MANY} WHERE {MATCH})"),
    ("cross", "SELECT count(*), substr(max(a.s), 1, 10), sum(b.id) FROM (SELECT s FROM wide WHERE id < 16000) a, (SELECT id FROM wide WHERE id >= 16000 AND id < 40000) b"),
]

# Statements that write, and commands of the program, which are lists; run on a copy of the pool, in this order. {work} is a directory,
# {lineitem} a Parquet file.
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
    ("import", ["import", "{pool}", "i", "{lineitem}"]),
    ("append", ["import", "{pool}", "i", "{lineitem}", "--append"]),
    ("index", ["index", "{pool}", "i", "--on", "l_comment,l_orderkey", "--name", "i_by_comment"]),
    ("copy keys", "COPY (SELECT l_orderkey AS o, l_linenumber AS n, l_comment AS c FROM lineitem ORDER BY l_comment) TO '{work}/k.parquet'"),
    ("create empty", "CREATE TABLE ik (o BIGINT, n BIGINT, c VARCHAR, PRIMARY KEY (o, n))"),
    ("import keyed", ["import", "{pool}", "ik", "{work}/k.parquet", "--append"]),
    ("read imports back", "SELECT count(*), max(l_comment), sum(l_orderkey) FROM i"),
    ("read keyed imports back", "SELECT count(*), max(c), sum(o) FROM ik"),
]

# Statements that may be refused, by set and name: the result of one group has to be in DRAM at once (docs/operations.md, "DRAM").
MAY_BE_REFUSED = {("wide", "one text"), ("products", "full")}


def sets(scale_factor):
    """Returns the questions of each set by its name."""
    return {
        "tpch": queries.tpch(scale_factor),
        "ssb": ssb.queries(None),
        "group-by": queries.GROUP_BY,
        "joins": joins.questions("sums"),
        "operators": OPERATORS,
        "wide": WIDE,
        "products": PRODUCTS,
    }
