//! Statements that change more rows of a table with a primary key than the memory holds: they do the same as
//! to a table without one, and older versions stay as they are.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use halocline_engine::{Database, DatabaseOptions, ImportOptions};
use tempfile::TempDir;

use super::support::{error, new_pool, query, reopen, run};

/// Rows in an order that is far from that of the key.
const SHUFFLED: &str = "SELECT (i * 7919) % 100003 AS a, 'row ' || (i % 13) AS b, i * 0.5e0 AS f \
                        FROM generate_series(1, 60000) AS s(i)";

/// Returns a pool with little memory, and two tables with the same rows.
async fn two_tables() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default().with_memory(Some(32 << 20)));
    run(&db, &format!("CREATE TABLE plain AS {SHUFFLED}")).await;
    run(
        &db,
        "CREATE TABLE keyed (PRIMARY KEY (a, b)) AS SELECT * FROM plain",
    )
    .await;
    (dir, db)
}

async fn is_as_plain(db: &Database) {
    for text in [
        "SELECT count(*), sum(a), sum(length(b)), sum(f), count(DISTINCT a) FROM {}",
        "SELECT a, b, f FROM {} ORDER BY a, b LIMIT 200",
        "SELECT a, b, f FROM {} ORDER BY a DESC, b DESC LIMIT 200",
        "SELECT f FROM {} WHERE a = 7919 AND b = 'row 1'",
    ] {
        let of = |table: &str| text.replace("{}", table);
        assert_eq!(
            query(db, &of("keyed")).await,
            query(db, &of("plain")).await,
            "{text}"
        );
    }
}

/// Returns the stores with rows of tables: another one has taken the place of a table that was made anew.
fn rows_of_tables(db: &Database) -> Vec<String> {
    let names = db.stores().unwrap().names().into_iter();
    names.filter(|name| name.starts_with("sql/rows/")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_change_more_rows_than_fit() {
    let (dir, db) = two_tables().await;
    let added = "SELECT a + 200000, b, f FROM plain WHERE a % 2 = 0";
    for text in [
        "UPDATE {} SET f = -f WHERE a % 3 = 0".to_owned(),
        // The new keys are those of other rows.
        "UPDATE {} SET a = a + 1".to_owned(),
        "DELETE FROM {} WHERE b <> 'row 1' AND a % 5 <> 0 AND a <> 7919".to_owned(),
        format!("INSERT INTO {{}} {added}"),
    ] {
        let before = rows_of_tables(&db);
        let message = run(&db, &text.replace("{}", "keyed")).await;
        assert_eq!(run(&db, &text.replace("{}", "plain")).await, message, "{text}");
        let after = rows_of_tables(&db);
        assert_eq!(after.len(), 1, "the space of the old table is free");
        assert_ne!(after, before, "{text} makes a new table");
        is_as_plain(&db).await;
    }
    // Rows that are there stay, or are replaced.
    let again = "SELECT a, b, -1e0 FROM plain UNION ALL SELECT a + 300000, b, -1e0 FROM plain";
    let message = run(&db, &format!("INSERT OR IGNORE INTO keyed {again}")).await;
    let count = query(&db, "SELECT count(*) FROM plain").await.remove(0);
    assert_eq!(message, format!("inserted {count} rows"));
    run(&db, "INSERT INTO plain SELECT a + 300000, b, -1e0 FROM plain").await;
    is_as_plain(&db).await;
    let all = query(&db, "SELECT count(*) FROM plain").await.remove(0);
    let message = run(&db, "REPLACE INTO keyed SELECT a, b, a + 0e0 FROM plain").await;
    assert_eq!(message, format!("inserted {all} rows"));
    run(&db, "UPDATE plain SET f = a + 0e0").await;
    is_as_plain(&db).await;
    let again = "SELECT a, b, 1e0 FROM plain UNION ALL SELECT a + 1000000, b, f FROM plain";
    let update = "ON CONFLICT (a, b) DO UPDATE SET f = keyed.f + excluded.f WHERE keyed.a % 2 = 0";
    let message = run(&db, &format!("INSERT INTO keyed {again} {update}")).await;
    run(&db, "INSERT INTO plain SELECT a + 1000000, b, f FROM plain").await;
    run(&db, "UPDATE plain SET f = f + 1 WHERE a % 2 = 0 AND a < 1000000").await;
    let changed = "SELECT count(*) FROM plain WHERE a % 2 = 0 OR a >= 1000000";
    let changed = query(&db, changed).await.remove(0);
    assert_eq!(message, format!("inserted {changed} rows"));
    is_as_plain(&db).await;
    drop(db);
    is_as_plain(&reopen(&dir, &DatabaseOptions::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_files_are_added_that_do_not_fit() {
    let (dir, db) = two_tables().await;
    let file = dir.path().join("rows.csv");
    let rows = "SELECT a + 200000 AS a, b, f FROM plain";
    query(&db, &format!("COPY ({rows}) TO '{}'", file.display())).await;
    let import = |file: &Path| {
        let options = ImportOptions::default().with_append(true);
        let never = AtomicBool::new(false);
        db.import("keyed", &[file.to_owned()], &options, &mut |_| (), &never)
    };
    assert_eq!(import(&file).unwrap().rows, 60_000);
    run(&db, &format!("INSERT INTO plain {rows}")).await;
    is_as_plain(&db).await;
    let twice = import(&file).unwrap_err().to_string();
    assert!(
        twice.contains("there is a row with the primary key (2") && twice.contains("ON CONFLICT"),
        "{twice}"
    );
    is_as_plain(&db).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_leave_the_table_as_it_was() {
    let (_dir, db) = two_tables().await;
    let before = rows_of_tables(&db);
    for (text, reason) in [
        (
            "INSERT INTO keyed SELECT CASE WHEN a < 50000 THEN a ELSE a + 200000 END, b, f FROM plain ORDER BY a DESC",
            "INSERT INTO keyed, row 60000: there is a row with the primary key (",
        ),
        (
            "INSERT INTO keyed SELECT a + 200000, b, f FROM plain UNION ALL SELECT 207919, b, f FROM plain WHERE a = 7919",
            "there is a row with the primary key (207919, row 1) already; give one row for each key",
        ),
        (
            "UPDATE keyed SET a = a % 50000",
            "UPDATE keyed: there is a row with the primary key (",
        ),
        (
            "INSERT INTO keyed SELECT * FROM plain UNION ALL SELECT * FROM plain WHERE a = 7919 \
             ON CONFLICT (a, b) DO UPDATE SET f = excluded.f",
            "there is a row with the primary key (7919, row 1) already; give one row for each key",
        ),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(reason), "{text}: {message}");
        assert_eq!(rows_of_tables(&db), before);
        is_as_plain(&db).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_change_more_rows_than_fit() {
    let (dir, db) = two_tables().await;
    let other = db.session();
    let seen = "SELECT count(*), sum(a), sum(f) FROM keyed";
    for end in ["ROLLBACK", "COMMIT"] {
        let before = query(&other, seen).await;
        run(&db, "BEGIN").await;
        // The pool can grow as long as only tables with a primary key are changed.
        for table in ["keyed", "plain"] {
            for text in [
                "UPDATE {} SET f = f + 1 WHERE a % 7 = 0",
                "UPDATE {} SET a = a + 1",
                "UPDATE {} SET f = -1 WHERE a = 7920",
                "DELETE FROM {} WHERE a % 5 = 1",
                "INSERT INTO {} SELECT a + 200000, b, f FROM {}",
                "INSERT INTO {} VALUES (-1, 'new', 0)",
            ] {
                run(&db, &text.replace("{}", table)).await;
                assert_eq!(query(&other, seen).await, before, "{text}");
            }
            if table == "keyed" {
                let message = error(&db, "INSERT INTO keyed SELECT * FROM keyed").await;
                assert!(
                    message.contains("there is a row with the primary key"),
                    "{message}"
                );
            }
        }
        is_as_plain(&db).await;
        run(&db, end).await;
        for session in [&db, &other] {
            is_as_plain(session).await;
        }
        assert_eq!(query(&other, seen).await == before, end == "ROLLBACK");
        assert_eq!(rows_of_tables(&db).len(), 1, "after {end}");
    }
    // Another session changes a row of the table.
    run(&db, "BEGIN").await;
    run(&db, "UPDATE keyed SET f = 0").await;
    run(&db, "DELETE FROM plain").await;
    run(&other, "UPDATE keyed SET f = 7 WHERE a = -1").await;
    let message = error(&db, "COMMIT").await;
    assert!(message.contains("run the transaction again"), "{message}");
    run(&db, "UPDATE plain SET f = 7 WHERE a = -1").await;
    is_as_plain(&other).await;
    assert_eq!(rows_of_tables(&db).len(), 1);
    drop((db, other));
    is_as_plain(&reopen(&dir, &DatabaseOptions::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vacuum_frees_tables_that_nobody_reads_any_more() {
    let (_dir, db) = two_tables().await;
    let (reader, text) = (db.session(), "SELECT count(*), sum(f) FROM keyed");
    run(&reader, "BEGIN").await;
    let before = query(&reader, text).await;
    run(&db, "UPDATE keyed SET f = -f").await;
    run(&db, "VACUUM").await;
    assert_eq!(rows_of_tables(&db).len(), 2, "the transaction reads the old one");
    assert_eq!(query(&reader, text).await, before);
    run(&reader, "ROLLBACK").await;
    run(&db, "VACUUM").await;
    assert_eq!(rows_of_tables(&db).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_see_the_table_that_they_began_with() {
    let (_dir, db) = two_tables().await;
    let (reads, writes) = (db.session(), db.session());
    let count = "SELECT count(*), sum(a) FROM keyed";
    let before = query(&db, count).await;
    for session in [&reads, &writes] {
        run(session, "BEGIN").await;
        assert_eq!(
            query(session, "SELECT f FROM keyed WHERE a = 1 AND b = 'none'").await,
            [""; 0]
        );
    }
    run(&writes, "INSERT INTO keyed VALUES (1, 'none', 0)").await;
    let prepared = db.prepare(count).await.unwrap();
    run(&db, "DELETE FROM keyed WHERE a % 4 <> 0").await;
    let after = query(&db, count).await;
    assert_ne!(after, before);
    assert_eq!(query(&reads, count).await, before, "looked up again");
    let message = error(&writes, "COMMIT").await;
    assert!(message.contains("run the transaction again"), "{message}");
    run(&reads, "COMMIT").await;
    for session in [&reads, &writes] {
        assert_eq!(query(session, count).await, after);
    }
    drop(prepared);
    run(&db, "UPDATE keyed SET f = 1").await;
    assert_eq!(rows_of_tables(&db).len(), 1);
}
