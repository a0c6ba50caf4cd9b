//! The experiments on ordered trees, and what they share: which trees, which keys, whether they hold what
//! they should.

pub(super) mod hot;
mod keys;
pub(super) mod medium;
pub(super) mod ops;
pub(super) mod recovery;
pub(super) mod writes;

use halocline_ordered::{LbOptions, LbTree, OrderedIndex, Range, TreeError, TreeKind, create_tree};
use halocline_pool::Pool;

use crate::{BenchError, Settings};

type Tree = Box<dyn OrderedIndex>;

/// A tree as it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeVariant {
    kind: TreeKind,
    /// True if inserts of an LB+-Tree move entries out of the header's line.
    moving: bool,
}

impl TreeVariant {
    fn new(kind: TreeKind) -> Self {
        Self { kind, moving: true }
    }

    /// Returns the same tree without entry moving, or `None` if its kind does not move entries.
    fn still(self) -> Option<Self> {
        matches!(self.kind, TreeKind::Lb | TreeKind::Lb2 | TreeKind::Lb4).then_some(Self {
            moving: false,
            ..self
        })
    }

    fn name(self) -> String {
        if self.moving {
            self.kind.to_string()
        } else {
            format!("{}, not moved", self.kind)
        }
    }

    fn create(self, pool: &Pool, name: &str) -> Result<Tree, TreeError> {
        let still = || LbOptions {
            moving: false,
            ..LbOptions::default()
        };
        Ok(match (self.moving, self.kind) {
            (false, TreeKind::Lb) => Box::new(LbTree::<1>::create(pool, name, still())?),
            (false, TreeKind::Lb2) => Box::new(LbTree::<2>::create(pool, name, still())?),
            (false, TreeKind::Lb4) => Box::new(LbTree::<4>::create(pool, name, still())?),
            (_, kind) => create_tree(pool, name, kind)?,
        })
    }
}

/// Returns the number of keys to load: as requested, or `full`, or 20,000 for a smoke test; at least 100.
fn rows(settings: &Settings, full: usize) -> usize {
    settings
        .rows
        .unwrap_or(if settings.quick { 20_000 } else { full })
        .max(100)
}

/// Fails unless the tree holds the expected entries. The times of a tree with other entries do not count.
///
/// # Errors
/// [`BenchError::Disagreement`] if the entries differ; an entry cannot be read.
fn insist(system: &str, tree: &dyn OrderedIndex, expected: keys::Sum) -> Result<(), BenchError> {
    let mut found = keys::Sum::default();
    for entry in Range::new(tree, ..) {
        let (key, value) = entry?;
        found.add(key, value);
    }
    ensure_same("all entries", ("the model", expected), (system, found))
}

/// Fails unless two systems give the same answer.
///
/// # Errors
/// [`BenchError::Disagreement`] if the answers differ.
pub(super) fn ensure_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    left: (&str, T),
    right: (&str, T),
) -> Result<(), BenchError> {
    if left.1 == right.1 {
        return Ok(());
    }
    Err(BenchError::Disagreement {
        what: what.to_owned(),
        left_system: left.0.to_owned(),
        left: format!("{:?}", left.1),
        right_system: right.0.to_owned(),
        right: format!("{:?}", right.1),
    })
}
