//! Star queries: the fused pipeline beside plain DataFusion, and what stays with DataFusion.

use std::path::{Path, PathBuf};

use halocline_engine::Database;
use halocline_workloads::{SsbTable, ssb_queries};

use super::support::{error, import, lines, new_pool, outcome, plain, query, run, write_parquet};

fn files(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    SsbTable::ALL
        .map(|table| {
            let path = folder.join(format!("{}.parquet", table.name()));
            write_parquet(&path, table.reader(0.02, 0, 1).map(Result::unwrap));
            (table.name(), path)
        })
        .to_vec()
}

async fn is_star(db: &Database, text: &str) -> bool {
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    plan.contains("StarJoin: fact=")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_star_schema_benchmark_agrees_with_datafusion() {
    let (dir, db) = new_pool();
    let files = files(dir.path());
    for (name, path) in &files {
        import(&db, name, std::slice::from_ref(path));
    }
    let paths: Vec<(&str, &Path)> = files.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let context = plain(&paths).await;
    let mut answered = 0;
    for ssb in ssb_queries() {
        assert!(is_star(&db, ssb.sql).await, "{}", ssb.name);
        let wanted = lines(&context.sql(ssb.sql).await.unwrap().collect().await.unwrap());
        answered += wanted.len();
        // Ties in what is ordered by may come in any order.
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        assert_eq!(
            sorted(query(&db, ssb.sql).await),
            sorted(wanted.clone()),
            "{}",
            ssb.name
        );
        run(&db, "SET halocline.star_join = off").await;
        assert!(!is_star(&db, ssb.sql).await);
        assert_eq!(sorted(query(&db, ssb.sql).await), sorted(wanted), "{}", ssb.name);
        run(&db, "RESET halocline.star_join").await;
    }
    assert!(answered > 500, "{answered} rows are hardly a test");
}

/// A fact table with NULL keys, keys that no dimension has, and NULL measures; dimensions of several kinds.
pub(super) async fn small(db: &Database) {
    for text in [
        "CREATE TABLE fact AS SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE CAST(v % 23 AS INT) END AS a, \
         CAST(v * 1000003 % 17 * 100000007 AS BIGINT) AS b, \
         CASE WHEN v % 5 = 0 THEN NULL ELSE CAST(v * 7919 % 2000000000 AS INT) END AS x, \
         CAST(v % 100 AS INT) AS y FROM generate_series(1, 20000) AS s(v)",
        "CREATE TABLE near AS SELECT CAST(v AS INT) AS k, CASE WHEN v % 4 = 0 THEN NULL ELSE 'n' || (v % 3) END AS name, \
         CAST(v % 2 AS INT) AS kind, CASE WHEN v % 13 = 0 THEN NULL ELSE CAST(v AS DOUBLE) / 2 END AS half \
         FROM generate_series(3, 40) AS s(v)",
        "CREATE TABLE far AS SELECT CAST(v * 100000007 AS BIGINT) AS k, CAST(v % 5 AS INT) AS kind \
         FROM generate_series(0, 12) AS s(v)",
        "CREATE TABLE twice AS SELECT CAST(v % 10 AS INT) AS k, CAST(v AS INT) AS kind FROM generate_series(0, 15) AS s(v)",
        "CREATE TABLE nulls AS SELECT CASE WHEN v % 3 = 0 THEN NULL ELSE CAST(v AS INT) END AS k, CAST(v AS INT) AS kind \
         FROM generate_series(0, 15) AS s(v)",
    ] {
        run(db, text).await;
    }
}

/// The same with and without; says whether it was planned as a star.
pub(super) async fn agrees(db: &Database, text: &str) -> bool {
    let star = is_star(db, text).await;
    let found = outcome(db, text).await;
    run(db, "SET halocline.star_join = off").await;
    let wanted = outcome(db, text).await;
    run(db, "RESET halocline.star_join").await;
    assert_eq!(found, wanted, "{text}");
    star
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_stars_agree_too() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        // NULL attributes, NULL keys and measures, all functions.
        "SELECT name, count(*), count(x), sum(x), min(x), max(x), avg(x), sum(CAST(x AS BIGINT) * y), sum(x - y) FROM fact JOIN near ON a = k GROUP BY name",
        // A product of 32 bits and a sum of 64 that overflow, and ones that do not.
        "SELECT name, sum(x * x) FROM fact JOIN near ON a = k GROUP BY name",
        "SELECT name, sum(CAST(x AS BIGINT) * x) FROM fact JOIN near ON a = k GROUP BY name",
        "SELECT name, sum(y * y), sum(x * y) FROM fact JOIN near ON a = k WHERE x < 2000000 GROUP BY name",
        // Nothing is grouped by; keys far apart.
        "SELECT sum(x), count(*), min(y) FROM fact JOIN far ON b = k WHERE kind = 2",
        // Two dimensions, an expression over one, conditions on both sides, in another order.
        "SELECT near.kind + 10, far.kind, sum(y) AS s FROM far, fact, near WHERE b = far.k AND near.k = a AND y BETWEEN 10 AND 60 \
         AND far.kind <> 3 GROUP BY near.kind + 10, far.kind HAVING sum(y) > 100 ORDER BY s",
        // A dimension without rows that match: nothing, and one row of nothing.
        "SELECT name, sum(x) FROM fact JOIN near ON a = k WHERE name = 'none' GROUP BY name",
        "SELECT sum(x), count(*), avg(x) FROM fact JOIN near ON a = k WHERE name = 'none'",
        // One dimension under two names.
        "SELECT n.kind, m.kind, count(*) FROM fact JOIN near n ON a = n.k JOIN near m ON y = m.k GROUP BY n.kind, m.kind",
        // NULL keys of a dimension match nothing.
        "SELECT kind, count(*) FROM fact JOIN nulls ON a = k GROUP BY kind",
        // Keys that come twice: found out when the dimension is read.
        "SELECT kind, count(*), sum(x) FROM fact JOIN twice ON a = k GROUP BY kind",
    ] {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k AND y > kind GROUP BY kind",
        "SELECT sum(x), sum(y) FROM fact WHERE y > 3",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k WHERE kind < (SELECT max(kind) FROM far) GROUP BY kind",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k WHERE y > (SELECT avg(y) FROM fact) GROUP BY kind",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_dimensions_are_measured() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        "SELECT count(*), sum(x), sum(half), sum(kind) FROM fact JOIN near ON a = k",
        "SELECT name, min(half), max(kind), avg(half), count(half), count(kind) FROM fact JOIN near ON a = k GROUP BY name",
        "SELECT n.kind, sum(f.y * n.half), sum(f.y - m.k), max(f.x + m.kind) FROM fact f JOIN near n ON f.a = n.k \
         JOIN near m ON f.y = m.k WHERE m.kind = 0 GROUP BY n.kind",
        // A column that the fact table has as well, and no row.
        "SELECT sum(fact.x), sum(o.x), min(o.y) FROM fact JOIN (SELECT k, kind AS x, half AS y FROM near) o ON fact.a = o.k",
        "SELECT sum(half), count(*), max(kind) FROM fact JOIN near ON a = k WHERE name = 'none'",
        // A sum that overflows.
        "SELECT sum(far.k * CAST(1000000000 AS BIGINT) * x) FROM fact JOIN far ON b = k",
        // Keys that come twice: found out when the dimension is read.
        "SELECT sum(kind), sum(x) FROM fact JOIN twice ON a = k",
        "SELECT count(DISTINCT half) FROM fact JOIN near ON a = k",
        // Outer joins: from either side, several, with inner ones, and with conditions on both sides.
        "SELECT count(*), sum(x), sum(half), count(half), min(kind) FROM fact LEFT JOIN near ON a = k",
        "SELECT y, count(*), sum(half) FROM near RIGHT JOIN fact ON a = k WHERE y < 20 GROUP BY y",
        "SELECT m.name, sum(f.y + n.half), max(far.kind), count(*) FROM fact f LEFT JOIN near n ON f.a = n.k \
         JOIN near m ON f.y = m.k LEFT JOIN far ON far.k = f.b WHERE m.kind = 0 GROUP BY m.name",
        "SELECT sum(half), count(*) FROM fact LEFT JOIN near ON a = k AND kind = 1",
        "SELECT sum(half), count(*) FROM fact LEFT JOIN near ON a = k AND kind = 9",
        "SELECT sum(kind), count(*) FROM fact LEFT JOIN twice ON a = k",
        "SELECT sum(kind), count(*) FROM fact LEFT JOIN nulls ON a = k AND nulls.kind <> 7",
        "SELECT sum(f.x), sum(n.half) FROM fact f LEFT JOIN near n ON f.a = n.k WHERE n.kind IN (SELECT kind FROM far)",
    ] {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        "SELECT max(name), sum(x) FROM fact JOIN near ON a = k",
        "SELECT sum(half) FILTER (WHERE y > 3) FROM fact JOIN near ON a = k",
        "SELECT kind, sum(x) FROM fact LEFT JOIN near ON a = k GROUP BY kind",
        "SELECT sum(x) FROM fact LEFT JOIN near ON a = k AND y > kind",
        "SELECT sum(x), sum(half) FROM fact LEFT JOIN near ON a = k WHERE kind IS NULL",
        "SELECT sum(x), sum(half) FROM fact RIGHT JOIN near ON a = k",
        "SELECT sum(f.x), sum(o.kind) FROM fact f LEFT JOIN near n ON f.a = n.k LEFT JOIN near o ON n.kind = o.k",
        "SELECT sum(many) FROM fact JOIN (SELECT k, count(*) AS many FROM near GROUP BY k) d ON a = d.k",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
    let text = "EXPLAIN SELECT name, sum(y * half) FROM fact JOIN near ON a = k GROUP BY name";
    let plan = query(&db, text).await.join("\n");
    assert!(
        plan.contains("DimensionScan: table=near, key=[k], attributes=[name], values=[half]"),
        "{plan}"
    );
    let text = "EXPLAIN SELECT sum(y), sum(half) FROM fact LEFT JOIN near ON a = k";
    let plan = query(&db, text).await.join("\n");
    assert!(
        plan.contains("a = near.k or none (keeps about 100.000%)"),
        "{plan}"
    );
    // Fewer rows are left than a dimension would have values.
    run(&db, "CREATE TABLE prices AS SELECT v AS k, CAST(v AS DOUBLE) AS price FROM generate_series(1, 9000) AS s(v)").await;
    let of = |condition: &str| {
        format!("SELECT sum(price), count(*) FROM fact JOIN prices ON x = k WHERE {condition}")
    };
    assert!(agrees(&db, &of("y < 90")).await);
    assert!(!agrees(&db, &of("y < 9")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_strings() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        "CREATE TABLE sales AS SELECT CASE WHEN y % 9 = 0 THEN NULL ELSE 'shop ' || (y % 17) END AS shop, x, y, \
         'sale ' || x || ' of ' || b || y AS ticket FROM fact",
        // Strings that differ all have no dictionary.
        "CREATE TABLE shops AS SELECT CASE WHEN v = 7 THEN NULL ELSE 'shop ' || v END AS name, \
         'town ' || (v % 3) AS town, CAST(v AS DOUBLE) / 4 AS size FROM generate_series(0, 14) AS s(v)",
    ] {
        run(&db, text).await;
    }
    let texts = [
        "SELECT town, count(*), sum(x) FROM sales JOIN shops ON shop = name GROUP BY town",
        "SELECT count(*), sum(size), sum(y) FROM sales JOIN shops ON shop = name WHERE y < 70",
        "SELECT shop, count(*) FROM sales JOIN shops ON shop = name WHERE town <> 'town 1' GROUP BY shop",
        "SELECT count(*), sum(x) FROM sales WHERE shop IN (SELECT name FROM shops WHERE size > 1)",
        "SELECT town, kind, count(*) FROM sales JOIN shops ON shop = name JOIN near ON y = k GROUP BY town, kind",
        "SELECT count(*), sum(x) FROM sales JOIN shops ON shop = name WHERE town = 'none'",
    ];
    for change in [
        "SELECT 1",
        "INSERT INTO sales VALUES ('shop 3', 1, 2, 't'), ('shop 99', 1, 2, 't'), (NULL, 5, 6, 't'), ('', 1, 1, 't')",
        "INSERT INTO shops VALUES ('shop 99', 'town 9', 7), ('', 'town 1', 0.5)",
        "VACUUM sales",
        // A second segment, with a dictionary of its own.
        "INSERT INTO sales SELECT 'shop ' || (v % 40), CAST(v AS INT), CAST(v % 50 AS INT), 't' FROM generate_series(1, 9000) AS s(v)",
        "DELETE FROM sales WHERE y = 11",
        "UPDATE shops SET town = 'moved' WHERE name = 'shop 4'",
        "VACUUM FULL sales",
    ] {
        run(&db, change).await;
        for text in texts {
            assert!(agrees(&db, text).await, "no star after {change}: {text}");
        }
    }
    let plan = query(&db, &format!("EXPLAIN {}", texts[0])).await.join("\n");
    assert!(
        plan.contains("StarJoin: fact=sales, on=[shop = shops.name"),
        "{plan}"
    );
    // Keys that come twice.
    run(&db, "INSERT INTO shops VALUES ('shop 4', 'again', 1)").await;
    for text in texts {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        "SELECT count(*), sum(size) FROM sales LEFT JOIN shops ON shop = name",
        "SELECT count(*) FROM sales JOIN shops ON ticket = name",
        "SELECT count(*) FROM sales WHERE NOT EXISTS (SELECT * FROM shops WHERE name = shop)",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_seen() {
    let (_dir, db) = new_pool();
    small(&db).await;
    let texts = [
        "SELECT kind, count(*), sum(x) FROM fact JOIN near ON a = k GROUP BY kind",
        "SELECT name, kind, min(y), avg(x), count(x) FROM fact JOIN near ON a = k WHERE y < 50 AND kind = 1 GROUP BY name, kind",
    ];
    for change in [
        // Deleted rows are gone from the segments.
        "DELETE FROM fact WHERE y = 7",
        // Rows in the log are in no segment: with keys that are NULL, far off, in a dimension; one of them
        // is beyond all keys so far.
        "INSERT INTO fact VALUES (4, 0, 1, 1)",
        "INSERT INTO fact VALUES (NULL, NULL, 3, 1), (5, 100000007, NULL, 49), (2000000000, 0, 1, 1), (-7, -9, 2147483647, 3)",
        "INSERT INTO fact VALUES (40, -9, 2147483647, 3), (40, -9, 2147483647, 3), (3, 1, -2147483648, NULL)",
        "UPDATE fact SET x = x + 1, a = 8 WHERE y = 3 AND a = 4",
        "DELETE FROM fact WHERE a = 40 OR y = 60",
        // Too little to be worth a merge: what is in the log stays there.
        "VACUUM fact",
        "VACUUM FULL fact",
        "INSERT INTO fact SELECT a + 1, b, x, y FROM fact WHERE y < 20",
        // Of the dimension too.
        "INSERT INTO near VALUES (41, 'n9', 0, 2.5), (100, NULL, 1, NULL)",
        "UPDATE near SET name = 'other' WHERE k = 9",
        "DELETE FROM fact WHERE y <> 8",
    ] {
        run(&db, change).await;
        for text in texts {
            assert!(agrees(&db, text).await, "no star after {change}: {text}");
        }
    }
    run(&db, "DELETE FROM fact").await;
    // The other table is larger now, and takes the place of the fact table.
    assert!(
        agrees(
            &db,
            "SELECT count(*), sum(x), min(kind) FROM fact JOIN near ON a = k"
        )
        .await
    );
    for text in texts {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    run(&db, "CREATE TABLE new (a INT, b BIGINT, x INT, y INT)").await;
    let text = "SELECT sum(x), count(*) FROM new JOIN near ON a = k";
    agrees(&db, text).await;
    run(&db, "BEGIN").await;
    run(
        &db,
        "INSERT INTO new SELECT v, v, v, v FROM generate_series(1, 100) AS s(v)",
    )
    .await;
    assert!(agrees(&db, text).await);
    run(&db, "ROLLBACK").await;
    agrees(&db, text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_are_dimensions() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        "SELECT count(*), sum(x) FROM fact WHERE a IN (SELECT k FROM near WHERE kind = 1)",
        // Keys that come twice, and NULL among them.
        "SELECT count(*), sum(x) FROM fact WHERE a IN (SELECT k FROM twice)",
        "SELECT count(*), sum(x) FROM fact WHERE a IN (SELECT k FROM nulls)",
        "SELECT count(*) FROM fact WHERE EXISTS (SELECT * FROM twice WHERE k = a AND kind > 4)",
        "SELECT name, sum(y) FROM fact JOIN near ON a = k WHERE b IN (SELECT k FROM far WHERE kind < 3) GROUP BY name",
        // Of one that is empty.
        "SELECT count(*), sum(x) FROM fact WHERE a IN (SELECT k FROM near WHERE kind = 9)",
        // Of a dimension, and of one that is looked for.
        "SELECT near.kind, count(*) FROM fact JOIN near ON a = near.k WHERE near.k IN (SELECT k FROM twice) GROUP BY near.kind",
        "SELECT count(*) FROM fact WHERE a IN (SELECT k FROM near WHERE kind IN (SELECT kind FROM twice WHERE kind > 0))",
        // Of the fact table itself.
        "SELECT near.kind, sum(x) FROM fact JOIN near ON a = near.k WHERE a IN (SELECT y FROM fact GROUP BY y HAVING count(*) > 3) GROUP BY near.kind",
    ] {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        // NULL is among the keys.
        "SELECT count(*) FROM fact WHERE a NOT IN (SELECT k FROM near)",
        "SELECT count(*) FROM fact WHERE NOT EXISTS (SELECT * FROM near WHERE k = a)",
        "SELECT count(*) FROM fact WHERE a IN (SELECT k FROM near) OR y = 3",
        "SELECT count(*) FROM fact WHERE EXISTS (SELECT * FROM near WHERE k = a AND kind < y)",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anti_joins_are_dimensions() {
    let (_dir, db) = new_pool();
    small(&db).await;
    run(
        &db,
        "CREATE TABLE clean AS SELECT * FROM fact WHERE a IS NOT NULL AND b IS NOT NULL",
    )
    .await;
    let texts = [
        "SELECT count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM near WHERE k = a)",
        "SELECT y, count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM near WHERE k = a AND kind = 1) GROUP BY y",
        // Keys that come twice, and NULL among them.
        "SELECT count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM twice WHERE k = a)",
        "SELECT count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM nulls WHERE k = a)",
        // None that has a match, and all.
        "SELECT count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM near WHERE k = a AND kind = 9)",
        "SELECT count(*), sum(x) FROM clean WHERE NOT EXISTS (SELECT * FROM clean c WHERE c.a = clean.a)",
        // With other dimensions, and of one.
        "SELECT name, sum(y) FROM clean JOIN near ON a = k WHERE NOT EXISTS (SELECT * FROM twice WHERE twice.k = a) GROUP BY name",
        "SELECT near.kind, count(*) FROM clean JOIN near ON a = near.k WHERE NOT EXISTS (SELECT * FROM twice WHERE twice.k = near.k) \
         GROUP BY near.kind",
        "SELECT count(*) FROM clean WHERE EXISTS (SELECT * FROM near WHERE k = a) AND NOT EXISTS (SELECT * FROM twice WHERE k = a)",
    ];
    for change in [
        "SELECT 1",
        "INSERT INTO clean VALUES (-77, 1, 2, 3), (5000, 3, 4, 5), (1, 100000007, 7, 7)",
        "DELETE FROM clean WHERE y = 11",
        "VACUUM FULL clean",
        "INSERT INTO near VALUES (5000, 'n', 1, 1), (NULL, 'none', 2, NULL)",
    ] {
        run(&db, change).await;
        for text in texts {
            assert!(agrees(&db, text).await, "no star after {change}: {text}");
        }
    }
    run(&db, "INSERT INTO clean VALUES (NULL, 1, 2, 3)").await;
    assert!(!agrees(&db, texts[0]).await, "a star, and a key is NULL");
    run(&db, "DELETE FROM clean WHERE a IS NULL").await;
    // Keys too far apart to mark each.
    run(&db, "INSERT INTO clean VALUES (2000000000, 1, 2, 3)").await;
    assert!(!agrees(&db, texts[0]).await, "a star of too many possible keys");
    let text = "EXPLAIN SELECT count(*) FROM clean WHERE NOT EXISTS (SELECT * FROM near WHERE k = y)";
    let explained = query(&db, text).await.join("\n");
    assert!(explained.contains("NOT EXISTS y = "), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snowflakes_are_reduced() {
    let (_dir, db) = new_pool();
    small(&db).await;
    run(&db, "CREATE TABLE kinds AS SELECT CAST(v AS INT) AS kind, 'kind ' || v AS text, CAST(v % 2 AS INT) AS parity FROM generate_series(0, 6) AS s(v)").await;
    run(&db, "CREATE TABLE parities AS SELECT CAST(v AS INT) AS parity, CASE WHEN v = 0 THEN 'even' ELSE 'odd' END AS word FROM generate_series(0, 1) AS s(v)").await;
    for text in [
        "SELECT text, count(*), sum(x) FROM fact JOIN far ON b = k JOIN kinds ON far.kind = kinds.kind GROUP BY text",
        "SELECT word, near.kind, sum(y) FROM fact JOIN far ON b = far.k JOIN kinds ON far.kind = kinds.kind \
         JOIN parities ON kinds.parity = parities.parity JOIN near ON a = near.k WHERE text <> 'kind 3' AND word = 'odd' GROUP BY word, near.kind",
        // A condition and an attribute of two tables of one arm.
        "SELECT far.kind + kinds.parity, count(*) FROM fact JOIN far ON b = k JOIN kinds ON far.kind = kinds.kind \
         WHERE far.kind + kinds.parity <> 2 GROUP BY far.kind + kinds.parity",
        // An arm whose join makes two rows of one key: found out when it is read.
        "SELECT text, count(*) FROM fact JOIN near ON a = k JOIN kinds ON near.kind = kinds.parity GROUP BY text",
        // Dimensions that are queries, under names that come twice.
        "SELECT d.m, count(*) FROM fact JOIN (SELECT k % 7 AS k, max(kind) AS m FROM near GROUP BY k % 7) d ON a = d.k GROUP BY d.m",
        "SELECT p.kind, q.kind, sum(x) FROM (SELECT near.k, near.kind FROM near JOIN kinds ON near.kind = kinds.kind) p \
         JOIN fact ON a = p.k JOIN (SELECT near.k, near.kind FROM near JOIN kinds ON near.kind = kinds.kind) q ON y = q.k GROUP BY p.kind, q.kind",
        "WITH f AS (SELECT a, x + y AS z FROM fact WHERE y < 30) SELECT kind, sum(z) FROM f JOIN near ON a = k GROUP BY kind",
        // Keys of other types, and an expression.
        "SELECT far.kind, count(*) FROM fact JOIN far ON a = far.k / 100000007 GROUP BY far.kind",
        // Grouped by the key.
        "SELECT a, sum(x) FROM fact JOIN near ON a = k GROUP BY a",
        "SELECT a, kind, count(*) FROM fact JOIN near ON a = k WHERE kind = 1 GROUP BY a, kind",
        // Names that both have.
        "SELECT sum(m.x), count(m.x) FROM fact JOIN (SELECT k, k * 2 AS x FROM near) m ON a = m.k",
        "SELECT m.y, sum(fact.x), count(*) FROM fact JOIN (SELECT k, k * 2 AS x, kind AS y FROM near) m ON a = m.k GROUP BY m.y",
    ] {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        // Two ways to the fact table.
        "SELECT count(*) FROM fact JOIN near ON a = near.k JOIN far ON b = far.k AND near.kind = far.kind",
        "SELECT count(*) FROM fact JOIN near ON a = near.k CROSS JOIN parities",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k AND random() < 2 GROUP BY kind",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_agree() {
    let (_dir, db) = new_pool();
    small(&db).await;
    run(&db, "CREATE TABLE money AS SELECT a AS key, CAST(y AS DECIMAL(15, 2)) / 4 AS wide, CAST(x AS DECIMAL(15, 2)) AS price, CAST(y % 11 AS DECIMAL(15, 2)) / CAST(100 AS DECIMAL(3, 0)) AS odd, \
         CAST(CAST(y % 11 AS DECIMAL(15, 2)) / 100 AS DECIMAL(15, 2)) AS discount, CAST(CASE WHEN y = 3 THEN 99999999999999.99 ELSE NULL END AS DECIMAL(16, 2)) AS much, y AS number, x * 1.5e0 AS float FROM fact").await;
    let from = "FROM money JOIN near ON key = k GROUP BY kind";
    let stars = [
        format!("SELECT kind, sum(price), avg(price), min(price), max(price), count(price) {from}"),
        format!(
            "SELECT kind, sum(price * (1 - discount)), avg(price * discount), min(price - discount), max(discount + 1) {from}"
        ),
        format!("SELECT kind, sum(discount * number), avg(1 - discount), sum(number - discount) {from}"),
        format!("SELECT kind, sum(much), avg(much), min(much), count(*) {from}"),
        format!(
            "SELECT kind, sum(discount * discount * discount), sum(CAST(discount AS DECIMAL(20, 5))) {from}"
        ),
        format!("SELECT kind, sum(float), avg(float), min(float) {from}"),
    ];
    for change in [
        "DELETE FROM money WHERE number = 5",
        "INSERT INTO money SELECT 4, wide, price - 7, odd, discount, much, number, float FROM money WHERE number = 9 AND key = 5",
    ] {
        for text in &stars {
            assert!(agrees(&db, text).await, "no star: {text}");
        }
        run(&db, change).await;
    }
    for text in &stars {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        // More than 64 bits on the way, another scale, a quotient.
        format!("SELECT kind, sum(much * much) {from}"),
        format!("SELECT kind, sum(much * price * price) {from}"),
        format!("SELECT kind, sum(CAST(discount AS DECIMAL(10, 1))) {from}"),
        format!("SELECT kind, sum(price / 2) {from}"),
    ] {
        assert!(!agrees(&db, &text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_join_with_nothing_do_no_harm() {
    let (_dir, db) = new_pool();
    small(&db).await;
    // The row of this key divides by nothing, and no row of the fact table has it.
    run(&db, "INSERT INTO near VALUES (1000, 'none', -1, NULL)").await;
    let text = "SELECT 10 / (kind + 1), count(*) FROM fact JOIN near ON a = k GROUP BY 10 / (kind + 1)";
    assert!(is_star(&db, text).await);
    query(&db, text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_counted() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE wide AS SELECT v AS k, v * 7 % 300000 AS g FROM generate_series(1, 300000) AS s(v)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE fact AS SELECT v % 300000 AS a, v AS x FROM generate_series(1, 400000) AS s(v)",
    )
    .await;
    let text = "SELECT g, sum(x) FROM fact JOIN wide ON a = k GROUP BY g ORDER BY g LIMIT 3";
    assert!(agrees(&db, text).await);
    let plan = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert!(plan.contains("dram_peak="), "{plan}");
    run(&db, "SET datafusion.runtime.memory_limit = '2M'").await;
    run(&db, "SET halocline.spilling_join = off").await;
    let text = error(&db, text).await;
    assert!(text.contains("StarJoin"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probes_are_told_with_what_they_left() {
    let (_dir, db) = new_pool();
    small(&db).await;
    let text = "EXPLAIN ANALYZE SELECT sum(x) FROM fact JOIN near ON a = near.k JOIN far ON b = far.k WHERE far.kind = 1";
    let plan = query(&db, text).await.join("\n");
    for part in [
        "StarJoin: fact=fact, on=[",
        "rows_fact=20",
        "passed_1_",
        "passed_2_",
        "dram_peak=",
        "bytes_read=",
        "units_read=",
        "DimensionScan: table=far, key=[k], filter=[",
        // Read as codes, not by the plan that gives the same rows.
        "rows_matched=",
        "keeps about",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    // The one that keeps less comes first, however the query has them.
    let text =
        "EXPLAIN SELECT count(*) FROM fact JOIN near ON y = near.k JOIN near n ON a = n.k WHERE near.k = 7";
    let plan = query(&db, text).await.join("\n");
    let on = plan.split("StarJoin: fact=fact, on=[").last().unwrap();
    assert!(on.starts_with("y = near.k (keeps about 1.0"), "{on}");
}
