//! `kv`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use halocline_emulator::EmulatedSpec;
use halocline_ordered::{HotMode, TreeKind};
use halocline_terminal::args::{medium, tree_kinds};
use halocline_terminal::size;

use super::{ExternalArgs, OutputFormat};

#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
A pool holds any number of trees and stores beside its tables. A tree maps whole numbers from 0 to 18446744073709551615 to
such numbers. A store maps byte strings to byte strings: keys of up to 1 KiB, values of up to 1 MiB, which may expire. The
same commands work on both; --name selects one. Keys and values of stores are text unless --keys or --values says
otherwise.

Each change survives the death of the process as soon as it is acknowledged (with --strict and on persistent memory, power
loss as well). One process at a time has a tree or the stores open; others wait for it up to 5 seconds.

Exit codes: 3 if a key is not there (get, del), else as for all commands.

Examples:
  halocline kv shop.pool create                       a tree `kv` (and the pool, if missing)
  halocline kv shop.pool put 17 42
  halocline kv shop.pool get 17 18 --output csv
  halocline kv shop.pool import stock.csv
  halocline kv shop.pool scan --from 10 --to 99 --limit 5
  halocline kv shop.pool --name prices create --tree lb2
  halocline kv shop.pool --name sessions create --store
  halocline kv shop.pool --name sessions put user/17 'logged in' --ttl 30m
  halocline kv shop.pool --name sessions scan --prefix user/
  halocline kv shop.pool --name sessions export > sessions.jsonl
  halocline kv shop.pool stats --lookups keys.txt --hot 16MiB   would a cache of hot keys pay?"
)]
pub(crate) struct KvArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// Name of the tree or store
    #[arg(long, global = true, default_value = "kv")]
    pub(crate) name: String,
    /// How keys of a store are written on the command line and in answers [default: text]
    #[arg(long, global = true, value_enum, value_name = "ENCODING")]
    pub(crate) keys: Option<Encoding>,
    /// How values of a store are written on the command line and in answers [default: text]
    #[arg(long, global = true, value_enum, value_name = "ENCODING")]
    pub(crate) values: Option<Encoding>,
    /// Make every change survive power loss before it is acknowledged (else: the death of the process)
    #[arg(long, global = true)]
    pub(crate) strict: bool,
    /// Read and write as slowly as another medium would: emulated:optane (or cxl, nvme, dram, FILE.json),
    /// then :virtual to only count the time, or :delay [default]
    #[arg(long, global = true, value_name = "MEDIUM", value_parser = medium)]
    pub(crate) medium: Option<Box<EmulatedSpec>>,
    #[command(subcommand)]
    pub(crate) command: KvCommand,
}

/// A way to write bytes as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// UTF-8
    Text,
    /// Two hexadecimal digits for each byte
    Hex,
    /// Base64 with padding (RFC 4648, section 4)
    Base64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KvCommand {
    /// Make an empty tree or store
    Create {
        /// Its name, as --name
        #[arg(value_name = "NAME")]
        called: Option<String>,
        /// Which tree; the same commands read and write all of them
        #[arg(long, value_name = "KIND", default_value = TreeKind::Lb.name(), value_parser = tree_kinds())]
        tree: TreeKind,
        /// Make a store of byte strings instead of a tree
        #[arg(long, conflicts_with = "tree")]
        store: bool,
    },
    /// Add an entry, or replace its value
    Put(PutArgs),
    /// The values of keys
    Get(GetArgs),
    /// Entries in the order of their keys
    Scan(ScanArgs),
    /// Remove an entry
    Del {
        /// Its key
        key: String,
    },
    /// Add entries from files of CSV or JSON Lines
    #[command(alias = "load")]
    Import(KvImportArgs),
    /// Write all entries as JSON Lines or CSV
    Export(ExportArgs),
    /// The trees and stores of the pool
    List {
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Verify every node of the tree, or all stores of the pool
    Check {
        /// After power loss that the last changes had not been made to survive: take the tree as it is, and
        /// verify it
        #[arg(long)]
        accept: bool,
    },
    /// Entries, nodes, bytes; with --lookups, statistics of a cache of hot keys
    Stats(KvStatsArgs),
    /// Measure the core workloads of YCSB on a new store or tree: `halocline bench kv`
    #[command(disable_help_flag = true)]
    Bench(ExternalArgs),
    /// Remove the tree or store with all its entries
    Drop,
}

#[derive(Debug, Args)]
pub(crate) struct KvStatsArgs {
    /// Look up the keys of a file, one a line (- is stdin), through a cache of hot keys, and show its
    /// statistics instead (trees only)
    #[arg(long, value_name = "FILE")]
    pub(crate) lookups: Option<PathBuf>,
    /// DRAM of that cache
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse, requires = "lookups")]
    pub(crate) hot: u64,
    /// How that cache works: adaptive or published
    #[arg(long, value_name = "MODE", default_value_t = HotMode::Adaptive, requires = "lookups")]
    pub(crate) hot_mode: HotMode,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Its key
    pub(crate) key: String,
    /// Its value
    #[arg(required_unless_present = "file")]
    pub(crate) value: Option<String>,
    /// Read the value from a file, as it is; - is stdin (stores only)
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub(crate) file: Option<PathBuf>,
    /// Let the entry expire after a time, as 30s, 15m, 12h or 7days (stores only)
    #[arg(long, value_name = "TIME", value_parser = time_to_live)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    pub(crate) wanted: Vec<String>,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// Write the bytes of one value as they are, without a line end (stores only)
    #[arg(long, conflicts_with = "output")]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// The least key
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// The greatest key
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    /// Only keys that begin with these bytes (stores only)
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<String>,
    /// From the greatest key down
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most N entries
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// Entries a table shows at most; 0 shows all (csv and json always do)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_rows: usize,
}

/// A form of files of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryFormat {
    /// One JSON object per line: {"key": …, "value": …}
    Jsonl,
    /// Comma-separated values
    Csv,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Of entries with the same key the last one stays. Ctrl-C and a bad line end the import; what was read before them stays. To
go on, import the file again.

Trees: lines of KEY,VALUE or KEY VALUE, or JSON objects. Empty lines and a first line `key,value` are left out. As long as
keys ascend, a tree that is empty is loaded in bulk: several times as fast, and after a crash all of that is there or
nothing. Other entries are put one by one.

Stores: files as `export` writes them, or CSV of two columns. The fields of JSON objects and the columns of a CSV header
are key, key_hex or key_base64; value, value_hex or value_base64; and optionally expires, in milliseconds since 1970.
Entries that have expired are left out.

Examples:
  halocline kv shop.pool import stock.csv --fill 0.7   leaves room in the nodes for later entries
  halocline kv old.pool export | halocline kv new.pool import - --format jsonl")]
pub(crate) struct KvImportArgs {
    /// The files; - is stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Form of the files [default: jsonl for names that end in .jsonl, .ndjson or .json, else csv]
    #[arg(long, value_enum)]
    pub(crate) format: Option<EntryFormat>,
    /// How full bulk loading makes the nodes of a tree, as a part of 1
    #[arg(long, value_name = "PART", default_value_t = 0.9, value_parser = fill)]
    pub(crate) fill: f64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
All entries are those of one moment. JSON objects have the fields key and value, and expires for entries that expire, in
milliseconds since 1970. Keys and values that are not text have the names key_base64 and value_base64; --keys hex makes
that key_hex for all. CSV has a header of these names; values that are not text need --values hex or base64.")]
pub(crate) struct ExportArgs {
    /// The file, which must not exist; stdout without it
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Form of the file [default: csv for names that end in .csv, else jsonl]
    #[arg(long, value_enum)]
    pub(crate) format: Option<EntryFormat>,
}

/// Reads for how long an entry stays.
fn time_to_live(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time > LONGEST {
        return Err("an entry expires after a hundred years at most; leave --ttl out to keep it".to_owned());
    }
    Ok(time)
}

fn fill(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("a part is a number above 0 and at most 1, as 0.9".to_owned()),
    }
}
