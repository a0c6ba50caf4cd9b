//! Aggregates that collect values which do not fit the memory.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

/// Rows of groups of all sizes, with NULLs.
const TABLE: &str = "CREATE TABLE t AS SELECT value AS k, value % 3 AS g, \
    CASE WHEN value % 11 = 0 THEN NULL ELSE (value * 7919) % 300007 END AS x, \
    CASE WHEN value % 13 = 0 THEN NULL ELSE 'a text, number ' || (value * 104729) % 250007 END AS s, \
    CAST((value * 31337) % 400009 AS DOUBLE) / 7 AS f, \
    value / 15000 AS w, value / 3 AS many \
    FROM generate_series(1, 150000) AS g(value)";

/// Compares the answers with those of more memory. `sorted` says that the input was sorted.
async fn compare(db: &Database, text: &str, sorted: bool) {
    run(db, "RESET halocline.memory").await;
    let expected = query(db, text).await;
    run(db, "SET halocline.memory = '32MiB'").await;
    assert_eq!(query(db, text).await, expected, "{text}");
    let plan = query(db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert_eq!(plan.contains("sorted=1"), sorted, "{text}\n{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_more_memory() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    for text in [
        "SELECT count(DISTINCT x), count(DISTINCT s), sum(DISTINCT x), count(*), max(s) FROM t",
        "SELECT median(x), median(f), count(DISTINCT k), count(s) FROM t",
        "SELECT g, count(DISTINCT k), median(x), sum(x), avg(DISTINCT x) FROM t GROUP BY g ORDER BY g",
        "SELECT g, percentile_cont(0.25) WITHIN GROUP (ORDER BY f), \
         percentile_cont(0.1) WITHIN GROUP (ORDER BY f DESC), count(DISTINCT s), count(DISTINCT x) FROM t GROUP BY g ORDER BY g",
        "SELECT w, count(DISTINCT s) FILTER (WHERE x > 1000), count(DISTINCT k) FILTER (WHERE s IS NULL), \
         median(k) FILTER (WHERE g = 1), count(DISTINCT x), sum(k) FILTER (WHERE g <> 2) \
         FROM t GROUP BY w ORDER BY w",
        "SELECT g, w, count(DISTINCT s), count(DISTINCT k), grouping(g) FROM t \
         GROUP BY ROLLUP (g, w) ORDER BY g, w, 5",
        "SELECT count(*), sum(c), sum(m) FROM \
         (SELECT many, count(DISTINCT s) AS c, median(x) AS m, count(DISTINCT x) AS d FROM t GROUP BY many)",
    ] {
        compare(&db, text, true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_made_group_by_group() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    let text = "SELECT count(*), sum(length(a)), min(substr(b, 1, 30)), max(n) FROM ( \
        SELECT w, many % 40 AS m, string_agg(s, ',' ORDER BY s, k) AS a, string_agg(DISTINCT s, ';' ORDER BY s) AS b, \
        nth_value(s, 2 ORDER BY k DESC) AS n FROM t GROUP BY w, many % 40)";
    compare(&db, text, true).await;
    // Lists without an order have that of the rows.
    run(&db, "SET datafusion.execution.target_partitions = 1").await;
    let text = "SELECT w, array_agg(k) AS l, array_agg(x) AS x, array_agg(f) AS f, array_agg(many) AS m, \
        array_agg(s) AS s, first_value(k) AS one FROM t GROUP BY w ORDER BY w LIMIT 2";
    compare(&db, text, true).await;
    // Long texts count as well as their views.
    let text = "SELECT w, array_agg(repeat(s, 5)) AS l FROM t GROUP BY w ORDER BY w LIMIT 1";
    compare(&db, text, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_values_are_not_sorted() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    compare(
        &db,
        "SELECT count(DISTINCT g), count(DISTINCT w), sum(k) FROM t",
        false,
    )
    .await;
    let plan = query(&db, "EXPLAIN SELECT median(k) FROM t WHERE k = 3")
        .await
        .join("\n");
    assert!(plan.contains("median"), "{plan}");
    run(&db, "CREATE TABLE small AS SELECT * FROM t LIMIT 1000").await;
    let plan = query(
        &db,
        "EXPLAIN SELECT g, median(k), count(DISTINCT s) FROM small GROUP BY g",
    )
    .await
    .join("\n");
    assert!(!plan.contains("SortAggregate"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_does_not_fit_is_refused_by_name() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    for (name, text) in [
        (
            "string_agg",
            "SELECT length(string_agg(repeat(s, 12), ',')) FROM t",
        ),
        ("array_agg", "SELECT array_agg(repeat(s, 20)) FROM t"),
    ] {
        let error = super::support::error(&db, text).await;
        assert!(error.contains(name), "{error}");
    }
    assert_eq!(query(&db, "SELECT count(*) FROM t").await.len(), 1);
}

/// The table writer, the merges of the sorts and their reader share the memory, and batches are larger than
/// the queue of the writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_of_sorted_rows_that_do_not_fit() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    run(&db, "SET halocline.memory = '64MiB'").await;
    run(
        &db,
        "CREATE TABLE sorted AS SELECT *, repeat(s, 20) AS long FROM t ORDER BY s DESC, k",
    )
    .await;
    // Rows without an order have that of the table.
    run(&db, "SET datafusion.execution.target_partitions = 1").await;
    for columns in ["count(*), sum(k), sum(x), sum(length(s) * 20)", "k, s, x, f"] {
        let (order, limit) = if columns.starts_with("count") {
            ("", "")
        } else {
            (" ORDER BY s DESC, k", " LIMIT 20000")
        };
        let expected = query(&db, &format!("SELECT {columns} FROM t{order}{limit}")).await;
        let columns = columns.replace("length(s) * 20", "length(long)");
        let found = query(&db, &format!("SELECT {columns} FROM sorted{limit}")).await;
        assert!(found == expected, "{columns}: {:?}", found.first());
    }
}
