//! Damaged and hostile pool files in bulk: the right answer or an error that names the object or the file,
//! and nothing else: no wrong answer, panic, abort, endless loop, or memory beyond a limit.
//!
//! A small pool with tables of both kinds, indexes, a log, stores, trees and items of a memcached server is
//! made once. Each case is a number, its *seed*, from
//! which one change to a copy of the file and the statements that follow are drawn. Cases run in a worker,
//! another process of this program with limited memory, which a watchdog ends when a case takes too long; it
//! says each seed before it begins, so that no case can fail unseen.
//!
//! `HALOCLINE_DAMAGED` and `HALOCLINE_HOSTILE` set the numbers of cases, `HALOCLINE_SOAK` that of statements
//! of the soak test; `HALOCLINE_SEED` runs one case only.

#![allow(clippy::print_stdout, reason = "worker and watchdog talk by lines")]

mod answers;
mod case;
mod damage;
mod digest;
mod hostile;
mod image;
mod items;
mod keyed;
mod objects;
mod pairs;
mod places;
mod pristine;
mod process;
mod segments;
mod space;
mod stores;
mod tables;
mod trees;
mod verdict;
mod worker;
mod writes;

/// Cases of each test unless the environment says otherwise.
const CASES: u64 = 60;
/// Statements of the soak test.
const STATEMENTS: u64 = 150;

#[test]
fn damaged_pools() {
    process::run("damaged", process::count("HALOCLINE_DAMAGED", CASES));
}

#[test]
fn hostile_pools() {
    process::run("hostile", process::count("HALOCLINE_HOSTILE", CASES));
}

#[test]
fn the_file_stays_small() {
    space::soak(process::count("HALOCLINE_SOAK", STATEMENTS));
}

/// Not a test: what [`process::run`] starts, in a process of its own.
#[test]
fn worker() {
    if let Some(work) = process::work() {
        worker::work(&work);
    }
}
