//! `ALTER TABLE` that drops and changes columns, of tables with and without a primary key.

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, reopen, run};

/// The end of the first column of a table of each kind.
pub(crate) const KINDS: [&str; 2] = ["", " PRIMARY KEY"];

fn is_sound(db: &Database) -> bool {
    db.check(&mut |_| ()).unwrap().problems.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_dropped() {
    for key in KINDS {
        let (dir, db) = new_pool();
        run(
            &db,
            &format!("CREATE TABLE t (a int{key}, b text DEFAULT 'x', c int, \"D d\" date)"),
        )
        .await;
        run(
            &db,
            "INSERT INTO t VALUES (1, 'one', 10, '2024-01-01'), (2, NULL, 20, NULL), (3, 'three', NULL, '2024-01-03')",
        )
        .await;
        assert_eq!(
            run(&db, "ALTER TABLE t DROP COLUMN c").await,
            "table t: column c dropped"
        );
        assert_eq!(
            query(&db, "SELECT * FROM t ORDER BY a").await,
            ["1|one|2024-01-01", "2|NULL|NULL", "3|three|2024-01-03"]
        );
        assert_eq!(
            run(&db, "ALTER TABLE t DROP COLUMN IF EXISTS c").await,
            "table t: there is no column c"
        );
        assert!(
            error(&db, "ALTER TABLE t DROP COLUMN c")
                .await
                .starts_with("table 't' has no column 'c'")
        );
        assert_eq!(
            run(
                &db,
                "ALTER TABLE t DROP b, DROP COLUMN \"D d\" CASCADE, ADD COLUMN e bigint NOT NULL DEFAULT 7"
            )
            .await,
            "table t: column b dropped; column D d dropped; column e added"
        );
        run(&db, "INSERT INTO t (a) VALUES (4)").await;
        let rows = ["1|7", "2|7", "3|7", "4|7"];
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, rows);
        let last = if key.is_empty() {
            run(&db, "ALTER TABLE t DROP COLUMN e").await;
            error(&db, "ALTER TABLE t DROP COLUMN a").await
        } else {
            error(&db, "ALTER TABLE t DROP COLUMN a").await
        };
        assert!(
            last.contains("its only column") || last.contains("belongs to the primary key"),
            "{last}"
        );
        let rows = query(&db, "SELECT * FROM t ORDER BY a").await;
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, rows);
        assert!(is_sound(&db));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_get_other_types() {
    for key in KINDS {
        let (_dir, db) = new_pool();
        run(
            &db,
            &format!("CREATE TABLE t (a int{key}, b text DEFAULT '3', c bigint)"),
        )
        .await;
        run(&db, "INSERT INTO t VALUES (1, '10', 5), (2, '20', NULL)").await;
        assert_eq!(
            run(&db, "ALTER TABLE t ALTER COLUMN b TYPE bigint").await,
            "table t: column b has the type bigint now"
        );
        run(&db, "INSERT INTO t (a) VALUES (3)").await;
        assert_eq!(
            query(&db, "SELECT a, b + 1 FROM t ORDER BY a").await,
            ["1|11", "2|21", "3|4"]
        );
        run(
            &db,
            "ALTER TABLE t ALTER COLUMN c SET DATA TYPE text USING c * 2 || '!'",
        )
        .await;
        assert_eq!(
            query(&db, "SELECT c FROM t ORDER BY a").await,
            ["10!", "NULL", "NULL"]
        );
        for (text, part) in [
            (
                "ALTER TABLE t ALTER COLUMN c TYPE int",
                "'10!' is not a value of type",
            ),
            ("ALTER TABLE t ALTER COLUMN d TYPE int", "has no column 'd'"),
            (
                "ALTER TABLE t ALTER COLUMN c SET DEFAULT 'x', ALTER COLUMN c TYPE int",
                "DROP DEFAULT first",
            ),
            (
                "ALTER TABLE t ALTER COLUMN b TYPE int USING sum(b)",
                "combines several rows",
            ),
            ("ALTER TABLE t ALTER COLUMN b TYPE int USING q", "q"),
        ] {
            let message = error(&db, text).await;
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(
            query(&db, "SELECT * FROM t ORDER BY a").await,
            ["1|10|10!", "2|20|NULL", "3|3|NULL"]
        );
        // The key as well.
        run(&db, "ALTER TABLE t ALTER COLUMN a TYPE text USING 'k' || (9 - a)").await;
        assert_eq!(query(&db, "SELECT a FROM t ORDER BY a").await, ["k6", "k7", "k8"]);
        assert_eq!(query(&db, "SELECT b FROM t WHERE a = 'k7'").await, ["20"]);
        assert!(is_sound(&db));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_must_keep_keys_apart() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a text PRIMARY KEY, b int)").await;
    run(&db, "INSERT INTO t VALUES ('1', 1), ('01', 2)").await;
    let message = error(&db, "ALTER TABLE t ALTER COLUMN a TYPE int").await;
    assert!(
        message.starts_with("ALTER TABLE t: there is a row with the primary key (1) already"),
        "{message}"
    );
    assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, ["01|2", "1|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_null_is_set_once_no_row_is_null() {
    for key in KINDS {
        let (dir, db) = new_pool();
        run(&db, &format!("CREATE TABLE t (a int{key}, b int)")).await;
        // Enough rows for a segment, which keeps the deleted ones.
        run(
            &db,
            "INSERT INTO t SELECT i, nullif(i % 100, 0) FROM generate_series(1, 3000) AS s(i)",
        )
        .await;
        let message = error(&db, "ALTER TABLE t ALTER COLUMN b SET NOT NULL").await;
        assert!(
            message.contains("is NULL, but the column is NOT NULL"),
            "{message}"
        );
        run(&db, "INSERT INTO t VALUES (0, NULL)").await;
        run(&db, "DELETE FROM t WHERE b IS NULL").await;
        run(&db, "ALTER TABLE t ALTER b SET NOT NULL").await;
        assert_eq!(
            query(&db, "SELECT count(*), sum(b) FROM t").await,
            ["2970|148500"]
        );
        let message = error(&db, "INSERT INTO t VALUES (5000, NULL)").await;
        assert!(message.contains("is NULL"), "{message}");
        assert!(is_sound(&db));
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        error(&db, "UPDATE t SET b = NULL WHERE a = 1").await;
        run(&db, "ALTER TABLE t ALTER COLUMN b DROP NOT NULL").await;
        run(&db, "UPDATE t SET b = NULL WHERE a = 1").await;
        assert_eq!(query(&db, "SELECT a FROM t WHERE b IS NULL").await, ["1"]);
        assert!(is_sound(&db));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_come_and_go() {
    for key in KINDS {
        let (_dir, db) = new_pool();
        run(&db, &format!("CREATE TABLE t (a int{key}, b int)")).await;
        run(&db, "INSERT INTO t (a) VALUES (1)").await;
        run(&db, "ALTER TABLE t ALTER COLUMN b SET DEFAULT 5").await;
        run(&db, "INSERT INTO t (a) VALUES (2)").await;
        run(&db, "ALTER TABLE t ALTER COLUMN b DROP DEFAULT").await;
        run(&db, "INSERT INTO t (a) VALUES (3)").await;
        assert_eq!(
            query(&db, "SELECT * FROM t ORDER BY a").await,
            ["1|NULL", "2|5", "3|NULL"]
        );
        let message = error(&db, "ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'").await;
        assert!(message.contains("column b"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_part_of_the_transaction() {
    for key in KINDS {
        for end in ["ROLLBACK", "COMMIT"] {
            let (dir, db) = new_pool();
            run(&db, &format!("CREATE TABLE t (a int{key}, b text, c int)")).await;
            run(&db, "INSERT INTO t VALUES (1, '1', 10), (2, '2', 20)").await;
            let session = db.session();
            run(&session, "BEGIN").await;
            run(&session, "INSERT INTO t VALUES (3, '3', 30)").await;
            run(&session, "ALTER TABLE t DROP COLUMN c, ALTER COLUMN b TYPE int").await;
            run(&session, "ALTER TABLE t ADD COLUMN d int DEFAULT 4").await;
            run(&session, "ALTER TABLE t RENAME COLUMN b TO bb").await;
            run(&session, "UPDATE t SET bb = bb + 1 WHERE a = 3").await;
            error(&session, "ALTER TABLE t ADD CHECK (bb < 4)").await;
            let new = ["1|1|4", "2|2|4", "3|4|4"];
            assert_eq!(query(&session, "SELECT * FROM t ORDER BY a").await, new);
            let old = ["1|1|10", "2|2|20"];
            assert_eq!(query(&db, "SELECT a, b, c FROM t ORDER BY a").await, old);
            run(&session, end).await;
            let expected = if end == "COMMIT" { &new[..] } else { &old[..] };
            assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, expected);
            assert_eq!(query(&session, "SELECT * FROM t ORDER BY a").await, expected);
            drop((session, db));
            let db = reopen(&dir, &DatabaseOptions::default());
            assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, expected);
            assert!(is_sound(&db));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_are_built_again_or_dropped() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a int, b int, c int) WITH (sort = 'c, b')").await;
    run(
        &db,
        "INSERT INTO t SELECT i, i % 7, i % 3 FROM generate_series(1, 3000) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX i1 ON t (a)").await;
    run(&db, "CREATE INDEX i2 ON t (b, a)").await;
    assert_eq!(
        run(
            &db,
            "ALTER TABLE t RENAME COLUMN a TO z, ALTER COLUMN b TYPE bigint"
        )
        .await,
        "table t: column a is z now; column b has the type bigint now, with index i1, i2"
    );
    run(&db, "SET halocline.index = force").await;
    assert_eq!(query(&db, "SELECT z, b FROM t WHERE z = 50").await, ["50|1"]);
    assert_eq!(
        query(&db, "SELECT count(*) FROM t WHERE b = 6 AND z < 100").await,
        ["14"]
    );
    let said = run(&db, "ALTER TABLE t DROP COLUMN b").await;
    assert!(
        said.ends_with(
            "column b dropped, with index i1; dropped index i2, whose columns are not there any more"
        ),
        "{said}"
    );
    assert_eq!(query(&db, "SELECT z, c FROM t WHERE z = 50").await, ["50|2"]);
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["3000"]);
    // Changes of the metadata leave indexes as they are.
    run(
        &db,
        "ALTER TABLE t ALTER COLUMN z SET NOT NULL, ADD COLUMN d int DEFAULT 1",
    )
    .await;
    assert_eq!(query(&db, "SELECT z, c, d FROM t WHERE z = 51").await, ["51|0|1"]);
    assert!(is_sound(&db));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_follow() {
    for key in KINDS {
        let (_dir, db) = new_pool();
        run(&db, &format!("CREATE TABLE t (a int{key}, b int, c text)")).await;
        run(&db, "INSERT INTO t VALUES (1, 2, 'x')").await;
        run(&db, "PREPARE q AS SELECT * FROM t WHERE a = $1").await;
        assert_eq!(query(&db, "EXECUTE q(1)").await, ["1|2|x"]);
        run(&db, "ALTER TABLE t DROP COLUMN b").await;
        assert_eq!(query(&db, "EXECUTE q(1)").await, ["1|x"]);
        run(&db, "ALTER TABLE t ALTER COLUMN a TYPE bigint").await;
        assert_eq!(query(&db, "EXECUTE q(1)").await, ["1|x"]);
    }
}

/// A transaction that has written to a table with a primary key is not committed with rows that a constraint
/// forbids which another session has added since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_wrote_before_conflict() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    run(&db, "INSERT INTO t VALUES (1, 1)").await;
    let session = db.session();
    run(&session, "BEGIN").await;
    run(&session, "INSERT INTO t VALUES (2, -2)").await;
    run(&db, "ALTER TABLE t ADD CHECK (b > 0)").await;
    error(&session, "COMMIT").await;
    assert_eq!(query(&db, "SELECT * FROM t").await, ["1|1"]);
    error(&db, "INSERT INTO t VALUES (2, -2)").await;
}
