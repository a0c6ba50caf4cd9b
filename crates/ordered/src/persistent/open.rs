//! Opening a tree: only the logs and the root node are read. All other nodes are visited when they are first
//! used ([`visit`](super::visit)), and which nodes are in use is found out later ([`usage`](super::usage)).

use std::sync::atomic::AtomicU64;

use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;
use crate::damaged::DamagedNodes;
use crate::locks::Locks;
use crate::open_mode::{OpenMode, begin_repair};
use crate::write_gate::WriteGate;

use super::entry_count::LazyEntryCount;
use super::fault::{PersistentFault, injected};
use super::format::NodeFormat;
use super::layout::{NodeHeadValues, TOP};
use super::node::{NodeRef, NodeWriter, REACH, number_of};
use super::tree::{PersistentTree, too_far};
use super::usage::UsageWalk;
use super::visit::VisitedNodes;

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn open(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<PersistentTree<F>, TreeError> {
        recover(open_mode.slab(pool, name, F::OWNER)?)
    }
}

/// Recovers a tree from its slab.
fn recover<F: NodeFormat>(mut recovery: SlabRecovery) -> Result<PersistentTree<F>, TreeError> {
    let medium = recovery.slab().medium().clone();
    let root = medium.load_u64(recovery.slab().root());
    if root != 0 {
        recovery.keep(root)?;
    }
    recovery.slab().check_root()?;
    // Before anything is stored.
    if root == 0 {
        recovery.keep_none();
    } else {
        recovery.keep_in_doubt();
    }
    F::replay(&recovery)?;
    let slab = recovery.finish();
    if injected(PersistentFault::ReuseUnread) {
        slab.free_doubtful();
    }
    if root == 0 {
        return create_root(slab);
    }
    if root >= REACH {
        return Err(too_far(slab.name(), root));
    }
    let damaged_nodes = DamagedNodes::default();
    let medium = &medium;
    let level = NodeRef { medium, offset: root }.level::<F>();
    let height = level.filter(|level| (1..TOP).contains(level)).unwrap_or_else(|| {
        damaged_nodes.add(number_of(root), "it is not a root node".to_owned());
        1
    });
    Ok(PersistentTree {
        root: AtomicU64::new(u64::from(height) << 32 | u64::from(number_of(root))),
        inner_nodes: 0.into(),
        locks: Locks::new(),
        entry_count: LazyEntryCount::unknown(),
        visited: VisitedNodes::none_up_to(number_of(slab.nodes_end().min(REACH - 1))),
        usage: UsageWalk::new(false),
        damaged_nodes,
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}

/// Creates the root and the leaf of a new tree.
fn create_root<F: NodeFormat>(slab: Slab) -> Result<PersistentTree<F>, TreeError> {
    begin_repair(&slab)?;
    let (root, leaf) = (slab.alloc()?, slab.alloc()?);
    if let Some(far) = [root, leaf].into_iter().find(|node| *node >= REACH) {
        return Err(too_far(slab.name(), far));
    }
    let mut out = NodeWriter::new(slab.medium());
    let head = |level| NodeHeadValues {
        level,
        sibling: 0,
        low: 0,
        high: u64::MAX,
    };
    F::write_new(&mut out, leaf, &head(0), &[]);
    F::write_new(&mut out, root, &head(1), &[(0, leaf)]);
    out.fence();
    out.store(slab.root(), root);
    out.flush(slab.root());
    out.fence();
    out.done()?;
    Ok(PersistentTree {
        root: AtomicU64::new(1 << 32 | u64::from(number_of(root))),
        inner_nodes: 1.into(),
        locks: Locks::new(),
        entry_count: LazyEntryCount::known(0),
        visited: VisitedNodes::default(),
        usage: UsageWalk::new(true),
        damaged_nodes: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}
