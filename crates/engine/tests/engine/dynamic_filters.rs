//! Dynamic filters: what scans skip, and that nothing else changes.

use halocline_engine::Database;

use super::support::{import, new_pool, query, run, write_parquet};
use super::types_table::batch;

/// The sum of a metric over the scans of a plan.
pub(super) fn metric(plan: &str, name: &str) -> usize {
    let name = format!("{name}=");
    let values = plan.split(&name).skip(1).map(|after| {
        let number: String = after
            .chars()
            .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ' ' | 'K' | 'M'))
            .collect();
        let number = number.trim();
        let (digits, unit) = match number.split_once(' ') {
            Some((digits, "K")) => (digits, 1e3),
            Some((digits, "M")) => (digits, 1e6),
            _ => (number, 1.0),
        };
        let digits: f64 = digits.trim().parse().unwrap_or_else(|_| panic!("{name}={after}"));
        (digits * unit) as usize
    });
    values.sum()
}

pub(super) async fn analyzed(db: &Database, text: &str) -> String {
    query(db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n")
}

/// The rows of a query with and without dynamic filters, which are the same; returns the plan with them.
pub(super) async fn same(db: &Database, text: &str) -> String {
    let sorted = |mut rows: Vec<String>| {
        rows.sort_unstable();
        rows
    };
    run(db, "SET halocline.dynamic_filters = off").await;
    let expected = sorted(query(db, text).await);
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(!plan.contains("dynamic_filters"), "{plan}");
    run(db, "SET halocline.dynamic_filters = on").await;
    let found = sorted(query(db, text).await);
    let plan = analyzed(db, text).await;
    assert_eq!(found, expected, "{text}\n{plan}");
    plan
}

/// A table of 300,000 rows, in the order of `id`, and one of parts.
async fn items() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE item AS SELECT v AS id, CAST((v * 7919) % 20000 AS INT) AS part, v % 50 AS quantity, \
         'text ' || v AS note FROM generate_series(0, 299999) AS s(v)",
        "CREATE TABLE part AS SELECT CAST(v AS INT) AS part, v % 1000 AS brand, v * 10 AS id \
         FROM generate_series(0, 19999) AS s(v)",
        "SET halocline.star_join = off",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_reads_the_rows_of_its_build_side() {
    let (_dir, db) = items().await;
    let few = "SELECT item.id, note FROM item JOIN part ON item.part = part.part WHERE brand = 17";
    for (partitioned, listed) in [(false, 8192), (false, 0), (true, 8192), (true, 0)] {
        let threshold = if partitioned { 0 } else { 1 << 20 };
        for setting in [
            format!("hash_join_single_partition_threshold = {threshold}"),
            format!("hash_join_single_partition_threshold_rows = {threshold}"),
            format!("hash_join_inlist_pushdown_max_distinct_values = {listed}"),
        ] {
            run(&db, &format!("SET datafusion.optimizer.{setting}")).await;
        }
        let plan = same(&db, few).await;
        assert!(plan.contains("dynamic_filters=[part]"), "{plan}");
        // 20 parts of 15 items each; the scan of parts matches 20.
        assert_eq!(metric(&plan, "rows_matched"), 300 + 20, "{plan}");
        assert!(metric(&plan, "rows_skipped_dynamically") > 299_000, "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_of_few_groups_reads_their_rows() {
    let (_dir, db) = items().await;
    // As in TPC-H query 17: the average of a part is taken of the parts in question only.
    let text = "SELECT sum(item.id) FROM item, part p WHERE p.part = item.part AND brand = 3 AND quantity < \
                (SELECT 0.8 * avg(quantity) FROM item other WHERE other.part = p.part)";
    let plan = same(&db, text).await;
    assert!(plan.contains("dynamic_filters=[part]"), "{plan}");
    assert!(metric(&plan, "rows_skipped_dynamically") > 299_000, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zone_maps_exclude_chunks() {
    let (_dir, db) = items().await;
    let text = "SELECT item.note FROM item JOIN part ON item.id = part.id WHERE part.part BETWEEN 5 AND 9";
    let plan = same(&db, text).await;
    assert!(metric(&plan, "chunks_skipped_dynamically") >= 4, "{plan}");
    assert_eq!(metric(&plan, "rows_matched"), 5 + 5, "{plan}");
    let none =
        "SELECT item.note FROM item JOIN part ON item.id = part.id WHERE part.part > 30000 AND brand = 3";
    let plan = same(&db, none).await;
    assert_eq!(metric(&plan, "rows_matched"), 0, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_set_a_threshold() {
    let (_dir, db) = items().await;
    run(&db, "SET halocline.late_materialization = off").await;
    // Several threads may all read before the first of them sets a threshold.
    run(&db, "SET datafusion.execution.target_partitions = 1").await;
    for text in [
        "SELECT * FROM item ORDER BY id DESC LIMIT 5",
        "SELECT * FROM item ORDER BY id LIMIT 5",
        "SELECT quantity, note, id FROM item ORDER BY quantity DESC, id LIMIT 5",
    ] {
        let plan = same(&db, text).await;
        assert!(metric(&plan, "rows_skipped_dynamically") > 0, "{plan}");
    }
    // The chunks are in the order of `id`: those with the first rows are read first, from either end.
    for direction in ["", " DESC"] {
        let plan = analyzed(&db, &format!("SELECT * FROM item ORDER BY id{direction} LIMIT 5")).await;
        assert!(metric(&plan, "rows_matched") <= 2 * 65_536, "{plan}");
    }
    run(
        &db,
        "SET datafusion.optimizer.enable_topk_dynamic_filter_pushdown = false",
    )
    .await;
    let plan = analyzed(&db, "SELECT * FROM item ORDER BY id LIMIT 5").await;
    assert!(!plan.contains("dynamic_filters"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_found_by_position() {
    let (_dir, db) = new_pool();
    for text in [
        "CREATE TABLE a AS SELECT v AS x, 1000 - v AS y FROM generate_series(0, 999) AS s(v)",
        "CREATE TABLE b AS SELECT v AS x, v + 1 AS y FROM generate_series(0, 99) AS s(v)",
        "SET halocline.star_join = off",
        "SET halocline.array_join = off",
    ] {
        run(&db, text).await;
    }
    for text in [
        // The names of the two columns change places, below the join and between two joins.
        "SELECT p.x, p.y FROM b JOIN (SELECT x AS y, y AS x FROM a) p ON b.x = p.x WHERE b.y = 40",
        "SELECT * FROM b JOIN (SELECT a.y AS x, a.x AS y, c.y AS z FROM a JOIN a c ON a.x = c.y) p ON p.x = b.x",
        "SELECT * FROM b JOIN (SELECT a.x, c.x AS y FROM a JOIN a c ON a.y = c.x) p ON p.y = b.x WHERE b.y < 9",
        "SELECT * FROM a JOIN a c ON a.x = c.y WHERE a.y > 990",
    ] {
        let plan = same(&db, text).await;
        assert!(plan.contains("dynamic_filters"), "{text}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_join_keeps_are_not_skipped() {
    let (_dir, db) = new_pool();
    for text in [
        "CREATE TABLE a AS SELECT CASE WHEN v % 10 = 0 THEN NULL ELSE v END AS k, v FROM generate_series(0, 999) AS s(v)",
        "CREATE TABLE b AS SELECT CASE WHEN v % 7 = 0 THEN NULL ELSE v END AS k, v FROM generate_series(0, 99) AS s(v)",
        "SET halocline.star_join = off",
    ] {
        run(&db, text).await;
    }
    for (join, on) in [
        ("LEFT JOIN", "a.k = b.k"),
        ("RIGHT JOIN", "a.k = b.k"),
        ("FULL JOIN", "a.k = b.k"),
        ("JOIN", "a.k IS NOT DISTINCT FROM b.k"),
        ("JOIN", "a.k = b.k AND a.v < b.v + 5"),
        ("LEFT JOIN", "a.k = b.k AND b.v > 90"),
        ("JOIN", "a.k = b.k AND b.v < 0"),
    ] {
        for from in [format!("a {join} b"), format!("b {join} a")] {
            same(&db, &format!("SELECT a.k, a.v, b.k, b.v FROM {from} ON {on}")).await;
        }
    }
    for text in [
        "SELECT * FROM a WHERE k IN (SELECT k FROM b WHERE v < 10)",
        "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b WHERE v < 10)",
        "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
        "SELECT * FROM b WHERE k NOT IN (SELECT k FROM a WHERE k IS NOT NULL AND v > 50)",
        "SELECT * FROM b WHERE k NOT IN (SELECT k FROM a WHERE v < 0)",
        "SELECT * FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v > 40)",
        "SELECT * FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v > 40)",
        "SELECT * FROM b WHERE v < 5 OR k IN (SELECT k FROM a WHERE v > 60)",
        "SELECT * FROM (SELECT * FROM a ORDER BY v LIMIT 50) t JOIN b ON t.k = b.k WHERE b.v > 40",
        "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY v) AS n FROM a) t JOIN b ON t.k = b.k WHERE b.v > 90",
        "SELECT * FROM (SELECT k, v FROM a UNION ALL SELECT v, k FROM b) t JOIN b ON t.k = b.k WHERE b.v > 90",
        "WITH RECURSIVE r(n) AS (SELECT 1 AS n UNION ALL SELECT a.v FROM r JOIN a ON a.v = r.n + 1 WHERE r.n < 20) \
         SELECT n FROM r",
    ] {
        same(&db, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_all_types_are_translated() {
    let (dir, db) = new_pool();
    let path = dir.path().join("t.parquet");
    write_parquet(&path, [batch(4000)]);
    import(&db, "t", std::slice::from_ref(&path));
    run(&db, "SET halocline.star_join = off").await;
    for listed in [8192, 0] {
        let setting = "datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values";
        run(&db, &format!("SET {setting} = {listed}")).await;
        for column in [
            "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "day", "ts", "price",
            "tenth", "word", "unique",
        ] {
            for build in ["id % 400 = 7", "id < 0"] {
                let text = format!(
                    "SELECT count(*), sum(l.id), sum(r.id) FROM (SELECT id, {column} FROM t WHERE {build}) l \
                     JOIN t r ON l.{column} = r.{column}"
                );
                same(&db, &text).await;
            }
            let orders: &[&str] = match listed {
                0 => &[" NULLS FIRST"],
                _ => &["", " DESC NULLS LAST"],
            };
            for order in orders {
                let text = format!("SELECT {column}, id FROM t ORDER BY {column}{order}, id LIMIT 20");
                same(&db, &text).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_through_an_index_is_filtered_too() {
    let (_dir, db) = items().await;
    for text in [
        "CREATE INDEX by_quantity ON item USING elf (quantity, part)",
        "SET halocline.index = force",
        "DELETE FROM item WHERE id % 11 = 3",
        "INSERT INTO item VALUES (300000, 17, 8, 'added'), (300001, 18, 8, 'added')",
    ] {
        run(&db, text).await;
    }
    let text =
        "SELECT item.id, note FROM item JOIN part ON item.part = part.part WHERE brand = 17 AND quantity = 8";
    let plan = same(&db, text).await;
    assert!(
        plan.contains("ElfScan") && plan.contains("dynamic_filters=[part]"),
        "{plan}"
    );
    assert!(metric(&plan, "rows_skipped_dynamically") > 4000, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_locates_the_rows_of_few_keys() {
    let (_dir, db) = items().await;
    for text in [
        "CREATE INDEX by_part ON item USING elf (part, quantity)",
        "DELETE FROM item WHERE id % 11 = 3",
        "INSERT INTO item VALUES (300000, 17, 8, 'added'), (300001, 18, 8, 'added')",
    ] {
        run(&db, text).await;
    }
    let few = "SELECT item.id, note FROM item JOIN part ON item.part = part.part WHERE brand = 17";
    let with_condition = format!("{few} AND quantity > 10");
    for text in [few, &with_condition] {
        run(&db, "SET halocline.index = auto").await;
        let plan = same(&db, text).await;
        let probed = metric(&plan, "rows_probed_dynamically");
        assert!((1..=300).contains(&probed), "{plan}");
        run(&db, "SET halocline.index = off").await;
        let plan = same(&db, text).await;
        assert_eq!(metric(&plan, "rows_probed_dynamically"), 0, "{plan}");
    }
}
