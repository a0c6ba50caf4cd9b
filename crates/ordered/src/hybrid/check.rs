//! Consistency checks of leaves.

use crate::{TreeCheckReport, TreeError, TreeProblem};

use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, UNIT, number_of, offset_of};

/// Result of reading all entries of a leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeafSummary {
    pub(super) count: u64,
    /// The least key, or `u64::MAX` in an empty leaf.
    pub(super) least: u64,
    pub(super) greatest: u64,
    /// Description of an inconsistency.
    pub(super) damage: Option<&'static str>,
}

/// Reads and checks all entries of a leaf.
pub(super) fn summarize<L: LeafFormat>(at: LeafRef<'_>) -> LeafSummary {
    let head = L::head(at);
    let mut summary = LeafSummary {
        least: u64::MAX,
        ..LeafSummary::default()
    };
    L::each(at, &head, |entry| {
        let damage = L::damage(&head, &entry);
        if damage.is_some() {
            summary.damage = damage;
        } else if L::find(at, &head, entry.key) != Some(entry.slot) {
            summary.damage = Some("a key occurs twice");
        }
        summary.count += 1;
        summary.least = summary.least.min(entry.key);
        summary.greatest = summary.greatest.max(entry.key);
    });
    summary
}

impl<L: LeafFormat> HybridTree<L> {
    /// Checks every leaf. The inner nodes and the links between leaves must lead to the same ones.
    pub(crate) fn check_all(&self) -> Result<TreeCheckReport, TreeError> {
        self.build_all()?;
        let mut report = TreeCheckReport::default();
        let mut from = 0;
        let mut linked = self.slab.medium().load_u64(self.slab.root());
        loop {
            let snapshot = self.inner.parent_snapshot(from);
            for slot in snapshot.slot..snapshot.leaves().len() {
                let number = snapshot.leaves()[slot];
                linked = self.examine(
                    &mut report,
                    number,
                    (snapshot.low(slot), snapshot.high(slot)),
                    linked,
                )?;
                from = snapshot.high(slot);
            }
            match from.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
        let linked = self.past_empty(linked, 0);
        if linked != 0 {
            self.report(&mut report, linked, "it is linked after the last leaf")?;
        }
        Ok(report)
    }

    /// Checks one leaf. Its keys must be in a range, and `linked`, the link of the leaf before it, must
    /// lead to it. Returns the leaf's own link.
    fn examine(
        &self,
        report: &mut TreeCheckReport,
        number: u32,
        (low, high): (u64, u64),
        linked: u64,
    ) -> Result<u64, TreeError> {
        report.leaves += 1;
        let at = self.at(number);
        let linked = self.past_empty(linked, at.offset);
        let next = L::next(at);
        let summary = summarize::<L>(at);
        let reason = if let Some(reason) = self.damaged_nodes.reason(number) {
            report.problems.push(TreeProblem {
                node: at.offset,
                reason,
            });
            return Ok(next);
        } else if let Some(damage) = summary.damage {
            damage
        } else if summary.count > 0 && (summary.least < low || summary.greatest > high) {
            "a key is outside its key range"
        } else if linked != at.offset {
            "the link of the previous leaf does not lead to it"
        } else {
            report.entries += summary.count;
            return Ok(next);
        };
        self.report(report, at.offset, reason)?;
        Ok(next)
    }

    /// Follows links over empty leaves up to the leaf at `to` or the end. A read-only tree may contain such
    /// leaves, which its inner nodes do not reference.
    fn past_empty(&self, mut linked: u64, to: u64) -> u64 {
        let mut left = if self.slab.is_read_only() {
            self.slab.stats().used
        } else {
            0
        };
        while left > 0 && linked != to && self.slab.is_node(linked) {
            let leaf = LeafRef {
                medium: self.slab.medium(),
                offset: linked,
            };
            if L::count(&L::head(leaf)) > 0 {
                break;
            }
            linked = L::next(leaf);
            left -= 1;
        }
        linked
    }

    fn report(&self, report: &mut TreeCheckReport, node: u64, reason: &str) -> Result<(), TreeError> {
        let number = number_of(node, self.name())?;
        debug_assert_eq!(offset_of(number), node / UNIT * UNIT);
        self.damaged_nodes.add(number, reason.to_owned());
        report.problems.push(TreeProblem {
            node,
            reason: reason.to_owned(),
        });
        Ok(())
    }
}
