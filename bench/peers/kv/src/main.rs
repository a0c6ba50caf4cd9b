//! Halocline's key-value store beside RocksDB, redb, fjall and LMDB, at equal durability.
//!
//! All systems run in one process, by turns, in the same directory. See README.md for the command lines.

mod cli;
mod disk;
mod fixture;
mod memcached;
mod open_after_kill;
mod report;
mod space;
mod systems;
mod ycsb;

use clap::Parser;
use cli::{Arguments, Command};

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match &arguments.command {
        Command::Ycsb(options) => ycsb::run(&arguments, options),
        Command::OpenAfterKill(options) => open_after_kill::run(&arguments, options),
        Command::Space(options) => space::run(&arguments, options),
        Command::Memcached(options) => memcached::run(&arguments, options),
        Command::MemcachedRestart(options) => memcached::restart::run(&arguments, options),
        Command::MemcachedOverRedb(options) => memcached::serve_redb(options),
        Command::Writer(options) => open_after_kill::write_until_killed(options),
    }
}
