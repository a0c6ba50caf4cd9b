//! `kv`: trees and stores of a pool from a shell.
//!
//! Invariant: what a command has acknowledged by its exit code 0 survives power loss, as it syncs before it
//! ends.

mod answer;
mod bench;
mod encoding;
mod entries;
mod export;
mod hot;
mod import;
mod list;
mod load;
mod open_store;
mod open_tree;
mod pair_files;
mod pairs;
mod store;
mod tree;

use halocline_ordered::{OrderedIndex, TreeError};
use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;
use halocline_terminal::CliError;
use halocline_terminal::output::Style;

use crate::args::{KvArgs, KvCommand, OutputFormat};

pub(super) use list::{StoreInfo, TreeInfo, check_all, check_memcached, check_stores, list, stores};

/// The prefix of the names of trees in the pool's directory.
const PREFIX: &str = "tree/";

type OpenTree = Box<dyn OrderedIndex>;

pub(crate) fn kv(args: &KvArgs) -> Result<(), CliError> {
    match &args.command {
        KvCommand::Create { called, tree, store } => {
            let name = called.as_ref().unwrap_or(&args.name);
            if *store {
                store::create(args, name)
            } else {
                tree::create(args, name, *tree)
            }
        }
        KvCommand::List { output } => list::print(args, *output),
        KvCommand::Bench(bench) => Err(bench::run(bench)),
        _ => {
            if is_store(args)? {
                store::run(args)
            } else {
                tree::run(args)
            }
        }
    }
}

/// Returns true if there is no tree of the name, and the pool has stores.
fn is_store(args: &KvArgs) -> Result<bool, CliError> {
    if !args.pool.exists() {
        return Ok(false);
    }
    let options = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(&args.pool, &options).map_err(TreeError::from)?;
    let name = open_tree::object_name(&pool, &args.name)?;
    let is_tree = pool.snapshot().map_err(TreeError::from)?.get(&name).is_some();
    Ok(!is_tree && Stores::exist_in(&pool)?)
}

fn style(format: OutputFormat, max_rows: usize) -> Style {
    Style::new(format, max_rows)
}
