//! DataFusion's own test records, answered over tables in a pool.
//!
//! The crate `datafusion-sqllogictest` has statements and queries with their answers. Each of its files runs
//! in a new pool: what it creates is in the pool, what it asks is answered by Halocline, and both are given
//! to plain DataFusion of the same build as well, which decides whose a disagreement is. A record is skipped
//! for a reason of [`Skip`]; every other disagreement has to be listed in `known.txt`, and everything that
//! is listed has to occur.
//!
//! `HALOCLINE_SLT` names the directory of the crate's sources; without it there is nothing to run.
//! `HALOCLINE_SLT_FILES` names the beginnings of the paths of the files to run, separated by commas, and
//! prints each disagreement in full.

mod answer;
mod cells;
mod compare;
mod engines;
mod files;
mod known;
mod order;
mod records;
mod sql;
mod summary;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use files::{directory, files, selection};
use known::Known;
use records::run_file;
use summary::{FileSummary, Skip, Summary};

/// Threads that run files.
const THREADS: usize = 2;

/// Records that are compared at least, in this many files.
const MIN_COMPARED: (usize, usize) = (8_900, 160);

#[test]
#[expect(clippy::print_stdout, reason = "the summary is in the documents")]
fn records_of_datafusion_agree() {
    let Some(directory) = directory() else {
        println!("skipped: HALOCLINE_SLT does not name the sources of datafusion-sqllogictest");
        return;
    };
    let selection = selection();
    let known = Known::read(include_str!("known.txt"));
    let (files, left_out) = files(&directory, &selection);
    let summaries = run_files(&directory, &files, &known);
    let mut summary = Summary::new(left_out);
    for file in summaries {
        summary.add(file);
    }
    println!("{summary}");
    let differences = summary.differences();
    for difference in differences {
        println!("{difference}\n");
    }
    let mut failures = Vec::new();
    if !differences.is_empty() {
        failures.push(format!("{} records are answered otherwise", differences.len()));
    }
    if selection.is_none() {
        let listed = known.without_occurrence(summary.occurrences());
        if !listed.is_empty() {
            failures.push(format!(
                "known.txt lists what no longer occurs: {}",
                listed.join(", ")
            ));
        }
        let unused: Vec<&str> = Skip::ALL
            .iter()
            .filter(|skip| !summary.has_skipped(**skip))
            .map(|skip| skip.text())
            .collect();
        if !unused.is_empty() {
            failures.push(format!("nothing is skipped because of: {}", unused.join(", ")));
        }
        if summary.compared() < MIN_COMPARED {
            failures.push(format!(
                "{:?} records and files were compared, fewer than {MIN_COMPARED:?}",
                summary.compared()
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

/// Runs files on several threads, and returns what came of each.
fn run_files(directory: &Path, files: &[String], known: &Known) -> Vec<FileSummary> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .thread_stack_size(16 << 20)
                    .enable_all()
                    .build()
                    .unwrap();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { break };
                    let summary = runtime.block_on(run_file(directory, file, known));
                    done.lock().unwrap().push((at, summary));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, summary)| summary).collect()
}
