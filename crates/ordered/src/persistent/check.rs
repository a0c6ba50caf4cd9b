//! Looking at all nodes.

use crate::{TreeCheckReport, TreeError, TreeProblem};

use super::format::NodeFormat;
use super::node::{NodeRef, number_of, offset_of};
use super::tree::PersistentTree;

/// A node that is to be looked at, and what its place needs it to be.
struct PendingNode {
    link: u64,
    /// Whose link it is: the parent, or 0.
    parent: u64,
    level: u32,
    low: u64,
    high: u64,
    /// The node right of its parent, or 0.
    aunt: u64,
    /// The node right of it, if it has the same parent.
    sister: Option<u64>,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Every node, from the root down, in the order of keys.
    pub(crate) fn examine_all(&self) -> Result<TreeCheckReport, TreeError> {
        let mut report = TreeCheckReport::default();
        let (root, height) = self.root();
        let mut inner_nodes = 0;
        let mut due = vec![PendingNode {
            link: offset_of(root),
            parent: 0,
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
            self.may_be_looked_at(&next)?;
            if let Err(problem) = self.look_at(&next, &mut report, &mut due) {
                self.broken.add(number_of(problem.node), problem.reason.clone());
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
                reason: format!("{used} nodes are in use, and {found} were found"),
            });
        }
        Ok(report)
    }

    /// Visits a leaf of a tree that is only read: what a crash has left half done in it is no damage.
    ///
    /// # Errors
    /// [`TreeError::NeedsRecovery`].
    fn may_be_looked_at(&self, due: &PendingNode) -> Result<(), TreeError> {
        let number = self.number(due.link);
        let unseen = due.level == 0 && self.slab.is_node(due.link) && !self.visited.has(number);
        match self.slab.is_read_only() && unseen {
            true => match self.visit(number) {
                Err(error @ TreeError::NeedsRecovery { .. }) => Err(error),
                _ => Ok(()),
            },
            false => Ok(()),
        }
    }

    /// Looks at a node; what is below it is due next.
    fn look_at(
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
            return Err(damaged(due.parent, "one of its links leads to no node"));
        }
        if let Some(reason) = self.broken.reason(number) {
            return Err(wrong(&reason));
        }
        let node = self.node(number);
        if !node.is::<F>(due.level) || (node.low(), node.high()) != (due.low, due.high) {
            return Err(match self.is_in_place(number) {
                true if due.parent != 0 => damaged(due.parent, "one of its links leads to no child of it"),
                _ => wrong("it has not the level or the keys that its parent says"),
            });
        }
        if due.level == 0 && !self.visited.has(number) {
            self.visit(number).map_err(|error| match error {
                TreeError::Damaged { reason, .. } => wrong(&reason),
                other => wrong(&other.to_string()),
            })?;
        }
        let facts = F::examine(node).map_err(wrong)?;
        if facts.unfinished {
            return Err(wrong("something is half done in it"));
        }
        // If it has no sister, the leftmost child of the aunt is its sibling. Sister and aunt are looked at later: if they are not what
        // they should be, this node is not to blame.
        let next = match due.sister {
            None if due.aunt == 0 => Some(0),
            None => self
                .next(due.aunt, due.level + 1, due.high)
                .filter(|aunt| F::examine(*aunt).is_ok())
                .map(|aunt| F::child(aunt, 0)),
            Some(sister) => Some(sister),
        };
        let next = match next {
            Some(0) | None => next,
            Some(next) => self.next(next, due.level, due.high).map(|next| next.offset),
        };
        if next.is_some_and(|next| node.sibling() != next) {
            return Err(wrong("its sibling is not the next node"));
        }
        if due.level == 0 {
            report.entries += facts.entries.len() as u64;
            return Ok(());
        }
        for (child, (low, link)) in facts.entries.iter().enumerate().rev() {
            more.push(PendingNode {
                link: *link,
                parent: due.link,
                level: due.level - 1,
                low: *low,
                high: facts.entries.high(child, due.high),
                aunt: node.sibling(),
                sister: facts.entries.get(child + 1).map(|next| next.1),
            });
        }
        Ok(())
    }

    /// The node of a level that a link leads to, if its head makes sense there: its keys begin behind this one.
    fn next(&self, link: u64, level: u32, behind: u64) -> Option<NodeRef<'_>> {
        let number = self.number(link);
        let node = self.node(number);
        let fits = number != 0
            && !self.broken.has(number)
            && node.is::<F>(level)
            && Some(node.low()) == behind.checked_add(1);
        fits.then_some(node)
    }
}
