//! Opening a tree: from a [checkpoint](super::checkpoint), or by [reading all leaves](super::recover).
//!
//! Order: what the checkpoint needs is kept before anything is stored.

use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;
use crate::damaged::DamagedNodes;
use crate::entry_counter::EntryCounter;
use crate::inner::InnerNodes;
use crate::locks::Locks;
use crate::open_mode::{OpenMode, begin_repair};
use crate::write_gate::WriteGate;

use super::checkpoint::fault::{CheckpointFault, injected};
use super::checkpoint::{self, Checkpoint, MIN_SPLITS};
use super::lazy::{AfterCrash, LazyBlocks};
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::pins::{NamedCheckpoint, Pins};
use super::recover::read_all;
use super::tree::{HybridTree, number_of};

impl<L: LeafFormat> HybridTree<L> {
    /// Opens a tree.
    pub(crate) fn open(pool: &Pool, name: &str, open_mode: OpenMode, leaves: L) -> Result<Self, TreeError> {
        recover(open_mode.slab(pool, name, L::OWNER)?, leaves)
    }
}

/// Recovers a tree from its slab.
fn recover<L: LeafFormat>(mut recovery: SlabRecovery, leaves: L) -> Result<HybridTree<L>, TreeError> {
    let (medium, root) = (recovery.slab().medium(), recovery.slab().root());
    let first = medium.load_u64(root);
    if first == 0 || recovery.slab().is_node(first) {
        // Only for links that lead to a node: other links get an error that names them.
        recovery.slab().check_root()?;
    }
    if first == 0 {
        return create_first_leaf(recovery.finish(), leaves);
    }
    let checkpoint =
        checkpoint::read(recovery.slab(), first).filter(|found| keep_nodes(&mut recovery, found));
    // Before anything is stored.
    recovery.keep_owner_word(checkpoint.is_some());
    leaves.finish(recovery.slab())?;
    if let Some(checkpoint) = checkpoint {
        return open_lazily(recovery.finish(), leaves, checkpoint);
    }
    let (slab, all) = read_all::<L>(recovery)?;
    Ok(HybridTree {
        inner: InnerNodes::build(&all.bounds)?,
        slab,
        locks: Locks::new(),
        count: EntryCounter::new(all.entries),
        damaged_nodes: all.damaged_nodes,
        write_gate: WriteGate::default(),
        lazy: LazyBlocks::default(),
        pins: Pins::default(),
        leaves,
    })
}

/// Marks the nodes in use that a checkpoint tells of, and its own. After a crash these are unknown until all
/// leaves were read, and all count as in use. Returns false if the checkpoint contradicts the slab.
fn keep_nodes(recovery: &mut SlabRecovery, checkpoint: &Checkpoint) -> bool {
    if recovery.slab().sums().is_some() {
        return recovery.restore_usage(&checkpoint.usage, &checkpoint.nodes);
    }
    if !injected(CheckpointFault::ReuseUnread) {
        recovery.keep_all();
    }
    true
}

/// Opens a tree without reading its leaves.
fn open_lazily<L: LeafFormat>(
    slab: Slab,
    leaves: L,
    checkpoint: Checkpoint,
) -> Result<HybridTree<L>, TreeError> {
    let bounds: Vec<(u64, u32)> = checkpoint
        .anchors
        .iter()
        .map(|anchor| (anchor.low.get(), anchor.leaf.get()))
        .collect();
    let after_crash = slab.sums().is_none().then(|| {
        let reached = slab.node_set();
        checkpoint.nodes.iter().for_each(|node| _ = reached.insert(*node));
        let has_grown = slab.stats().chunks != checkpoint.chunks;
        AfterCrash { reached, has_grown }
    });
    let entries = if after_crash.is_some() {
        0
    } else {
        checkpoint.entries
    };
    let pins = Pins::new(NamedCheckpoint {
        anchors: checkpoint.anchors.clone(),
        nodes: checkpoint.nodes,
    });
    if after_crash.is_none() {
        pins.set_due(MIN_SPLITS);
    }
    Ok(HybridTree {
        inner: InnerNodes::build(&bounds)?,
        slab,
        locks: Locks::new(),
        count: EntryCounter::new(entries),
        damaged_nodes: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        lazy: LazyBlocks::new(checkpoint.anchors, after_crash),
        pins,
        leaves,
    })
}

/// Creates the first leaf of a new tree.
fn create_first_leaf<L: LeafFormat>(slab: Slab, leaves: L) -> Result<HybridTree<L>, TreeError> {
    begin_repair(&slab)?;
    let offset = slab.alloc()?;
    let number = number_of(offset, slab.name())?;
    let medium = slab.medium();
    L::write_new(LeafRef { medium, offset }, std::iter::empty(), 0, false);
    medium.fence()?;
    medium.store_u64(slab.root(), offset);
    medium.persist(slab.root(), 8)?;
    Ok(HybridTree {
        inner: InnerNodes::new(number)?,
        slab,
        locks: Locks::new(),
        count: EntryCounter::new(0),
        damaged_nodes: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        lazy: LazyBlocks::default(),
        pins: Pins::default(),
        leaves,
    })
}
