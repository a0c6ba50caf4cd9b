//! Tables with a primary key: statements, ranges of keys, transactions, reopening, against a model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use halocline_engine::{Database, DatabaseOptions, EngineError, ImportOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

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
        message.contains("INSERT INTO users: there is a row with the primary key (b, 2) already"),
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
async fn transactions_span_statements() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)").await;
    run(&db, "INSERT INTO accounts VALUES (1, 100), (2, 100)").await;
    let other = db.session();
    let balances = "SELECT balance FROM accounts";
    run(&db, "BEGIN").await;
    run(&db, "UPDATE accounts SET balance = balance - 10 WHERE id = 1").await;
    run(&db, "UPDATE accounts SET balance = balance + 10 WHERE id = 2").await;
    let _failed = error(&db, "INSERT INTO accounts VALUES (3, 0), (1, 0)").await;
    assert_eq!(query(&db, balances).await, ["90", "110"]);
    assert_eq!(query(&other, balances).await, ["100", "100"]);
    run(&db, "COMMIT").await;
    assert_eq!(query(&other, balances).await, ["90", "110"]);
    run(&db, "BEGIN").await;
    run(&db, "DELETE FROM accounts").await;
    assert_eq!(query(&db, balances).await, Vec::<String>::new());
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, balances).await, ["90", "110"]);

    // Write skew: each withdraws because the other account covers it.
    for session in [&db, &other] {
        run(session, "BEGIN").await;
        assert_eq!(query(session, "SELECT sum(balance) FROM accounts").await, ["200"]);
    }
    run(&db, "UPDATE accounts SET balance = balance - 200 WHERE id = 1").await;
    run(&other, "UPDATE accounts SET balance = balance - 200 WHERE id = 2").await;
    run(&db, "COMMIT").await;
    let message = error(&other, "COMMIT").await;
    assert!(
        message.contains("begin again") || message.contains("run the transaction again"),
        "{message}"
    );
    assert_eq!(query(&other, balances).await, ["-110", "110"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_changes_tables_of_both_kinds() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)").await;
    run(&db, "INSERT INTO accounts VALUES (1, 100), (2, 100)").await;
    run(&db, "CREATE TABLE plain (a int)").await;
    let other = db.session();
    let both = "SELECT (SELECT count(*) FROM accounts) AS keyed, (SELECT count(*) FROM plain) AS plain";
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO accounts VALUES (9, 9)").await;
    run(&db, "INSERT INTO plain SELECT id FROM accounts").await;
    run(
        &db,
        "DELETE FROM accounts WHERE id IN (SELECT a FROM plain WHERE a < 2)",
    )
    .await;
    assert_eq!(query(&db, both).await, ["2|3"]);
    assert_eq!(query(&other, both).await, ["2|0"]);
    run(&db, "COMMIT").await;
    assert_eq!(query(&other, both).await, ["2|3"]);
    run(&db, "BEGIN").await;
    run(&db, "DELETE FROM plain").await;
    run(&db, "DELETE FROM accounts").await;
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, both).await, ["2|3"]);

    // What another session has changed in one kind undoes the changes of both, also if it was only read.
    for read in [
        "UPDATE accounts SET balance = 0 WHERE id = 2",
        "SELECT balance FROM accounts WHERE id = 2",
    ] {
        run(&db, "BEGIN").await;
        match read.starts_with("SELECT") {
            true => drop(query(&db, read).await),
            false => drop(run(&db, read).await),
        }
        run(&db, "INSERT INTO plain VALUES (7)").await;
        run(&other, "UPDATE accounts SET balance = balance + 1 WHERE id = 2").await;
        let message = error(&db, "COMMIT").await;
        assert!(message.contains("run the transaction again"), "{message}");
        assert_eq!(query(&db, both).await, ["2|3"]);
    }
    run(&db, "BEGIN").await;
    run(&db, "UPDATE accounts SET balance = 0 WHERE id = 2").await;
    run(&db, "UPDATE plain SET a = 0 WHERE a = 77").await;
    run(&db, "COMMIT").await;
    drop((db, other));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, both).await, ["2|3"]);
    assert_eq!(
        query(&db, "SELECT id, balance FROM accounts").await,
        ["2|0", "9|9"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_transactions_of_both_kinds_whole() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY)").await;
    run(&db, "CREATE TABLE plain (id int)").await;
    let writer = db.session();
    let write = async move {
        for number in 0..30 {
            run(&writer, "BEGIN").await;
            run(&writer, &format!("INSERT INTO plain VALUES ({number})")).await;
            run(&writer, &format!("INSERT INTO keyed VALUES ({number})")).await;
            run(&writer, "COMMIT").await;
        }
    };
    let write = tokio::spawn(write);
    let both = "SELECT (SELECT count(*) FROM plain) - (SELECT count(*) FROM keyed)";
    while !write.is_finished() {
        assert_eq!(query(&db, both).await, ["0"]);
        run(&db, "BEGIN").await;
        let _plain = query(&db, "SELECT count(*) FROM plain").await;
        assert_eq!(query(&db, both).await, ["0"]);
        run(&db, "COMMIT").await;
    }
    write.await.unwrap();
    assert_eq!(query(&db, "SELECT count(*) FROM keyed").await, ["30"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_count_without_losing_any() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE counters (id int PRIMARY KEY, n bigint)").await;
    run(&db, "INSERT INTO counters VALUES (1, 0)").await;
    let count = |session: Database| async move {
        for _ in 0..50 {
            run(&session, "UPDATE counters SET n = n + 1 WHERE id = 1").await;
        }
    };
    let threads: Vec<_> = (0..4).map(|_| tokio::spawn(count(db.session()))).collect();
    for thread in threads {
        thread.await.unwrap();
    }
    assert_eq!(query(&db, "SELECT n FROM counters").await, ["200"]);
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
        ("CREATE TABLE v (a int UNIQUE)", "is not kept; leave it out"),
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

type Model = BTreeMap<(i32, String), Option<i64>>;

/// Runs a random statement, and does the same to the model. Returns false if it must fail.
fn random_statement(model: &mut Model, rng: &mut StdRng) -> (String, bool) {
    let key = |rng: &mut StdRng| {
        (
            rng.random_range(-4..4),
            ["", "a", "b''", "é"][rng.random_range(0..4usize)].to_owned(),
        )
    };
    let literal = |text: &str| format!("'{text}'");
    let value = rng.random_range(0..100i64);
    let unescaped = |(a, b): (i32, String)| (a, b.replace("''", "'"));
    match rng.random_range(0..7) {
        0..=2 => {
            let key = key(rng);
            let kind = rng.random_range(0..4);
            let values = format!("VALUES ({}, {}, {value})", key.0, literal(&key.1));
            let there = model.contains_key(&unescaped(key.clone()));
            let key = unescaped(key);
            let text = match kind {
                0 => format!("INSERT INTO t {values}"),
                1 => format!("INSERT INTO t {values} ON CONFLICT DO NOTHING"),
                2 => format!("REPLACE INTO t {values}"),
                _ => format!("INSERT INTO t {values} ON CONFLICT (a, b) DO UPDATE SET v = t.v + excluded.v"),
            };
            match (kind, there) {
                (0, true) => return (text, false),
                (1, true) => {}
                (3, true) => {
                    let old = model.get_mut(&key).unwrap();
                    *old = old.map(|old| old + value);
                }
                _ => drop(model.insert(key, Some(value))),
            }
            (text, true)
        }
        3 => {
            let from = rng.random_range(-4..4);
            model
                .iter_mut()
                .filter(|((a, _), _)| *a >= from)
                .for_each(|(_, v)| *v = None);
            (format!("UPDATE t SET v = NULL WHERE a >= {from}"), true)
        }
        4 => {
            let (a, b) = key(rng);
            let text = format!("DELETE FROM t WHERE a = {a} AND b <> {}", literal(&b));
            let b = b.replace("''", "'");
            model.retain(|key, _| key.0 != a || key.1 == b);
            (text, true)
        }
        5 => {
            let shift = rng.random_range(-1..2);
            let moved = std::mem::take(model);
            model.extend(moved.into_iter().map(|((a, b), v)| ((a + shift, b), v)));
            (format!("UPDATE t SET a = a + {shift}"), true)
        }
        _ => {
            model.retain(|_, v| v.is_none_or(|v| v >= 50));
            ("DELETE FROM t WHERE v < 50".to_owned(), true)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_statements_do_what_a_map_does() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let (dir, mut db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (a int, v bigint, b text, PRIMARY KEY (a, b))",
    )
    .await;
    run(&db, "ALTER TABLE t RENAME TO s").await;
    run(&db, "DROP TABLE s").await;
    run(
        &db,
        "CREATE TABLE t (a int, b text, v bigint, PRIMARY KEY (a, b))",
    )
    .await;
    let mut model = Model::new();
    for step in 0..150 {
        let (before, in_transaction) = (model.clone(), rng.random_bool(0.2));
        if in_transaction {
            run(&db, "BEGIN").await;
        }
        for _ in 0..if in_transaction { 3 } else { 1 } {
            let (text, succeeds) = random_statement(&mut model, &mut rng);
            match db.sql(&text).await {
                Ok(_) => assert!(succeeds, "seed {seed}, {text}"),
                Err(error) => assert!(!succeeds, "seed {seed}, {text}: {error}"),
            }
        }
        if in_transaction {
            let keep = rng.random_bool(0.5);
            run(&db, if keep { "COMMIT" } else { "ROLLBACK" }).await;
            if !keep {
                model = before;
            }
        }
        if rng.random_bool(0.1) {
            drop(db);
            db = reopen(&dir, &DatabaseOptions::default());
        }
        let a = rng.random_range(-4..4);
        let shown = |(key, v): (&(i32, String), &Option<i64>)| {
            format!(
                "{}|{}|{}",
                key.0,
                key.1,
                v.map_or("NULL".to_owned(), |v| v.to_string())
            )
        };
        let expected: Vec<String> = model.iter().map(shown).collect();
        assert_eq!(
            query(&db, "SELECT a, b, v FROM t").await,
            expected,
            "seed {seed}, step {step}"
        );
        let expected: Vec<String> = model
            .iter()
            .filter(|(key, _)| key.0 <= a && key.1 == "a")
            .map(shown)
            .collect();
        let text = format!("SELECT a, b, v FROM t WHERE a <= {a} AND b = 'a'");
        assert_eq!(query(&db, &text).await, expected, "seed {seed}, step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_inserted_and_streamed() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id bigint PRIMARY KEY, v text)").await;
    run(
        &db,
        "INSERT INTO t SELECT i * 3, 'value ' || i FROM generate_series(1, 50000) AS s(i)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT count(*), min(id), max(id) FROM t").await,
        ["50000|3|150000"]
    );
    assert_eq!(
        query(&db, "SELECT v FROM t WHERE id = 30000").await,
        ["value 10000"]
    );
    let last = query(&db, "SELECT id FROM t WHERE id > 149990").await;
    assert_eq!(last, ["149991", "149994", "149997", "150000"]);
    let sum = query(&db, "SELECT sum(id) FROM t WHERE id BETWEEN 30 AND 60").await;
    assert_eq!(sum, ["495"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_batches_are_added() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, score double DEFAULT 1.5)",
    )
    .await;
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = file("good.csv", "id,name,score\n3,c,0.5\n1,a,\n2,\"b, c\",7\n");
    let options = ImportOptions::default();
    let never = std::sync::atomic::AtomicBool::new(false);
    let import = |path: &PathBuf, options: &ImportOptions| {
        db.import("t", std::slice::from_ref(path), options, &mut |_| (), &never)
    };
    let taken = import(&good, &options).unwrap_err().to_string();
    assert!(taken.contains("table 't' exists already"), "{taken}");
    let append = options.clone().with_append(true);
    assert_eq!(import(&good, &append).unwrap().rows, 3);
    let all = "SELECT id, name, score FROM t";
    let rows = ["1|a|NULL", "2|b, c|7.000000000e0", "3|c|5.000000000e-1"];
    assert_eq!(query(&db, all).await, rows);
    let again = file("again.csv", "id,name,score\n4,d,1\n2,b,1\n");
    let twice = import(&again, &append).unwrap_err().to_string();
    assert!(
        twice.contains("primary key (2) already; import into a table without"),
        "{twice}"
    );
    let sorted = import(&again, &append.clone().with_cluster(vec!["name".to_owned()]))
        .unwrap_err()
        .to_string();
    assert!(sorted.contains("in the order of its primary key"), "{sorted}");
    let bad = file("bad.csv", "id,name,score\n4,d,1\nfive,e,1\n");
    let value = import(&bad, &append).unwrap_err().to_string();
    assert!(value.contains("bad.csv") && value.contains('3'), "{value}");
    assert_eq!(query(&db, all).await, rows, "nothing of a failed import is there");
    run(&db, "BEGIN").await;
    let copied = run(
        &db,
        &format!(
            "COPY t FROM '{}'",
            file("more.csv", "id,name,score\n9,z,9\n").display()
        ),
    )
    .await;
    assert_eq!(copied, "copied 1 row");
    assert_eq!(query(&db.session(), "SELECT count(*) FROM t").await, ["3"]);
    run(&db, "COMMIT").await;
    let batch = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from(vec!["n"])) as ArrayRef),
        ("id", Arc::new(Int32Array::from(vec![10]))),
    ])
    .unwrap();
    assert_eq!(db.insert("t", &batch).unwrap(), 1);
    let twice = db.insert("t", &batch).unwrap_err().to_string();
    assert!(twice.contains("primary key (10) already"), "{twice}");
    let found = query(&db, "SELECT id, score FROM t WHERE id > 3").await;
    assert_eq!(found, ["9|9.000000000e0", "10|1.500000000e0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_handles_read_beside_the_one_that_writes() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY, name text)").await;
    run(&db, "CREATE TABLE plain (id int)").await;
    run(&db, "INSERT INTO keyed VALUES (1, 'a')").await;
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    let second = reopen(&dir, &DatabaseOptions::default());
    let all = "SELECT id, name FROM keyed";
    for other in [&reader, &second] {
        assert_eq!(query(other, all).await, ["1|a"]);
    }
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO keyed VALUES (2, 'b')").await;
    run(&db, "INSERT INTO plain VALUES (2)").await;
    run(&db, "COMMIT").await;
    run(&db, "CREATE TABLE late (id int PRIMARY KEY)").await;
    for other in [&reader, &second] {
        let both = "SELECT (SELECT count(*) FROM keyed) AS keyed, (SELECT count(*) FROM plain) AS plain";
        assert_eq!(query(other, both).await, ["2|1"]);
        assert_eq!(query(other, "SELECT count(*) FROM late").await, ["0"]);
        let message = error(other, "INSERT INTO keyed VALUES (3, 'c')").await;
        assert!(
            message.contains("read-only") || message.contains("in another process"),
            "{message}"
        );
    }
    run(&second, "BEGIN").await;
    assert_eq!(query(&second, "SELECT count(*) FROM keyed").await, ["2"]);
    run(&db, "INSERT INTO keyed VALUES (4, 'd')").await;
    assert_eq!(
        query(&second, "SELECT count(*) FROM keyed").await,
        ["2"],
        "a transaction sees one version"
    );
    run(&second, "COMMIT").await;
    assert_eq!(query(&second, "SELECT count(*) FROM keyed").await, ["3"]);
    drop(db);
    // Nobody writes the stores any more.
    run(&second, "INSERT INTO keyed VALUES (5, 'e')").await;
    assert_eq!(query(&reader, "SELECT count(*) FROM keyed").await, ["4"]);
}
