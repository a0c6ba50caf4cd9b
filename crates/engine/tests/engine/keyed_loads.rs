//! Many rows into tables with a primary key that have none: they are loaded, and nobody sees a part of them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use halocline_engine::{Database, DatabaseOptions, ImportOptions};

use super::support::{error, new_pool, query, reopen, run};

/// Rows in an order that is far from that of the key.
const SHUFFLED: &str = "SELECT (i * 7919) % 100003 AS a, 'row ' || (i % 13) AS b, i * 0.5e0 AS f \
                        FROM generate_series(1, 60000) AS s(i)";

/// Returns the number of rows, and a sum over all columns.
fn totals(table: &str) -> String {
    format!("SELECT count(*), sum(a), sum(length(b)), sum(f), count(DISTINCT a) FROM {table}")
}

async fn is_as_plain(db: &Database, table: &str) {
    assert_eq!(query(db, &totals(table)).await, query(db, &totals("plain")).await);
    let first = |table: &str| format!("SELECT a, b, f FROM {table} ORDER BY a, b LIMIT 200");
    assert_eq!(query(db, &first(table)).await, query(db, &first("plain")).await);
    let row = "SELECT f FROM {} WHERE a = 7919 AND b = 'row 1'";
    assert_eq!(query(db, &row.replace("{}", table)).await, ["5.000000000e-1"]);
}

fn import(db: &Database, table: &str, file: &Path) -> Result<u64, String> {
    let options = ImportOptions::default().with_append(true);
    let never = AtomicBool::new(false);
    let report = db.import(table, &[file.to_owned()], &options, &mut |_| (), &never);
    report
        .map(|report| report.rows)
        .map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_queries_and_files_are_loaded_in_any_order() {
    let (dir, db) = new_pool();
    run(&db, &format!("CREATE TABLE plain AS {SHUFFLED}")).await;
    run(
        &db,
        &format!("CREATE TABLE made (PRIMARY KEY (a, b)) AS {SHUFFLED}"),
    )
    .await;
    is_as_plain(&db, "made").await;
    let columns = "(b text, a bigint, f double, PRIMARY KEY (a, b))";
    for table in ["inserted", "sorted", "imported", "copied", "together"] {
        run(&db, &format!("CREATE TABLE {table} {columns}")).await;
    }
    let message = run(&db, &format!("INSERT INTO inserted (a, b, f) {SHUFFLED}")).await;
    assert_eq!(message, "inserted 60000 rows");
    is_as_plain(&db, "inserted").await;
    run(&db, "INSERT INTO sorted SELECT b, a, f FROM plain ORDER BY a, b").await;
    is_as_plain(&db, "sorted").await;
    let file = dir.path().join("rows.csv");
    query(
        &db,
        &format!("COPY (SELECT b, a, f FROM plain) TO '{}'", file.display()),
    )
    .await;
    assert!(std::fs::metadata(&file).unwrap().len() > 1 << 20);
    assert_eq!(import(&db, "imported", &file), Ok(60_000));
    is_as_plain(&db, "imported").await;
    let message = run(&db, &format!("COPY copied FROM '{}'", file.display())).await;
    assert_eq!(message, "copied 60000 rows");
    is_as_plain(&db, "copied").await;
    // In a transaction they are changes as any others.
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO together SELECT b, a, f FROM plain").await;
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, "SELECT count(*) FROM together").await, ["0"]);
    // Loaded tables are changed as others.
    run(&db, "DELETE FROM copied WHERE a % 2 = 0").await;
    run(&db, "UPDATE copied SET f = -1 WHERE a < 1000").await;
    run(
        &db,
        "INSERT INTO copied SELECT b, a, f FROM plain WHERE a % 2 = 0",
    )
    .await;
    let changed = "SELECT count(*), sum(CASE WHEN a >= 1000 OR a % 2 = 0 THEN f END) FROM {}";
    let expected = query(&db, &changed.replace("{}", "plain")).await;
    assert_eq!(query(&db, &changed.replace("{}", "copied")).await, expected);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    for table in ["made", "inserted", "sorted", "imported"] {
        is_as_plain(&db, table).await;
    }
    let names = db.stores().unwrap().names();
    let rows = names.iter().filter(|name| name.starts_with("sql/rows/"));
    assert_eq!(rows.count(), 6, "replaced stores are dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_fails_leaves_the_table_as_it_was() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id int PRIMARY KEY, v smallint DEFAULT 5)").await;
    let series = "FROM generate_series(1, 50000) AS s(i)";
    let file = dir.path().join("twice.csv");
    query(
        &db,
        &format!(
            "COPY (SELECT (i * 31) % 49999 AS id, 1 AS v, repeat('-', 20) AS w {series} ORDER BY i) TO '{}'",
            file.display()
        ),
    )
    .await;
    for (text, reason) in [
        (
            format!("INSERT INTO t (id) SELECT (i * 31) % 49999 {series} ORDER BY i"),
            "INSERT INTO t, row 50000: there is a row with the primary key (31) already; give one row for each key",
        ),
        (
            format!("INSERT INTO t SELECT i, i {series} ORDER BY i"),
            "INSERT INTO t, row 32768, primary key (32768), column v: '32768' is not a value of type smallint",
        ),
        (
            format!("INSERT INTO t (id) SELECT CASE WHEN i < 40000 THEN i END {series}"),
            "column id: is NULL",
        ),
        (
            format!("INSERT INTO t (id) SELECT i / (50000 - i) {series}"),
            "ivide by zero",
        ),
    ] {
        let message = error(&db, &text).await;
        assert!(message.contains(reason), "{text}: {message}");
        assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["0"], "{text}");
    }
    run(&db, "CREATE TABLE w (id int PRIMARY KEY, v int, w text)").await;
    let message = import(&db, "w", &file).unwrap_err();
    assert!(
        message.contains("row 50000") && message.contains("primary key (31) already"),
        "{message}"
    );
    assert_eq!(query(&db, "SELECT count(*) FROM w").await, ["0"]);
    // What is there counts, whatever the number of rows.
    run(&db, "INSERT INTO t VALUES (7, 7)").await;
    let message = error(&db, &format!("INSERT INTO t (id) SELECT i {series} ORDER BY i")).await;
    assert!(
        message.contains("row 7: there is a row with the primary key (7) already; UPDATE"),
        "{message}"
    );
    let message = run(
        &db,
        &format!("INSERT INTO t (id) SELECT i {series} ON CONFLICT DO NOTHING"),
    )
    .await;
    assert_eq!(message, "inserted 49999 rows");
    assert_eq!(query(&db, "SELECT sum(v) FROM t").await, ["250002"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_see_no_row_of_a_load() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id int PRIMARY KEY)").await;
    run(&db, "CREATE TABLE seen (n bigint PRIMARY KEY)").await;
    let (reader, writer) = (db.session(), db.session());
    let counts = "SELECT count(*) FROM t";
    for session in [&reader, &writer] {
        run(session, "BEGIN").await;
        assert_eq!(query(session, counts).await, ["0"]);
    }
    run(
        &db,
        "INSERT INTO t SELECT i FROM generate_series(1, 30000) AS s(i)",
    )
    .await;
    for session in [&reader, &writer] {
        assert_eq!(query(session, counts).await, ["0"]);
    }
    run(&writer, "INSERT INTO seen SELECT count(*) FROM t").await;
    run(&reader, "COMMIT").await;
    let message = error(&writer, "COMMIT").await;
    assert!(
        message.contains("run the transaction again") || message.contains("begin again"),
        "{message}"
    );
    assert_eq!(query(&reader, counts).await, ["30000"]);
    assert_eq!(
        query(&db, "SELECT id FROM t WHERE id > 29998").await,
        ["29999", "30000"]
    );
}
