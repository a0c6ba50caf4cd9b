//! The trees by name: a caller that picks one at run time creates it by its [`TreeKind`], and opens whatever is there.
//!
//! A further tree is a variant of [`TreeKind`], its name in [`TreeKind::name`], its place in [`TreeKind::ALL`], and a line of
//! `maker`.

use std::fmt;
use std::str::FromStr;

use halocline_pool::Pool;

use crate::opening::Opening;
use crate::{FastFair, FpTree, LbTree, OrderedIndex, TreeError, WbTree};

/// Which tree: written and parsed as its [`name`](TreeKind::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TreeKind {
    /// [`LbTree`] with leaves of 256 bytes.
    Lb,
    /// [`LbTree`] with leaves of 512 bytes.
    Lb2,
    /// [`LbTree`] with leaves of 1 KiB.
    Lb4,
    /// [`FpTree`].
    Fp,
    /// [`FastFair`].
    FastFair,
    /// [`WbTree`].
    Wb,
}

impl TreeKind {
    /// All there are.
    pub const ALL: &[TreeKind] = &[
        TreeKind::Lb,
        TreeKind::Lb2,
        TreeKind::Lb4,
        TreeKind::Fp,
        TreeKind::FastFair,
        TreeKind::Wb,
    ];

    /// Its name.
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

impl FromStr for TreeKind {
    type Err = TreeError;

    /// # Errors
    /// [`TreeError::UnknownKind`].
    fn from_str(text: &str) -> Result<TreeKind, TreeError> {
        let found = TreeKind::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| TreeError::UnknownKind {
            text: text.to_owned(),
        })
    }
}

/// A tree that can be picked by its kind.
pub(crate) trait Stored: OrderedIndex + Sized + 'static {
    /// What its slab says it holds.
    const OWNER: [u8; 8];

    /// Creates an empty one with default options, whose slab takes at least `chunk` bytes at a time.
    fn create_stored(pool: &Pool, name: &str, chunk: u64) -> Result<Self, TreeError>;

    /// Opens one with default options.
    fn open_stored(pool: &Pool, name: &str, opening: Opening) -> Result<Self, TreeError>;
}

type Made = Result<Box<dyn OrderedIndex>, TreeError>;

/// How the trees of one kind are made.
struct Maker {
    kind: TreeKind,
    owner: [u8; 8],
    create: fn(&Pool, &str, u64) -> Made,
    open: fn(&Pool, &str, Opening) -> Made,
}

impl Maker {
    fn of<T: Stored>(kind: TreeKind) -> Maker {
        Maker {
            kind,
            owner: T::OWNER,
            create: |pool, name, chunk| Ok(Box::new(T::create_stored(pool, name, chunk)?)),
            open: |pool, name, opening| Ok(Box::new(T::open_stored(pool, name, opening)?)),
        }
    }
}

fn maker(kind: TreeKind) -> Maker {
    match kind {
        TreeKind::Lb => Maker::of::<LbTree<1>>(kind),
        TreeKind::Lb2 => Maker::of::<LbTree<2>>(kind),
        TreeKind::Lb4 => Maker::of::<LbTree<4>>(kind),
        TreeKind::Fp => Maker::of::<FpTree>(kind),
        TreeKind::FastFair => Maker::of::<FastFair>(kind),
        TreeKind::Wb => Maker::of::<WbTree>(kind),
    }
}

/// How trees are made whose slabs say that they hold this.
fn maker_by(owner: [u8; 8]) -> Option<Maker> {
    let mut makers = TreeKind::ALL.iter().map(|kind| maker(*kind));
    makers.find(|maker| maker.owner == owner)
}

/// The least bytes of the pool that a tree takes at a time, unless said otherwise.
pub(crate) const CHUNK: u64 = 256 << 10;

/// Creates an empty tree as an object of this name.
///
/// # Errors
/// [`TreeError::Pool`], as [`Pool::create_slab`].
pub fn create_tree(pool: &Pool, name: &str, kind: TreeKind) -> Result<Box<dyn OrderedIndex>, TreeError> {
    create_tree_in(pool, name, kind, CHUNK)
}

/// As [`create_tree`], for a tree that takes at least `chunk` bytes of the pool at a time, rounded up to whole blocks of 4 KiB:
/// little for a tree that stays small.
///
/// # Errors
/// As [`create_tree`].
pub fn create_tree_in(
    pool: &Pool,
    name: &str,
    kind: TreeKind,
    chunk: u64,
) -> Result<Box<dyn OrderedIndex>, TreeError> {
    (maker(kind).create)(pool, name, chunk)
}

/// Opens the tree of this name, of whatever kind it is. Costs what opening such a tree costs.
///
/// # Errors
/// [`TreeError::NotATree`] if it is something else, or of a kind that this program does not know;
/// [`TreeError::Pool`], as [`Pool::open_slab`].
pub fn open_tree(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, Opening::Write)
}

/// As [`open_tree`], to read it: any number of handles may do so at once, also in a pool that is opened read-only, and nothing is stored.
/// Nobody can write it meanwhile. What writes is refused ([`TreeError::ReadOnly`]).
///
/// # Errors
/// As [`open_tree`]; [`TreeError::NeedsRecovery`] if it was not closed and a crash has left something half done in it: at opening, or when what is
/// half done is met.
pub fn open_tree_read_only(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, Opening::Read)
}

/// As [`open_tree`], also if the machine went down before all was synced
/// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)): any part of what was written since the last sync may be missing.
/// [`check`](OrderedIndex::check) the tree.
///
/// # Errors
/// As [`open_tree`], but for that one.
pub fn open_tree_unsynced(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, Opening::Accept)
}

/// The kind of the tree of this name, which is not opened.
///
/// # Errors
/// [`TreeError::NotATree`], [`TreeError::Pool`], as [`Pool::snapshot`] and if there is no such object.
pub fn tree_kind(pool: &Pool, name: &str) -> Result<TreeKind, TreeError> {
    Ok(maker_of(pool, name)?.kind)
}

/// All trees of a pool, in the order of their names.
///
/// # Errors
/// [`TreeError::Pool`], as [`Pool::snapshot`].
pub fn trees(pool: &Pool) -> Result<Vec<(String, TreeKind)>, TreeError> {
    let snapshot = pool.snapshot()?;
    let trees = snapshot.objects().filter_map(|object| {
        let maker = maker_by(object.slab_owner()?)?;
        Some((object.name().to_owned(), maker.kind))
    });
    Ok(trees.collect())
}

fn open(pool: &Pool, name: &str, opening: Opening) -> Made {
    (maker_of(pool, name)?.open)(pool, name, opening)
}

/// How the tree of this name is opened.
fn maker_of(pool: &Pool, name: &str) -> Result<Maker, TreeError> {
    let snapshot = pool.snapshot()?;
    let object = snapshot.object(name)?;
    let owner = object.slab_owner();
    owner.and_then(maker_by).ok_or_else(|| TreeError::NotATree {
        name: name.to_owned(),
        found: match owner {
            Some(owner) => format!("slab of a '{}'", owner.escape_ascii()),
            None => object.kind().to_string(),
        },
    })
}
