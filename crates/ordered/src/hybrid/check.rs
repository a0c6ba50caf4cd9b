//! What a leaf must be, and looking at all of them.

use crate::{TreeCheckReport, TreeError, TreeProblem};

use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, UNIT, number_of, offset_of};

/// What a look at a leaf has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeafSummary {
    pub(super) count: u64,
    /// The least and the greatest key, if there are any.
    pub(super) least: u64,
    pub(super) greatest: u64,
    /// What contradicts itself.
    pub(super) damage: Option<&'static str>,
}

/// Looks at all entries of a leaf.
pub(super) fn facts<L: LeafFormat>(at: LeafRef<'_>) -> LeafSummary {
    let head = L::head(at);
    let mut facts = LeafSummary {
        least: u64::MAX,
        ..LeafSummary::default()
    };
    L::each(at, &head, |entry| {
        let damage = L::damage(&head, &entry);
        if damage.is_some() {
            facts.damage = damage;
        } else if L::find(at, &head, entry.key) != Some(entry.slot) {
            facts.damage = Some("a key is there twice");
        }
        facts.count += 1;
        facts.least = facts.least.min(entry.key);
        facts.greatest = facts.greatest.max(entry.key);
    });
    facts
}

impl<L: LeafFormat> HybridTree<L> {
    /// Every leaf, along the inner nodes and along the links, which must lead to the same ones.
    pub(crate) fn examine_all(&self) -> Result<TreeCheckReport, TreeError> {
        let mut report = TreeCheckReport::default();
        let mut from = 0;
        let mut linked = self.slab.medium().load_u64(self.slab.root());
        loop {
            let family = self.inner.family(from);
            for slot in family.slot..family.leaves().len() {
                let number = family.leaves()[slot];
                linked = self.examine(&mut report, number, (family.low(slot), family.high(slot)), linked)?;
                from = family.high(slot);
            }
            match from.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
        let linked = self.past_empty(linked, 0);
        if linked != 0 {
            self.report(&mut report, linked, "it is linked behind the last leaf")?;
        }
        Ok(report)
    }

    /// One leaf, to which keys in a range belong and which the link before it should lead to; returns its own link.
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
        let facts = facts::<L>(at);
        let reason = if let Some(reason) = self.broken.reason(number) {
            report.problems.push(TreeProblem {
                node: at.offset,
                reason,
            });
            return Ok(next);
        } else if let Some(damage) = facts.damage {
            damage
        } else if facts.count > 0 && (facts.least < low || facts.greatest > high) {
            "a key belongs to another leaf"
        } else if linked != at.offset {
            "the link of the leaf before it leads elsewhere"
        } else {
            report.entries += facts.count;
            return Ok(next);
        };
        self.report(report, at.offset, reason)?;
        Ok(next)
    }

    /// Follows links past empty leaves, up to a leaf or the end: in a tree that is only read, these are linked and otherwise unknown.
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
        self.broken.add(number, reason.to_owned());
        report.problems.push(TreeProblem {
            node,
            reason: reason.to_owned(),
        });
        Ok(())
    }
}
