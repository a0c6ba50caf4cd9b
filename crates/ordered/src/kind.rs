//! The kinds of trees and their names.

use std::fmt;

/// A kind of tree, displayed and parsed as its [`name`](TreeKind::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TreeKind {
    /// An [`LbTree`](crate::LbTree) with leaves of 256 bytes.
    Lb,
    /// An [`LbTree`](crate::LbTree) with leaves of 512 bytes.
    Lb2,
    /// An [`LbTree`](crate::LbTree) with leaves of 1 KiB.
    Lb4,
    /// An [`FpTree`](crate::FpTree).
    Fp,
    /// A [`FastFair`](crate::FastFair) tree.
    FastFair,
    /// A [`WbTree`](crate::WbTree).
    Wb,
}

impl TreeKind {
    /// All kinds of trees.
    pub const ALL: &[TreeKind] = &[
        TreeKind::Lb,
        TreeKind::Lb2,
        TreeKind::Lb4,
        TreeKind::Fp,
        TreeKind::FastFair,
        TreeKind::Wb,
    ];

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            TreeKind::Lb => "lb",
            TreeKind::Lb2 => "lb2",
            TreeKind::Lb4 => "lb4",
            TreeKind::Fp => "fp",
            TreeKind::FastFair => "fast-fair",
            TreeKind::Wb => "wb",
        }
    }
}

impl fmt::Display for TreeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
