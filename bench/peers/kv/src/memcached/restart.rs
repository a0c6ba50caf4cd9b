//! Servers that are ended while a client stores items, and started again: the time until the first get and
//! the first set are answered.
//!
//! Servers are killed, but for memcached, which keeps its items through a restart only if it has ended in
//! order (`-e`, SIGUSR1). The last acknowledged writes must be there, and no cas value may come again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use halocline_workloads::ycsb_value;
use serde_json::json;

use super::client::{Connection, Load, scattered};
use super::server::{Server, Start};
use crate::cli::{Arguments, RestartOptions};
use crate::disk::ScratchDirectory;
use crate::report::{Config, Report};

/// Bytes that memcached needs for an item besides its value.
const OVERHEAD: u64 = 160;

/// memcached takes the items of its former process only if that has ended in an earlier second than the one
/// in which it starts.
const FORMER_SECOND: Duration = Duration::from_millis(1100);

/// The times of a restart in seconds, and what was done before.
#[derive(Debug, Clone, Copy)]
struct Restart {
    first_get: f64,
    first_set: f64,
    /// Acknowledged writes before the end of the server.
    writes: u64,
}

pub(crate) fn run(arguments: &Arguments, options: &RestartOptions) -> Result<()> {
    let servers = options.servers.servers(&arguments.dir)?;
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let mut report = Report::new("memcached-restart", arguments, &["value B"], &names)?;
    for &bytes in &arguments.values {
        let mut restarts = vec![Vec::new(); servers.len()];
        for turn in 0..options.runs {
            for index in 0..servers.len() {
                // Another server begins each time.
                let index = (index + turn) % servers.len();
                restarts[index].push(measure(&servers[index], arguments, options, bytes)?);
            }
        }
        let config: Config = [
            ("value_bytes", json!(bytes)),
            ("write_ms", json!(options.write_ms)),
            ("threads", json!(options.servers.server_threads)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        let mut cells = vec![bytes.to_string()];
        for (server, restarts) in servers.iter().zip(restarts) {
            let system = (server.name.as_str(), server.version.as_str());
            let mut samples = |metric: &str, of: &dyn Fn(&Restart) -> f64, unit| {
                report.samples(system, &config, metric, restarts.iter().map(of).collect(), unit)
            };
            let get = samples("first_get", &|restart| restart.first_get, "s")?;
            let set = samples("first_set", &|restart| restart.first_set, "s")?;
            let writes = samples("writes_before", &|restart| restart.writes as f64, "records")?;
            cells.push(format!(
                "get {:.1} ms, set {:.1} ms ({writes:.0} writes)",
                get * 1e3,
                set * 1e3
            ));
        }
        eprintln!("{}", cells.join("  "));
        report.row(cells);
    }
    println!("time from the start of the process to the first answers, and the writes before its end");
    report.finish();
    Ok(())
}

/// Returns the item of a write. Several may have the same.
fn item_of(write: u64, items: u64) -> u64 {
    scattered(write, items)
}

fn measure(
    server: &Server,
    arguments: &Arguments,
    options: &RestartOptions,
    bytes: usize,
) -> Result<Restart> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    let items = arguments.records;
    let memory = items * (bytes as u64 + OVERHEAD) / (1 << 20) * 3 / 2 + 128;
    let start = Start::warm(&options.servers, memory);
    let mut running = server.start(directory.path(), &start)?;
    let load = Load {
        address: running.address(),
        items,
        value_bytes: bytes,
        sets_percent: 100,
        connections: 1,
        threads: 1,
        operations: 0,
        seed: arguments.seed,
    };
    load.fill()?;
    let mut greatest = Connection::open(load.address)?
        .gets(0, bytes)?
        .map_or(0, |(_, cas)| cas);
    let writes = write_until_end(&load, |is_ending| {
        thread::sleep(Duration::from_millis(options.write_ms));
        is_ending.store(true, Ordering::SeqCst);
        running.end(server.survives_kill())
    })?;
    ensure!(
        writes > 0,
        "{} stored nothing: use a longer --write-ms",
        server.name
    );

    if !server.survives_kill() {
        thread::sleep(FORMER_SECOND);
    }
    let begun = Instant::now();
    let restarted = server.start(directory.path(), &start)?;
    let mut connection = Connection::open(restarted.address())?;
    let last = item_of(writes - 1, items);
    let found = connection.gets(last, bytes)?;
    let first_get = begun.elapsed().as_secs_f64();
    ensure!(found.is_some(), "{} has lost item {last}", server.name);
    let mut request = Vec::new();
    load.set(last, writes, "", &mut request);
    connection.send(&request)?;
    let reply = connection.line()?;
    let first_set = begun.elapsed().as_secs_f64();
    ensure!(
        reply == b"STORED\r\n",
        "a set was answered with {}",
        reply.escape_ascii()
    );

    let (_, new_cas) = connection
        .gets(last, bytes)?
        .ok_or_else(|| anyhow!("{} has lost what it has just stored", server.name))?;
    // Each item has its last version, but for the one whose write was under way at the end.
    let mut expected = vec![0; bytes];
    let mut seen = HashSet::from([last, item_of(writes, items)]);
    for write in (writes.saturating_sub(options.sample.min(items))..writes - 1).rev() {
        let item = item_of(write, items);
        if !seen.insert(item) {
            continue;
        }
        let (value, cas) = connection
            .gets(item, bytes)?
            .ok_or_else(|| anyhow!("{} has lost item {item}", server.name))?;
        ycsb_value(item, write + 1, &mut expected);
        ensure!(
            value == expected,
            "{} has lost write {write}, of item {item}",
            server.name
        );
        greatest = greatest.max(cas);
    }
    ensure!(
        new_cas > greatest,
        "{} has given the cas value {new_cas} after {greatest}",
        server.name
    );
    Ok(Restart {
        first_get,
        first_set,
        writes,
    })
}

/// Stores items, each write with a version of its own, until `end` has ended the server, which says so
/// before. Returns the number of acknowledged writes.
fn write_until_end(load: &Load, end: impl FnOnce(&AtomicBool) -> Result<()>) -> Result<u64> {
    let (acknowledged, is_ending) = (AtomicU64::new(0), AtomicBool::new(false));
    let writer = || -> Result<()> {
        let mut connection = Connection::open(load.address)?;
        let mut request = Vec::new();
        for write in 0.. {
            request.clear();
            load.set(item_of(write, load.items), write + 1, "", &mut request);
            let reply = connection.send(&request).and_then(|()| connection.line());
            match reply {
                Ok(reply) if reply == b"STORED\r\n" => acknowledged.store(write + 1, Ordering::SeqCst),
                Ok(reply) => return Err(anyhow!("a set was answered with {}", reply.escape_ascii())),
                // The server has ended.
                Err(_) if is_ending.load(Ordering::SeqCst) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let writer = scope.spawn(writer);
        let ended = end(&is_ending);
        is_ending.store(true, Ordering::SeqCst);
        let wrote = writer
            .join()
            .map_err(|_| anyhow!("the writing thread panicked"))?;
        ended.and(wrote)
    })?;
    Ok(acknowledged.load(Ordering::SeqCst))
}
