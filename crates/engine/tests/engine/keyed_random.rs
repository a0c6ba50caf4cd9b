//! Tables with a primary key: random statements do the same to a table and to a model.

use std::collections::BTreeMap;

use halocline_engine::DatabaseOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{new_pool, query, reopen, run};

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
