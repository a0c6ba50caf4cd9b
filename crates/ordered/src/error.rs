//! What can go wrong with an index, and what to do about it.

use halocline_media::MediaError;
use halocline_pool::PoolError;

use crate::TreeKind;

/// An error of an index. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The pool refused: no such object, another kind of tree, no space, in use …
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The object is no tree, or one that this program does not know.
    #[error(
        "'{name}' is no tree that this program knows, but a {found}; check the name, or use the program it was made with"
    )]
    NotATree {
        /// The object's name.
        name: String,
        /// What it is.
        found: String,
    },
    /// There is no tree of this kind.
    #[error("there is no kind of tree '{text}'; there are {}", names())]
    UnknownKind {
        /// What was given.
        text: String,
    },
    /// The medium failed during this operation: whether its change is durable is not known until the index is opened again.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The medium failed earlier; what is there can be read, and nothing can be written.
    #[error(
        "'{name}' takes no more writes since its medium failed ({first}); close it, look after the disk, open it again"
    )]
    Poisoned {
        /// The object's name.
        name: String,
        /// The text of the first error.
        first: String,
    },
    /// The tree is opened to be read.
    #[error(
        "'{name}' is opened to be read only: open it for writing, which no other process may have it open for"
    )]
    ReadOnly {
        /// The object's name.
        name: String,
    },
    /// A tree that is opened to be read was not closed, and a crash has left something half done in it.
    #[error(
        "'{name}' was not closed, and what a crash has left half done in it cannot be finished while it is only read: open it \
         once for writing, as `halocline kv POOL check` does"
    )]
    NeedsRecovery {
        /// The object's name.
        name: String,
    },
    /// What the key belongs to is in a node whose bytes contradict themselves.
    #[error(
        "the node at {node} of '{name}' is damaged: {reason}; run `check` for all damage, restore the pool from a copy, or \
         load what can still be read into a new index"
    )]
    Damaged {
        /// The object's name.
        name: String,
        /// Offset of the node in the pool.
        node: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Entries to load must come in ascending order of their keys, each key once.
    #[error(
        "entry {position} has the key {key} after {before}: sort the entries, each key once, and load them again"
    )]
    NotSorted {
        /// Which entry, counted from 0.
        position: u64,
        /// Its key.
        key: u64,
        /// The key before it.
        before: u64,
    },
    /// Only an empty index is loaded in bulk.
    #[error("'{name}' holds {entries} entries already: load into a new index, or insert one by one")]
    NotEmpty {
        /// The object's name.
        name: String,
        /// How many there are.
        entries: u64,
    },
    /// The pool has grown beyond the offsets that the index can hold.
    #[error("the node at {node} of '{name}' is beyond the {most} bytes an index reaches; use a smaller pool")]
    TooFar {
        /// The object's name.
        name: String,
        /// Offset of the node in the pool.
        node: u64,
        /// The first offset that is out of reach.
        most: u64,
    },
}

fn names() -> String {
    let names: Vec<&str> = TreeKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}
