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
        "'{name}' is a {found}, not a tree that this version supports; check the name, or open it with the \
         version that created it"
    )]
    NotATree {
        /// The object's name.
        name: String,
        /// The kind of object that was found.
        found: String,
    },
    /// There is no kind of tree with this name.
    #[error("unknown kind of tree '{text}'; use one of {}", names())]
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
        "'{name}' rejects writes because its medium failed earlier ({first}); close it, check the disk and open \
         it again"
    )]
    Poisoned {
        /// The object's name.
        name: String,
        /// The text of the first error.
        first: String,
    },
    /// The tree was opened read-only.
    #[error("'{name}' is open read-only; to write, open it for writing while no other process has it open")]
    ReadOnly {
        /// The object's name.
        name: String,
    },
    /// The tree was opened read-only, was not closed, and contains a change that a crash left unfinished.
    #[error(
        "'{name}' was not closed and needs recovery, which a read-only handle cannot do; open it for writing \
         once, for example with `halocline kv POOL check`"
    )]
    NeedsRecovery {
        /// The object's name.
        name: String,
    },
    /// The operation needs a node whose contents are inconsistent.
    #[error(
        "the node at offset {node} of '{name}' is damaged: {reason}; run `check` to list all damage, then \
         restore the pool from a backup or load the readable entries into a new index"
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
        "entry {position} is out of order: its key {key} follows {before}; sort the entries by key, remove \
         duplicates and load them again"
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
    #[error(
        "cannot bulk-load '{name}': it has {entries} entries; load into a new index, or insert the entries one by one"
    )]
    NotEmpty {
        /// The object's name.
        name: String,
        /// Number of entries in the index.
        entries: u64,
    },
    /// The pool has grown beyond the largest offset that the index can address.
    #[error(
        "the node at offset {node} of '{name}' is beyond the {most} bytes that an index can address; use a \
         smaller pool"
    )]
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
