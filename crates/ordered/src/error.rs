//! Errors of the indexes. Each message says what happened, to which tree, and what to do next.

use halocline_media::MediaError;
use halocline_pool::PoolError;

use crate::TreeKind;

/// An error of an index operation. Unless a variant says otherwise, nothing has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The pool rejected the operation: no such object, another kind of object, no space, object in use, …
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The object is not a tree, or is a tree of a kind that this version does not know.
    #[error(
        "'{name}' is no tree that this program knows, but a {found}; check the name, or use the program it was made with"
    )]
    NotATree {
        /// The object's name.
        name: String,
        /// The kind of object that was found.
        found: String,
    },
    /// There is no kind of tree with this name.
    #[error("there is no kind of tree '{text}'; there are {}", names())]
    UnknownKind {
        /// The name that was given.
        text: String,
    },
    /// The medium failed during this operation. Whether its change is durable is unknown until the index is
    /// opened again.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The medium failed earlier. The tree can be read but not written.
    #[error(
        "'{name}' takes no more writes since its medium failed ({first}); close it, look after the disk, open it again"
    )]
    Poisoned {
        /// The object's name.
        name: String,
        /// The text of the first error.
        first: String,
    },
    /// The tree was opened read-only.
    #[error(
        "'{name}' is opened to be read only: open it for writing, which no other process may have it open for"
    )]
    ReadOnly {
        /// The object's name.
        name: String,
    },
    /// The tree was opened read-only, was not closed cleanly, and needs a repair that a crash left
    /// unfinished.
    #[error(
        "'{name}' was not closed, and what a crash has left half done in it cannot be finished while it is only read: open it \
         once for writing, as `halocline kv POOL check` does"
    )]
    NeedsRecovery {
        /// The object's name.
        name: String,
    },
    /// The operation needs a node whose contents are inconsistent.
    #[error(
        "the node at {node} of '{name}' is damaged: {reason}; run `check` for all damage, restore the pool from a copy, or \
         load what can still be read into a new index"
    )]
    Damaged {
        /// The object's name.
        name: String,
        /// Offset of the node in the pool.
        node: u64,
        /// Description of the inconsistency.
        reason: String,
    },
    /// The entries of a bulk load are not in strictly ascending order of their keys.
    #[error(
        "entry {position} has the key {key} after {before}: sort the entries, each key once, and load them again"
    )]
    NotSorted {
        /// Position of the offending entry, counted from 0.
        position: u64,
        /// Its key.
        key: u64,
        /// The key before it.
        before: u64,
    },
    /// A bulk load was attempted on an index that already has entries.
    #[error("'{name}' holds {entries} entries already: load into a new index, or insert one by one")]
    NotEmpty {
        /// The object's name.
        name: String,
        /// Number of entries in the index.
        entries: u64,
    },
    /// The pool has grown beyond the largest offset that the index can address.
    #[error("the node at {node} of '{name}' is beyond the {most} bytes an index reaches; use a smaller pool")]
    TooFar {
        /// The object's name.
        name: String,
        /// Offset of the node in the pool.
        node: u64,
        /// The first offset that cannot be addressed.
        most: u64,
    },
}

fn names() -> String {
    let names: Vec<&str> = TreeKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}
