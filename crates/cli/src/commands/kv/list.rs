//! The trees and stores of a pool, for `list`, `info` and `check`.
//!
//! A tree that was closed is opened to be read, beside other readers. One that was not is opened for writing,
//! as that finishes what a crash has left half done, or else to be read. Where neither is possible, because
//! another process writes it, it is named with the reason.

use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use halocline_memcached::{MemcachedError, check_items};
use halocline_ordered::{TreeError, TreeKind, open_tree, open_tree_read_only, trees};
use halocline_pool::{Pool, PoolError, PoolOptions};
use halocline_store::{StoreError, Stores};
use halocline_terminal::CliError;
use halocline_terminal::output::Sink;

use crate::args::{KvArgs, OutputFormat};
use crate::opening;

use super::open_store::stores_to_check;
use super::{OpenTree, PREFIX, style};

/// The line of `info` on a tree.
pub(in crate::commands) struct TreeInfo {
    pub(in crate::commands) name: String,
    pub(in crate::commands) kind: TreeKind,
    /// Bytes in the pool.
    pub(in crate::commands) bytes: u64,
    /// The number of entries, or why it is not known.
    pub(in crate::commands) entries: Result<u64, String>,
}

/// The line of `info` on a store.
pub(in crate::commands) struct StoreInfo {
    pub(in crate::commands) name: String,
    pub(in crate::commands) keys: u64,
    /// Bytes of its keys and values.
    pub(in crate::commands) bytes: u64,
}

/// The result of a check of all trees and stores.
#[derive(Debug, Default)]
pub(in crate::commands) struct Checked {
    /// Trees that were verified.
    pub(in crate::commands) trees: usize,
    /// Stores that were verified.
    pub(in crate::commands) stores: u64,
    /// Intact items of a memcached server in trees.
    pub(in crate::commands) items: u64,
    pub(in crate::commands) problems: Vec<String>,
    /// Trees and stores that cannot be verified now, with the reason.
    pub(in crate::commands) skipped: Vec<String>,
}

/// Returns the name of a tree as it is passed to `kv --name`.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Returns the trees of a pool in the order of their names.
///
/// # Errors
/// The pool cannot be read.
pub(in crate::commands) fn list(path: &Path) -> Result<Vec<TreeInfo>, CliError> {
    let mut found = vec![];
    each(path, |name, kind, bytes, tree| {
        found.push(TreeInfo {
            name: name.to_owned(),
            kind,
            bytes,
            entries: tree.map(|tree| tree.len()).map_err(|error| error.to_string()),
        });
    })?;
    Ok(found)
}

/// Verifies all nodes of all trees; `progress` is told the name of each.
///
/// # Errors
/// The pool cannot be read.
pub(in crate::commands) fn check_all(path: &Path, progress: impl Fn(&str)) -> Result<Checked, CliError> {
    let mut checked = Checked::default();
    each(path, |name, _, _, tree| {
        progress(name);
        let of = |problem: &dyn ToString| format!("tree {name}: {}", problem.to_string());
        match tree.and_then(|tree| tree.check()) {
            Ok(report) => {
                checked.trees += 1;
                let problems = report.problems.iter();
                checked.problems.extend(problems.map(|problem| of(problem)));
            }
            Err(error) if is_damage(&error) => checked.problems.push(of(&error)),
            Err(error) => checked.skipped.push(of(&error)),
        }
    })?;
    Ok(checked)
}

/// Returns the stores of a pool in the order of their names, without those that hold tables.
///
/// # Errors
/// The pool cannot be read. The inner error is the reason why the stores cannot be opened.
pub(in crate::commands) fn stores(path: &Path) -> Result<Result<Vec<StoreInfo>, StoreError>, CliError> {
    let pool = readable(path)?;
    if Stores::exist_in(&pool)? {
        Ok(Stores::open_reader(&pool).and_then(|stores| store_infos(&stores)))
    } else {
        Ok(Ok(vec![]))
    }
}

fn readable(path: &Path) -> Result<Pool, CliError> {
    let read_only = PoolOptions::default().with_read_only(true);
    Ok(Pool::open(path, &read_only).map_err(TreeError::from)?)
}

fn store_infos(stores: &Stores) -> Result<Vec<StoreInfo>, StoreError> {
    let names = stores.names().into_iter().filter(|name| !is_of_sql(name));
    let infos = names.map(|name| {
        let store = stores.existing(&name)?;
        Ok(StoreInfo {
            keys: store.len(),
            bytes: store.bytes(),
            name,
        })
    });
    infos.collect()
}

/// Returns true for stores in which SQL keeps tables.
pub(super) fn is_of_sql(name: &str) -> bool {
    name.starts_with("sql/")
}

/// Opens a pool if it has stores.
fn pool_with_stores(path: &Path) -> Result<Option<Result<Pool, StoreError>>, CliError> {
    if !Stores::exist_in(&readable(path)?)? {
        return Ok(None);
    }
    Ok(Some(
        Pool::open(path, &PoolOptions::default()).map_err(StoreError::from),
    ))
}

/// Ends a check once `cancel` is set.
pub(super) fn continue_unless(cancel: &AtomicBool) -> ControlFlow<()> {
    if cancel.load(Ordering::Relaxed) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Verifies all stores, those of tables included, and adds what is found to `checked`.
///
/// # Errors
/// The pool cannot be read; [`CliError::Interrupted`] if `cancel` was set.
pub(in crate::commands) fn check_stores(
    path: &Path,
    cancel: &AtomicBool,
    checked: &mut Checked,
    progress: impl Fn(u64, u64),
) -> Result<(), CliError> {
    let Some(pool) = pool_with_stores(path)? else {
        return Ok(());
    };
    let report = pool.and_then(|pool| {
        let stores = stores_to_check(&pool)?;
        stores.check(&mut |state| {
            progress(state.keys, state.total);
            continue_unless(cancel)
        })
    });
    match report {
        Ok(report) if report.cancelled => return Err(CliError::Interrupted),
        Ok(report) => {
            checked.stores += report.stores;
            checked
                .problems
                .extend(report.problems.iter().map(ToString::to_string));
        }
        Err(error @ StoreError::Damaged { .. }) => checked.problems.push(error.to_string()),
        Err(error) => checked.skipped.push(format!("stores: {error}")),
    }
    Ok(())
}

/// Verifies the items that a memcached server has in trees, and adds what is found to `checked`. The trees
/// were [verified](check_all) before, which finishes what a crash has left half done.
///
/// # Errors
/// The pool cannot be read; [`CliError::Interrupted`] if `cancel` was set.
pub(in crate::commands) fn check_memcached(
    path: &Path,
    cancel: &AtomicBool,
    checked: &mut Checked,
) -> Result<(), CliError> {
    let report = check_items(&readable(path)?, &mut |_| continue_unless(cancel));
    match report {
        Ok(report) if report.cancelled => return Err(CliError::Interrupted),
        Ok(report) => {
            checked.items += report.items;
            checked
                .problems
                .extend(report.problems.iter().map(ToString::to_string));
        }
        Err(MemcachedError::Tree(error)) if is_damage(&error) => {
            checked.problems.push(format!("memcached items: {error}"));
        }
        Err(error) => checked.skipped.push(format!("memcached items: {error}")),
    }
    Ok(())
}

/// Prints the trees and stores of a pool for `kv list`.
pub(super) fn print(args: &KvArgs, output: OutputFormat) -> Result<(), CliError> {
    let pool = opening::pool_to_read(args)?;
    let mut found: Vec<(String, String, Option<u64>)> = vec![];
    for tree in list(&args.pool)? {
        found.push((tree.name, tree.kind.to_string(), tree.entries.ok()));
    }
    if Stores::exist_in(&pool)? {
        let stores = store_infos(&Stores::open_reader(&pool)?)?;
        found.extend(
            stores
                .into_iter()
                .map(|store| (store.name, "store".to_owned(), Some(store.keys))),
        );
    }
    let schema = Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("entries", DataType::UInt64, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(found.iter().map(|(name, ..)| name))),
        Arc::new(StringArray::from_iter_values(
            found.iter().map(|(_, kind, _)| kind),
        )),
        Arc::new(UInt64Array::from_iter(found.iter().map(|(.., entries)| *entries))),
    ];
    let mut sink = Sink::new(
        style(output, 0),
        Arc::clone(&schema),
        BufWriter::new(io::stdout()),
    );
    sink.write(&RecordBatch::try_new(schema, columns)?)?;
    sink.finish()
}

/// Returns the names of all trees and stores that can be read, without the stores that hold tables.
pub(super) fn names(pool: &Pool) -> Vec<String> {
    let trees = trees(pool).unwrap_or_default();
    let mut names: Vec<_> = trees.iter().map(|(name, _)| short(name).to_owned()).collect();
    if let Ok(true) = Stores::exist_in(pool)
        && let Ok(stores) = Stores::open_reader(pool)
    {
        names.extend(stores.names().into_iter().filter(|name| !is_of_sql(name)));
    }
    names
}

/// Opens each tree in turn: its name, its kind, its bytes in the pool, and itself.
fn each(
    path: &Path,
    mut look: impl FnMut(&str, TreeKind, u64, Result<OpenTree, TreeError>),
) -> Result<(), CliError> {
    let read_only = PoolOptions::default().with_read_only(true);
    let open = |options| Pool::open(path, options).map_err(TreeError::from);
    let readable = open(&read_only)?;
    let found = trees(&readable)?;
    if found.is_empty() {
        return Ok(());
    }
    let writable = open(&PoolOptions::default()).ok();
    for (name, kind) in found {
        let bytes = (readable.snapshot().map_err(TreeError::from)?)
            .get(&name)
            .map_or(0, |object| object.bytes());
        let half_done = writable
            .as_ref()
            .filter(|_| !readable.slab_is_closed(&name).unwrap_or(true));
        let tree = match half_done {
            Some(writable) => open_tree(writable, &name),
            None => open_tree_read_only(&readable, &name),
        };
        look(short(&name), kind, bytes, tree);
    }
    Ok(())
}

fn is_damage(error: &TreeError) -> bool {
    matches!(
        error,
        TreeError::Damaged { .. }
            | TreeError::Pool(PoolError::NotANode { .. } | PoolError::DamagedSlab { .. })
    )
}
