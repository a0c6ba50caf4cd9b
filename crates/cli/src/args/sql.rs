//! `sql`.

use std::path::PathBuf;

use clap::Args;
use halocline_emulator::EmulatedSpec;
use halocline_terminal::args::medium;
use halocline_terminal::output::AnswerFormat;

use super::OpenArgs;

/// The name of a pool in memory, which ends with the program.
pub(crate) const IN_MEMORY: &str = ":memory:";

#[derive(Debug, Args)]
#[command(after_help = "\
Without QUERY and -f, statements are read from the terminal (a shell with history and completion; \\help lists its
commands) or from a pipe. Statements end with a semicolon; the first one that fails ends a script, and its error says
which ones before it were committed. All of them share one session: BEGIN, statements, COMMIT publishes what lies
between at once, or none of it; --atomic does so with the whole script. Scripts may have commands of the shell in lines
of their own.

INSERT, UPDATE, DELETE, TRUNCATE, ALTER TABLE and COPY t FROM 'file' change tables; \\help shows more.
CREATE INDEX i ON t USING elf (a, b) builds an index, EXPLAIN shows whether a query uses it, and
SET halocline.index = off | auto | force decides for the session.
ALTER INDEX i SET (placement = 'static', dram = '64MiB') keeps a part of an index in DRAM.
Segments are merged in the background; SET halocline.compaction = off ends that.

Examples:
  halocline sql shop.pool
  halocline sql shop.pool \"SELECT day, sum(amount) FROM orders GROUP BY day\" --output csv > days.csv
  halocline sql shop.pool \"CREATE TABLE o AS SELECT * FROM 'orders/*.parquet'\"
  halocline sql shop.pool -f nightly.sql --atomic
  halocline sql :memory: \"SELECT count(*) FROM 'orders/*.parquet'\"
  halocline sql shop.pool \"SELECT day, sum(amount) FROM orders GROUP BY day\" --output chart
  halocline sql shop.pool \"SELECT count(*) FROM orders WHERE day < DATE '2026-01-01'\" --repeat 5 --timing")]
pub(crate) struct SqlArgs {
    /// The pool, created if it does not exist and a statement is CREATE TABLE; :memory: is one in DRAM
    pub(crate) pool: PathBuf,
    /// One or more statements
    #[arg(conflicts_with = "file")]
    pub(crate) query: Option<String>,
    /// Read the statements from a file, or from stdin (-), where each runs as soon as it arrives
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Form of the answers
    #[arg(long, short, value_enum, default_value_t = AnswerFormat::Table)]
    pub(crate) output: AnswerFormat,
    /// Rows that are shown at most; 0 shows all (csv and json always do)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_rows: usize,
    /// Run the statements N times, a million at most; the first answers are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: u32,
    /// Print `time_ms VALUE` to stderr for each run of each statement; on an emulated medium without what
    /// the emulation computes itself, and with `device_ms VALUE` if the medium has a clock of its own
    #[arg(long)]
    pub(crate) timing: bool,
    /// Open the pool for reading only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let COPY … TO write files although the pool is opened for reading only
    #[arg(long, requires = "read_only")]
    pub(crate) allow_writing_files: bool,
    /// Create the pool if it does not exist
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) create: bool,
    /// Report a statement that fails and run those after it; the exit code is 1 all the same
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Run the script as one transaction: all of it is stored, or nothing
    #[arg(long, conflicts_with_all = ["keep_going", "read_only"])]
    pub(crate) atomic: bool,
    /// Read and write as slowly as another medium would: emulated:optane (or cxl, nvme, dram, FILE.json),
    /// then :virtual to only count the time, or :delay [default]
    #[arg(long, value_name = "MEDIUM", value_parser = medium)]
    pub(crate) medium: Option<Box<EmulatedSpec>>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
