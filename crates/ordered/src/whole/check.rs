//! Looking at all nodes.

use halocline_media::Medium;

use crate::{CheckReport, Problem, TreeError};

use super::format::Format;
use super::node::{number_of, offset_of};
use super::tree::Whole;

/// A node that is to be looked at, and what its place needs it to be.
struct Due {
    link: u64,
    level: u32,
    low: u64,
    high: u64,
    /// The node right of its parent, or 0.
    aunt: u64,
    /// The node right of it, if it has the same parent.
    sister: Option<u64>,
}

impl<M: Medium, F: Format> Whole<M, F> {
    /// Every node, from the root down, in the order of keys.
    pub(crate) fn examine_all(&self) -> Result<CheckReport, TreeError> {
        let mut report = CheckReport::default();
        let (root, height) = self.root();
        let mut inner_nodes = 0;
        let mut due = vec![Due {
            link: offset_of(root),
            level: height,
            low: 0,
            high: u64::MAX,
            aunt: 0,
            sister: None,
        }];
        while let Some(next) = due.pop() {
            match next.level {
                0 => report.leaves += 1,
                _ => inner_nodes += 1,
            }
            if let Err(reason) = self.look_at(&next, &mut report, &mut due) {
                self.broken.add(number_of(next.link), reason.clone());
                report.problems.push(Problem {
                    node: next.link,
                    reason,
                });
            }
        }
        let used = self.slab.stats().used;
        if report.is_intact() && used != report.leaves + inner_nodes {
            let found = report.leaves + inner_nodes;
            report.problems.push(Problem {
                node: self.slab.root(),
                reason: format!("{used} nodes are in use, and {found} were found"),
            });
        }
        Ok(report)
    }

    /// Looks at a node; what is below it is due next.
    fn look_at(&self, due: &Due, report: &mut CheckReport, more: &mut Vec<Due>) -> Result<(), String> {
        let number = self.number(due.link);
        if number == 0 || !self.slab.is_node(due.link) {
            return Err("there is no node".to_owned());
        }
        if let Some(reason) = self.broken.reason(number) {
            return Err(reason);
        }
        let node = self.node(number);
        if !node.is::<F>(due.level) {
            return Err("it is not of the level that its parent needs".to_owned());
        }
        if due.level == 0 && !self.seen.has(number) {
            self.visit(number).map_err(|error| match error {
                TreeError::Damaged { reason, .. } => reason,
                other => other.to_string(),
            })?;
        }
        let facts = F::examine(node)?;
        if facts.unfinished {
            return Err("something is half done in it".to_owned());
        }
        if (node.low(), node.high()) != (due.low, due.high) {
            return Err("its keys are not those that its parent says".to_owned());
        }
        // The leftmost child of the aunt is the sibling of the last child; the aunt herself is looked at later.
        let aunts_first = || match self.number(due.aunt) {
            0 => 0,
            _ => F::child(self.at(due.aunt), 0),
        };
        if node.sibling() != due.sister.unwrap_or_else(aunts_first) {
            return Err("its sibling is not the next node".to_owned());
        }
        if due.level == 0 {
            report.entries += facts.entries.len() as u64;
            return Ok(());
        }
        for (child, (low, link)) in facts.entries.iter().enumerate().rev() {
            more.push(Due {
                link: *link,
                level: due.level - 1,
                low: *low,
                high: facts.entries.high(child, due.high),
                aunt: node.sibling(),
                sister: facts.entries.get(child + 1).map(|next| next.1),
            });
        }
        Ok(())
    }
}
