//! Finding out which nodes are in use after the tree was opened.
//!
//! Opening follows no links. All nodes before the slab's frontier are in doubt and count as in use; new nodes
//! come from after it. A walk over the lowest inner nodes, in the order of their keys, confirms all nodes
//! that links lead to; then those that are still in doubt are freed. It takes a few steps with each
//! allocation. It is completed at once when somebody asks for the number of nodes, when a tree that crashed
//! is closed, and when the slab would have to grow for the second time while nodes are in doubt, so that
//! repeated crashes do not leak ever more nodes.
//!
//! Invariant: for each key that the walk has passed, the nodes on its path were confirmed, or allocated since
//! the opening. Splits add only new nodes; merges give the keys of a node to its left neighbour, which has
//! lesser keys of its own, so the walk has passed it if it has passed one of these keys. If a link is
//! damaged, the nodes in doubt stay in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halocline_pool::ConfirmedNode;

use crate::TreeError;
use crate::locks::Backoff;

use super::entries::SortedEntries;
use super::fault::{PersistentFault, injected};
use super::format::NodeFormat;
use super::layout::TOP;
use super::node::offset_of;
use super::tree::PersistentTree;

/// Number of steps of the walk with an allocation. A step visits a node for the first time, or passes a
/// lowest inner node. In tests there are so few that trees are small in which the walk takes long.
const STEPS: usize = if cfg!(test) { 1 } else { 8 };

/// Progress of the walk over the nodes of a tree.
#[derive(Debug)]
pub(crate) struct UsageWalk {
    /// Keys below this one have been passed. Only the holder of `taken` changes it.
    passed: AtomicU64,
    /// True when all keys have been passed.
    complete: AtomicBool,
    /// True if a link is damaged.
    lost: AtomicBool,
    /// True while a thread walks.
    taken: AtomicBool,
    /// True while a thread allocates a node that is not ready.
    allocating: AtomicBool,
}

/// A flag that this thread has set, and clears when it is dropped.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn try_take(flag: &'a AtomicBool) -> Option<Turn<'a>> {
        let taken = flag.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Turn(flag))
    }

    /// Waits for the flag.
    fn take(flag: &'a AtomicBool) -> Turn<'a> {
        let mut backoff = Backoff::default();
        loop {
            match Turn::try_take(flag) {
                Some(turn) => return turn,
                None => backoff.wait(),
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl UsageWalk {
    /// Creates the walk over a tree whose nodes are in doubt, or one that is complete.
    pub(super) fn new(complete: bool) -> UsageWalk {
        UsageWalk {
            passed: AtomicU64::new(0),
            complete: AtomicBool::new(complete),
            lost: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            allocating: AtomicBool::new(false),
        }
    }

    /// Returns the key that the walk has reached.
    #[cfg(test)]
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Records that a link is damaged.
    pub(super) fn lose_links(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Returns true if it is known which nodes are in use, or cannot be found out.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Allocates a node and continues the walk. No lock may be held, as the pool may have to grow.
    pub(super) fn take_node(&self) -> Result<u64, TreeError> {
        if !self.usage.is_complete()
            && let Some(turn) = Turn::try_take(&self.usage.taken)
        {
            (0..STEPS).try_for_each(|_| self.walk_on(&turn).map(drop))?;
        }
        match self.slab.alloc_ready() {
            Some(node) => Ok(node),
            None => self.take_more(),
        }
    }

    /// Allocates a node when none is ready.
    #[cold]
    fn take_more(&self) -> Result<u64, TreeError> {
        let _allocating = Turn::take(&self.usage.allocating);
        loop {
            if let Some(node) = self.write_gate.alloc_present(&self.slab)? {
                return Ok(node);
            }
            if self.usage.is_complete() {
                return self.write_gate.alloc(&self.slab);
            }
            // A full pool may have room when the nodes in use are known.
            if (self.slab.may_grow_in_doubt() || injected(PersistentFault::GrowInDoubt))
                && let Ok(node) = self.write_gate.alloc(&self.slab)
            {
                return Ok(node);
            }
            self.complete_walk()?;
        }
    }

    /// Completes the walk. Does nothing if it is complete.
    ///
    /// # Errors
    /// [`TreeError::NeedsRecovery`] in a tree that is opened read-only, [`TreeError::Media`].
    pub(crate) fn complete_walk(&self) -> Result<(), TreeError> {
        if self.usage.is_complete() {
            return Ok(());
        }
        let turn = Turn::take(&self.usage.taken);
        let mut backoff = Backoff::default();
        while !self.usage.is_complete() {
            if !self.walk_on(&turn)? {
                backoff.wait();
            }
        }
        Ok(())
    }

    /// Passes one more lowest inner node. Returns false if a concurrent change interferes.
    fn walk_on(&self, _turn: &Turn<'_>) -> Result<bool, TreeError> {
        let usage = &self.usage;
        if usage.is_complete() {
            return Ok(true);
        }
        let passed = usage.passed.load(Ordering::Relaxed);
        let high = match self.confirm_children(passed) {
            Ok(Some(high)) => high,
            Ok(None) => return Ok(false),
            Err(TreeError::Damaged { .. }) => {
                usage.lose_links();
                self.damage_ends(passed)
            }
            Err(error) => return Err(error),
        };
        match high
            .checked_add(1)
            .filter(|_| !injected(PersistentFault::FreedEarly))
        {
            Some(next) => usage.passed.store(next, Ordering::Relaxed),
            None => {
                if !usage.lost.load(Ordering::Acquire) && !injected(PersistentFault::ForgetLeaked) {
                    self.slab.free_doubtful();
                }
                usage.complete.store(true, Ordering::Release);
            }
        }
        Ok(true)
    }

    /// Confirms the lowest inner node of a key, its children and the nodes above it. Returns the node's
    /// greatest key, or `None` if a concurrent change interferes.
    fn confirm_children(&self, key: u64) -> Result<Option<u64>, TreeError> {
        let mut path = [0; TOP as usize];
        let mut height = 0;
        let at = self.follow(key, 1, |number, level| {
            path[level as usize] = number;
            height = height.max(level as usize);
        })?;
        let Some(at) = at else {
            return Ok(None);
        };
        // While the node is locked, its children are neither moved nor freed.
        let Some(locked) = self.locks.try_lock_all([at.number]) else {
            return Ok(None);
        };
        if !locked.first_was(at.version) {
            locked.unchanged();
            return Ok(None);
        }
        for number in path[1..=height].iter().rev() {
            if *number == at.number || !injected(PersistentFault::PathUnconfirmed) {
                self.confirm_inner(*number);
            }
        }
        let node = self.node(at.number);
        let (entries, high) = (SortedEntries::from_node::<F>(node), node.high());
        let mut wrong = None;
        for (child, (low, link)) in entries.iter().enumerate() {
            let is_new = entries.high(child, high) >= key;
            if injected(PersistentFault::MergedUnconfirmed) && node.low() < key || !is_new {
                continue;
            }
            match self.slab.confirm(*link) {
                ConfirmedNode::Found | ConfirmedNode::New => {}
                // A leaf that the walk has passed may have taken over the keys of its neighbour.
                ConfirmedNode::Again if *low < key => {}
                state => wrong = Some((*low, state)),
            }
        }
        locked.unchanged();
        if let Some((low, state)) = wrong {
            self.usage.lose_links();
            self.report_wrong_link(at.number, low, state);
        }
        Ok(Some(high))
    }

    /// Confirms an inner node, and counts it if nobody has done so before.
    pub(super) fn confirm_inner(&self, number: u32) {
        if self.slab.confirm(offset_of(number)) == ConfirmedNode::Found {
            self.add_inner_nodes(1);
        }
    }

    /// Records the damage of a lowest inner node, one of whose links leads to a node that is not in use, or
    /// to which another link leads. In the latter case the other link may be the wrong one; the first
    /// visit of its target will report it.
    #[cold]
    fn report_wrong_link(&self, number: u32, low: u64, state: ConfirmedNode) {
        if state == ConfirmedNode::NotInUse {
            self.damaged(number, "one of its links does not lead to a node in use");
        } else {
            // The error is recorded, and this thread does not need the node.
            let _ = self.verify_place(low, 0);
        }
    }
}
