//! Any command that writes, killed: a state from before or after it, with readers of older generations
//! beside.

use std::collections::HashMap;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use halocline_engine::{Database, DatabaseOptions};
use halocline_ordered::{Range, open_tree};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SplitMix64;
use tokio::runtime::Runtime;

use crate::commands::{Command, State};
use crate::common::Home;
use crate::pins::Pins;
use crate::{UNKNOWN, ended_well, spin};

/// Runs commands and kills them; panics if one leaves what it must not.
pub(crate) fn run(rounds: u64, seed: u64) {
    let home = Home::new();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE t (id bigint NOT NULL, v bigint); CREATE TABLE k (id bigint PRIMARY KEY, v bigint)",
    ]);
    home.ok(&["kv", "p", "create"]);
    let mut state = read(&home).unwrap();
    let mut pins = Pins::new(&home);
    let mut times = HashMap::new();
    let mut killed = 0;
    for round in 0..rounds {
        let mut rng = SplitMix64::stream(seed, 1_000_000 + round);
        pins.turn(&mut rng);
        let command = Command::draw(&home, &mut rng, &state);
        let finished = run_and_kill(&home, &mut rng, &command, &mut times);
        killed += u64::from(!finished);
        let told = |wrong: String| format!("round {round}, {:?}: {wrong}", command.arguments);
        let found = read(&home).map_err(told).unwrap();
        assert!(
            command.allows(&state, &found, finished),
            "round {round}, {:?}, finished: {finished}\nbefore {state:?}\nfound {found:?}",
            command.arguments
        );
        pins.judge(&home).map_err(told).unwrap();
        state = found;
    }
    println!("{killed} of {rounds} commands were killed");
}

/// Runs a command and kills it at a random moment; whether it came to its end before.
fn run_and_kill(
    home: &Home,
    rng: &mut SplitMix64,
    command: &Command,
    times: &mut HashMap<usize, Duration>,
) -> bool {
    let options = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(home.path("p"), &options).unwrap();
    let version = || {
        let snapshot = pool.snapshot().unwrap();
        (
            snapshot.generation(),
            snapshot.log_records("log", 0).map_or(0, |log| log.end),
        )
    };
    let before = version();
    let start = Instant::now();
    let mut child = Program::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(&command.arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let usual = times.get(&command.kind).copied();
    match (usual, rng.below(8)) {
        // Some come to their end, the first of each kind among them.
        (None, _) | (_, 0) => {
            let _ = child.wait();
            let time = start.elapsed();
            let mean = times.entry(command.kind).or_insert(time);
            *mean = (*mean * 3 + time) / 4;
        }
        (_, 1..3) => while is_running(&mut child) && version() == before {},
        (usual, _) => spin(usual.unwrap_or(UNKNOWN).mul_f64(rng.unit().sqrt())),
    }
    // It may have come to its end.
    let _ = child.kill();
    ended_well(&mut child)
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

/// Opens the pool as the next program would, checks it, and reads all of it.
fn read(home: &Home) -> Result<State, String> {
    let mut state = State::default();
    let database = Database::open(&home.path("p"), &DatabaseOptions::default()).map_err(|e| e.to_string())?;
    let report = database.check(&mut |_| ()).map_err(|e| e.to_string())?;
    if !report.problems.is_empty() {
        return Err(report.problems.join("; "));
    }
    let info = database.info().map_err(|e| e.to_string())?;
    let runtime = Runtime::new().unwrap();
    let plain = info.tables.iter().map(|table| (&table.name, table.columns.len()));
    let keyed = info.keyed_tables.iter();
    let keyed = keyed.map(|table| (&table.name, table.columns.len()));
    for (name, columns) in plain.chain(keyed) {
        let sql = format!("SELECT count(*), sum(id) FROM {name}");
        let [count, sum] = numbers(&database, &runtime, &sql)?;
        state.tables.insert(name.clone(), (count as u64, sum, columns));
    }
    for index in &info.indexes {
        state.indexes.insert(index.name.clone());
        let sql = format!(
            "SELECT count(*), sum(id) FROM {} WHERE v BETWEEN 2 AND 4",
            index.table
        );
        let [scan, forced] = ["off", "force"].map(|mode| {
            let set = runtime.block_on(database.sql(&format!("SET halocline.index = {mode}")));
            set.map_err(|error| error.to_string())
                .and_then(|_| numbers(&database, &runtime, &sql))
        });
        if scan? != forced? {
            return Err(format!("index {} differs from its table", index.name));
        }
    }
    drop(database);
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).map_err(|e| e.to_string())?;
    let tree = open_tree(&pool, "tree/kv").map_err(|e| e.to_string())?;
    let report = tree.check().map_err(|e| e.to_string())?;
    if !report.is_intact() {
        return Err(format!("the tree is damaged: {report:?}"));
    }
    let entries: Result<_, _> = Range::new(&*tree, ..).collect();
    state.entries = entries.map_err(|e| e.to_string())?;
    Ok(state)
}

/// The two numbers that a query answers.
fn numbers(database: &Database, runtime: &Runtime, sql: &str) -> Result<[i64; 2], String> {
    let rows = runtime.block_on(async { database.sql(sql).await?.collect().await });
    let rows = rows.map_err(|error| format!("{sql}: {error}"))?;
    let columns = rows.first().map(|batch| batch.columns()).unwrap_or_default();
    let value = |column: usize| {
        let column = columns[column].as_primitive::<Int64Type>();
        column.iter().next().flatten().unwrap_or(0)
    };
    Ok([value(0), value(1)])
}
