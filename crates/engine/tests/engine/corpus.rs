//! A corpus of queries, each answered by every way and by plain DataFusion.

use std::path::{Path, PathBuf};

use halocline_engine::Database;
use halocline_workloads::TpchTable;

use super::same_answers::assert_same_answers;
use super::support::{import, new_pool, plain, run, write_parquet};
use super::types_table::{ROWS, batch};

/// TPC-H lineitem and orders at a small scale, in Parquet.
pub(crate) fn lineitem(dir: &Path) -> PathBuf {
    let path = dir.join("lineitem.parquet");
    write_parquet(&path, TpchTable::Lineitem.reader(0.01, 0, 1).map(Result::unwrap));
    path
}

const LINEITEM: &[&str] = &[
    // The selections of TPC-H Q1, Q6, Q10, Q12, Q14, Q19 and the queries around them.
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)), \
     avg(l_quantity), avg(l_discount), count(*) FROM lineitem WHERE l_shipdate <= date '1998-09-02' \
     GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= date '1994-01-01' \
     AND l_shipdate < date '1994-01-01' + interval '1' year AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24",
    "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) r FROM lineitem WHERE l_returnflag = 'R' GROUP BY 1 ORDER BY r DESC, 1 LIMIT 20",
    "SELECT l_shipmode, count(*) FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate \
     AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01' GROUP BY l_shipmode ORDER BY 1",
    "SELECT count(*), sum(l_extendedprice) FROM lineitem WHERE l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01'",
    "SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem WHERE l_quantity BETWEEN 1 AND 11 \
     AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'",
    "SELECT * FROM lineitem WHERE l_shipdate = date '1994-03-05' AND l_discount = 0.05",
    "SELECT l_orderkey FROM lineitem WHERE l_shipdate = date '1994-03-05' AND l_discount = 0.055",
    "SELECT count(*) FROM lineitem",
    "SELECT count(*) FROM lineitem WHERE l_shipdate BETWEEN date '1994-01-01' AND date '1994-12-31'",
    "SELECT count(*) FROM lineitem WHERE l_shipdate > date '2010-01-01'",
    "SELECT count(*) FROM lineitem WHERE l_shipdate < date '1970-01-01' OR l_quantity = 7",
    "SELECT count(l_comment) FROM lineitem WHERE 24 > l_quantity AND 0.07 <= l_discount",
    "SELECT min(l_shipdate), max(l_shipdate), min(l_comment), max(l_extendedprice) FROM lineitem",
    "SELECT min(l_orderkey), max(l_orderkey) FROM lineitem WHERE l_shipmode = 'RAIL'",
    "SELECT l_comment FROM lineitem WHERE l_comment LIKE 'car%'",
    "SELECT l_comment FROM lineitem WHERE l_comment LIKE 'car%' AND l_linenumber = 2",
    "SELECT l_comment FROM lineitem WHERE l_comment NOT LIKE 'b%' AND l_comment < 'c' AND l_linenumber <> 1",
    "SELECT count(*) FROM lineitem WHERE l_comment LIKE '%regular%' AND l_shipmode = 'AIR'",
    "SELECT count(*) FROM lineitem WHERE l_comment >= 'quick' AND l_comment < 'quicl' AND l_discount > 0.03",
    "SELECT count(*) FROM lineitem WHERE l_shipinstruct LIKE '%BACK%' AND l_quantity > 40",
    "SELECT count(*) FROM lineitem WHERE l_shipinstruct NOT IN ('NONE', 'COLLECT COD')",
    "SELECT count(*) FROM lineitem WHERE l_shipinstruct <> 'NONE' AND l_shipdate < date '1993-01-01'",
    "SELECT count(*) FROM lineitem WHERE NOT (l_discount BETWEEN 0.02 AND 0.08)",
    "SELECT count(*) FROM lineitem WHERE (l_discount < 0.02 OR l_discount > 0.08) AND l_returnflag IN ('A', 'N')",
    "SELECT count(*) FROM lineitem WHERE l_quantity IN (1, 5, 9, 13, 17, 21, 25, 29, 33) AND l_shipmode > 'MAIL'",
    "SELECT count(*) FROM lineitem WHERE extract(year FROM l_shipdate) = 1995 AND l_discount = 0.1",
    "SELECT count(*) FROM lineitem WHERE date_trunc('month', l_shipdate) = timestamp '1995-03-01' AND l_discount = 0.1",
    "SELECT count(*) FROM lineitem WHERE upper(l_shipmode) = 'AIR' AND length(l_returnflag) = 1",
    "SELECT count(*) FROM lineitem WHERE l_quantity * 2 > 90 AND l_shipdate > date '1996-01-01'",
    "SELECT count(*) FROM lineitem WHERE l_quantity > 49.5 AND l_discount < 0.0101",
    "SELECT count(*) FROM lineitem WHERE cast(l_quantity AS double) > 48.9 AND l_tax = 0",
    "SELECT l_orderkey, l_linenumber FROM lineitem WHERE l_shipdate > date '1998-11-20' ORDER BY l_orderkey, l_linenumber",
    "SELECT l_orderkey FROM lineitem WHERE l_discount = 0.03 AND l_shipdate > date '1995-01-01' ORDER BY l_orderkey, l_linenumber LIMIT 5 OFFSET 3",
    "SELECT count(*) FROM (SELECT * FROM lineitem WHERE l_shipmode = 'AIR' LIMIT 100)",
    "SELECT count(*) FROM (SELECT l_orderkey FROM lineitem LIMIT 9000)",
    "SELECT a.l_orderkey, count(*) FROM lineitem a JOIN lineitem b ON a.l_orderkey = b.l_orderkey \
     WHERE a.l_shipdate = date '1994-05-05' AND b.l_discount = 0.04 GROUP BY 1 ORDER BY 1",
    "SELECT l_shipmode, count(DISTINCT l_suppkey) FROM lineitem WHERE l_shipdate BETWEEN date '1996-01-01' AND date '1996-01-20' GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM lineitem WHERE l_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_shipdate = date '1994-05-05')",
    "SELECT count(*) FROM lineitem WHERE l_quantity = (SELECT max(l_quantity) FROM lineitem WHERE l_discount = 0.01)",
    "WITH x AS (SELECT * FROM lineitem WHERE l_returnflag = 'A') SELECT count(*) FROM x WHERE l_shipdate < date '1993-01-01'",
    "SELECT count(*) FROM lineitem WHERE l_shipdate BETWEEN date '1995-01-01' AND date '1994-01-01'",
    "SELECT count(*) FROM lineitem WHERE l_returnflag = 'R' AND l_returnflag = 'A'",
    "SELECT l_returnflag FROM lineitem WHERE l_returnflag = 'R' UNION SELECT l_returnflag FROM lineitem WHERE l_returnflag > 'N' ",
    "SELECT rank() OVER (ORDER BY l_extendedprice, l_orderkey, l_linenumber) r, l_orderkey FROM lineitem WHERE l_shipdate = date '1995-06-17' ORDER BY r",
];

const TYPES: &[&str] = &[
    "SELECT * FROM t WHERE id = 12345",
    "SELECT * FROM t WHERE id BETWEEN 0 AND 200",
    "SELECT count(*), sum(id) FROM t WHERE i8 = 7 AND i16 < 50",
    "SELECT count(*), sum(id) FROM t WHERE i8 IS NULL AND i16 IS NULL",
    "SELECT count(*), sum(id) FROM t WHERE i8 IS NOT NULL AND i32 >= 95",
    "SELECT id, i8, i16, i32, i64 FROM t WHERE i8 < 0 OR i8 > 100",
    "SELECT id FROM t WHERE i16 > 100 AND i16 <= 32767",
    "SELECT id FROM t WHERE i32 = -2147483648",
    "SELECT id FROM t WHERE i64 = 9223372036854775807 OR i64 = -9223372036854775808",
    "SELECT count(*) FROM t WHERE i64 > 50 AND i8 > 50",
    "SELECT count(*) FROM t WHERE u8 IN (1, 2, 3, 250) AND u16 <> 5",
    "SELECT id FROM t WHERE u32 > 100 OR u64 > 100",
    "SELECT id, u64 FROM t WHERE u64 > 9223372036854775807",
    "SELECT count(*), sum(id) FROM t WHERE f64 > 100.0 AND f32 > 100",
    "SELECT count(*), sum(id) FROM t WHERE f64 < -99.0",
    "SELECT count(*), sum(id) FROM t WHERE f64 = 'NaN'::double",
    "SELECT count(*), sum(id) FROM t WHERE f64 = 'Infinity'::double OR f32 = '-Infinity'::real",
    "SELECT count(*), sum(id) FROM t WHERE f64 BETWEEN 0.1 AND 1",
    "SELECT count(*), sum(id) FROM t WHERE isnan(f64)",
    "SELECT count(*), sum(id) FROM t WHERE flag",
    "SELECT count(*), sum(id) FROM t WHERE NOT flag AND i8 = 3",
    "SELECT count(*), sum(id) FROM t WHERE flag IS NOT TRUE",
    "SELECT count(*), sum(id) FROM t WHERE flag IS NULL OR flag = false",
    "SELECT count(*), sum(id) FROM t WHERE day = date '1995-01-01' OR day IS NULL",
    "SELECT count(*), sum(id) FROM t WHERE day >= date '1995-01-01' AND day < date '1995-02-01' AND word = 'AIR'",
    "SELECT count(*), sum(id) FROM t WHERE day < timestamp '1993-01-01T12:00:00'",
    "SELECT count(*), sum(id) FROM t WHERE ts > timestamp '1994-06-01T00:00:00' AND u8 = 9",
    "SELECT count(*), sum(id) FROM t WHERE ts::date = date '1994-06-01'",
    "SELECT count(*), sum(price) FROM t WHERE price < 0",
    "SELECT count(*), sum(price) FROM t WHERE price BETWEEN 10 AND 10.5",
    "SELECT count(*), sum(price) FROM t WHERE price > 10.005 AND price <= 11",
    "SELECT count(*) FROM t WHERE tenth = 0.5 AND price > 900",
    "SELECT count(*) FROM t WHERE tenth > 0.95 AND i8 < 3",
    "SELECT count(*), sum(id) FROM t WHERE word = ''",
    "SELECT count(*), sum(id) FROM t WHERE word LIKE 'R%' AND i16 = 4",
    "SELECT count(*), sum(id) FROM t WHERE word LIKE '%AIR' OR word IS NULL",
    "SELECT count(*), sum(id) FROM t WHERE word LIKE 'a\\_%'",
    "SELECT count(*), sum(id) FROM t WHERE word NOT LIKE 'A%'",
    "SELECT count(*), sum(id) FROM t WHERE word ILIKE 'air%'",
    "SELECT count(*), sum(id) FROM t WHERE word > 'Z' AND word < 'Ä'",
    "SELECT count(*), sum(id) FROM t WHERE word >= 'Ä'",
    "SELECT count(*), sum(id) FROM t WHERE word IN ('AIR', 'nothing like it', NULL)",
    "SELECT count(*), sum(id) FROM t WHERE word NOT IN ('AIR', NULL)",
    "SELECT count(*), sum(id) FROM t WHERE coalesce(word, 'none') = 'none'",
    "SELECT count(*), sum(id) FROM t WHERE word IS DISTINCT FROM 'AIR'",
    "SELECT count(*), sum(id) FROM t WHERE (word IS NOT DISTINCT FROM NULL) AND (i8 IS NOT DISTINCT FROM 4)",
    "SELECT id, unique FROM t WHERE unique LIKE 'u00%'",
    "SELECT id FROM t WHERE unique > 'uffa' AND unique IS NOT NULL",
    "SELECT count(*) FROM t WHERE unique IS NULL AND word = 'SHIP'",
    "SELECT count(*) FROM t WHERE nothing IS NULL AND i8 = 1",
    "SELECT count(*) FROM t WHERE nothing = 1 OR nothing IS NOT NULL",
    "SELECT count(*) FROM t WHERE constant = 'same' AND i8 = 1",
    "SELECT count(*) FROM t WHERE constant <> 'same'",
    "SELECT count(nothing), count(constant), count(word), count(*) FROM t",
    "SELECT min(i8), max(i8), min(u64), max(u64), min(day), max(ts), min(word), max(word), min(price), max(nothing) FROM t",
    "SELECT word, flag, count(*), min(i16), avg(price) FROM t WHERE i8 < 20 GROUP BY word, flag",
    "SELECT id, f64 FROM t WHERE id < 500 ORDER BY f64 DESC NULLS LAST, id LIMIT 20",
    "SELECT count(*) FROM t WHERE CASE WHEN flag THEN i8 ELSE i16 END = 5",
    "SELECT count(*) FROM t WHERE i8 = i16",
    "SELECT count(*) FROM t WHERE i8 + 1 = 5 AND word = 'AIR'",
    "SELECT count(*) FROM t WHERE (i8 = 1 AND word = 'AIR') OR (i8 = 2 AND word = 'MAIL')",
    "SELECT x.id, y.id FROM t x JOIN t y ON x.i64 = y.i64 WHERE x.id = 17 AND y.id < 300",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lineitem_answers_agree() {
    let (dir, db) = new_pool();
    let path = lineitem(dir.path());
    import(&db, "lineitem", std::slice::from_ref(&path));
    let indexes = [
        "CREATE INDEX by_date ON lineitem USING elf (l_shipdate, l_discount, l_quantity)",
        "CREATE INDEX by_mode ON lineitem USING elf (l_shipmode, l_returnflag, l_shipinstruct, l_commitdate) WITH (layout = 'published')",
        "CREATE INDEX by_comment ON lineitem USING elf (l_comment, l_linenumber) WITH (order = 'given')",
    ];
    for index in indexes {
        run(&db, index).await;
    }
    let plain = plain(&[("lineitem", &path)]).await;
    for text in LINEITEM {
        assert_same_answers(&db, &plain, text).await;
    }
}

/// Indexes over most types, one of them with many dimensions.
async fn index_types(db: &Database) {
    for index in [
        "CREATE INDEX numbers ON t USING elf (i8, i16, i32, u8, u16, u32, tenth, price)",
        "CREATE INDEX words ON t USING elf (word, flag, day, constant, nothing)",
        "CREATE INDEX floats ON t USING elf (f64, f32, ts) WITH (layout = 'published', order = 'given')",
        "CREATE INDEX strings ON t USING elf (unique, word)",
        "CREATE INDEX ids ON t USING elf (id)",
    ] {
        run(db, index).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_over_all_types_agree() {
    let (dir, db) = new_pool();
    let path = dir.path().join("t.parquet");
    write_parquet(&path, [batch(ROWS)]);
    import(&db, "t", std::slice::from_ref(&path));
    let plain = plain(&[("t", &path)]).await;
    for text in TYPES.iter().step_by(7) {
        assert_same_answers(&db, &plain, text).await;
    }
    index_types(&db).await;
    for text in TYPES {
        assert_same_answers(&db, &plain, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_tables_agree() {
    for rows in [0, 1, 6] {
        let (dir, db) = new_pool();
        let path = dir.path().join("t.parquet");
        write_parquet(&path, [batch(rows)]);
        assert_eq!(import(&db, "t", std::slice::from_ref(&path)).rows, rows as u64);
        index_types(&db).await;
        let plain = plain(&[("t", &path)]).await;
        for text in TYPES {
            assert_same_answers(&db, &plain, text).await;
        }
    }
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(LINEITEM.len() + TYPES.len() >= 100);
}
