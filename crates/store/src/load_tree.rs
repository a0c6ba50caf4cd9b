//! The tree of a store that is being loaded, built from its leaves upwards: [`LoadTree`].
//!
//! Pages are written in the order in which they are filled. Of each level one page is in DRAM, of branches
//! their separators and children.

use crate::branch::{BranchRef, Children, TreeBranch};
use crate::error::Result;
use crate::layout::{BRANCH, LEAF, SEGMENT};
use crate::leaf::{Leaf, LeafPlace, NewEntry};
use crate::load_segments::LoadedSegments;
use crate::merge::{MAX_CHILDREN, separator};
use crate::segments::{RecordsOf, SegmentKind, SegmentUse};
use crate::tree::Tree;

/// Entries of a leaf: a few keys can be added to each before it is split.
const LEAF_ENTRIES: usize = 46;

/// A tree that is being built.
pub(crate) struct LoadTree {
    store: u32,
    /// The entries of the next leaf: the first `used` ones. The others keep their allocations.
    entries: Vec<NewEntry>,
    used: usize,
    /// The last key of the leaf before.
    before: Option<Vec<u8>>,
    leaves: LoadPages,
    branches: LoadPages,
    levels: Vec<BranchLevel>,
}

/// The children of the next branch of a level.
#[derive(Default)]
struct BranchLevel {
    /// The lower separator of each child.
    separators: Vec<Vec<u8>>,
    pages: Vec<u64>,
    /// Bytes of a page with these, if the separators have no common prefix.
    bytes: usize,
}

/// Bytes of the head of a branch, and at most of its padding.
const BRANCH_EXTRA: usize = 16 + 8;

impl BranchLevel {
    /// Returns true if a page has room for one more child.
    fn has_room(&self, separator: &[u8]) -> bool {
        if self.pages.len() >= MAX_CHILDREN {
            return false;
        }
        if self.bytes + 10 + separator.len() + BRANCH_EXTRA <= BRANCH as usize {
            return true;
        }
        // The first separator is the one of the branch itself.
        let mut all = self.separators[1..].to_vec();
        all.push(separator.to_vec());
        TreeBranch::fits(&all)
    }

    fn push(&mut self, separator: Vec<u8>, page: u64) {
        self.bytes += 10 + separator.len();
        self.separators.push(separator);
        self.pages.push(page);
    }
}

impl LoadTree {
    /// Returns the tree of a store, without leaves.
    pub(crate) fn new(store: u32) -> Self {
        Self {
            store,
            entries: Vec::with_capacity(LEAF_ENTRIES),
            used: 0,
            before: None,
            leaves: LoadPages::new(SegmentKind::Leaves, LEAF),
            branches: LoadPages::new(SegmentKind::Branches, BRANCH),
            levels: Vec::new(),
        }
    }

    /// Adds the entry of a key that is greater than all before.
    ///
    /// # Errors
    /// A full disk, and errors of the medium.
    pub(crate) fn push(&mut self, segments: &mut LoadedSegments, key: &[u8], record: u64) -> Result<()> {
        if self.used == LEAF_ENTRIES {
            self.write_leaf(segments)?;
        }
        match self.entries.get_mut(self.used) {
            Some(entry) => {
                entry.key.clear();
                entry.key.extend_from_slice(key);
                entry.record = record;
            }
            None => self.entries.push(NewEntry {
                key: key.to_vec(),
                record,
            }),
        }
        self.used += 1;
        Ok(())
    }

    /// Returns the greatest key so far.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        match self.used.checked_sub(1) {
            Some(last) => Some(&self.entries[last].key),
            None => self.before.as_deref(),
        }
    }

    fn write_leaf(&mut self, segments: &mut LoadedSegments) -> Result<()> {
        let entries = &self.entries[..self.used];
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(());
        };
        let page = self.leaves.next(segments)?;
        let place = LeafPlace {
            store: self.store,
            offset: page,
        };
        self.leaves.fill(segments, Leaf::new(place, entries).as_bytes())?;
        let lower = separator(self.before.as_ref(), &first.key);
        let before = self.before.get_or_insert_default();
        before.clone_from(&last.key);
        self.used = 0;
        self.add_child(segments, 0, lower, page)
    }

    fn add_child(
        &mut self,
        segments: &mut LoadedSegments,
        level: usize,
        lower: Vec<u8>,
        page: u64,
    ) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(BranchLevel::default());
        }
        let branch = &self.levels[level];
        if !branch.pages.is_empty() && !branch.has_room(&lower) {
            let (lower, page) = self.write_branch(segments, level)?;
            self.add_child(segments, level + 1, lower, page)?;
        }
        self.levels[level].push(lower, page);
        Ok(())
    }

    /// Writes the branch of a level, and returns its lower separator and its page.
    fn write_branch(&mut self, segments: &mut LoadedSegments, level: usize) -> Result<(Vec<u8>, u64)> {
        let BranchLevel {
            mut separators,
            pages,
            ..
        } = std::mem::take(&mut self.levels[level]);
        let children = match level {
            0 => Children::Leaves(pages),
            _ => Children::Branches(pages.into_iter().map(BranchRef::at).collect()),
        };
        let page = self.branches.next(segments)?;
        let branch = TreeBranch::new(&separators[1..], children, level as u16);
        self.branches.fill(segments, &branch.page(page))?;
        Ok((separators.swap_remove(0), page))
    }

    /// Writes what is left, and returns the tree. Its pages are read when they are needed.
    ///
    /// # Errors
    /// A full disk, and errors of the medium.
    pub(crate) fn finish(mut self, segments: &mut LoadedSegments) -> Result<Tree> {
        self.write_leaf(segments)?;
        let mut root = None;
        let mut level = 0;
        // Each level but the topmost one has at least two children in all, so a further one follows.
        while level < self.levels.len() {
            let (lower, page) = self.write_branch(segments, level)?;
            level += 1;
            if level < self.levels.len() {
                self.add_child(segments, level, lower, page)?
            } else {
                root = Some(BranchRef::at(page))
            }
        }
        self.leaves.close(segments)?;
        self.branches.close(segments)?;
        Ok(Tree::new(self.store, root))
    }
}

/// Pages of one kind, which are written in whole segments.
struct LoadPages {
    kind: SegmentKind,
    page: u64,
    /// The segment that is being filled, if there is one.
    segment: Option<u64>,
    bytes: Vec<u8>,
}

impl LoadPages {
    fn new(kind: SegmentKind, page: u64) -> Self {
        Self {
            kind,
            page,
            segment: None,
            bytes: Vec::new(),
        }
    }

    /// Returns the offset of the page that is filled next.
    fn next(&mut self, segments: &mut LoadedSegments) -> Result<u64> {
        let segment = match self.segment {
            Some(segment) => segment,
            None => *self.segment.insert(segments.alloc()?),
        };
        Ok(segment + self.bytes.len() as u64)
    }

    fn fill(&mut self, segments: &mut LoadedSegments, page: &[u8]) -> Result<()> {
        let end = self.bytes.len() + self.page as usize;
        self.bytes.extend_from_slice(page);
        self.bytes.resize(end, 0);
        if end as u64 == SEGMENT {
            self.close(segments)
        } else {
            Ok(())
        }
    }

    /// Writes the segment that is being filled.
    fn close(&mut self, segments: &mut LoadedSegments) -> Result<()> {
        let Some(segment) = self.segment.take() else {
            return Ok(());
        };
        let pages = self.bytes.len() as u64 / self.page;
        let usage = SegmentUse {
            kind: self.kind,
            used: u64::MAX >> (64 - pages),
            expires: 0,
            store: RecordsOf::None,
        };
        let written = segments.write(segment, &self.bytes, usage);
        self.bytes.clear();
        written
    }
}
