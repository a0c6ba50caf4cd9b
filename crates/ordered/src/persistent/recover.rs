//! Opening a tree: the inner nodes are read from the root down and determine which nodes are in use.
//! Unfinished changes of a node together with its sibling and parent are completed; the parent names
//! the child that may be affected.

use std::sync::atomic::AtomicU64;

use halocline_media::Medium;
use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;
use crate::damaged::DamagedNodes;
use crate::locks::Locks;
use crate::open_mode::{NOT_AS_CLOSED, OpenMode, begin_repair, has_changed};
use crate::write_gate::WriteGate;

use super::entries::SortedEntries;
use super::entry_count::LazyEntryCount;
use super::format::NodeFormat;
use super::layout::{NodeHead, NodeHeadValues, TOP};
use super::node::{NodeRef, NodeWriter, REACH, number_of};
use super::tree::{PersistentTree, too_far};
use super::visited::VisitedLeaves;

/// Prefetch distance in inner nodes.
const AHEAD: usize = 8;

/// A node referenced by its parent, and the range of its keys.
#[derive(Clone, Copy)]
struct RecoveredNode {
    offset: u64,
    low: u64,
    high: u64,
}

/// The offset of a damaged node and a description of the damage.
type NodeDamage = (u64, &'static str);

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn open(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<PersistentTree<F>, TreeError> {
        recover(open_mode.slab(pool, name, F::OWNER)?)
    }
}

/// Recovers a tree from its slab. Inner nodes are about a twentieth of a tree, so one thread reads
/// them. A damaged one is recorded, and the nodes below it are not reached.
fn recover<F: NodeFormat>(mut recovery: SlabRecovery) -> Result<PersistentTree<F>, TreeError> {
    let medium = recovery.slab().medium().clone();
    let root = medium.load_u64(recovery.slab().root());
    if root != 0 {
        recovery.keep(root)?;
    }
    recovery.slab().check_root()?;
    F::replay(&recovery)?;
    if root == 0 {
        return create_root(recovery.finish());
    }
    within_reach(&recovery, root)?;
    let medium = &medium;
    let damaged_nodes = DamagedNodes::default();
    let mut nodes = vec![RecoveredNode {
        offset: root,
        low: 0,
        high: u64::MAX,
    }];
    let level = NodeRef { medium, offset: root }.level::<F>();
    let height = level.filter(|level| (1..TOP).contains(level)).unwrap_or_else(|| {
        damaged_nodes.add(number_of(root), "it is not a root node".to_owned());
        nodes.clear();
        1
    });
    let (mut inner_nodes, mut last) = (0, 0);
    let mut looked_at = Vec::new();
    for level in (1..=height).rev() {
        let mut below = Vec::with_capacity(if level > 1 { nodes.len() * F::CAPACITY } else { 0 });
        for (at, found) in nodes.iter().enumerate() {
            if let Some(ahead) = nodes.get(at + AHEAD) {
                let offset = ahead.offset;
                NodeRef { medium, offset }.fetch();
            }
            let mut damage =
                |(node, reason): NodeDamage| damaged_nodes.add(number_of(node), reason.to_owned());
            let Some(entries) = settle::<F>(&recovery, medium, found, level, &mut damage)? else {
                continue;
            };
            looked_at.push(number_of(found.offset));
            for (child, (low, offset)) in entries.iter().enumerate() {
                let child = RecoveredNode {
                    offset: *offset,
                    low: *low,
                    high: entries.high(child, found.high),
                };
                if recovery.keep(child.offset).is_err() {
                    let other = wrong_parent::<F>(&recovery, medium, &child, &nodes[..at]);
                    damage((
                        other.unwrap_or(found.offset),
                        "one of its links does not lead to a child of it",
                    ));
                    if other.is_none() {
                        continue;
                    }
                    below.retain(|below: &RecoveredNode| below.offset != child.offset);
                }
                within_reach(&recovery, child.offset)?;
                last = last.max(number_of(child.offset));
                if level > 1 {
                    below.push(child);
                }
            }
        }
        inner_nodes += nodes.len() as u64;
        nodes = below;
    }
    if damaged_nodes.any() {
        // The nodes below are unknown, so none may be freed.
        recovery.keep_all();
    }
    let slab = recovery.finish();
    let visited = VisitedLeaves::none_up_to(last);
    looked_at.into_iter().for_each(|node| visited.add(node));
    Ok(PersistentTree {
        root: AtomicU64::new(u64::from(height) << 32 | u64::from(number_of(root))),
        inner_nodes: inner_nodes.into(),
        locks: Locks::new(),
        entry_count: LazyEntryCount::unknown(),
        visited,
        damaged_nodes,
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}

/// Handles a second link to a node. If the node's own range agrees with this link, returns the parent
/// with the wrong one.
fn wrong_parent<F: NodeFormat>(
    recovery: &SlabRecovery,
    medium: &Medium,
    child: &RecoveredNode,
    parents: &[RecoveredNode],
) -> Option<u64> {
    let node = |offset| NodeRef { medium, offset };
    let here = node(child.offset);
    let fits = recovery.slab().is_node(child.offset) && (here.low(), here.high()) == (child.low, child.high);
    let names = |parent: &&RecoveredNode| {
        let entries = SortedEntries::of::<F>(node(parent.offset));
        entries.iter().any(|entry| entry.1 == child.offset)
    };
    let parent = parents.iter().filter(|_| fits).find(names);
    parent.map(|parent| parent.offset)
}

fn within_reach(recovery: &SlabRecovery, offset: u64) -> Result<(), TreeError> {
    match offset < REACH {
        true => Ok(()),
        false => Err(too_far(recovery.slab().name(), offset)),
    }
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
        entry_count: LazyEntryCount::of(0),
        visited: VisitedLeaves::default(),
        damaged_nodes: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}

/// Checks an inner node, completes unfinished changes in it and between its children, and returns its
/// entries, or `None` if it is damaged.
fn settle<F: NodeFormat>(
    recovery: &SlabRecovery,
    medium: &Medium,
    found: &RecoveredNode,
    level: u32,
    damage: &mut impl FnMut(NodeDamage),
) -> Result<Option<SortedEntries>, TreeError> {
    let offset = found.offset;
    let node = NodeRef { medium, offset };
    let mut refuse = |reason: &'static str| {
        damage((offset, reason));
        Ok(None)
    };
    let closed = recovery.slab().sums().is_some();
    if has_changed(recovery.slab(), offset) {
        return refuse(NOT_AS_CLOSED);
    }
    if !node.is::<F>(level) || (node.low(), node.high()) != (found.low, found.high) {
        return refuse("its level or key range does not fit its position in the tree");
    }
    let summary = match F::examine(node) {
        Ok(summary) => summary,
        Err(reason) => return refuse(reason),
    };
    let mut out = NodeWriter::new(medium);
    if summary.unfinished {
        if closed {
            return refuse("it contains an unfinished change, although the tree was closed");
        }
        begin_repair(recovery.slab())?;
        F::repair(&mut out, node);
    }
    // A closed tree has no unfinished changes. A child that appears to have one is damaged, which its first
    // visit will report.
    let unfinished_child = F::unfinished_child(node).filter(|_| !closed).and_then(|child| {
        let slot = summary.entries.iter().position(|entry| entry.1 == child)?;
        let next = summary.entries.get(slot + 1).map_or(0, |next| next.1);
        Some((child, next, summary.entries.high(slot, found.high)))
    });
    let mut entries = summary.entries;
    if let Some((child, next, high)) = unfinished_child {
        match settle_child::<F>(recovery, &mut out, child, level - 1, high)? {
            Err((node, reason)) if node != next => damage((child, reason)),
            Err(sibling) => damage(sibling),
            Ok(Some(_)) if entries.len() == F::CAPACITY => {
                return refuse("it is full, and a child is missing from it");
            }
            Ok(Some(missing)) => {
                begin_repair(recovery.slab())?;
                F::insert(&mut out, node, missing.0, missing.1);
                entries.insert(missing);
            }
            Ok(None) => {}
        }
    }
    out.done()?;
    Ok(Some(entries))
}

/// Lowers a child's greatest key to the lower bound of its sibling. Returns the sibling and its lower
/// bound if it is missing from the parent, according to which the child's keys end with `high`.
///
/// Returns the damage and changes nothing if the child, or possibly its sibling, is damaged.
///
/// # Errors
/// As [`begin_repair`].
fn settle_child<F: NodeFormat>(
    recovery: &SlabRecovery,
    out: &mut NodeWriter<'_>,
    child: u64,
    level: u32,
    high: u64,
) -> Result<Result<Option<(u64, u64)>, NodeDamage>, TreeError> {
    let is_node_offset = |offset| recovery.slab().is_node(offset) && offset < REACH;
    if !is_node_offset(child) {
        // Marking the node as used will report the damage.
        return Ok(Ok(None));
    }
    let node = out.node(child);
    let sibling = node.sibling();
    if sibling == 0 {
        return Ok(Ok(None));
    }
    if !is_node_offset(sibling) {
        return Ok(Err((child, "its sibling link does not lead to a node")));
    }
    let right = out.node(sibling);
    if !right.is::<F>(level) || right.low() <= node.low() {
        return Ok(Err((
            sibling,
            "its level or key range does not fit together with that of its sibling",
        )));
    }
    // A split or merge was interrupted between its two stores to the head of the child.
    if right.low() <= node.high() {
        begin_repair(recovery.slab())?;
        out.store(child + NodeHead::HIGH, right.low() - 1);
        out.flush(child);
        out.fence();
    }
    Ok(Ok((right.low() <= high).then(|| (right.low(), sibling))))
}
