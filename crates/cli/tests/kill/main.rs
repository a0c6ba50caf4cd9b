//! The program killed at random moments: every acknowledged statement is there, the one under way wholly or
//! not at all.
//!
//! A round writes a script of random statements on tables with and without a primary key, starts the program
//! on it, reads its acknowledgements, and kills it by SIGKILL after a random number of them: at the moment
//! when the next change becomes visible, or after a part, drawn at random, of the time that such a statement
//! has taken so far. The pool must then open, pass `check`, and hold what a model holds after the
//! acknowledged statements, or after one more. The next round goes on with the same pool.
//!
//! `HALOCLINE_KILLS` sets the number of rounds, `HALOCLINE_SEED` the seed; what a script does also depends on
//! where the kills before it fell.

#![allow(clippy::print_stdout, reason = "a failure must be told with its seed")]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod keyed;
mod load;
mod model;
mod pins;
mod pool;
mod rounds;
mod script;

use std::collections::HashMap;
use std::env;
use std::hint::spin_loop;
use std::io::{BufRead, BufReader, Read};
use std::mem::{Discriminant, discriminant};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::Home;
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SplitMix64;
use keyed::KeyedChange;
use model::{Model, Tables};
use script::Statement;

const CREATE: &str = "CREATE TABLE t (id bigint NOT NULL, v bigint, s varchar); \
                      CREATE TABLE k (id bigint PRIMARY KEY, v bigint, s varchar)";
/// Rounds unless told otherwise.
const ROUNDS: u64 = 40;
/// Statements of a round's script.
const STATEMENTS: usize = 40;
/// How long a statement takes that has not been timed yet.
const UNKNOWN: Duration = Duration::from_millis(5);
/// The longest wait for a change to become visible: within a transaction there may be none.
const LONGEST: Duration = Duration::from_millis(60);
/// How long statements of each kind take.
type Times = HashMap<Discriminant<Statement>, Duration>;

#[test]
fn no_kill_tears_a_statement() {
    let rounds = number("HALOCLINE_KILLS").unwrap_or(ROUNDS);
    let seed = seed();
    println!("{rounds} kills; HALOCLINE_SEED={seed}");
    let home = Home::new();
    home.ok(&["sql", "p", CREATE]);
    let mut model = Model::new();
    let mut space = pool::Space::default();
    let (mut killed, mut whole) = (0, 0);
    let mut times = Times::new();
    for round in 0..rounds {
        let mut rng = SplitMix64::stream(seed, round);
        let script = script::write(&home, &mut rng, &model, STATEMENTS);
        let (acknowledged, finished) = run_and_kill(&home, &mut rng, &script, &mut times);
        killed += u64::from(!finished);
        let found = pool::read(&home, &mut space);
        let published = judge(&mut model, &script, acknowledged, &found)
            .unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        whole += u64::from(published);
    }
    println!("{killed} runs were killed; {whole} statements under way had been published");
    space.all_comes_back(&home);
}

/// The same for each command of the program that writes, with readers of older generations beside.
#[test]
fn no_kill_tears_a_command() {
    let rounds = number("HALOCLINE_KILLS").unwrap_or(ROUNDS);
    let seed = seed();
    println!("{rounds} kills; HALOCLINE_SEED={seed}");
    rounds::run(rounds, seed);
}

/// The first test can fail: what it must not accept, it does not accept.
#[test]
fn lost_and_torn_statements_are_noticed() {
    let insert = |first| Statement::Insert {
        first,
        rows: 2,
        default: Vec::new(),
    };
    let script = [insert(0), insert(2), Statement::DeleteRange { from: 0, to: 3 }];
    let [first, second, third] = script.each_ref().map(Statement::sql);
    let judged = |acknowledged, found| judge(&mut Model::new(), &script, acknowledged, &found);
    let half = "DELETE FROM t WHERE id < 2";
    assert_eq!(judged(1, found_after(&[&first])), Ok(false));
    assert_eq!(judged(1, found_after(&[&first, &second])), Ok(true));
    assert_eq!(judged(3, found_after(&[&first, &second, &third])), Ok(false));
    assert!(judged(2, found_after(&[&first])).is_err(), "a lost statement");
    assert!(
        judged(2, found_after(&[&first, &second, half])).is_err(),
        "half of one"
    );
    assert!(
        judged(1, found_after(&[&first, &second, &third])).is_err(),
        "one too many"
    );
    assert!(
        judged(2, found_after(&[&second])).is_err(),
        "one missing in between"
    );
}

/// Neither half of a transaction over tables with and without a primary key is accepted.
#[test]
fn halves_of_transactions_are_noticed() {
    let plain = Statement::Insert {
        first: 0,
        rows: 2,
        default: Vec::new(),
    };
    let keyed = Statement::Keyed(KeyedChange::Upsert { ids: 0..2 });
    let halves = [plain.sql(), keyed.sql()];
    let script = [Statement::Begin, plain, keyed, Statement::Commit];
    let judged = |acknowledged, found| judge(&mut Model::new(), &script, acknowledged, &found);
    let both = found_after(&[&halves[0], &halves[1]]);
    assert_eq!(judged(3, found_after(&[])), Ok(false));
    assert_eq!(judged(3, both), Ok(true));
    for half in &halves {
        assert!(judged(3, found_after(&[half])).is_err(), "under way: {half}");
        assert!(judged(4, found_after(&[half])).is_err(), "acknowledged: {half}");
    }
}

/// Returns what a new pool holds after these statements.
fn found_after(statements: &[&str]) -> Tables {
    let home = Home::new();
    home.ok(&["sql", "p", CREATE]);
    statements
        .iter()
        .for_each(|sql| drop(home.ok(&["sql", "p", sql])));
    pool::read(&home, &mut pool::Space::default())
}

/// The seed of a test, of the environment or of the clock.
fn seed() -> u64 {
    number("HALOCLINE_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    })
}

/// Takes the acknowledged statements into the model. What was found must be what it then holds, or, if the
/// statement under way had been published before it was acknowledged (true), what it holds after that one.
fn judge(
    model: &mut Model,
    script: &[Statement],
    acknowledged: usize,
    found: &Tables,
) -> Result<bool, String> {
    for statement in &script[..acknowledged] {
        model.apply(statement);
    }
    let before = model.clone();
    let published = found != model.committed();
    if published {
        script[acknowledged..]
            .iter()
            .take(1)
            .for_each(|statement| model.apply(statement));
    }
    if found != model.committed() {
        return Err(explain(script, acknowledged, &before, found));
    }
    model.roll_back();
    Ok(published)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Runs the script and kills it; how many statements it acknowledged, and whether it came to its end before.
fn run_and_kill(home: &Home, rng: &mut SplitMix64, script: &[Statement], times: &mut Times) -> (usize, bool) {
    let statements = script.len();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(["sql", "p", "-f", "script.sql"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let awaited = rng.below(statements as u64 + 1) as usize;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    let mut last = None;
    for (statement, line) in script[..awaited].iter().zip(lines.by_ref()) {
        line.unwrap();
        acknowledged += 1;
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            let mean = times.entry(discriminant(statement)).or_insert(now - last);
            *mean = (*mean * 3 + (now - last)) / 4;
        }
    }
    let next = script.get(awaited).map(discriminant);
    let usual = next.and_then(|next| times.get(&next).copied()).unwrap_or(UNKNOWN);
    match rng.below(2) {
        0 => wait_for_change(home),
        // Most of what a statement stores it stores near its end.
        _ => spin(usual.mul_f64((1.2 * rng.unit()).sqrt())),
    }
    // It may have come to its end.
    let _ = child.kill();
    acknowledged += lines.map_while(Result::ok).count();
    let finished = ended_well(&mut child);
    assert!(
        !finished || acknowledged == statements,
        "{acknowledged} of {statements}"
    );
    (acknowledged, finished)
}

/// Returns when the pool shows another version than now.
fn wait_for_change(home: &Home) {
    let options = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(home.path("p"), &options).unwrap();
    let first = pool.snapshot().unwrap();
    let (generation, end) = (
        first.generation(),
        first.log_records("log", 0).map_or(0, |log| log.end),
    );
    drop(first);
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        let now = pool.snapshot().unwrap();
        let appended = now.log_records("log", end).is_ok_and(|log| log.end > end);
        if now.generation() != generation || appended {
            return;
        }
    }
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// Returns true if the program ended by itself; an error of its own fails the test.
fn ended_well(child: &mut Child) -> bool {
    let status = child.wait().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(status.code().is_none_or(|code| code == 0), "{status}: {text}");
    status.success()
}

fn explain(script: &[Statement], acknowledged: usize, model: &Model, found: &Tables) -> String {
    let near: Vec<String> = script[acknowledged.saturating_sub(3)..]
        .iter()
        .take(4)
        .map(Statement::sql)
        .collect();
    format!(
        "the pool is neither as it was after {acknowledged} statements nor after one more; around it: {near:#?}\n{}",
        model::difference(model.committed(), found)
    )
}
