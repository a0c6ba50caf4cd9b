//! The trees of a pool for `info` and `check`.
//!
//! A tree that was closed is opened to be read, beside other readers. One that was not is opened for writing,
//! as that finishes what a crash has left half done, or else to be read. Where neither is possible, because
//! another process writes it, it is named with the reason.

use std::path::Path;

use halocline_ordered::{TreeError, TreeKind, open_tree, open_tree_read_only, trees};
use halocline_pool::{Pool, PoolError, PoolOptions};

use crate::error::CliError;

use super::{OpenTree, PREFIX};

/// The line of `info` on a tree.
pub(in crate::commands) struct TreeInfo {
    pub(in crate::commands) name: String,
    pub(in crate::commands) kind: TreeKind,
    /// Bytes in the pool.
    pub(in crate::commands) bytes: u64,
    /// The number of entries, or why it is not known.
    pub(in crate::commands) entries: Result<u64, String>,
}

/// The result of a check of all trees.
#[derive(Debug, Default)]
pub(in crate::commands) struct Checked {
    /// Trees that were verified.
    pub(in crate::commands) trees: usize,
    pub(in crate::commands) problems: Vec<String>,
    /// Trees that cannot be verified now, with the reason.
    pub(in crate::commands) skipped: Vec<String>,
}

/// The name of a tree as it is given to `kv --name`.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The trees of a pool, in the order of their names.
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
