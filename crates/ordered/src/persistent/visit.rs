//! First visits of nodes after the tree was opened.
//!
//! A visit checks a node and completes the changes that a crash has interrupted: one within the node and, in
//! an inner node, one of a child together with its sibling; the node names the child that may be affected.
//!
//! Invariants: all code but this sees only nodes that were visited. A node is visited after its parent, so
//! its level and keys are those that the parent says. A node is changed only after it and its parent were
//! visited, so that no unfinished change is forgotten.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::TreeError;
use crate::locks::Backoff;
use crate::open_mode::{NOT_AS_CLOSED, begin_repair, has_changed};

use super::descend::VersionedNode;
use super::fault::{PersistentFault, injected};
use super::format::{NodeFormat, NodeSummary};
use super::layout::NodeHead;
use super::node::{NodeWriter, number_of};
use super::tree::PersistentTree;

/// The nodes that were visited since the tree was opened: one bit per node number that existed at the
/// opening. Nodes after them were written later and cannot contain unfinished changes.
#[derive(Debug, Default)]
pub(crate) struct VisitedNodes(Box<[AtomicU64]>);

impl VisitedNodes {
    /// Creates a set in which no node with a number up to `last` is visited.
    pub(crate) fn none_up_to(last: u32) -> VisitedNodes {
        VisitedNodes((0..=last / 64).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    pub(crate) fn has(&self, number: u32) -> bool {
        match self.0.get(number as usize / 64) {
            None => true,
            Some(word) => word.load(Ordering::Acquire) >> (number % 64) & 1 == 1,
        }
    }

    #[inline]
    pub(crate) fn add(&self, number: u32) {
        if let Some(word) = self.0.get(number as usize / 64) {
            word.fetch_or(1 << (number % 64), Ordering::Release);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

/// Damage of a node, and its number.
type NodeDamage = (u32, &'static str);

impl<F: NodeFormat> PersistentTree<F> {
    /// Visits a node on the path of a key for the first time. Returns `None`, so that the caller descends
    /// again.
    #[cold]
    pub(super) fn first_visit(
        &self,
        key: u64,
        level: u32,
        from: Option<VersionedNode>,
        at: VersionedNode,
    ) -> Result<Option<VersionedNode>, TreeError> {
        let node = self.node(at.number);
        if !node.is::<F>(level) {
            return self.contradiction(from, at, from);
        }
        let is_placed = match from {
            None if (node.low(), node.high()) != (0, u64::MAX) => return self.contradiction(None, at, None),
            None => true,
            Some(_) => self.verify_place(key, level)?,
        };
        if is_placed {
            self.visit(at.number, level)?;
        }
        Ok(None)
    }

    /// Checks a node of this level on its first visit and completes changes that a crash has interrupted. The
    /// caller holds no lock.
    ///
    /// # Errors
    /// [`TreeError::Damaged`], [`TreeError::NeedsRecovery`], [`TreeError::Media`].
    #[cold]
    pub(super) fn visit(&self, number: u32, level: u32) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let child = self.unfinished_child(number, level);
            let Some(locked) = self.locks.try_lock_all([number, child.unwrap_or(number)]) else {
                backoff.wait();
                continue;
            };
            if !self.node(number).is::<F>(level) || self.visited.has(number) {
                // The node has been freed, or another thread has visited it.
                locked.unchanged();
                return Ok(());
            }
            if self.unfinished_child(number, level) == child {
                self.settle(number, level, child)?;
                self.visited.add(number);
                return Ok(());
            }
            locked.unchanged();
        }
    }

    /// Returns the child of an inner node whose change together with its sibling may be unfinished. A closed
    /// tree has no unfinished changes: a child that appears to have one is damaged, which its first visit
    /// will report.
    fn unfinished_child(&self, number: u32, level: u32) -> Option<u32> {
        if level == 0 || self.slab.sums().is_some() || injected(PersistentFault::SplitsUnfinished) {
            return None;
        }
        let child = F::unfinished_child(self.node(number))?;
        Some(self.number(child)).filter(|child| *child != 0)
    }

    /// Checks a node and completes unfinished changes in it, and between `child` and its sibling. The caller
    /// holds the locks of the node and of the child.
    fn settle(&self, number: u32, level: u32, child: Option<u32>) -> Result<(), TreeError> {
        let node = self.node(number);
        if has_changed(&self.slab, node.offset) {
            return Err(self.damaged(number, NOT_AS_CLOSED));
        }
        let summary = F::examine(node).map_err(|reason| self.damaged(number, reason))?;
        if summary.unfinished {
            if self.slab.sums().is_some() {
                let reason = "it contains an unfinished change, although the tree was closed";
                return Err(self.damaged(number, reason));
            }
            self.begin_repair()?;
            let mut out = NodeWriter::new(self.slab.medium());
            F::repair(&mut out, node);
            self.write_gate.keep(out.done())?;
        }
        match child {
            Some(child) => self.settle_child(number, level, &summary, child),
            None => Ok(()),
        }
    }

    /// Completes the change of a child together with its sibling, which may be missing from this node.
    fn settle_child(
        &self,
        number: u32,
        level: u32,
        summary: &NodeSummary,
        child: u32,
    ) -> Result<(), TreeError> {
        let (node, entries) = (self.node(number), &summary.entries);
        let offset = self.node(child).offset;
        let Some(slot) = entries.iter().position(|entry| entry.1 == offset) else {
            return Ok(());
        };
        let next = entries.get(slot + 1).map_or(0, |next| number_of(next.1));
        let high = entries.high(slot, node.high());
        match self.settle_siblings(child, level - 1, high)? {
            Err((damaged, reason)) => {
                // The links of the children are uncertain, so no node in doubt may be freed.
                self.usage.lose_links();
                let damaged = if damaged == next { next } else { child };
                self.damaged(damaged, reason);
                Ok(())
            }
            Ok(Some(_)) if entries.len() == F::CAPACITY => {
                Err(self.damaged(number, "it is full, and a child is missing from it"))
            }
            Ok(Some((low, sibling))) => {
                self.begin_repair()?;
                let mut out = NodeWriter::new(self.slab.medium());
                F::insert(&mut out, node, low, sibling);
                self.write_gate.keep(out.done())
            }
            Ok(None) => Ok(()),
        }
    }

    /// Lowers a child's greatest key to the lower bound of its sibling. Returns the lower bound of the
    /// sibling and its offset if it is missing from the parent, according to which the child's keys end
    /// with `high`.
    ///
    /// Returns the damage and changes nothing if the child, or possibly its sibling, is damaged.
    fn settle_siblings(
        &self,
        child: u32,
        level: u32,
        high: u64,
    ) -> Result<Result<Option<(u64, u64)>, NodeDamage>, TreeError> {
        let node = self.node(child);
        if !self.slab.is_node(node.offset) || node.sibling() == 0 {
            // Following the link will report the damage, if there is any.
            return Ok(Ok(None));
        }
        let sibling = self.number(node.sibling());
        if sibling == 0 || !self.slab.is_node(node.sibling()) {
            return Ok(Err((child, "its sibling link does not lead to a node")));
        }
        let right = self.node(sibling);
        if !right.is::<F>(level) || right.low() <= node.low() {
            return Ok(Err((
                sibling,
                "its level or key range does not fit together with that of its sibling",
            )));
        }
        // A split or merge was interrupted between its two stores to the head of the child.
        if right.low() <= node.high() {
            self.begin_repair()?;
            let mut out = NodeWriter::new(self.slab.medium());
            out.store(node.offset + NodeHead::HIGH, right.low() - 1);
            out.flush(node.offset);
            out.fence();
            self.write_gate.keep(out.done())?;
        }
        Ok(Ok((right.low() <= high).then(|| (right.low(), right.offset))))
    }

    fn begin_repair(&self) -> Result<(), TreeError> {
        begin_repair(&self.slab)?;
        self.write_gate.check(&self.slab)
    }
}
