//! The command line.

mod advise;
mod calibrate;
mod generate;
mod kv;
mod space;
mod sql;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use halocline_engine::QuoteOption;
use halocline_memcached::MemcachedArgs;
use halocline_terminal::args::scale_factor;
use halocline_terminal::size;

pub(crate) use advise::AdviseArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use generate::{Benchmark, GenerateArgs};
pub(crate) use halocline_terminal::output::OutputFormat;
pub(crate) use kv::{
    Encoding, EntryFormat, ExportArgs, GetArgs, KvArgs, KvCommand, KvImportArgs, KvStatsArgs, PutArgs,
    ScanArgs,
};
pub(crate) use space::{CompactArgs, VacuumArgs};
pub(crate) use sql::{IN_MEMORY, SqlArgs};

const USAGE: &str = "\
halocline [POOL]       a SQL shell on a pool, or on one in memory
       halocline COMMAND …";

const MAIN_HELP: &str = "\
Examples:
  halocline demo                                      see it work, on generated data
  halocline import shop.pool orders orders.csv        a CSV file becomes a table (and the pool, if missing)
  halocline index shop.pool orders --on day,customer  an Elf over two columns
  halocline sql shop.pool \"SELECT count(*) FROM orders WHERE day = DATE '2026-01-01'\"
  halocline shop.pool                                 a SQL shell, as `halocline sql shop.pool`
  halocline kv shop.pool create                       an ordered tree of keys and values; then put, get, scan

Exit codes: 0 success, 1 error, 2 wrong command line, 3 no such key (kv), 4 pool truncated or unreadable while in use,
130 interrupted by Ctrl-C.
HALOCLINE_LOG=debug prints what the engine does.";

/// Tables and multi-dimensional indexes in one file, larger than DRAM, open in milliseconds.
///
/// A pool is a file that holds tables and indexes. It lies on persistent memory, CXL memory or any disk,
/// needs no server, and after a restart or a crash it is simply opened again: nothing is rebuilt.
#[derive(Debug, Parser)]
#[command(name = "halocline", version, override_usage = USAGE, after_help = MAIN_HELP, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure selections, star queries, a restart, a crash and a slow tier on generated data
    Demo(DemoArgs),
    /// Import files into a new table, or append them to one there is
    Import(ImportArgs),
    /// Build an Elf, a multi-dimensional index, over columns of a table
    Index(IndexArgs),
    /// Run SQL, or start a SQL shell
    Sql(SqlArgs),
    /// Show what is in a pool
    Info(InfoArgs),
    /// Verify every checksum and invariant of a pool
    Check(CheckArgs),
    /// Merge the segments of a table, and drop its deleted rows
    Compact(CompactArgs),
    /// Compact, then give free space back to the file system
    Vacuum(VacuumArgs),
    /// Measure a medium and DRAM, for the pools on that medium
    Calibrate(CalibrateArgs),
    /// Propose indexes for queries, or a placement for an index
    Advise(AdviseArgs),
    /// Key-value stores and ordered trees: create, put, get, scan, del, import, export, list, check, stats
    Kv(KvArgs),
    /// Serve the memcached protocol from a pool
    #[command(disable_help_flag = true)]
    Memcached(Box<MemcachedArgs>),
    /// Drop a table (with its indexes) or an index
    Drop(DropArgs),
    /// Write the tables of a public benchmark to Parquet files
    Generate(GenerateArgs),
    /// Run an experiment, or list them: a program of its own, halocline-bench
    #[command(disable_help_flag = true)]
    Bench(ExternalArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Steps the program runs in a process of their own, which [`InternalCli`] parses
    #[command(skip)]
    Internal(InternalCommand),
}

/// The command line of the steps that the program runs in a process of their own. It is apart from [`Cli`], so
/// that help and completions do not show it.
#[derive(Debug, Parser)]
#[command(name = "halocline internal")]
pub(crate) struct InternalCli {
    #[command(subcommand)]
    pub(crate) command: InternalCommand,
}

/// How a pool is opened.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OpenArgs {
    /// Make every change survive power loss before it is acknowledged (else: the death of the process)
    #[arg(long)]
    pub(crate) strict: bool,
    /// DRAM to use, as 512M or 2G; what does not fit is spilled [default: a quarter of the machine]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,
    /// Directory for temporary files of queries [default: that of the pool]
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_directory: Option<PathBuf>,
    /// Threads to use, 1024 at most [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// How long a statement waits for another writer of the pool, as 500ms, 5s or 2min; a day at most
    /// [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = lock_wait)]
    pub(crate) lock_wait: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  halocline demo
  halocline demo --sf 1                        a third of the data
  halocline demo --dir /mnt/fast/demo          the files stay for `halocline sql`")]
pub(crate) struct DemoArgs {
    /// TPC-H scale factor; 1 is 6 million rows of lineitem
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0, value_parser = scale_factor)]
    pub(crate) sf: f64,
    /// Keep the Parquet files and the pool in this directory [default: a temporary one, removed]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The rows are published when all files are read, or none of them. A missing pool is created.

A column of a CSV file has another type than text only if none of its values loses anything (02139 and +1 stay text).
What was detected is printed after the import, with the value that decided each type.

Examples:
  halocline import shop.pool orders orders-2025.parquet orders-2026.parquet
  halocline import shop.pool orders orders-2027.parquet --append
  halocline import shop.pool sales sales.parquet --sort day,customer   as CREATE TABLE … WITH (sort = 'day,customer')
  halocline import shop.pool stores stores.csv --type zip=varchar --null NA --null -
  halocline import shop.pool items items.csv --schema 'id bigint, name text, price decimal(10,2)'
  halocline import tpch.pool nation nation.tbl --schema 'n_nationkey int, n_name text, n_regionkey int, n_comment text'")]
pub(crate) struct ImportArgs {
    /// The pool; created if it does not exist
    pub(crate) pool: PathBuf,
    /// Name of the table
    pub(crate) table: String,
    /// Files with equal columns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Add to the table if it exists; its indexes follow
    #[arg(long)]
    pub(crate) append: bool,
    /// Format of the files [default: by content, then by name]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// Columns and types as in CREATE TABLE, instead of inferred ones
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) schema: Option<String>,
    /// CSV: type of a column instead of the inferred one, as --type zip=varchar (repeatable)
    #[arg(long = "type", value_name = "COLUMN=TYPE", conflicts_with = "schema")]
    pub(crate) types: Vec<String>,
    /// CSV: does the first line name the columns [default: detected]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    pub(crate) header: Option<bool>,
    /// The same as --header no
    #[arg(long, hide = true, conflicts_with = "header")]
    pub(crate) no_header: bool,
    /// CSV: what separates values [default: detected]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// CSV: what quotes values; none takes quotes as text [default: detected]
    #[arg(long, value_name = "none|CHAR", value_parser = quote)]
    pub(crate) quote: Option<QuoteOption>,
    /// CSV and tbl: an unquoted text that stands for NULL, beside the empty one (repeatable)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) null: Vec<String>,
    /// Columns by which the rows are sorted, now and in later imports, separated by commas; what --memory
    /// has no room for is sorted in the pool
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) sort: Vec<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Apache Parquet
    Parquet,
    /// Comma-separated values with a header
    Csv,
    /// |-separated lines ending in |, as TPC's generators write them
    Tbl,
    /// Arrow IPC file or stream
    Arrow,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Selections on any of the columns then use the index by themselves, in every statement.

Examples:
  halocline index shop.pool orders --on day,customer,amount
  halocline index shop.pool orders --on customer,day --order given --name by_customer")]
pub(crate) struct IndexArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// The table
    pub(crate) table: String,
    /// Columns, separated by commas
    #[arg(long, value_name = "COLUMNS", required = true, value_delimiter = ',')]
    pub(crate) on: Vec<String>,
    /// Order of the columns in the tree
    #[arg(long, value_enum, default_value_t = ColumnOrder::Auto)]
    pub(crate) order: ColumnOrder,
    /// Name of the index [default: TABLE_elf]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Layout of the tree
    #[arg(long, value_enum, default_value_t = IndexLayout::Packed)]
    pub(crate) layout: IndexLayout,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColumnOrder {
    /// Few distinct values first
    Auto,
    /// As in --on
    Given,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexLayout {
    /// Bit-packed, a third of the size (use this)
    Packed,
    /// As published in 2017, for comparison
    Published,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  halocline info shop.pool
  halocline info shop.pool --json | jq '.tables[].name'")]
pub(crate) struct InfoArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Reads the whole pool. Exit code 1 if anything is wrong.

--repair keeps the newest published state whose directory can be read. It rebuilds damaged
indexes from their tables and cuts a damaged log off before the damage. Damaged tables and trees
are reported and left as they are. An older state is used only if the newest cannot be read, or
if power loss may have torn it. Before acknowledged changes are given up, --repair asks for
confirmation; the superblocks, directories and logs are first saved to POOL.before-repair, or
the whole pool with --backup.

Examples:
  halocline check shop.pool
  halocline check shop.pool --repair --dry-run
  halocline check shop.pool --repair --backup shop.backup")]
pub(crate) struct CheckArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// Repair the pool: rebuild damaged indexes, cut off a damaged log, use an older state only if the
    /// newest is unreadable
    #[arg(long)]
    pub(crate) repair: bool,
    /// Report what a repair would do and lose, and change nothing; exit code 1 if there is damage
    #[arg(long, requires = "repair")]
    pub(crate) dry_run: bool,
    /// Do not ask before acknowledged changes are given up
    #[arg(long, requires = "repair")]
    pub(crate) yes: bool,
    /// Copy the whole pool to this file before it is repaired
    #[arg(long, requires = "repair", value_name = "FILE")]
    pub(crate) backup: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// A table or an index
    #[arg(value_name = "TABLE|INDEX")]
    pub(crate) name: String,
}

/// Arguments of a program of its own, which parses them.
#[derive(Debug, Args)]
pub(crate) struct ExternalArgs {
    /// Arguments of that program; its --help lists them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  halocline completions bash > ~/.local/share/bash-completion/completions/halocline
  halocline completions zsh > ~/.zfunc/_halocline")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InternalCommand {
    /// Write lineitem to a Parquet file; the generator's 300 MB of words stay out of the caller's memory
    Generate { sf: f64, file: PathBuf },
    /// Insert rows after row LAST into the demo's table until killed; print the last one of each statement
    Append { pool: PathBuf, last: u64 },
    /// Open a pool, run one query, and print how long each took as JSON
    Reopen { pool: PathBuf, query: String },
}

/// Reads how long to wait for a lock.
fn lock_wait(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    match halocline_engine::parse_duration(text)? {
        wait if wait <= LONGEST => Ok(wait),
        _ => Err("a statement waits for a day at most; write 24h or less".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ if text.len() == 1 => Ok(text.as_bytes()[0]),
        _ => Err("a delimiter is one ASCII character (or `tab`)".to_owned()),
    }
}

fn quote(text: &str) -> Result<QuoteOption, String> {
    match text.as_bytes() {
        b"none" => Ok(QuoteOption::None),
        [byte] if byte.is_ascii() => Ok(QuoteOption::Char(*byte)),
        _ => Err("a quote is one ASCII character (or `none`)".to_owned()),
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say `yes` or `no`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        InternalCli::command().debug_assert();
    }

    #[test]
    fn columns_are_split_at_commas() {
        let cli = Cli::parse_from(["halocline", "index", "p", "t", "--on", "a,b,c"]);
        let Command::Index(index) = cli.command else {
            panic!("not an index command")
        };
        assert_eq!(index.on, ["a", "b", "c"]);
    }

    #[test]
    fn waits_are_bounded() {
        assert_eq!(lock_wait("24h"), Ok(Duration::from_secs(86_400)));
        assert!(lock_wait("25h").is_err() && lock_wait("soon").is_err());
    }

    #[test]
    fn delimiters() {
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert!(delimiter("ab").is_err());
    }
}
