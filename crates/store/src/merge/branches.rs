//! Branches of a merge: those above changed leaves are written anew, up to the root.
//!
//! Invariant: pages of branches in use stay as they are. They become free with the next checkpoint.

use std::sync::Arc;

use super::error::Result;
use super::{LeafEdit, Merge, MergedTree};
use crate::branch::{BranchRef, Children, ExpectedBranch, TreeBranch};
use crate::segments::SegmentKind;
use crate::tree::Tree;

/// Children of a branch from which on it is split, at most. The bytes of a page limit it further.
pub(crate) const MAX_CHILDREN: usize = 256;

/// New branches with their lower separators.
type NewBranches = Vec<(Vec<u8>, Arc<BranchRef>)>;

/// A page below a branch.
#[derive(Clone)]
pub(super) enum Child {
    Leaf(u64),
    Branch(Arc<BranchRef>),
}

impl Child {
    fn leaf(&self) -> Option<u64> {
        match self {
            Self::Leaf(page) => Some(*page),
            Self::Branch(_) => None,
        }
    }

    fn branch(&self) -> Option<Arc<BranchRef>> {
        match self {
            Self::Leaf(_) => None,
            Self::Branch(branch) => Some(Arc::clone(branch)),
        }
    }
}

impl Merge<'_> {
    /// Replaces the children that the edits name. Returns the branches that take the place of this one, each
    /// with its lower separator.
    pub(super) fn edit_branch(
        &mut self,
        at: &BranchRef,
        expected: &ExpectedBranch<'_>,
        edits: &[LeafEdit],
    ) -> Result<NewBranches> {
        let branch = at.get(&self.source(), expected)?;
        let lower = |child: usize| {
            let from = expected.child(branch, child).from;
            from.map_or_else(Vec::new, |(separators, at)| separators.get(at))
        };
        let mut children = Vec::new();
        let mut edits = edits.iter().peekable();
        for child in 0..branch.children.len() {
            let is_below_end = |edit: &&LeafEdit| {
                child == branch.separators.len() || {
                    let end = branch.separators.get(child);
                    edit.from.as_ref().is_none_or(|from| *from < end)
                }
            };
            let mut of_child = Vec::new();
            while let Some(edit) = edits.next_if(is_below_end) {
                of_child.push(edit);
            }
            match &branch.children {
                Children::Leaves(leaves) if of_child.is_empty() => {
                    children.push((lower(child), Child::Leaf(leaves[child])));
                }
                Children::Leaves(_) => {
                    for edit in of_child {
                        for (at, (separator, page)) in edit.leaves.iter().enumerate() {
                            let separator = match at {
                                0 => lower(child),
                                _ => separator.clone(),
                            };
                            children.push((separator, Child::Leaf(*page)));
                        }
                    }
                }
                Children::Branches(branches) if of_child.is_empty() => {
                    children.push((lower(child), Child::Branch(Arc::clone(&branches[child]))));
                }
                Children::Branches(branches) => {
                    let of_child: Vec<LeafEdit> = of_child.into_iter().map(LeafEdit::share).collect();
                    let new =
                        self.edit_branch(&branches[child], &expected.child(branch, child), &of_child)?;
                    children.extend(
                        new.into_iter()
                            .map(|(from, branch)| (from, Child::Branch(branch))),
                    );
                }
            }
        }
        self.free(at.page, SegmentKind::Branches);
        if children.is_empty() {
            return Ok(Vec::new());
        }
        self.write_branches(children, branch.level())
    }

    /// Writes branches above the children until there is one.
    pub(super) fn new_root(&mut self, mut children: Vec<(Vec<u8>, Child)>) -> Result<MergedTree> {
        loop {
            let level = match &children[0].1 {
                Child::Leaf(_) => 0,
                Child::Branch(branch) if children.len() == 1 => {
                    let root = Some(Arc::clone(branch));
                    return Ok(MergedTree::Changed(Tree::new(self.store, root)));
                }
                Child::Branch(branch) => {
                    // It was written just now, and is in DRAM.
                    let branch = branch.get(&self.source(), &ExpectedBranch::root(None))?;
                    branch.level() + 1
                }
            };
            let branches = self.write_branches(children, level)?;
            children = branches
                .into_iter()
                .map(|(from, branch)| (from, Child::Branch(branch)))
                .collect();
        }
    }

    /// Writes branches for the children.
    fn write_branches(&mut self, children: Vec<(Vec<u8>, Child)>, level: u16) -> Result<NewBranches> {
        let separators: Vec<Vec<u8>> = children.iter().map(|(from, _)| from.clone()).collect();
        let mut written = Vec::new();
        let mut start = 0;
        for end in split_points(&separators) {
            let page = self.alloc(SegmentKind::Branches)?;
            let of_branch = &children[start..end];
            let pages = match of_branch[0].1 {
                Child::Leaf(_) => {
                    Children::Leaves(of_branch.iter().filter_map(|(_, child)| child.leaf()).collect())
                }
                Child::Branch(_) => {
                    Children::Branches(of_branch.iter().filter_map(|(_, child)| child.branch()).collect())
                }
            };
            let branch = TreeBranch::new(&separators[start + 1..end], pages, level);
            let bytes = branch.page(page);
            let medium = self.medium();
            medium.store(page, &bytes);
            medium.flush(page, bytes.len() as u64);
            written.push((separators[start].clone(), BranchRef::new(page, branch)));
            start = end;
        }
        Ok(written)
    }
}

/// Returns where to split children with these lower separators, so that each part fits a page.
fn split_points(separators: &[Vec<u8>]) -> Vec<usize> {
    fn split(separators: &[Vec<u8>], start: usize, points: &mut Vec<usize>) {
        let len = separators.len();
        if len <= MAX_CHILDREN && TreeBranch::fits(&separators[1..]) {
            points.push(start + len);
        } else {
            let (left, right) = separators.split_at(len / 2);
            split(left, start, points);
            split(right, start + len / 2, points);
        }
    }
    let mut points = Vec::new();
    split(separators, 0, &mut points);
    points
}
