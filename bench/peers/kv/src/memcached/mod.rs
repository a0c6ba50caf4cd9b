//! Halocline's memcached server beside memcached, and with other storages of its items: rates and latencies
//! of gets and sets over sockets.
//!
//! Each server runs in a process of its own, one after the other, with as many threads as the clients have.
//! Keys have 32 bytes, and are drawn with the skew of YCSB. All items are loaded before the measurement, so
//! that every get hits.

mod client;
mod redb;
pub(crate) mod restart;
mod server;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cli::{Arguments, MemcachedOptions};
use crate::disk::ScratchDirectory;
use crate::report::{Config, Report};
use client::{Load, Outcome};
pub(crate) use server::serve_redb;
use server::{Server, Start};

/// A configuration of a measurement.
#[derive(Debug, Clone, Copy)]
struct Case {
    value_bytes: usize,
    sets_percent: u64,
    connections: usize,
}

pub(crate) fn run(arguments: &Arguments, options: &MemcachedOptions) -> Result<()> {
    let servers = options.servers.servers(&arguments.dir)?;
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let columns = ["value B", "sets %", "connections"];
    let mut report = Report::new("memcached", arguments, &columns, &names)?;
    for case in cases(arguments, options) {
        let mut outcomes = vec![Vec::new(); servers.len()];
        for turn in 0..options.runs {
            for index in 0..servers.len() {
                // Another server begins each time.
                let index = (index + turn) % servers.len();
                outcomes[index].push(measure(&servers[index], arguments, options, case)?);
            }
        }
        let mut cells = vec![
            case.value_bytes.to_string(),
            case.sets_percent.to_string(),
            case.connections.to_string(),
        ];
        let config = config(case, options);
        for (server, outcomes) in servers.iter().zip(outcomes) {
            let system = (server.name.as_str(), server.version.as_str());
            let samples = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<f64>>();
            let rate = report.samples(system, &config, "rate", samples(&|outcome| outcome.rate), "1/s")?;
            let mut cell = format!("{rate:.0}/s");
            for (percent, name) in [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")] {
                for (kind, of) in [("get", true), ("set", false)] {
                    let latencies = samples(&|outcome| outcome.percentile(of, percent));
                    let metric = format!("{kind}_latency_{name}");
                    let latency = report.samples(system, &config, &metric, latencies, "s")?;
                    if name == "p99" {
                        cell += &format!(" {kind} {:.0} us", latency * 1e6);
                    }
                }
            }
            cells.push(cell);
        }
        eprintln!("{}", cells.join("  "));
        report.row(cells);
    }
    println!("requests per second, and the 99th percentiles of their latencies");
    report.finish();
    Ok(())
}

fn cases(arguments: &Arguments, options: &MemcachedOptions) -> Vec<Case> {
    let mut cases = Vec::new();
    for &value_bytes in &arguments.values {
        for &sets_percent in &options.sets {
            for &connections in &options.connections {
                cases.push(Case {
                    value_bytes,
                    sets_percent,
                    connections,
                });
            }
        }
    }
    cases
}

fn config(case: Case, options: &MemcachedOptions) -> Config {
    [
        ("value_bytes", json!(case.value_bytes)),
        ("sets_percent", json!(case.sets_percent)),
        ("connections", json!(case.connections)),
        ("operations", json!(options.operations)),
        ("threads", json!(options.servers.server_threads)),
        ("hot_items_mib", json!(options.servers.hot_items)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

fn measure(
    server: &Server,
    arguments: &Arguments,
    options: &MemcachedOptions,
    case: Case,
) -> Result<Outcome> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    let running = server.start(directory.path(), &Start::new(&options.servers))?;
    let load = Load {
        address: running.address(),
        items: arguments.records,
        value_bytes: case.value_bytes,
        sets_percent: case.sets_percent,
        connections: case.connections,
        threads: options.client_threads.min(case.connections),
        operations: options.operations,
        seed: arguments.seed,
    };
    load.fill()?;
    let outcome = load.run()?;
    ensure!(
        outcome.misses == 0,
        "{}: {} gets of {} missed",
        server.name,
        outcome.misses,
        options.operations
    );
    Ok(outcome)
}
