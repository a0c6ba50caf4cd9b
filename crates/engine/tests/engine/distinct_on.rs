//! `DISTINCT ON` and groups of first values: the plans, and the rows beside numbered ones.

use std::time::{SystemTime, UNIX_EPOCH};

use halocline_engine::{Database, DatabaseOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::support::{new_pool, query, run};

/// The rule that this is about.
const RULE: &str = "pool_first_of_groups";

/// `id` is unique; the other columns have NULLs, `x` also NaN and both zeros.
async fn table(rows: usize) -> (TempDir, Database) {
    let (dir, db) = new_pool();
    let text = format!(
        "CREATE TABLE t AS SELECT v AS id, CASE WHEN v % 11 <> 3 THEN v * 31 % 40 END AS k, \
         CASE WHEN v % 13 <> 5 THEN 'text ' || (v * 7 % 23) END AS s, \
         CASE WHEN v % 17 <> 2 THEN CAST(v * 7919 % 101 AS INT) END AS w, \
         CASE WHEN v % 19 = 4 THEN NULL WHEN v % 5 = 1 THEN CAST('NaN' AS DOUBLE) \
         WHEN v % 5 = 2 THEN CAST('-0' AS DOUBLE) ELSE CAST(v % 4 AS DOUBLE) / 2 END AS x \
         FROM generate_series(1, {rows}) AS g(v)"
    );
    run(&db, &text).await;
    run(&db, "DELETE FROM t WHERE id % 29 = 8").await;
    run(
        &db,
        "INSERT INTO t VALUES (100000, 7, NULL, -5, 0.5), (100001, NULL, 'text 3', NULL, NULL)",
    )
    .await;
    (dir, db)
}

async fn plan(db: &Database, text: &str) -> String {
    query(db, &format!("EXPLAIN {text}")).await.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_taken_from_sorted_rows() {
    let (_dir, db) = table(2000).await;
    for text in [
        "SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, w, id",
        "SELECT DISTINCT ON (k, s) id FROM t",
        "SELECT DISTINCT ON (k % 3) id FROM t ORDER BY k % 3 DESC, s, id",
        "SELECT count(*) FROM t JOIN (SELECT DISTINCT ON (k) k, s FROM t ORDER BY k, w, id) d ON d.k = t.k",
        "SELECT k, first_value(s ORDER BY w, id), first_value(id ORDER BY w, id) FROM t GROUP BY k",
    ] {
        for partitions in [1, 2] {
            let set = format!("SET datafusion.execution.target_partitions = {partitions}");
            run(&db, &set).await;
            let plan = plan(&db, text).await;
            let found = ["FirstOfGroups", "SortExec", "FirstRowsFilter"].map(|node| plan.find(node));
            assert!(found.is_sorted() && found[0].is_some(), "{text}\n{plan}");
        }
    }
    for text in [
        "SELECT k, first_value(s ORDER BY w), count(*) FROM t GROUP BY k",
        "SELECT k, first_value(s ORDER BY w), first_value(id ORDER BY id) FROM t GROUP BY k",
        "SELECT k, first_value(s ORDER BY w) FILTER (WHERE id > 7) FROM t GROUP BY k",
        "SELECT first_value(s ORDER BY w) FROM t",
        "SELECT k, s, first_value(id ORDER BY w) FROM t GROUP BY ROLLUP (k, s)",
        "SELECT DISTINCT ON (k) id FROM t ORDER BY k, random()",
    ] {
        let plan = plan(&db, text).await;
        assert!(!plan.contains("FirstOfGroups"), "{text}\n{plan}");
    }
}

/// A query, and one for the same rows by their numbers.
fn questions(rng: &mut StdRng) -> (String, String) {
    let (keys, columns) = (rng.random_range(1..=2), rng.random_range(0..=2));
    let keys: Vec<&str> = ["k", "s", "x", "k % 7"]
        .choose_multiple(rng, keys)
        .copied()
        .collect();
    let direction = |rng: &mut StdRng| {
        *["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]
            .choose(rng)
            .unwrap()
    };
    let groups: Vec<String> = keys
        .iter()
        .map(|key| format!("{key}{}", direction(rng)))
        .collect();
    let within: Vec<String> = ["w", "x", "s", "k"]
        .choose_multiple(rng, columns)
        .map(|key| format!("{key}{}", direction(rng)))
        .chain(["id".to_owned()])
        .collect();
    let rows = if rng.random_bool(0.5) {
        "t".to_owned()
    } else {
        format!(
            "(SELECT * FROM t WHERE w > {} OR s IS NULL)",
            rng.random_range(0..110)
        )
    };
    let (keys, groups, within) = (keys.join(", "), groups.join(", "), within.join(", "));
    let first = format!("SELECT DISTINCT ON ({keys}) id, k, s, w, x FROM {rows} ORDER BY {groups}, {within}");
    let numbered = format!(
        "SELECT id, k, s, w, x FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {within}) AS place \
         FROM {rows}) WHERE place = 1"
    );
    let wrap = |rows: String, kind: usize| match kind {
        0 => rows,
        1 => format!("SELECT t.id, d.id, d.x FROM t LEFT JOIN ({rows}) d ON d.k = t.k AND d.s = t.s"),
        2 => format!("SELECT * FROM ({rows}) d WHERE k < 20 AND s LIKE '%2%'"),
        _ => format!("SELECT t.id, d.w FROM t JOIN ({rows}) d ON d.k = t.w WHERE t.id < 100"),
    };
    let kind = rng.random_range(0..4);
    (wrap(first, kind), wrap(numbered, kind))
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_first_rows_have_the_number_one() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (_dir, db) = table(400).await;
    for _ in 0..40 {
        let partitions = rng.random_range(1..4);
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        run(&db, &set).await;
        let rows = [8192, 100, 7].choose(&mut rng).unwrap();
        run(&db, &format!("SET datafusion.execution.batch_size = {rows}")).await;
        let (first, numbered) = questions(&mut rng);
        let mut expected = query(&db, &numbered).await;
        expected.sort_unstable();
        for first_rows in ["on", "off"] {
            run(&db, &format!("SET halocline.first_rows = {first_rows}")).await;
            let mut found = query(&db, &first).await;
            found.sort_unstable();
            let plan = plan(&db, &first).await;
            assert_eq!(found, expected, "{first}\n{numbered}\n{plan}");
            assert!(plan.contains("FirstOfGroups"), "{first}\n{plan}");
        }
        run(&db, "RESET halocline.first_rows").await;
    }
}

/// The groups of `DISTINCT ON` leave in the order of the query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_in_the_order_of_the_query() {
    let (_dir, db) = table(1500).await;
    for keys in ["k, s", "k DESC, s NULLS FIRST", "k DESC NULLS LAST, s DESC"] {
        let text = format!("SELECT DISTINCT ON (k, s) k, s, id, x FROM t ORDER BY {keys}, w DESC, id");
        let found = query(&db, &text).await;
        run(&db, &format!("SET halocline.disabled_rules = '{RULE}'")).await;
        assert!(!plan(&db, &text).await.contains("FirstOfGroups"));
        assert_eq!(query(&db, &text).await, found, "{text}");
        run(&db, "RESET halocline.disabled_rules").await;
    }
}

/// Without an order, each row is one of its group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_row_of_a_group_is_its_first_one() {
    let (_dir, db) = table(1500).await;
    for filter in ["on", "off"] {
        run(&db, &format!("SET halocline.first_rows = {filter}")).await;
        for keys in ["k", "k, s", "x", "s, x, w"] {
            let some = format!("SELECT DISTINCT ON ({keys}) * FROM t");
            let groups = query(
                &db,
                &format!("SELECT count(*) FROM (SELECT DISTINCT {keys} FROM t)"),
            )
            .await;
            for of in [
                format!("SELECT count(*) FROM ({some})"),
                format!("SELECT count(*) FROM (SELECT DISTINCT {keys} FROM ({some}))"),
                format!(
                    "SELECT count(*) FROM ({some}) d JOIN t ON d.id = t.id AND d.k IS NOT DISTINCT FROM t.k \
                     AND d.s IS NOT DISTINCT FROM t.s AND d.w IS NOT DISTINCT FROM t.w"
                ),
            ] {
                assert_eq!(query(&db, &of).await, groups, "{of}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_floats_and_nulls_are_one_group() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE f (id INT, x DOUBLE, y REAL)").await;
    run(
        &db,
        "INSERT INTO f VALUES (1, '-0', 'NaN'), (2, 0, 'NaN'), (3, 'NaN', NULL), (4, NULL, 0), (5, 'NaN', '-0'), \
         (6, NULL, NULL), (7, 1, '-0')",
    )
    .await;
    for (text, rows) in [
        ("SELECT DISTINCT ON (x) id FROM f ORDER BY x, id", "1 7 3 4"),
        (
            "SELECT DISTINCT ON (x) id FROM f ORDER BY x DESC, id DESC",
            "6 5 7 2",
        ),
        (
            "SELECT DISTINCT ON (x) id FROM f ORDER BY x NULLS FIRST, y DESC NULLS LAST, id",
            "4 1 7 5",
        ),
        ("SELECT DISTINCT ON (y) id FROM f ORDER BY y, x, id DESC", "7 2 3"),
        (
            "SELECT DISTINCT ON (y) x, y FROM f ORDER BY y, id",
            "NULL|0 -0|NaN NaN|NULL",
        ),
    ] {
        let found = query(&db, text).await.join(" ");
        let found = found
            .replace("0.000000000e0", "0")
            .replace("-0.0", "-0")
            .replace("0.0", "0");
        assert_eq!(found, rows, "{text}");
    }
}

/// The sort spills rows that do not fit into memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_beyond_memory_are_spilled() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions::default().with_memory(Some(32 << 20));
    let db = Database::create(&dir.path().join("small.pool"), &options).unwrap();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS id, v * 7919 % 150000 AS k, 'a longer text to be carried along ' || v AS s \
         FROM generate_series(1, 200000) AS g(v)",
    )
    .await;
    for filter in ["on", "off"] {
        run(&db, &format!("SET halocline.first_rows = {filter}")).await;
        let text = "SELECT DISTINCT ON (k) k, s, id FROM t ORDER BY k, id DESC";
        let text = format!("SELECT count(*), sum(id), sum(length(s)) FROM ({text})");
        let plan = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
        assert!(plan.contains("FirstOfGroups") && spills(&plan), "{plan}");
        let expected = "SELECT count(*), sum(id), sum(length('a longer text to be carried along ' || id)) \
                        FROM (SELECT max(id) AS id FROM t GROUP BY k)";
        assert_eq!(query(&db, &text).await, query(&db, expected).await);
    }
}

/// Returns true if a sort of an analyzed plan has spilled.
fn spills(plan: &str) -> bool {
    let sorts = plan.lines().filter(|line| line.contains("SortExec"));
    let mut spills = sorts.filter_map(|line| line.split_once("spill_count=")?.1.chars().next());
    spills.any(|count| count != '0')
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_may_be_repeated() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS id, v % 2 AS k FROM range(5) AS g(v)",
    )
    .await;
    for text in [
        "SELECT DISTINCT ON (k, k) k, id FROM t ORDER BY k, id DESC",
        "SELECT DISTINCT ON (k, k) k, max(id) OVER (PARTITION BY k) FROM t ORDER BY k",
    ] {
        assert_eq!(query(&db, text).await, ["0|4", "1|3"], "{text}");
    }
}
