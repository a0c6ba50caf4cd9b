//! A bank whose transfers go between a table with a primary key and one without: processes that read beside
//! the one that writes see the same sum at any time, also when that is killed while it commits.
//!
//! `HALOCLINE_KILLS` sets the number of writers that are killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use halocline_pool::{Pool, PoolOptions};

use crate::common::{Home, assert_error, stdout};

/// Writers that are killed unless told otherwise.
const KILLS: u64 = 8;
/// Accounts of each kind.
const ACCOUNTS: u64 = 40;
/// Queries of each process that reads, each in a snapshot of its own.
const QUERIES: usize = 8;
/// The sum of all balances.
const SUM: &str = "40000";
const SUMS: &str = "SELECT (SELECT sum(balance) FROM k) + (SELECT sum(balance) FROM t) AS s";

fn bank() -> Home {
    let home = Home::new();
    let create = format!(
        "CREATE TABLE k (id bigint PRIMARY KEY, balance bigint);
         INSERT INTO k SELECT value, 1000 FROM generate_series(1, {ACCOUNTS});
         CREATE TABLE t AS SELECT value AS id, 0 AS balance FROM generate_series(1, {ACCOUNTS})"
    );
    home.ok(&["sql", "p", "--create", &create]);
    home
}

fn transfer(number: u64) -> String {
    let id = number % ACCOUNTS + 1;
    format!(
        "BEGIN; UPDATE k SET balance = balance - 7 WHERE id = {id};
         UPDATE t SET balance = balance + 7 WHERE id = {id}; COMMIT;\n"
    )
}

fn command(home: &Home, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("halocline"));
    command.current_dir(home.directory()).args(arguments);
    command
}

fn start(home: &Home, arguments: &[&str]) -> Child {
    command(home, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a writer has published a number of generations, or has come to its end.
fn await_generations(home: &Home, writer: &mut Child, count: u64) {
    let options = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(home.path("p"), &options).unwrap();
    let first = pool.snapshot().unwrap().generation();
    while pool.snapshot().unwrap().generation() < first + count && writer.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
}

/// Has a process ask for the sum several times, and returns it if all answers agree.
fn sum(home: &Home, options: &[&str]) -> String {
    let queries = [SUMS; QUERIES].join(";");
    let arguments = [&["sql", "p", &queries, "--output", "csv"], options].concat();
    let answer = stdout(&home.ok(&arguments));
    let sums: Vec<&str> = answer
        .lines()
        .filter(|line| !line.is_empty() && *line != "s")
        .collect();
    assert_eq!(sums, vec![sums[0]; QUERIES]);
    sums[0].to_owned()
}

#[test]
fn readers_see_one_sum_although_writers_are_killed() {
    let kills = env::var("HALOCLINE_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok());
    let home = bank();
    home.write("transfers.sql", (0..20_000).map(transfer).collect::<String>());
    for kill in 0..kills.unwrap_or(KILLS) {
        let writer = ["sql", "p", "-f", "transfers.sql"];
        let mut writer = command(&home, &writer).stdout(Stdio::null()).spawn().unwrap();
        await_generations(&home, &mut writer, 1);
        // Beside the writer.
        for options in [&["--read-only"][..], &[]] {
            assert_eq!(sum(&home, options), SUM, "beside writer {kill}");
        }
        // After the decision of a transfer.
        await_generations(&home, &mut writer, 2 + kill % 3);
        writer.kill().unwrap();
        writer.wait().unwrap();
        let pool = std::fs::read(home.path("p")).unwrap();
        assert_eq!(sum(&home, &["--read-only"]), SUM, "after kill {kill}");
        assert!(
            pool == std::fs::read(home.path("p")).unwrap(),
            "a reader has written"
        );
        if kill % 2 == 0 {
            assert_eq!(sum(&home, &[]), SUM, "after kill {kill}");
        }
    }
    home.ok(&["check", "p"]);
}

#[test]
fn statements_wait_for_the_process_that_has_the_stores_open() {
    let home = bank();
    let mut holder = start(&home, &["sql", "p"]);
    let mut input = holder.stdin.take().unwrap();
    input
        .write_all(b"UPDATE k SET balance = balance WHERE id = 1;\n")
        .unwrap();
    let mut answers = BufReader::new(holder.stdout.take().unwrap()).lines();
    answers.next().unwrap().unwrap();
    let update = "UPDATE k SET balance = balance + 1 WHERE id = 1";
    let failed = home.fails(1, &["sql", "p", update, "--lock-wait", "50ms"]);
    assert_error(&failed, &[&format!("is open in process {}", holder.id())]);
    // One is interrupted while it waits, and one gets its turn.
    let interrupted = start(&home, &["sql", "p", update, "--lock-wait", "600s"]);
    let patient = start(&home, &["sql", "p", update, "--lock-wait", "600s"]);
    assert_eq!(sum(&home, &[]), SUM);
    let signal = format!("kill -INT {}", interrupted.id());
    assert!(
        Command::new("sh")
            .args(["-c", &signal])
            .status()
            .unwrap()
            .success()
    );
    let ended = interrupted.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    drop(input);
    assert!(holder.wait().unwrap().success());
    assert!(patient.wait_with_output().unwrap().status.success());
    assert_eq!(sum(&home, &[]), "40001");
}
