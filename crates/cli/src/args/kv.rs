//! `kv`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use halocline_emulator::EmulatedSpec;
use halocline_ordered::{TreeError, TreeKind};

use super::{OutputFormat, medium};

#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
A tree maps keys to values, both whole numbers from 0 to 18446744073709551615, in the order of the keys. Each change is made
where it lies, in a line or two of the medium, and survives the death of the process as soon as it is acknowledged (with
--strict and on persistent memory, power loss as well). A pool holds any number of trees beside its tables. One process
at a time has a tree open; others wait for it up to 5 seconds.

Exit codes: 3 if a key is not there (get, del), else as for all commands.

Examples:
  halocline kv shop.pool create                       a tree `kv` (and the pool, if missing)
  halocline kv shop.pool put 17 42
  halocline kv shop.pool get 17 18 --output csv
  halocline kv shop.pool load stock.csv
  halocline kv shop.pool scan --from 10 --to 99 --limit 5
  halocline kv shop.pool --name prices create --tree lb2"
)]
pub(crate) struct KvArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// Name of the tree
    #[arg(long, global = true, default_value = "kv")]
    pub(crate) name: String,
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

#[derive(Debug, Subcommand)]
pub(crate) enum KvCommand {
    /// Make an empty tree
    Create {
        /// Its name, as --name
        #[arg(value_name = "NAME")]
        called: Option<String>,
        /// Which tree; the same commands read and write all of them
        #[arg(long, value_name = "KIND", default_value = TreeKind::Lb.name(), value_parser = kinds())]
        tree: TreeKind,
    },
    /// Add an entry, or replace its value
    Put {
        /// Its key
        key: u64,
        /// Its value
        value: u64,
    },
    /// The values of keys
    Get {
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<u64>,
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Entries in the order of their keys
    Scan(ScanArgs),
    /// Remove an entry
    Del {
        /// Its key
        key: u64,
    },
    /// Add entries from files: lines of KEY,VALUE or KEY VALUE
    Load(LoadArgs),
    /// Verify every node of the tree
    Check {
        /// After power loss that the last changes had not been made to survive: take the tree as it is, and
        /// verify it
        #[arg(long)]
        accept: bool,
    },
    /// Entries, nodes, bytes
    Stats {
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Remove the tree with all its entries
    Drop,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// The least key
    #[arg(long, value_name = "KEY", default_value_t = 0)]
    pub(crate) from: u64,
    /// The greatest key
    #[arg(long, value_name = "KEY", default_value_t = u64::MAX, hide_default_value = true)]
    pub(crate) to: u64,
    /// From the greatest key down
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most so many entries
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// Entries a table shows at most; 0 shows all (csv and json always do)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_rows: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Empty lines and a first line `key,value` are left out; of entries with the same key the last one stays. As long as keys
ascend, a tree that is empty is loaded in bulk: several times as fast, and after a crash all of that is there or nothing.
Other entries are put one by one. Ctrl-C and a bad line end the load; what was read before them stays. To go on, load the
file again.

Examples:
  halocline kv shop.pool load stock.csv --fill 0.7     leaves room in the nodes for later entries
  halocline kv old.pool scan --output csv | halocline kv new.pool load -")]
pub(crate) struct LoadArgs {
    /// The files; - is stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How full bulk loading makes the nodes, as a part of 1
    #[arg(long, value_name = "PART", default_value_t = 0.9, value_parser = fill)]
    pub(crate) fill: f64,
}

/// The kinds of trees by their names.
pub(super) fn kinds() -> impl TypedValueParser<Value = TreeKind> {
    let names = TreeKind::ALL.iter().map(|kind| kind.name());
    PossibleValuesParser::new(names)
        .try_map(|name| name.parse::<TreeKind>().map_err(|error: TreeError| error))
}

fn fill(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("a part is a number above 0 and at most 1, as 0.9".to_owned()),
    }
}
