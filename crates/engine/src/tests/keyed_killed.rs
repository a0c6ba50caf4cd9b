//! A process that is killed while it commits a transaction over both kinds of tables: others see both halves.
//! The test runs itself as the process that is killed.

use std::path::Path;
use std::process::{Command, Stdio};

use halocline_catalog::tuning::{EngineFault, Tuning};
use halocline_pool::{Pool, PoolOptions};

use super::model::runtime;
use super::{rows, sorted};
use crate::{Database, DatabaseOptions};

const POOL: &str = "HALOCLINE_ENGINE_KILLED_POOL";
const POINT: &str = "HALOCLINE_ENGINE_KILLED_POINT";

/// Points at which the process ends.
const POINTS: [EngineFault; 2] = [EngineFault::DieDecided, EngineFault::DieCommitted];

const SUMS: &str = "SELECT (SELECT sum(balance) FROM k), (SELECT sum(balance) FROM t)";

fn open(path: &Path, read_only: bool, injected: Option<EngineFault>) -> Database {
    let pool = Pool::open(path, &PoolOptions::default().with_read_only(read_only)).unwrap();
    let options = DatabaseOptions::default().with_read_only(read_only);
    let tuning = Tuning {
        injected,
        ..Tuning::default()
    };
    Database::with_tuning(pool, &options, tuning)
}

fn transfer(db: &Database) {
    let runtime = runtime();
    for text in [
        "BEGIN",
        "UPDATE k SET balance = balance - 7 WHERE id = 3",
        "UPDATE t SET balance = balance + 7 WHERE id = 4",
        "DELETE FROM k WHERE id = 5",
        "UPDATE t SET balance = balance + 100 WHERE id = 5",
        "COMMIT",
    ] {
        runtime.block_on(rows(db, text)).unwrap();
    }
}

fn sums(db: &Database) -> Vec<String> {
    sorted(&runtime().block_on(rows(db, SUMS)).unwrap())
}

#[test]
#[ignore = "run by another test, as a process of its own"]
fn child() {
    let path = std::env::var_os(POOL).unwrap();
    let point: usize = std::env::var(POINT).unwrap().parse().unwrap();
    transfer(&open(path.as_ref(), false, Some(POINTS[point])));
}

#[test]
fn others_see_both_halves_of_what_a_killed_process_has_committed() {
    for (point, at) in POINTS.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        let db = Database::create(&path, &DatabaseOptions::default()).unwrap();
        for text in [
            "CREATE TABLE k (id bigint PRIMARY KEY, balance bigint)",
            "INSERT INTO k SELECT value, 100 FROM generate_series(1, 10)",
            "CREATE TABLE t AS SELECT value AS id, 0 AS balance FROM generate_series(1, 10)",
        ] {
            runtime().block_on(rows(&db, text)).unwrap();
        }
        drop(db);
        // Sessions from before: they read beside the process that is killed, and one could write.
        let db = open(&path, false, None);
        db.stores().unwrap();
        let early = [true, false].map(|read_only| open(&path, read_only, None));
        for reader in &early {
            assert_eq!(sums(reader), ["1000|0|"]);
        }
        drop(db);
        let killed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::keyed_killed::child", "--ignored"])
            .env(POOL, &path)
            .env(POINT, point.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!killed.success(), "the process was not killed");
        let before = std::fs::read(&path).unwrap();
        let late = open(&path, true, None);
        for reader in [&late, &early[0]] {
            assert_eq!(sums(reader), ["893|107|"], "{at:?}");
        }
        assert!(before == std::fs::read(&path).unwrap(), "a reader has written");
        for reader in [&early[1], &early[0], &late] {
            assert_eq!(sums(reader), ["893|107|"], "{at:?}");
        }
        let again = "INSERT INTO k VALUES (5, 1)";
        runtime().block_on(rows(&early[1], again)).unwrap();
        assert_eq!(sums(&late), ["894|107|"]);
    }
}
