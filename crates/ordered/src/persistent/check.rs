//! Consistency checks of all nodes.

use crate::{TreeCheckReport, TreeError, TreeProblem};

use super::format::NodeFormat;
use super::node::{NodeRef, number_of, offset_of};
use super::tree::PersistentTree;

/// A node to be checked, with the properties that its position requires.
struct PendingNode {
    link: u64,
    /// Offset of the node that links to it, or 0 for the root.
    parent: u64,
    level: u32,
    low: u64,
    high: u64,
    /// Offset of its parent's right sibling, or 0.
    parent_sibling: u64,
    /// Offset of its right sibling if both have the same parent.
    next_child: Option<u64>,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Checks every node, from the root down, in the order of keys.
    pub(crate) fn check_all(&self) -> Result<TreeCheckReport, TreeError> {
        // Only then it is known which nodes are in use.
        self.complete_walk()?;
        let mut report = TreeCheckReport::default();
        let (root, height) = self.root();
        let mut inner_nodes = 0;
        let mut due = vec![PendingNode {
            link: offset_of(root),
            parent: 0,
            level: height,
            low: 0,
            high: u64::MAX,
            parent_sibling: 0,
            next_child: None,
        }];
        while let Some(next) = due.pop() {
            match next.level {
                0 => report.leaves += 1,
                _ => inner_nodes += 1,
            }
            self.visit_if_read_only(&next)?;
            if let Err(problem) = self.check_node(&next, &mut report, &mut due) {
                self.damaged_nodes
                    .add(number_of(problem.node), problem.reason.clone());
                if !report.problems.contains(&problem) {
                    report.problems.push(problem);
                }
            }
        }
        let used = self.slab.stats().used;
        if report.is_intact() && used != report.leaves + inner_nodes {
            let found = report.leaves + inner_nodes;
            report.problems.push(TreeProblem {
                node: self.slab.root(),
                reason: format!("{used} nodes are allocated, but the tree contains {found}"),
            });
        }
        Ok(report)
    }

    /// Visits a leaf of a read-only tree, to report an unfinished change as such and not as damage.
    ///
    /// # Errors
    /// [`TreeError::NeedsRecovery`].
    fn visit_if_read_only(&self, due: &PendingNode) -> Result<(), TreeError> {
        let number = self.number(due.link);
        let unseen = due.level == 0 && self.slab.is_node(due.link) && !self.visited.has(number);
        if self.slab.is_read_only() && unseen {
            match self.visit(number, 0) {
                Err(error @ TreeError::NeedsRecovery { .. }) => Err(error),
                _ => Ok(()),
            }
        } else {
            Ok(())
        }
    }

    /// Checks one node and adds its children to `more`.
    fn check_node(
        &self,
        due: &PendingNode,
        report: &mut TreeCheckReport,
        more: &mut Vec<PendingNode>,
    ) -> Result<(), TreeProblem> {
        let damaged = |node: u64, reason: &str| TreeProblem {
            node,
            reason: reason.to_owned(),
        };
        let wrong = |reason: &str| damaged(due.link, reason);
        let number = self.number(due.link);
        if number == 0 || !self.slab.is_node(due.link) {
            return Err(damaged(due.parent, "one of its links does not lead to a node"));
        }
        if let Some(reason) = self.damaged_nodes.reason(number) {
            return Err(wrong(&reason));
        }
        let node = self.node(number);
        if !node.is::<F>(due.level) || (node.low(), node.high()) != (due.low, due.high) {
            return Err(match self.is_in_place(number) {
                true if due.parent != 0 => {
                    damaged(due.parent, "one of its links does not lead to a child of it")
                }
                _ => wrong("its level or key range differs from what its parent says"),
            });
        }
        if !self.visited.has(number) {
            self.visit(number, due.level).map_err(|error| match error {
                TreeError::Damaged { reason, .. } => wrong(&reason),
                other => wrong(&other.to_string()),
            })?;
        }
        let summary = F::examine(node).map_err(wrong)?;
        if summary.unfinished {
            return Err(wrong("it contains an unfinished change"));
        }
        // If the parent has no further child, the sibling is the first child of the parent's sibling. Both
        // are checked later; if they are inconsistent, this node is not at fault.
        let next = match due.next_child {
            None if due.parent_sibling == 0 => Some(0),
            None => self
                .next(due.parent_sibling, due.level + 1, due.high)
                .filter(|parent_sibling| F::examine(*parent_sibling).is_ok())
                .map(|parent_sibling| F::child(parent_sibling, 0)),
            Some(next_child) => Some(next_child),
        };
        let next = match next {
            Some(0) | None => next,
            Some(next) => self.next(next, due.level, due.high).map(|next| next.offset),
        };
        if next.is_some_and(|next| node.sibling() != next) {
            return Err(wrong("its sibling link does not lead to the next node"));
        }
        if due.level == 0 {
            report.entries += summary.entries.len() as u64;
            return Ok(());
        }
        for (child, (low, link)) in summary.entries.iter().enumerate().rev() {
            more.push(PendingNode {
                link: *link,
                parent: due.link,
                level: due.level - 1,
                low: *low,
                high: summary.entries.high(child, due.high),
                parent_sibling: node.sibling(),
                next_child: summary.entries.get(child + 1).map(|next| next.1),
            });
        }
        Ok(())
    }

    /// Returns the node of a level that a link leads to, if its head is plausible: its keys begin directly
    /// after `behind`.
    fn next(&self, link: u64, level: u32, behind: u64) -> Option<NodeRef<'_>> {
        let number = self.number(link);
        let node = self.node(number);
        let fits = number != 0
            && !self.damaged_nodes.has(number)
            && node.is::<F>(level)
            && Some(node.low()) == behind.checked_add(1);
        fits.then_some(node)
    }
}
