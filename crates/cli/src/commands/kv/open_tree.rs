//! Opening the tree that a command line names.
//!
//! A tree that was not closed is opened for writing where that is possible, because that finishes what a
//! crash left half done.

use halocline_ordered::{TreeError, open_tree, open_tree_read_only};
use halocline_pool::{Pool, PoolError};
use halocline_terminal::CliError;
use halocline_terminal::pools::patiently;

use crate::args::KvArgs;
use crate::opening;

use super::{OpenTree, PREFIX, list};

/// Opens the tree that the command line names.
pub(super) fn open(args: &KvArgs) -> Result<(Pool, OpenTree), CliError> {
    let pool = opening::pool(args)?;
    let name = object_name(&pool, &args.name)?;
    let tree = patiently(|| open_tree(&pool, &name)).map_err(|error| explain(error, &pool, args))?;
    Ok((pool, tree))
}

/// Opens the tree that the command line names to read it, beside other readers. One that was not closed is
/// opened for writing, if that is possible, so that what a crash has left half done is finished.
pub(super) fn open_to_read(args: &KvArgs) -> Result<(Pool, OpenTree), CliError> {
    let pool = opening::pool_to_read(args)?;
    let name = object_name(&pool, &args.name)?;
    // If there is no such tree, opening it says so.
    if matches!(pool.slab_is_closed(&name), Ok(false))
        && let Ok(writable) = opening::pool(args)
    {
        let tree = patiently(|| open_tree(&writable, &name));
        return Ok((
            writable.clone(),
            tree.map_err(|error| explain(error, &writable, args))?,
        ));
    }
    let tree =
        patiently(|| open_tree_read_only(&pool, &name)).map_err(|error| explain(error, &pool, args))?;
    Ok((pool, tree))
}

/// Makes all that was written survive power loss, and closes the tree.
pub(super) fn finish(pool: &Pool, tree: OpenTree) -> Result<(), CliError> {
    let synced = pool.sync();
    drop(tree);
    Ok(synced.map_err(TreeError::from)?)
}

/// Returns the name of a tree in the directory of the pool, which begins with [`PREFIX`] unless only a tree
/// without it exists. Trees created by other programs may have any name.
pub(super) fn object_name(pool: &Pool, name: &str) -> Result<String, CliError> {
    let snapshot = pool.snapshot().map_err(TreeError::from)?;
    let own = format!("{PREFIX}{name}");
    if snapshot.get(&own).is_none() && snapshot.get(name).is_some() {
        Ok(name.to_owned())
    } else {
        Ok(own)
    }
}

/// Returns a hint on what to type next where a tree does not open.
pub(super) fn explain(error: TreeError, pool: &Pool, args: &KvArgs) -> CliError {
    let shown = args.pool.display();
    let name = match args.name.as_str() {
        "kv" => String::new(),
        name => format!(" --name {name}"),
    };
    match &error {
        TreeError::Pool(PoolError::NoSuchObject { .. }) => {
            let there = list::names(pool);
            let others = if there.is_empty() {
                String::new()
            } else {
                format!("; it has {}", there.join(", "))
            };
            CliError::with_hint(
                format!("{shown} has no tree or store {}{others}", args.name),
                format!("`halocline kv {shown}{name} create` makes a tree, `create --store` a store"),
            )
        }
        TreeError::Pool(PoolError::SlabUnsynced { .. } | PoolError::DamagedSlab { .. }) => {
            CliError::with_hint(
                error.to_string(),
                format!("`halocline kv {shown}{name} check --accept` takes what is there, and verifies it"),
            )
        }
        _ => error.into(),
    }
}
