//! The first rows of each group: which plans drop the others early, how many, and that answers stay.

use datafusion::common::ScalarValue;
use halocline_engine::{Database, DatabaseOptions, params};

use super::dynamic_filters::metric;
use super::support::{error, lines, new_pool, query, run};

/// Rows of a table that has several morsels.
const LARGE_TABLE_ROWS: usize = 400_000;
/// Rows of other tables.
const SMALL_TABLE_ROWS: usize = 12_000;

/// `id` ascends as in a log of events; `x` is in a random order, `many` has 40,000 values. In two segments,
/// with deleted rows and rows in the log.
async fn fill(db: &Database, rows: usize) {
    let columns = |from: usize, to: usize| {
        format!(
            "SELECT v AS id, (v * 7919) % 1000003 AS x, CAST((v * 31) % 100 AS INT) AS g, \
             (v * 7919) % 40009 AS many, 'group ' || (v % 77) AS name, \
             CASE WHEN v % 1000 = 7 THEN NULL ELSE v % 10 END AS few FROM generate_series({from}, {to}) AS s(v)"
        )
    };
    for text in [
        format!("CREATE TABLE t AS {}", columns(0, rows / 4 * 3 - 1)),
        format!("INSERT INTO t {}", columns(rows / 4 * 3, rows - 1)),
        "CREATE TABLE u AS SELECT v AS g FROM generate_series(0, 50) AS s(v)".to_owned(),
        "DELETE FROM t WHERE id % 100 = 41".to_owned(),
        format!(
            "INSERT INTO t VALUES ({rows}, 1000009, 3, 5, 'group 1', 2), ({}, NULL, NULL, 5, NULL, NULL)",
            rows + 1
        ),
    ] {
        run(db, &text).await;
    }
}

async fn table(rows: usize) -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    fill(&db, rows).await;
    (dir, db)
}

async fn plan(db: &Database, text: &str) -> String {
    query(db, &format!("EXPLAIN {text}")).await.join("\n")
}

/// The rows of a query, sorted.
async fn sorted(db: &Database, text: &str) -> Vec<String> {
    let mut rows = query(db, text).await;
    rows.sort_unstable();
    rows
}

/// Checks that a query has the same rows without the filter; returns its plan.
async fn same(db: &Database, text: &str) -> String {
    run(db, "SET halocline.first_rows = off").await;
    let expected = sorted(db, text).await;
    let without = plan(db, text).await;
    assert!(!without.contains("FirstRowsFilter"), "{without}");
    run(db, "SET halocline.first_rows = on").await;
    let with = plan(db, text).await;
    assert_eq!(sorted(db, text).await, expected, "{text}\n{with}");
    with
}

/// A query for rows numbered by `function` under a condition.
fn numbered(function: &str, over: &str, condition: &str) -> String {
    format!("SELECT * FROM (SELECT *, {function}() OVER ({over}) AS place FROM t) WHERE {condition}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_is_below_the_exchange_and_the_sort() {
    let (_dir, db) = table(SMALL_TABLE_ROWS).await;
    let over = "PARTITION BY g ORDER BY x DESC, id";
    for partitions in [1, 2] {
        run(
            &db,
            &format!("SET datafusion.execution.target_partitions = {partitions}"),
        )
        .await;
        for (function, condition, fetch) in [
            ("row_number", "place <= 2", 2),
            ("row_number", "place < 2", 1),
            ("row_number", "place = 1", 1),
            ("row_number", "place = 3", 3),
            ("row_number", "2 >= place", 2),
            ("row_number", "place BETWEEN 2 AND 4", 4),
            ("row_number", "place IN (1, 5)", 5),
            ("row_number", "place = 1 OR place = 4 AND few = 3", 4),
            ("row_number", "place <= 5 AND few > 3 AND place < 4", 3),
            ("row_number", "NOT place > 2", 2),
            ("row_number", "place <= 64", 64),
            ("rank", "place <= 2", 2),
            ("rank", "place = 1 AND name LIKE '%7'", 1),
        ] {
            let with = same(&db, &numbered(function, over, condition)).await;
            let line = format!(
                "FirstRowsFilter: partition_by=[g@2], order_by=[x@1 DESC, id@0 ASC NULLS LAST], fetch={fetch}"
            );
            assert!(with.contains(&line), "{condition}\n{with}");
            let at = |name: &str| with.find(name).unwrap_or_else(|| panic!("{name}: {with}"));
            assert!(at("SortExec") < at("FirstRowsFilter") && at("FirstRowsFilter") < at("PoolScan"));
            if partitions > 1 {
                assert!(
                    at("SortExec") < at("Hash(") && at("Hash(") < at("FirstRowsFilter"),
                    "{with}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_forms_of_the_query_are_recognised() {
    let (_dir, db) = table(SMALL_TABLE_ROWS).await;
    for text in [
        "SELECT id, g FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x, id) <= 3",
        "SELECT p + 1, id FROM (SELECT id + 1 AS id, place AS p, g FROM (SELECT *, rank() OVER \
         (PARTITION BY g ORDER BY x) AS place FROM t)) WHERE p <= 3",
        "WITH w AS (SELECT *, row_number() OVER (PARTITION BY g, few ORDER BY x, id) AS a, \
         rank() OVER (PARTITION BY g, few ORDER BY x, id) AS b FROM t) SELECT id, a, b FROM w WHERE b < 3",
        "SELECT u.g, id FROM u JOIN (SELECT *, row_number() OVER (PARTITION BY name ORDER BY x, id) AS place FROM t) w \
         ON u.g = w.g WHERE place <= 4",
        "SELECT place, count(*) FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY x) AS place FROM t) \
         WHERE place <= 4 GROUP BY place",
        "SELECT * FROM (SELECT g + 1, row_number() OVER (PARTITION BY g + 1 ORDER BY x * 2, id) AS place FROM t WHERE few = 4) \
         WHERE place <= 2",
        "SELECT id FROM (SELECT id, g, rank() OVER (PARTITION BY g ORDER BY x) AS place FROM t) WHERE place = 1 \
         UNION ALL SELECT id FROM (SELECT id, rank() OVER (PARTITION BY name ORDER BY x) AS place FROM t) WHERE place = 2",
        // Each window has the rows that it needs.
        "SELECT * FROM (SELECT id, g, few, rank() OVER (PARTITION BY few ORDER BY x, id) AS b FROM (SELECT *, \
         row_number() OVER (PARTITION BY g ORDER BY x, id) AS a FROM t) WHERE a <= 20) WHERE b <= 5",
        // The sum is below.
        "SELECT id, s, place FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY s, id) AS place FROM \
         (SELECT *, sum(x) OVER (PARTITION BY name) AS s FROM t)) WHERE place <= 2",
    ] {
        let with = same(&db, text).await;
        assert!(with.contains("FirstRowsFilter"), "{text}\n{with}");
    }
    // Nothing is wanted.
    for condition in ["place <= 0", "place < 1", "place = 0", "place < -3"] {
        let text = numbered("row_number", "PARTITION BY g ORDER BY id", condition);
        same(&db, &text).await;
        assert_eq!(query(&db, &text).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_need_all_rows_stay() {
    let (_dir, db) = table(SMALL_TABLE_ROWS).await;
    let over = "PARTITION BY g ORDER BY x, id";
    for condition in [
        "place >= 2",
        "place <> 1",
        "NOT place <= 110",
        "place > 110 OR few = 3 AND id < 3000",
        "place <= 2 OR id < 5000",
        "place <= few",
        "place % 50 <= 2",
        "place <= 65",
    ] {
        let with = same(&db, &numbered("row_number", over, condition)).await;
        assert!(!with.contains("FirstRowsFilter"), "{condition}\n{with}");
    }
    let within = |window: &str| format!("SELECT * FROM (SELECT *, {window} FROM t) WHERE place <= 2");
    for text in [
        numbered("dense_rank", over, "place <= 2"),
        numbered("row_number", "ORDER BY x, id", "place <= 2"),
        within("CAST(percent_rank() OVER (PARTITION BY few ORDER BY id) * 1000000 AS BIGINT) AS place"),
        within(&format!(
            "row_number() OVER ({over}) AS place, sum(id) OVER ({over}) AS s"
        )),
        within(&format!(
            "row_number() OVER ({over}) AS place, lead(id) OVER ({over}) AS s"
        )),
        within(&format!(
            "row_number() OVER ({over}) AS place, dense_rank() OVER ({over}) AS s"
        )),
        within("row_number() OVER (PARTITION BY g ORDER BY id) AS place, sum(x) OVER (PARTITION BY g) AS s"),
        format!(
            "SELECT * FROM (SELECT * FROM (SELECT *, row_number() OVER ({over}) AS place FROM t) ORDER BY place DESC, id LIMIT 7) \
                 WHERE place <= 2"
        ),
        format!(
            "SELECT count(*) FROM (SELECT max(place) AS most FROM (SELECT id % 9 AS h, row_number() OVER ({over}) AS place FROM t) \
                 GROUP BY h) WHERE most <= 2"
        ),
    ] {
        let with = same(&db, &text).await;
        assert!(!with.contains("FirstRowsFilter"), "{text}\n{with}");
    }
    // Of two windows, only the upper one can do without rows.
    let both = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY id) AS place, \
                row_number() OVER (PARTITION BY g ORDER BY id DESC) AS back FROM t) WHERE";
    for (condition, is_limited) in [
        ("place <= 2", true),
        ("back <= 2", false),
        ("place <= 2 AND back <= 110", true),
    ] {
        let with = same(&db, &format!("{both} {condition}")).await;
        let filter = with.find("FirstRowsFilter");
        assert_eq!(filter.is_some(), is_limited, "{with}");
        assert!(filter < with.rfind("BoundedWindowAggExec"), "{with}");
    }
    let text =
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY g) AS place FROM t) WHERE place <= 2";
    assert!(!plan(&db, text).await.contains("FirstRowsFilter"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_rows_are_dropped() {
    let (_dir, db) = table(LARGE_TABLE_ROWS).await;
    for (over, least) in [
        ("PARTITION BY g ORDER BY x, id", 395_000),
        ("PARTITION BY name, g ORDER BY x DESC NULLS LAST, id", 360_000),
        ("PARTITION BY name ORDER BY CAST(x AS DOUBLE), id", 395_000),
        ("PARTITION BY many ORDER BY x", 230_000),
        // Rows come in this order, and in its reverse.
        ("PARTITION BY g ORDER BY id", 395_000),
        ("PARTITION BY g ORDER BY id DESC", 395_000),
        ("PARTITION BY g ORDER BY -id", 395_000),
        // The first bytes of many names are equal.
        ("PARTITION BY g ORDER BY name DESC, id", 340_000),
    ] {
        let text = format!(
            "SELECT g, place FROM ({}) WHERE place > 0",
            numbered("row_number", over, "place <= 2")
        );
        same(&db, &text).await;
        let analyzed = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
        let dropped = metric(&analyzed, "rows_dropped");
        assert!(
            dropped >= least && metric(&analyzed, "rows_not_compared") == 0,
            "{over}\n{analyzed}"
        );
    }
    // Each row of a group ties with all others.
    let text = numbered("rank", "PARTITION BY g ORDER BY few - few, id", "place <= 2");
    let analyzed = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert!(metric(&analyzed, "rows_dropped") < 1000, "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_without_memory_pass() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions::default().with_memory(Some(64 << 20));
    let db = Database::create(&dir.path().join("small.pool"), &options).unwrap();
    fill(&db, LARGE_TABLE_ROWS).await;
    for (over, condition) in [
        ("PARTITION BY many ORDER BY x, id", "place <= 60"),
        ("PARTITION BY name || many ORDER BY x, id", "place <= 30"),
        ("PARTITION BY id ORDER BY x", "place <= 60"),
    ] {
        let text = format!(
            "SELECT count(*), sum(id), max(place) FROM ({})",
            numbered("row_number", over, condition)
        );
        let with = same(&db, &text).await;
        assert!(with.contains("FirstRowsFilter"), "{with}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_made_for_the_values_of_their_parameters() {
    let (_dir, db) = table(SMALL_TABLE_ROWS).await;
    let text = "SELECT g, id, place FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x, id) AS place FROM t) \
                WHERE place <= ";
    let rows = |found: Vec<String>| found.len();
    run(&db, &format!("PREPARE first AS {text} $1")).await;
    for most in [1, 3, 2, 100] {
        let expected = sorted(&db, &format!("{text} {most}")).await;
        assert!(rows(expected.clone()) >= 99 * most.min(4));
        let mut executed = query(&db, &format!("EXECUTE first({most})")).await;
        executed.sort_unstable();
        assert_eq!(executed, expected);
        let values: Vec<ScalarValue> = params![most as i64].to_vec();
        let result = db.sql_with(&format!("{text} $1"), values).await.unwrap();
        let mut with_parameter = lines(&result.collect().await.unwrap());
        with_parameter.sort_unstable();
        assert_eq!(with_parameter, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_setting_is_on_or_off() {
    let (_dir, db) = new_pool();
    assert_eq!(
        query(&db, "SHOW halocline.first_rows").await,
        ["halocline.first_rows|on"]
    );
    run(&db, "SET halocline.first_rows = off").await;
    assert_eq!(
        query(&db, "SHOW halocline.first_rows").await,
        ["halocline.first_rows|off"]
    );
    run(&db, "RESET halocline.first_rows").await;
    assert_eq!(
        query(&db, "SHOW halocline.first_rows").await,
        ["halocline.first_rows|on"]
    );
    let text = error(&db, "SET halocline.first_rows = some").await;
    assert!(
        text.contains("halocline.first_rows is on or off, not 'some'"),
        "{text}"
    );
    // A table without rows.
    run(&db, "CREATE TABLE t (g INT, x DOUBLE)").await;
    let text = numbered("rank", "PARTITION BY g ORDER BY x", "place <= 2");
    assert!(same(&db, &text).await.contains("FirstRowsFilter"));
}
