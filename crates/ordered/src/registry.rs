//! The trees by name: a caller that picks one at run time creates it by its [`TreeKind`], and opens whatever is there.
//!
//! A further tree is a variant of [`TreeKind`], its name in [`TreeKind::name`], its entry in [`TreeKind::ALL`], and a line of
//! `TreeFactory::of`.

use std::str::FromStr;

use halocline_pool::Pool;

use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree};
use crate::{FastFair, FpTree, LbTree, OrderedIndex, TreeError, TreeKind, WbTree};

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

type BoxedTree = Result<Box<dyn OrderedIndex>, TreeError>;

/// How the trees of one kind are made.
struct TreeFactory {
    kind: TreeKind,
    owner: [u8; 8],
    create: fn(&Pool, &str, u64) -> BoxedTree,
    open: fn(&Pool, &str, OpenMode) -> BoxedTree,
}

impl TreeFactory {
    fn of<T: StoredTree>(kind: TreeKind) -> TreeFactory {
        TreeFactory {
            kind,
            owner: T::OWNER,
            create: |pool, name, chunk| Ok(Box::new(T::create_stored(pool, name, chunk)?)),
            open: |pool, name, open_mode| Ok(Box::new(T::open_stored(pool, name, open_mode)?)),
        }
    }
}

fn maker(kind: TreeKind) -> TreeFactory {
    match kind {
        TreeKind::Lb => TreeFactory::of::<LbTree<1>>(kind),
        TreeKind::Lb2 => TreeFactory::of::<LbTree<2>>(kind),
        TreeKind::Lb4 => TreeFactory::of::<LbTree<4>>(kind),
        TreeKind::Fp => TreeFactory::of::<FpTree>(kind),
        TreeKind::FastFair => TreeFactory::of::<FastFair>(kind),
        TreeKind::Wb => TreeFactory::of::<WbTree>(kind),
    }
}

/// How trees are made whose slabs say that they hold this.
fn maker_by(owner: [u8; 8]) -> Option<TreeFactory> {
    let mut makers = TreeKind::ALL.iter().map(|kind| maker(*kind));
    makers.find(|maker| maker.owner == owner)
}

/// Creates an empty tree as an object of this name.
///
/// # Errors
/// [`TreeError::Pool`], as [`Pool::create_slab`].
pub fn create_tree(pool: &Pool, name: &str, kind: TreeKind) -> Result<Box<dyn OrderedIndex>, TreeError> {
    create_tree_in(pool, name, kind, DEFAULT_CHUNK)
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
    open(pool, name, OpenMode::Write)
}

/// As [`open_tree`], to read it: any number of handles may do so at once, also in a pool that is opened read-only, and nothing is stored.
/// Nobody can write it meanwhile. What writes is refused ([`TreeError::ReadOnly`]).
///
/// # Errors
/// As [`open_tree`]; [`TreeError::NeedsRecovery`] if it was not closed and a crash has left something half done in it: at opening, or when what is
/// half done is met.
pub fn open_tree_read_only(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, OpenMode::Read)
}

/// As [`open_tree`], also if the machine went down before all was synced
/// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)): any part of what was written since the last sync may be missing.
/// [`check`](OrderedIndex::check) the tree.
///
/// # Errors
/// As [`open_tree`], but for that one.
pub fn open_tree_unsynced(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, OpenMode::Accept)
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

fn open(pool: &Pool, name: &str, open_mode: OpenMode) -> BoxedTree {
    (maker_of(pool, name)?.open)(pool, name, open_mode)
}

/// How the tree of this name is opened.
fn maker_of(pool: &Pool, name: &str) -> Result<TreeFactory, TreeError> {
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
