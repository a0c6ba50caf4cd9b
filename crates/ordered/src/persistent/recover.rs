//! Opening: from the root down along the inner nodes, which name all nodes in use. What a crash has left half done between two
//! neighbours and their parent is finished: the parent says which child may be concerned.

use std::sync::atomic::AtomicU64;

use halocline_media::Medium;
use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;
use crate::damaged::DamagedNodes;
use crate::locks::Locks;
use crate::open_mode::{NOT_AS_CLOSED, OpenMode, has_changed, may_finish};
use crate::write_gate::WriteGate;

use super::entries::SortedEntries;
use super::entry_count::LazyEntryCount;
use super::format::NodeFormat;
use super::layout::{NodeHead, NodeHeadValues, TOP};
use super::node::{NodeRef, NodeWriter, REACH, number_of};
use super::tree::{PersistentTree, too_far};
use super::visited::VisitedLeaves;

/// Inner nodes that are fetched ahead.
const AHEAD: usize = 8;

/// A node that the parents lead to, and the keys that belong to it.
#[derive(Clone, Copy)]
struct RecoveredNode {
    offset: u64,
    low: u64,
    high: u64,
}

/// A damaged node, and what is wrong with it.
type NodeDamage = (u64, &'static str);

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn open(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<PersistentTree<F>, TreeError> {
        recover(open_mode.slab(pool, name, F::OWNER)?)
    }
}

/// Opens a tree on its slab. Inner nodes are a twentieth of a tree, so one thread reads them. A damaged one is taken note of, and what is
/// below it is not reached.
fn recover<F: NodeFormat>(mut recovery: SlabRecovery) -> Result<PersistentTree<F>, TreeError> {
    let medium = recovery.slab().medium().clone();
    let root = medium.load_u64(recovery.slab().root());
    if root != 0 {
        recovery.keep(root)?;
    }
    recovery.slab().check_root()?;
    F::replay(&recovery)?;
    if root == 0 {
        return begin(recovery.finish());
    }
    within_reach(&recovery, root)?;
    let medium = &medium;
    let broken = DamagedNodes::default();
    let mut nodes = vec![RecoveredNode {
        offset: root,
        low: 0,
        high: u64::MAX,
    }];
    let level = NodeRef { medium, offset: root }.level::<F>();
    let height = level.filter(|level| (1..TOP).contains(level)).unwrap_or_else(|| {
        broken.add(number_of(root), "it is no root".to_owned());
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
            let mut damage = |(node, reason): NodeDamage| broken.add(number_of(node), reason.to_owned());
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
                    let other = named_before::<F>(&recovery, medium, &child, &nodes[..at]);
                    damage((
                        other.unwrap_or(found.offset),
                        "one of its links leads to no child of it",
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
    if broken.any() {
        // Nobody knows what is below.
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
        broken,
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}

/// A link leads to a node that was named before. Says which node it was named by, if that was wrong as the node belongs here.
fn named_before<F: NodeFormat>(
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

/// The root and the leaf of a tree that has none.
fn begin<F: NodeFormat>(slab: Slab) -> Result<PersistentTree<F>, TreeError> {
    may_finish(&slab)?;
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
        broken: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        log: F::log(&slab),
        slab,
    })
}

/// Looks at an inner node, finishes what is half done there and between its children, and returns its entries; nothing if it is damaged.
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
        return refuse("it has not the level or the keys that its place needs");
    }
    let facts = match F::examine(node) {
        Ok(facts) => facts,
        Err(reason) => return refuse(reason),
    };
    let mut out = NodeWriter::new(medium);
    if facts.unfinished {
        if closed {
            return refuse("something is half done in it");
        }
        may_finish(recovery.slab())?;
        F::mend(&mut out, node);
    }
    // Nothing is half done in a tree that was closed, so a child that seems to be is damaged; whoever visits it finds that.
    let unsettled = F::unsettled(node).filter(|_| !closed).and_then(|child| {
        let slot = facts.entries.iter().position(|entry| entry.1 == child)?;
        let next = facts.entries.get(slot + 1).map_or(0, |next| next.1);
        Some((child, next, facts.entries.high(slot, found.high)))
    });
    let mut entries = facts.entries;
    if let Some((child, next, high)) = unsettled {
        match settle_child::<F>(recovery, &mut out, child, level - 1, high)? {
            Err((node, reason)) if node != next => damage((child, reason)),
            Err(sibling) => damage(sibling),
            Ok(Some(_)) if entries.len() == F::CAPACITY => {
                return refuse("it has no room for a child that it should have");
            }
            Ok(Some(missing)) => {
                may_finish(recovery.slab())?;
                F::insert(&mut out, node, missing.0, missing.1);
                entries.insert(missing);
            }
            Ok(None) => {}
        }
    }
    out.done()?;
    Ok(Some(entries))
}

/// Makes a child's keys end where its sibling's begin; returns the sibling, with the least key that belongs to it, if it is one that the parent,
/// by whom the child's keys end with `high`, does not know.
///
/// Damage if one of the two is: the child, or maybe the sibling. Nothing was done then.
///
/// # Errors
/// As [`may_finish`].
fn settle_child<F: NodeFormat>(
    recovery: &SlabRecovery,
    out: &mut NodeWriter<'_>,
    child: u64,
    level: u32,
    high: u64,
) -> Result<Result<Option<(u64, u64)>, NodeDamage>, TreeError> {
    let is_place = |offset| recovery.slab().is_node(offset) && offset < REACH;
    if !is_place(child) {
        // Naming it will say so.
        return Ok(Ok(None));
    }
    let node = out.node(child);
    let sibling = node.sibling();
    if sibling == 0 {
        return Ok(Ok(None));
    }
    if !is_place(sibling) {
        return Ok(Err((child, "its sibling is no node")));
    }
    let right = out.node(sibling);
    if !right.is::<F>(level) || right.low() <= node.low() {
        return Ok(Err((
            sibling,
            "its sibling's level or keys are not a sibling's, or it is a sibling and its own are not",
        )));
    }
    if right.low() <= node.high() {
        may_finish(recovery.slab())?;
        out.store(child + NodeHead::HIGH, right.low() - 1);
        out.flush(child);
        out.fence();
    }
    Ok(Ok((right.low() <= high).then(|| (right.low(), sibling))))
}
