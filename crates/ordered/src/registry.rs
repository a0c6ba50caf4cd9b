//! Creating and opening trees whose kind is known only at run time.
//!
//! A new kind of tree needs a variant of [`TreeKind`], its name in [`TreeKind::name`], its entry in
//! [`TreeKind::ALL`] and a line in `factory`.

use std::str::FromStr;

use halocline_pool::{Pool, ReserveUse};

use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree, TreeSpace};
use crate::{FastFair, FpTree, LbTree, OrderedIndex, TreeError, TreeKind, WbTree};

impl FromStr for TreeKind {
    type Err = TreeError;

    /// Parses the name of a kind of tree.
    ///
    /// # Errors
    /// [`TreeError::UnknownKind`] if no kind has this name.
    fn from_str(text: &str) -> Result<TreeKind, TreeError> {
        let found = TreeKind::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| TreeError::UnknownKind {
            text: text.to_owned(),
        })
    }
}

type BoxedTree = Result<Box<dyn OrderedIndex>, TreeError>;

/// The constructors of one kind of tree.
struct TreeFactory {
    kind: TreeKind,
    owner: [u8; 8],
    create: fn(&Pool, &str, TreeSpace) -> BoxedTree,
    open: fn(&Pool, &str, OpenMode) -> BoxedTree,
}

impl TreeFactory {
    fn for_tree<T: StoredTree>(kind: TreeKind) -> TreeFactory {
        TreeFactory {
            kind,
            owner: T::OWNER,
            create: |pool, name, space| Ok(Box::new(T::create_stored(pool, name, space)?)),
            open: |pool, name, open_mode| Ok(Box::new(T::open_stored(pool, name, open_mode)?)),
        }
    }
}

fn factory(kind: TreeKind) -> TreeFactory {
    match kind {
        TreeKind::Lb => TreeFactory::for_tree::<LbTree<1>>(kind),
        TreeKind::Lb2 => TreeFactory::for_tree::<LbTree<2>>(kind),
        TreeKind::Lb4 => TreeFactory::for_tree::<LbTree<4>>(kind),
        TreeKind::Fp => TreeFactory::for_tree::<FpTree>(kind),
        TreeKind::FastFair => TreeFactory::for_tree::<FastFair>(kind),
        TreeKind::Wb => TreeFactory::for_tree::<WbTree>(kind),
    }
}

/// Returns the constructors of the trees whose slabs have this owner tag.
fn factory_by_owner(owner: [u8; 8]) -> Option<TreeFactory> {
    let mut factories = TreeKind::ALL.iter().map(|kind| factory(*kind));
    factories.find(|factory| factory.owner == owner)
}

/// Creates an empty tree of a kind as an object with this name.
///
/// # Errors
/// [`TreeError::Pool`], as [`Pool::create_slab`].
pub fn create_tree(pool: &Pool, name: &str, kind: TreeKind) -> Result<Box<dyn OrderedIndex>, TreeError> {
    create_tree_in(pool, name, kind, DEFAULT_CHUNK)
}

/// Creates an empty tree that allocates at least `chunk` bytes of the pool at a time, rounded up to
/// whole blocks of 4 KiB. A small value suits a tree that stays small.
///
/// # Errors
/// As [`create_tree`].
pub fn create_tree_in(
    pool: &Pool,
    name: &str,
    kind: TreeKind,
    chunk: u64,
) -> Result<Box<dyn OrderedIndex>, TreeError> {
    (factory(kind).create)(pool, name, TreeSpace::of_chunks(chunk))
}

/// Creates an empty tree like [`create_tree_in`], on a full disk in the reserve of the pool: for a tree that
/// stands for what is deleted. A small `chunk` leaves the reserve to others.
///
/// # Errors
/// As [`create_tree`].
pub fn create_tree_using_reserve(
    pool: &Pool,
    name: &str,
    kind: TreeKind,
    chunk: u64,
    purpose: ReserveUse,
) -> Result<Box<dyn OrderedIndex>, TreeError> {
    let space = TreeSpace {
        chunk,
        reserve_use: Some(purpose),
    };
    (factory(kind).create)(pool, name, space)
}

/// Opens the tree with this name, whatever its kind. The cost depends on the kind.
///
/// # Errors
/// [`TreeError::NotATree`] if the object is not a tree, or of an unknown kind; [`TreeError::Pool`], as
/// [`Pool::open_slab`].
pub fn open_tree(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, OpenMode::Write)
}

/// Opens a tree read-only and stores nothing. Any number of read-only handles may be open at the same time,
/// also in a pool that is opened read-only, but no writer. Writes fail with [`TreeError::ReadOnly`].
///
/// # Errors
/// As [`open_tree`]; [`TreeError::NeedsRecovery`] if the tree was not closed and a change is
/// unfinished, either at opening or when an operation reaches that change.
pub fn open_tree_read_only(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, OpenMode::Read)
}

/// Opens a tree like [`open_tree`] even if the machine went down before the tree was synced
/// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)). Any part of what was written
/// since the last sync may be missing; [`check`](OrderedIndex::check) the tree.
///
/// # Errors
/// As [`open_tree`], but for that one.
pub fn open_tree_unsynced(pool: &Pool, name: &str) -> Result<Box<dyn OrderedIndex>, TreeError> {
    open(pool, name, OpenMode::Accept)
}

/// Returns the kind of the tree with this name without opening it.
///
/// # Errors
/// [`TreeError::NotATree`]; [`TreeError::Pool`], as [`Pool::snapshot`] and if there is no such object.
pub fn tree_kind(pool: &Pool, name: &str) -> Result<TreeKind, TreeError> {
    Ok(factory_of(pool, name)?.kind)
}

/// Lists all trees of a pool in the order of their names.
///
/// # Errors
/// [`TreeError::Pool`], as [`Pool::snapshot`].
pub fn trees(pool: &Pool) -> Result<Vec<(String, TreeKind)>, TreeError> {
    let snapshot = pool.snapshot()?;
    let trees = snapshot.objects().filter_map(|object| {
        let factory = factory_by_owner(object.slab_owner()?)?;
        Some((object.name().to_owned(), factory.kind))
    });
    Ok(trees.collect())
}

fn open(pool: &Pool, name: &str, open_mode: OpenMode) -> BoxedTree {
    (factory_of(pool, name)?.open)(pool, name, open_mode)
}

/// Returns the constructors for the tree with this name.
fn factory_of(pool: &Pool, name: &str) -> Result<TreeFactory, TreeError> {
    let snapshot = pool.snapshot()?;
    let object = snapshot.object(name)?;
    let owner = object.slab_owner();
    owner
        .and_then(factory_by_owner)
        .ok_or_else(|| TreeError::NotATree {
            name: name.to_owned(),
            found: match owner {
                Some(owner) => format!("slab of a '{}'", owner.escape_ascii()),
                None => object.kind().to_string(),
            },
        })
}
