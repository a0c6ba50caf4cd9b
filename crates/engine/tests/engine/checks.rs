//! `CHECK` and the lengths of texts: every statement that writes obeys them.

use std::sync::atomic::AtomicBool;

use halocline_engine::{DatabaseOptions, ImportOptions};

use super::alter_table::KINDS;
use super::support::{error, new_pool, query, reopen, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_that_writes_is_checked() {
    for key in KINDS {
        let (dir, db) = new_pool();
        run(
            &db,
            &format!(
                "CREATE TABLE t (a int{key}, b int DEFAULT 1 CHECK (b > 0), c text, CONSTRAINT order_of CHECK (a < t.b OR c = 'any'))"
            ),
        )
        .await;
        run(
            &db,
            "INSERT INTO t VALUES (1, 2, NULL), (2, NULL, 'x'), (9, 3, 'any')",
        )
        .await;
        let file = dir.path().join("rows.csv");
        std::fs::write(&file, "a,b,c\n20,21,x\n22,0,any\n").unwrap();
        let copy = format!("COPY t FROM '{}' (FORMAT csv)", file.display());
        let violations = [
            "INSERT INTO t VALUES (3, 4, 'x'), (4, -5, 'any')",
            "INSERT INTO t SELECT i, 5 - i, 'any' FROM generate_series(10, 20) AS s(i)",
            "INSERT INTO t SELECT i, 5000 - i, 'any' FROM generate_series(10, 5000) AS s(i)",
            "INSERT INTO t (b, a) VALUES (0, 5)",
            "UPDATE t SET b = -1 WHERE a = 9",
            copy.as_str(),
        ];
        for text in violations {
            let message = error(&db, text).await;
            assert!(
                message.contains("violates the constraint 't_b_check', CHECK (b > 0); its values are a = "),
                "{text}: {message}"
            );
        }
        let message = error(&db, "INSERT INTO t VALUES (5, 5, 'x')").await;
        assert_eq!(
            message,
            "INSERT INTO t, row 1: violates the constraint 'order_of', CHECK (a < b OR c = 'any'); its values are a = 5, b = 5, \
             c = x"
        );
        // The default of b is 1.
        error(&db, "INSERT INTO t (a, c) VALUES (5, 'x')").await;
        error(&db, "UPDATE t SET b = DEFAULT, c = 'x' WHERE a = 1").await;
        if !key.is_empty() {
            for text in [
                "INSERT INTO t VALUES (9, -3, 'any') ON CONFLICT (a) DO UPDATE SET b = 5",
                "INSERT INTO t VALUES (9, 3, 'any') ON CONFLICT (a) DO UPDATE SET b = t.b - excluded.b",
                "REPLACE INTO t VALUES (9, 0, 'any')",
            ] {
                let message = error(&db, text).await;
                assert!(message.contains("'t_b_check'"), "{text}: {message}");
            }
        }
        let mut none = |_: &halocline_engine::ImportProgress| ();
        let options = ImportOptions::default().with_append(true);
        let imported = db.import("t", &[file], &options, &mut none, &AtomicBool::new(false));
        let message = imported.unwrap_err().to_string();
        assert!(
            message.starts_with("import into t, row 2: violates the constraint 't_b_check'"),
            "{message}"
        );
        let rows = ["1|2|NULL", "2|NULL|x", "9|3|any"];
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, rows);
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        error(&db, "INSERT INTO t VALUES (3, 0, 'any')").await;
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY a").await, rows);
        assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraints_are_added_renamed_and_dropped() {
    for key in KINDS {
        let (_dir, db) = new_pool();
        run(&db, &format!("CREATE TABLE t (a int{key}, b int)")).await;
        run(&db, "INSERT INTO t VALUES (1, 10), (2, -20)").await;
        let message = error(&db, "ALTER TABLE t ADD CONSTRAINT positive CHECK (b > 0)").await;
        assert_eq!(
            message,
            "ALTER TABLE t, row 2: violates the constraint 'positive', CHECK (b > 0); its values are a = 2, b = -20"
        );
        run(&db, "INSERT INTO t VALUES (3, -5)").await;
        run(&db, "DELETE FROM t WHERE b < 0").await;
        assert_eq!(
            run(&db, "ALTER TABLE t ADD CONSTRAINT positive CHECK (b > 0)").await,
            "table t: constraint positive added"
        );
        assert_eq!(
            run(&db, "ALTER TABLE t ADD CHECK (a < b)").await,
            "table t: constraint t_check added"
        );
        for (text, part) in [
            (
                "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
                "exists already",
            ),
            (
                "ALTER TABLE t DROP CONSTRAINT other",
                "its constraints are positive, t_check",
            ),
            ("ALTER TABLE t ADD CHECK (c > 0)", "c"),
            ("ALTER TABLE t ADD CHECK (a > (SELECT 1))", "a subquery"),
            ("ALTER TABLE t ADD CHECK (a + 1)", "neither true nor false"),
        ] {
            let message = error(&db, text).await;
            assert!(message.contains(part), "{text}: {message}");
        }
        // Conditions follow the names of columns and of the table; those of a dropped column go.
        run(&db, "ALTER TABLE t RENAME COLUMN b TO \"B b\"").await;
        run(&db, "ALTER TABLE t RENAME TO u").await;
        let message = error(&db, "INSERT INTO u VALUES (5, -1)").await;
        assert!(
            message.contains("'positive', CHECK (\"B b\" > 0); its values are a = 5, B b = -1"),
            "{message}"
        );
        run(&db, "ALTER TABLE u DROP CONSTRAINT positive").await;
        error(&db, "INSERT INTO u VALUES (5, 5)").await;
        assert_eq!(
            run(
                &db,
                "ALTER TABLE u DROP COLUMN \"B b\", ADD COLUMN c int DEFAULT 1 CHECK (c < 5)"
            )
            .await,
            "table u: column B b dropped, with constraint t_check; column c added"
        );
        run(&db, "INSERT INTO u VALUES (5, 4)").await;
        error(&db, "INSERT INTO u VALUES (6, 5)").await;
        error(&db, "ALTER TABLE u ADD COLUMN d int DEFAULT 1 CHECK (d > 1)").await;
        assert_eq!(query(&db, "SELECT * FROM u ORDER BY a").await, ["1|1", "5|4"]);
        assert_eq!(
            run(&db, "ALTER TABLE u DROP CONSTRAINT IF EXISTS positive").await,
            "table u: there is no constraint positive"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_have_lengths() {
    for key in KINDS {
        let (dir, db) = new_pool();
        run(
            &db,
            &format!("CREATE TABLE t (a int{key}, b varchar(3), c char(2) DEFAULT 'ö')"),
        )
        .await;
        run(&db, "INSERT INTO t VALUES (1, 'äöü', 'x'), (2, 'ab   ', NULL)").await;
        run(&db, "INSERT INTO t (a) VALUES (3)").await;
        assert_eq!(
            query(&db, "SELECT a, '<' || b || '>', c FROM t ORDER BY a").await,
            ["1|<äöü>|x", "2|<ab >|NULL", "3|NULL|ö"]
        );
        for text in [
            "INSERT INTO t VALUES (4, 'abcd', 'x')",
            "INSERT INTO t SELECT i, repeat('x', i), 'x' FROM generate_series(4, 5) AS s(i)",
            "UPDATE t SET b = 'abcd' WHERE a = 1",
            "UPDATE t SET b = b || '!' WHERE a = 1",
        ] {
            let message = error(&db, text).await;
            assert!(
                message.contains("column b: '")
                    && message.contains("has 4 characters, and the column takes at most 3"),
                "{text}: {message}"
            );
        }
        let message = error(&db, "ALTER TABLE t ALTER COLUMN b TYPE varchar(2)").await;
        assert!(message.contains("'äöü' has 3 characters"), "{message}");
        run(
            &db,
            "ALTER TABLE t ALTER COLUMN b TYPE varchar(2) USING left(b, 2)",
        )
        .await;
        assert_eq!(
            query(&db, "SELECT b FROM t ORDER BY a").await,
            ["äö", "ab", "NULL"]
        );
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        error(&db, "INSERT INTO t VALUES (4, 'abc', 'x')").await;
        run(&db, "ALTER TABLE t ALTER COLUMN b TYPE text").await;
        run(&db, "INSERT INTO t VALUES (4, 'abcdef', 'x')").await;
        assert_eq!(query(&db, "SELECT b FROM t WHERE a = 4").await, ["abcdef"]);
    }
}

/// Tables that are created with rows, and those that replace others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tables_are_checked() {
    let (_dir, db) = new_pool();
    let create = "CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b < 5)) AS SELECT i, i FROM generate_series(1, 9) AS s(i)";
    let message = error(&db, create).await;
    assert!(message.contains("'t_b_check'"), "{message}");
    run(&db, &create.replace("9)", "4)")).await;
    error(&db, "INSERT INTO t VALUES (5, 5)").await;
    run(&db, "TRUNCATE t").await;
    error(&db, "INSERT INTO t VALUES (5, 5)").await;
    run(&db, "CREATE OR REPLACE TABLE t (a int PRIMARY KEY, b int)").await;
    run(&db, "INSERT INTO t VALUES (5, 5)").await;
    for text in [
        "CREATE TABLE u (a int CHECK (b > 0))",
        "CREATE TABLE u (a int, CHECK (a))",
        "CREATE TABLE u (a int, CONSTRAINT n CHECK (a > 0), CONSTRAINT n CHECK (a < 9))",
        "CREATE TABLE u (a int PRIMARY KEY CHECK (a > random()))",
    ] {
        error(&db, text).await;
        assert!(error(&db, "SELECT * FROM u").await.contains("u"), "{text}");
    }
}
