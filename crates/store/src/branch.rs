//! Branches: the inner nodes of a tree.
//!
//! A branch is immutable. Changes create new branches along the path to the root, which share all others. In
//! DRAM the separators of a branch are searched by eight bytes after their common prefix, as in the FB+-tree
//! (Chen et al., PVLDB 18(6), 2025); a durable branch is a page that is read when it is first needed. So
//! opening a tree reads nothing.
//!
//! Invariants: child `i` has the keys from separator `i - 1` on and below separator `i`. A page counts only
//! if it is what the branch above it [expects](ExpectedBranch), so that no offset leads in a circle.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use halocline_media::Medium;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::fault::{StoreFault, injected};
use crate::layout::{BRANCH, MAX_KEY};
use crate::leaf::{common_prefix, slice_of};
use crate::page_source::PageSource;
use crate::segments::SegmentKind;
use crate::tree::Damage;

/// Bytes before the prefix of a page: checksum, level, number of children, lengths of prefix and separators.
const HEAD: usize = 16;

/// Levels of a tree, at most: a new one has at least two branches below.
const MAX_LEVELS: u16 = 40;

/// A branch, in DRAM or not.
#[derive(Debug)]
pub(crate) struct BranchRef {
    /// Offset of its page.
    pub(crate) page: u64,
    branch: OnceLock<TreeBranch>,
}

/// The children of a branch.
#[derive(Debug, Clone)]
pub(crate) enum Children {
    /// Offsets of leaves.
    Leaves(Vec<u64>),
    Branches(Vec<Arc<BranchRef>>),
}

impl Children {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Leaves(leaves) => leaves.len(),
            Self::Branches(branches) => branches.len(),
        }
    }
}

/// A branch in DRAM.
#[derive(Debug)]
pub(crate) struct TreeBranch {
    pub(crate) separators: BranchSeparators,
    pub(crate) children: Children,
    /// Distance from the leaves, 0 for a parent of leaves.
    level: u16,
    /// A bit for each leaf that has been verified.
    verified: Box<[AtomicU64]>,
}

impl BranchRef {
    /// Refers to the branch of a page.
    pub(crate) fn at(page: u64) -> Arc<Self> {
        Arc::new(Self {
            page,
            branch: OnceLock::new(),
        })
    }

    /// Refers to a branch whose page has this offset.
    pub(crate) fn new(page: u64, branch: TreeBranch) -> Arc<Self> {
        Arc::new(Self {
            page,
            branch: OnceLock::from(branch),
        })
    }

    /// Returns the branch if it is in DRAM.
    #[inline]
    pub(crate) fn loaded(&self) -> Option<&TreeBranch> {
        self.branch.get()
    }

    /// Returns the branch, which is read from its page if necessary.
    ///
    /// # Errors
    /// The page is damaged, or not what the branch above expects.
    pub(crate) fn get(
        &self,
        pages: &PageSource<'_>,
        expected: &ExpectedBranch<'_>,
    ) -> Result<&TreeBranch, Damage> {
        match self.branch.get() {
            Some(branch) => Ok(branch),
            None => {
                pages.check(self.page, SegmentKind::Branches)?;
                let branch =
                    TreeBranch::read(pages.medium(), self.page).ok_or_else(|| Damage::branch(self.page))?;
                expected.verify(self.page, &branch)?;
                Ok(self.branch.get_or_init(|| branch))
            }
        }
    }

    /// Returns true if the page on the medium is the same as a branch in DRAM.
    pub(crate) fn is_stored(&self, medium: &Medium, branch: &TreeBranch) -> bool {
        let page = branch.page(self.page);
        let mut stored = vec![0; page.len()];
        medium.load(self.page, &mut stored);
        stored == page
    }
}

/// Level and bounds that a branch has according to those above it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedBranch<'a> {
    /// Its level. That of a root may be unknown.
    level: Option<u16>,
    /// Its keys are not below this separator.
    pub(crate) from: Option<(&'a BranchSeparators, usize)>,
    /// Its keys are below this separator.
    pub(crate) to: Option<(&'a BranchSeparators, usize)>,
}

impl<'a> ExpectedBranch<'a> {
    /// Returns what is known of a root.
    #[inline]
    pub(crate) fn root(level: Option<u16>) -> Self {
        Self {
            level,
            from: None,
            to: None,
        }
    }

    /// Returns what a branch says of a child. That of a parent of leaves has bounds only.
    #[inline]
    pub(crate) fn child(&self, branch: &'a TreeBranch, child: usize) -> Self {
        Self {
            level: branch.level.checked_sub(1),
            from: match child.checked_sub(1) {
                Some(before) => Some((&branch.separators, before)),
                None => self.from,
            },
            to: if child < branch.separators.len() {
                Some((&branch.separators, child))
            } else {
                self.to
            },
        }
    }

    fn verify(&self, page: u64, branch: &TreeBranch) -> Result<(), Damage> {
        let damage = |what| Err(Damage { offset: page, what });
        if injected(StoreFault::IgnoreBounds) {
            return Ok(());
        }
        if branch.level > MAX_LEVELS || self.level.is_some_and(|level| level != branch.level) {
            return damage("a branch is on a wrong level");
        }
        let Some(last) = branch.separators.len().checked_sub(1) else {
            return Ok(());
        };
        let key = |(separators, at): (&BranchSeparators, usize)| separators.get(at);
        let is_below = self
            .from
            .map(key)
            .is_some_and(|from| branch.separators.get(0) < from);
        if is_below
            || self
                .to
                .map(key)
                .is_some_and(|to| branch.separators.get(last) > to)
        {
            return damage("a branch has separators outside of its range");
        }
        Ok(())
    }
}

impl TreeBranch {
    /// Creates a branch of children of one level; `separators` has one fewer.
    pub(crate) fn new(separators: &[Vec<u8>], children: Children, level: u16) -> Self {
        debug_assert_eq!(separators.len() + 1, children.len());
        let words = match &children {
            Children::Leaves(leaves) => leaves.len().div_ceil(64),
            Children::Branches(_) => 0,
        };
        Self {
            separators: BranchSeparators::new(separators),
            children,
            level,
            verified: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns true if the leaf at a position has been verified.
    #[inline]
    pub(crate) fn is_verified(&self, leaf: usize) -> bool {
        self.verified[leaf / 64].load(Ordering::Relaxed) >> (leaf % 64) & 1 == 1
    }

    /// Records that the leaf at a position has been verified.
    pub(crate) fn set_verified(&self, leaf: usize) {
        // A thread that does not see the bit verifies the leaf once more.
        self.verified[leaf / 64].fetch_or(1 << (leaf % 64), Ordering::Relaxed);
    }

    pub(crate) fn level(&self) -> u16 {
        self.level
    }

    /// Returns all separators.
    pub(crate) fn separators(&self) -> Vec<Vec<u8>> {
        (0..self.separators.len())
            .map(|at| self.separators.get(at))
            .collect()
    }

    /// Returns the bytes of a page with these separators.
    pub(crate) fn page_len(separators: &[Vec<u8>]) -> usize {
        let common = BranchSeparators::common(separators);
        let suffixes: usize = separators
            .iter()
            .map(|separator| 2 + separator.len() - common)
            .sum();
        (HEAD + common + suffixes).next_multiple_of(8) + (separators.len() + 1) * size_of::<u64>()
    }

    /// Returns true if these separators fit one page.
    pub(crate) fn fits(separators: &[Vec<u8>]) -> bool {
        Self::page_len(separators) <= BRANCH as usize
    }

    /// Returns the page.
    pub(crate) fn page(&self, offset: u64) -> Vec<u8> {
        let mut page = vec![0; 8];
        let suffixes: usize = (0..self.separators.len())
            .map(|at| 2 + self.separators.suffix(at).len())
            .sum();
        let lens = [
            usize::from(self.level),
            self.children.len(),
            self.separators.prefix.len(),
            suffixes,
        ];
        lens.iter()
            .for_each(|len| page.extend_from_slice(&(*len as u16).to_le_bytes()));
        page.extend_from_slice(&self.separators.prefix);
        for at in 0..self.separators.len() {
            let suffix = self.separators.suffix(at);
            page.extend_from_slice(&(suffix.len() as u16).to_le_bytes());
            page.extend_from_slice(suffix);
        }
        page.resize(page.len().next_multiple_of(8), 0);
        match &self.children {
            Children::Leaves(leaves) => leaves
                .iter()
                .for_each(|leaf| page.extend_from_slice(&leaf.to_le_bytes())),
            Children::Branches(branches) => {
                for branch in branches {
                    page.extend_from_slice(&branch.page.to_le_bytes());
                }
            }
        }
        let sum = xxh3_64_with_seed(&page[8..], offset);
        page[..8].copy_from_slice(&sum.to_le_bytes());
        page
    }

    fn read(medium: &Medium, offset: u64) -> Option<Self> {
        if !offset.is_multiple_of(8) || offset.checked_add(BRANCH)? > medium.len() {
            return None;
        }
        let mut page = vec![0; BRANCH as usize];
        medium.load(offset, &mut page);
        let number = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
        let (level, children, prefix_len, suffixes_len) = (number(8), number(10), number(12), number(14));
        let children_at = (HEAD + prefix_len + suffixes_len).next_multiple_of(8);
        let end = children_at + children * 8;
        if children == 0 || end > page.len() {
            return None;
        }
        let sum = xxh3_64_with_seed(&page[8..end], offset);
        if sum.to_le_bytes() != page[..8] {
            return None;
        }
        let prefix = &page[HEAD..HEAD + prefix_len];
        let mut rest = &page[HEAD + prefix_len..HEAD + prefix_len + suffixes_len];
        let mut separators = Vec::with_capacity(children - 1);
        while let [low, high, after @ ..] = rest {
            let len = usize::from(u16::from_le_bytes([*low, *high]));
            let suffix = after.get(..len)?;
            separators.push([prefix, suffix].concat());
            rest = &after[len..];
        }
        let are_keys = separators.iter().all(|separator| separator.len() <= MAX_KEY);
        if separators.len() + 1 != children || !separators.is_sorted_by(|a, b| a < b) || !are_keys {
            return None;
        }
        let pages = page[children_at..end].chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_le_bytes(bytes)
        });
        let children = match level {
            0 => Children::Leaves(pages.collect()),
            _ => Children::Branches(pages.map(BranchRef::at).collect()),
        };
        Some(Self::new(&separators, children, level as u16))
    }
}

/// Ascending separators without their common prefix.
#[derive(Debug)]
pub(crate) struct BranchSeparators {
    prefix: Box<[u8]>,
    /// Eight bytes of each after the prefix.
    slices: Box<[u64]>,
    /// Each after the prefix, one after the other.
    suffixes: Box<[u8]>,
    /// The end of each in `suffixes`.
    ends: Box<[u32]>,
}

impl BranchSeparators {
    fn common(separators: &[Vec<u8>]) -> usize {
        match (separators.first(), separators.last()) {
            (Some(first), Some(last)) => common_prefix(first, last),
            _ => 0,
        }
    }

    fn new(separators: &[Vec<u8>]) -> Self {
        let common = Self::common(separators);
        let mut suffixes = Vec::new();
        let mut ends = Vec::with_capacity(separators.len());
        for separator in separators {
            suffixes.extend_from_slice(&separator[common..]);
            ends.push(suffixes.len() as u32);
        }
        Self {
            prefix: separators
                .first()
                .map_or(Box::default(), |first| first[..common].into()),
            slices: separators
                .iter()
                .map(|separator| slice_of(separator, common))
                .collect(),
            suffixes: suffixes.into(),
            ends: ends.into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn suffix(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.suffixes[start as usize..self.ends[at] as usize]
    }

    /// Returns a separator.
    pub(crate) fn get(&self, at: usize) -> Vec<u8> {
        [&self.prefix, self.suffix(at)].concat()
    }

    /// Returns the child that has the keys right below a key.
    pub(crate) fn child_below(&self, key: &[u8]) -> usize {
        let child = self.child_of(key);
        match child.checked_sub(1) {
            Some(before) if self.get(before) == key => before,
            _ => child,
        }
    }

    /// Returns the number of separators that are not above a key, which is the child of the key.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        let prefix = self.prefix.len();
        if prefix > 0 {
            let shared = prefix.min(key.len());
            match key[..shared].cmp(&self.prefix[..shared]) {
                std::cmp::Ordering::Less => return 0,
                std::cmp::Ordering::Greater => return self.len(),
                std::cmp::Ordering::Equal if key.len() < prefix => return 0,
                std::cmp::Ordering::Equal => {}
            }
        }
        let slice = slice_of(key, prefix);
        let from = self.slices.partition_point(|other| *other < slice);
        let to = from
            + self.slices[from..]
                .iter()
                .take_while(|other| **other == slice)
                .count();
        let rest = &key[prefix..];
        // Few have the same eight bytes, so that a linear search does.
        from + (from..to).take_while(|&at| self.suffix(at) <= rest).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halocline_media::{Dram, MediumAccess};

    use super::*;

    #[test]
    fn children_are_found_and_pages_come_back() {
        let separators: Vec<Vec<u8>> = [
            &b"tenant"[..],
            b"tenant\0",
            b"tenant/1",
            b"tenant/1/12345678",
            b"tenant/1/123456789",
        ]
        .iter()
        .map(|separator| separator.to_vec())
        .collect();
        let branch = TreeBranch::new(
            &separators,
            Children::Leaves((0..6).map(|leaf| leaf * 1024).collect()),
            0,
        );
        let dram = Arc::new(Dram::new(1 << 16).unwrap());
        let page = branch.page(4096);
        assert_eq!(page.len(), TreeBranch::page_len(&separators));
        dram.store(4096, &page);
        let medium = Medium::from(Arc::clone(&dram));
        let again = TreeBranch::read(&medium, 4096).unwrap();
        for key in [
            &b""[..],
            b"t",
            b"tenan",
            b"tenant",
            b"tenant\0",
            b"tenant\0a",
            b"tenant/1",
            b"tenant/1/12345678",
            b"tenant/1/1234567",
            b"tenant/1/123456789",
            b"tenant/2",
            b"u",
            b"s",
        ] {
            let expected = separators
                .iter()
                .filter(|separator| separator.as_slice() <= key)
                .count();
            assert_eq!(branch.separators.child_of(key), expected, "{key:?}");
            assert_eq!(again.separators.child_of(key), expected, "{key:?}");
        }
        assert_eq!(again.separators.get(2), b"tenant/1");
        dram.store(4096 + 20, &[0xFF]);
        assert!(TreeBranch::read(&medium, 4096).is_none());
    }
}
