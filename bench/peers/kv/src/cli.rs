//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::systems::System;

/// Halocline's key-value store beside RocksDB, redb, fjall and LMDB.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    /// Directory for the data. On tmpfs, such as /dev/shm, it stands for a DAX medium: a sync costs almost
    /// nothing. Elsewhere every commit waits for the disk
    #[arg(long, global = true, default_value = "/dev/shm")]
    pub(crate) dir: PathBuf,
    /// Systems, in the order of their first turn
    #[arg(long, global = true, value_delimiter = ',', default_values_t = System::value_variants().to_vec())]
    pub(crate) systems: Vec<System>,
    /// Number of records to load
    #[arg(long, global = true, default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Sizes of the values, in bytes
    #[arg(long, global = true, value_delimiter = ',', default_values_t = [100])]
    pub(crate) values: Vec<usize>,
    /// Seed of the operations
    #[arg(long, global = true, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Append one object per measured value to this file, as `halocline bench --json` does
    #[arg(long, global = true)]
    pub(crate) json: Option<PathBuf>,
    /// The experiment.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Returns the names of the systems.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.systems.iter().map(|system| system.name()).collect()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the rates of the YCSB core workloads
    Ycsb(YcsbOptions),
    /// Kill a writing process, then measure the time from open to the first answer
    OpenAfterKill(KillOptions),
    /// Overwrite records at random, and compare the bytes on disk with the live bytes
    Space(SpaceOptions),
    /// Measure gets and sets of memcached servers over sockets
    Memcached(MemcachedOptions),
    /// End memcached servers under load, all but memcached by SIGKILL, and measure the time until they answer
    /// again
    MemcachedRestart(RestartOptions),
    /// Serve items in redb: a child process of `memcached`
    #[command(hide = true)]
    MemcachedOverRedb(RedbServerOptions),
    /// Write until killed: the child process of `open-after-kill`
    #[command(hide = true)]
    Writer(WriterOptions),
}

#[derive(Debug, Args)]
pub(crate) struct YcsbOptions {
    /// Letters of the workloads
    #[arg(long, default_value = "ABCDEF")]
    pub(crate) workloads: String,
    /// Operations of each run
    #[arg(long, default_value_t = 100_000)]
    pub(crate) operations: u64,
    /// Operations between two commits
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000])]
    pub(crate) commit: Vec<u64>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    pub(crate) threads: Vec<u64>,
    /// Runs of each configuration, of which the median counts
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
}

#[derive(Debug, Args)]
pub(crate) struct KillOptions {
    /// Milliseconds for which the process writes before it is killed
    #[arg(long, default_value_t = 2000)]
    pub(crate) write_ms: u64,
    /// Writes of each commit
    #[arg(long, default_value_t = 100)]
    pub(crate) commit: u64,
    /// Processes killed for each system, of which the median counts
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: usize,
}

#[derive(Debug, Args)]
pub(crate) struct SpaceOptions {
    /// Overwrites, as a multiple of the number of records
    #[arg(long, default_value_t = 10)]
    pub(crate) rounds: u64,
    /// Writes of each commit
    #[arg(long, default_value_t = 1000)]
    pub(crate) commit: u64,
}

/// A server that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(crate) enum ServerKind {
    /// Halocline's server, with its key-value store
    Halocline,
    /// memcached
    Memcached,
    /// Halocline's server, with redb as its storage
    Redb,
    /// Halocline's server, with items in LB+-Trees
    Lb,
    /// The same with FPTrees
    Fp,
    /// The same with wB+-Trees
    Wb,
    /// The same with FAST&FAIR trees
    FastFair,
}

impl ServerKind {
    /// Returns the name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Halocline => "halocline",
            Self::Memcached => "memcached",
            Self::Redb => "redb",
            Self::Lb => "lb",
            Self::Fp => "fp",
            Self::Wb => "wb",
            Self::FastFair => "fast-fair",
        }
    }
}

impl std::fmt::Display for ServerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Args)]
pub(crate) struct RedbServerOptions {
    #[arg(long)]
    pub(crate) directory: PathBuf,
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    #[arg(long)]
    pub(crate) threads: usize,
    /// DRAM for copies of hot items in MiB
    #[arg(long)]
    pub(crate) hot_items: u64,
}

/// The servers that are compared.
#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// Servers, in the order of their first turn
    #[arg(long, value_delimiter = ',', default_values_t = [ServerKind::Halocline, ServerKind::Memcached])]
    pub(crate) servers: Vec<ServerKind>,
    /// DRAM for copies of hot items in MiB, for all servers but memcached
    #[arg(long, default_value_t = 64)]
    pub(crate) hot_items: u64,
    /// Program of Halocline's server
    #[arg(long, default_value = "../../../target/release/halocline-memcached")]
    pub(crate) halocline: PathBuf,
    /// Program of memcached
    #[arg(long, default_value = "memcached")]
    pub(crate) memcached: PathBuf,
    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    pub(crate) server_threads: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RestartOptions {
    /// The servers.
    #[command(flatten)]
    pub(crate) servers: ServerOptions,
    /// Milliseconds for which a client stores items before the server is ended
    #[arg(long, default_value_t = 2000)]
    pub(crate) write_ms: u64,
    /// Acknowledged writes, the last ones, that are verified after the restart
    #[arg(long, default_value_t = 10_000)]
    pub(crate) sample: u64,
    /// Restarts of each server, of which the median counts
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
}

#[derive(Debug, Args)]
pub(crate) struct MemcachedOptions {
    /// The servers.
    #[command(flatten)]
    pub(crate) servers: ServerOptions,
    /// Requests of each run
    #[arg(long, default_value_t = 400_000)]
    pub(crate) operations: u64,
    /// Shares of sets, in percent
    #[arg(long, value_delimiter = ',', default_values_t = [5, 50])]
    pub(crate) sets: Vec<u64>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub(crate) connections: Vec<usize>,
    /// Threads of the clients
    #[arg(long, default_value_t = 2)]
    pub(crate) client_threads: usize,
    /// Runs of each configuration, of which the median counts
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
}

#[derive(Debug, Args)]
pub(crate) struct WriterOptions {
    #[arg(long)]
    pub(crate) system: System,
    #[arg(long)]
    pub(crate) path: PathBuf,
    #[arg(long)]
    pub(crate) count: u64,
    #[arg(long)]
    pub(crate) bytes: usize,
    #[arg(long)]
    pub(crate) commit: u64,
}
