//! Tables with a primary key: rows, ranges of keys, conflicts, joins, definitions.

use halocline_engine::{DatabaseOptions, EngineError};

use super::support::{error, new_pool, query, reopen, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_written_found_and_kept() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE users (org text, id bigint, name text DEFAULT 'none', score double, PRIMARY KEY (org, id))",
    )
    .await;
    assert_eq!(
        run(
            &db,
            "INSERT INTO users VALUES ('b', 2, 'Bo', 1.5), ('a', 10, 'Al', NULL), ('a', -3, DEFAULT, 0)"
        )
        .await,
        "inserted 3 rows"
    );
    run(&db, "INSERT INTO users (id, org) SELECT 7, 'c'").await;
    let all = "SELECT org, id, name, score FROM users";
    let rows = [
        "a|-3|none|0.000000000e0",
        "a|10|Al|NULL",
        "b|2|Bo|1.500000000e0",
        "c|7|none|NULL",
    ];
    assert_eq!(query(&db, all).await, rows);
    assert_eq!(
        query(&db, "SELECT name FROM users WHERE org = 'a' AND id = 10").await,
        ["Al"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT id FROM users WHERE org = 'a' AND id >= -3 AND id < 10"
        )
        .await,
        ["-3"]
    );
    let message = error(&db, "INSERT INTO users (org, id) VALUES ('d', 1), ('b', 2)").await;
    assert!(
        message.contains("INSERT INTO users, row 2: there is a row with the primary key (b, 2) already"),
        "{message}"
    );
    let message = error(&db, "INSERT INTO users (org, id) VALUES ('d', 1), ('d', 1)").await;
    assert!(
        message.contains("(d, 1) already; give one row for each key"),
        "{message}"
    );
    let message = error(&db, "INSERT INTO users (org) VALUES ('d')").await;
    assert!(
        message.contains("column id: is NULL, but the column is NOT NULL"),
        "{message}"
    );
    assert_eq!(
        run(&db, "UPDATE users SET id = id + 1, score = 4 WHERE org = 'a'").await,
        "updated 2 rows"
    );
    assert_eq!(
        run(&db, "DELETE FROM users WHERE score > 3 AND id = 11").await,
        "deleted 1 row"
    );
    let rows = ["a|-2|none|4.000000000e0", "b|2|Bo|1.500000000e0", "c|7|none|NULL"];
    assert_eq!(query(&db, all).await, rows);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, all).await, rows);
    assert_eq!(
        query(
            &db,
            "SELECT table_name FROM information_schema.tables WHERE table_name = 'users'"
        )
        .await,
        ["users"]
    );
    assert_eq!(run(&db, "TRUNCATE users").await, "truncated table users");
    assert_eq!(query(&db, "SELECT count(*) FROM users").await, ["0"]);
    assert_eq!(run(&db, "DROP TABLE users").await, "dropped table users");
    let message = error(&db, all).await;
    assert!(message.contains("there is no table 'users'"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_narrow_what_is_read() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (k int, d date, v text, PRIMARY KEY (k, d))").await;
    for (condition, reads) in [
        ("k = 3", "1 ranges by k"),
        ("k = 3 AND d = DATE '2026-01-01'", "1 keys by k, d"),
        ("k IN (1, 2, 5) AND d = DATE '2026-01-01'", "3 keys by k, d"),
        (
            "k = 1 AND d BETWEEN DATE '2026-01-01' AND DATE '2026-02-01'",
            "1 ranges by k, d",
        ),
        ("3 < k", "1 ranges by k"),
        ("d = DATE '2026-01-01'", "all rows"),
        ("k = 1 OR v = 'x'", "all rows"),
    ] {
        let plan = query(&db, &format!("EXPLAIN SELECT v FROM t WHERE {condition}"))
            .await
            .join("\n");
        assert!(
            plan.contains(&format!("KeyedScan: table=t, reads=[{reads}]")),
            "{condition}: {plan}"
        );
    }
    let plan = query(&db, "EXPLAIN SELECT k, v FROM t ORDER BY k LIMIT 3")
        .await
        .join("\n");
    assert!(!plan.contains("SortExec") && plan.contains("fetch=3"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_are_resolved_as_asked() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE hits (page text PRIMARY KEY, n bigint NOT NULL DEFAULT 1, last text)",
    )
    .await;
    run(&db, "INSERT INTO hits VALUES ('a', 5, 'x'), ('b', 6, 'y')").await;
    let hit = "INSERT INTO hits (page, last) VALUES ('a', 'z'), ('c', 'z') \
               ON CONFLICT (page) DO UPDATE SET n = hits.n + excluded.n, last = excluded.last";
    assert_eq!(run(&db, hit).await, "inserted 2 rows");
    let all = "SELECT page, n, last FROM hits";
    assert_eq!(query(&db, all).await, ["a|6|z", "b|6|y", "c|1|z"]);
    run(&db, &format!("{hit} WHERE hits.page = 'c'")).await;
    assert_eq!(query(&db, all).await, ["a|6|z", "b|6|y", "c|2|z"]);
    assert_eq!(
        run(
            &db,
            "INSERT INTO hits VALUES ('b', 0, NULL), ('d', 0, NULL) ON CONFLICT DO NOTHING"
        )
        .await,
        "inserted 1 row"
    );
    assert_eq!(
        run(&db, "INSERT OR IGNORE INTO hits VALUES ('d', 9, NULL)").await,
        "inserted 0 rows"
    );
    run(&db, "INSERT OR REPLACE INTO hits VALUES ('b', 9, 'w')").await;
    assert_eq!(query(&db, all).await, ["a|6|z", "b|9|w", "c|2|z", "d|0|NULL"]);
    for (text, reason) in [
        (
            "INSERT INTO hits (page) VALUES ('a') ON CONFLICT (n) DO NOTHING",
            "does not name the primary key, which is (page)",
        ),
        (
            "INSERT INTO hits (page) VALUES ('a') ON CONFLICT (page) DO UPDATE SET page = 'q'",
            "belongs to the primary key",
        ),
        (
            "INSERT INTO hits (page) VALUES ('a') ON CONFLICT (page) DO UPDATE SET z = 1",
            "has no column 'z'",
        ),
        (
            "INSERT INTO hits (page) VALUES ('q'), ('q') ON CONFLICT (page) DO UPDATE SET n = 1",
            "give one row for each key",
        ),
        (
            "INSERT INTO hits (page) VALUES ('a') ON CONFLICT (page) DO UPDATE SET n = NULL",
            "column n: is NULL",
        ),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(reason), "{text}: {message}");
    }
    assert_eq!(query(&db, all).await.len(), 4);
    run(&db, "CREATE TABLE plain (a int)").await;
    let message = error(&db, "INSERT INTO plain VALUES (1) ON CONFLICT DO NOTHING").await;
    assert!(message.contains("the table has no primary key"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_both_kinds_are_joined() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE customers (id int PRIMARY KEY, name text)").await;
    run(
        &db,
        "INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(1, 1000) AS s(i)",
    )
    .await;
    run(&db, "CREATE TABLE orders AS SELECT i AS order_id, i % 7 * 100 AS customer FROM generate_series(1, 5000) AS s(i)").await;
    let joined = "SELECT name, count(*) FROM orders JOIN customers ON customer = id GROUP BY name ORDER BY name LIMIT 2";
    assert_eq!(query(&db, joined).await, ["customer 100|715", "customer 200|715"]);
    run(
        &db,
        "UPDATE customers SET name = 'best' WHERE id IN (SELECT max(customer) FROM orders)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT id FROM customers WHERE name = 'best'").await,
        ["600"]
    );
    run(
        &db,
        "DELETE FROM orders WHERE customer NOT IN (SELECT id FROM customers)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT count(*) FROM orders WHERE customer = 0").await,
        ["0"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_change() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id int PRIMARY KEY, a text)").await;
    run(&db, "INSERT INTO t VALUES (1, 'x')").await;
    run(&db, "ALTER TABLE t ADD COLUMN b int NOT NULL DEFAULT 5").await;
    run(&db, "ALTER TABLE t ADD COLUMN c date").await;
    run(&db, "ALTER TABLE t RENAME COLUMN a TO z").await;
    run(&db, "ALTER TABLE t RENAME TO u").await;
    run(&db, "INSERT INTO u (id) VALUES (2)").await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(
        query(&db, "SELECT id, z, b, c FROM u").await,
        ["1|x|5|NULL", "2|NULL|5|NULL"]
    );
    run(&db, "CREATE TABLE plain (a int)").await;
    for (text, reason) in [
        ("CREATE TABLE u (a int)", "table 'u' exists already"),
        ("CREATE TABLE u AS SELECT 1 AS a", "table 'u' exists already"),
        (
            "CREATE OR REPLACE TABLE u (a int)",
            "differs in having a primary key",
        ),
        (
            "CREATE TABLE plain (a int PRIMARY KEY)",
            "table 'plain' exists already",
        ),
        ("CREATE TABLE u (a int PRIMARY KEY)", "table 'u' exists already"),
        ("ALTER TABLE plain RENAME TO u", "table 'u' exists already"),
        ("ALTER TABLE u RENAME TO plain", "table 'plain' exists already"),
        ("ALTER TABLE u ADD COLUMN d int NOT NULL", "add DEFAULT"),
        ("ALTER TABLE u ADD COLUMN b int", "column 'b' exists already"),
        ("ALTER TABLE u RENAME COLUMN q TO r", "has no column 'q'"),
        (
            "CREATE TABLE v (a int, PRIMARY KEY (b))",
            "names a column that the table does not have",
        ),
        (
            "CREATE TABLE v (a int, PRIMARY KEY (a, a))",
            "names a column twice",
        ),
        (
            "CREATE TABLE v (a int PRIMARY KEY, b int PRIMARY KEY)",
            "PRIMARY KEY (a, b)",
        ),
        (
            "CREATE TABLE v (a int PRIMARY KEY) WITH (cluster = 'a')",
            "in the order of the key",
        ),
        (
            "CREATE TABLE v (a int UNIQUE)",
            "UNIQUE in v, which has no primary key, is not supported; ",
        ),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(reason), "{text}: {message}");
    }
    assert_eq!(
        run(&db, "CREATE TABLE IF NOT EXISTS u (a int PRIMARY KEY)").await,
        "table u is there already"
    );
    run(&db, "CREATE OR REPLACE TABLE u (a int PRIMARY KEY)").await;
    assert_eq!(query(&db, "SELECT count(*) FROM u").await, ["0"]);
    run(&db, "BEGIN").await;
    assert!(matches!(
        db.sql("CREATE TABLE w (a int PRIMARY KEY)").await.err(),
        Some(EngineError::InTransaction { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_determine_the_other_columns() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE p (a int, b int, name text, PRIMARY KEY (a, b))",
    )
    .await;
    run(&db, "CREATE TABLE q (id int PRIMARY KEY, name text)").await;
    run(&db, "CREATE TABLE f (a int, b int, x int)").await;
    run(&db, "INSERT INTO p VALUES (1, 1, 'x'), (1, 2, 'x'), (2, 1, NULL)").await;
    run(&db, "INSERT INTO q VALUES (1, 'one'), (2, NULL)").await;
    run(
        &db,
        "INSERT INTO f VALUES (1, 1, 10), (1, 1, 20), (1, 2, 5), (2, 1, 7), (3, 3, 1)",
    )
    .await;
    for (text, rows) in [
        (
            "SELECT p.a, p.b, name, sum(x) FROM p JOIN f ON p.a = f.a AND p.b = f.b GROUP BY p.a, p.b ORDER BY 1, 2",
            vec!["1|1|x|30", "1|2|x|5", "2|1|NULL|7"],
        ),
        (
            "SELECT q.id, q.name, count(*) FROM f LEFT JOIN q ON q.id = f.a GROUP BY q.id ORDER BY 1",
            vec!["1|one|3", "2|NULL|1", "NULL|NULL|1"],
        ),
        (
            "SELECT x, (SELECT name FROM q WHERE q.id = f.a) FROM f ORDER BY x",
            vec!["1|NULL", "5|one", "7|NULL", "10|one", "20|one"],
        ),
        (
            "SELECT name, count(*) FROM p GROUP BY a, b, name ORDER BY a, b",
            vec!["x|1", "x|1", "NULL|1"],
        ),
        ("SELECT DISTINCT a, name FROM p ORDER BY a", vec!["1|x", "2|NULL"]),
    ] {
        assert_eq!(query(&db, text).await, rows, "{text}");
    }
    // A part of a key does not determine anything.
    let message = error(&db, "SELECT a, name FROM p GROUP BY a").await;
    assert!(
        message.contains("must appear in the GROUP BY clause"),
        "{message}"
    );
    let message = error(&db, "SELECT x, (SELECT name FROM p WHERE p.a = f.a) FROM f").await;
    assert!(message.contains("more than one row"), "{message}");
}
