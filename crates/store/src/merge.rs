//! Merging of the entries of a memtable into a tree.
//!
//! Steps, each of which is durable before the next: new entries in unused slots of leaves, and new pages;
//! bitmaps that make the entries valid; the checkpoint that names the new root. A crash in between leaves the
//! old root, whose leaves have some of the new entries: they are those of records after the old checkpoint,
//! which the log brings anyway.
//!
//! The log does not bring keys that were removed without a record, as expired ones are. A leaf that has such
//! a key is copied instead, so that the old root keeps it, and counters and leaves are of one checkpoint.
//! Where there is no room for copies, as on a full disk, removed keys are taken out of their leaves in place:
//! a crash before the checkpoint then leaves counters that still have these keys.

use std::sync::{Arc, Mutex, PoisonError};

use halocline_media::{MediaError, Medium};
use halocline_pool::{PoolError, Slab};

use crate::branch::{BranchRef, Children, ExpectedBranch, TreeBranch};
use crate::fault::{StoreFault, injected};
use crate::layout::LEAF;
use crate::leaf::{ENTRIES, Leaf, LeafPlace, NewEntry, common_prefix, fingerprint, slot_of};
use crate::memtable::{MemEntry, MemTable};
use crate::page_source::PageSource;
use crate::record::RecordRef;
use crate::segments::{Freed, SegmentKind, Segments};
use crate::tree::{Damage, Tree, load_leaf};

/// Entries of a leaf that a split makes.
const SPLIT_ENTRIES: usize = 32;

/// Children of a branch from which on it is split, at most. The bytes of a page limit it further.
pub(crate) const MAX_CHILDREN: usize = 256;

/// A merge in progress.
pub(crate) struct Merge<'a> {
    slab: &'a Slab,
    segments: &'a Mutex<Segments>,
    freed: &'a mut Freed,
    /// The pages that were allocated.
    pages: &'a mut Freed,
    /// The store whose tree is merged.
    pub(crate) store: u32,
    /// Leaves with new entries and the words that make them valid.
    words: Vec<(u64, u64)>,
    /// Called after each leaf.
    end_step: &'a dyn Fn(),
    /// True if leaves with removed keys are copied.
    copies_leaves: bool,
}

/// New leaves with their lower separators.
type NewLeaves = Vec<(Vec<u8>, u64)>;

/// New branches with their lower separators.
type NewBranches = Vec<(Vec<u8>, Arc<BranchRef>)>;

/// The leaves that take the place of one.
struct LeafEdit {
    /// The first key that may be in the old leaf; `None` for the first leaf.
    from: Option<Vec<u8>>,
    /// The new leaves, each with its lower separator; that of the first is the lower separator of the old
    /// leaf.
    leaves: NewLeaves,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(
        slab: &'a Slab,
        segments: &'a Mutex<Segments>,
        freed: &'a mut Freed,
        pages: &'a mut Freed,
        end_step: &'a dyn Fn(),
        copies_leaves: bool,
    ) -> Self {
        Self {
            slab,
            segments,
            freed,
            pages,
            store: 0,
            words: Vec::new(),
            end_step,
            copies_leaves,
        }
    }

    pub(crate) fn medium(&self) -> &'a Medium {
        self.slab.medium()
    }

    pub(crate) fn source(&self) -> PageSource<'a> {
        PageSource::of_writer(self.slab, self.segments)
    }

    pub(crate) fn place(&self, offset: u64) -> LeafPlace {
        LeafPlace {
            store: self.store,
            offset,
        }
    }

    pub(crate) fn alloc(&mut self, kind: SegmentKind) -> Result<u64> {
        loop {
            let page = {
                let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
                segments.alloc_page(self.slab, kind)?
            };
            match page {
                Some(page) => {
                    self.pages.pages.push((page, kind));
                    return Ok(page);
                }
                // Without the lock, which commits take.
                None => self.slab.make_room(1)?,
            }
        }
    }

    /// Frees a page as soon as no checkpoint needs it.
    pub(crate) fn free(&mut self, page: u64, kind: SegmentKind) {
        if injected(StoreFault::FreeEarly) {
            let freed = Freed {
                pages: vec![(page, kind)],
                segments: Vec::new(),
            };
            let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
            segments.release(self.slab, &freed);
        } else {
            self.freed.pages.push((page, kind));
        }
    }

    /// Ends a step of the work.
    pub(crate) fn end_step(&self) {
        (self.end_step)();
    }

    /// Merges the entries into the tree and returns the new one. Nothing is valid before
    /// [`publish_leaves`](Self::publish_leaves).
    pub(crate) fn apply(&mut self, tree: &Tree, table: &MemTable) -> Result<MergedTree> {
        self.store = tree.store;
        let mut edits = Vec::new();
        let mut entries = table.iter().peekable();
        while let Some((first, _)) = entries.peek() {
            let Some(range) = tree.leaf_of(&self.source(), Some(first))? else {
                break;
            };
            let mut of_leaf = Vec::new();
            while let Some(entry) = entries.next_if(|(key, _)| range.to.as_deref().is_none_or(|to| *key < to))
            {
                of_leaf.push(entry);
            }
            if let Some(leaves) = self.edit_leaf(range.leaf, range.to.is_none(), &of_leaf, table)? {
                self.free(range.leaf, SegmentKind::Leaves);
                edits.push(LeafEdit {
                    from: range.from,
                    leaves,
                });
            }
            (self.end_step)();
        }
        // A tree without leaves takes all that is left.
        let rest: Vec<NewEntry> = entries.filter_map(|(key, entry)| new_entry(key, entry)).collect();
        if !rest.is_empty() {
            let leaves = self.write_leaves(&rest, ENTRIES)?;
            return self.new_root(
                leaves
                    .into_iter()
                    .map(|(from, page)| (from, Child::Leaf(page)))
                    .collect(),
            );
        }
        let Some(root) = &tree.root else {
            return Ok(MergedTree::Unchanged);
        };
        if edits.is_empty() {
            return Ok(MergedTree::Unchanged);
        }
        let children = self.edit_branch(root, &tree.expected_root(), &edits)?;
        match children.len() {
            0 => Ok(MergedTree::Changed(Tree::new(self.store, None))),
            _ => self.new_root(
                children
                    .into_iter()
                    .map(|(from, branch)| (from, Child::Branch(branch)))
                    .collect(),
            ),
        }
    }

    /// Adds entries of a table to a leaf in place if they fit and the leaf has no removed key; otherwise
    /// returns the leaves that take its place.
    fn edit_leaf(
        &mut self,
        page: u64,
        is_last: bool,
        entries: &[(&[u8], MemEntry)],
        table: &MemTable,
    ) -> Result<Option<NewLeaves>> {
        let medium = self.medium();
        let mut leaf = load_leaf(medium, self.place(page))?;
        let mut added = Vec::new();
        let old_bitmap = leaf.bitmap();
        let mut bitmap = old_bitmap;
        let mut is_copied = false;
        for &(key, entry) in entries {
            let slot = find(medium, self.store, &leaf, key)?;
            let is_kept = slot.is_some() && self.copies_leaves && table.is_removed(key);
            is_copied |= is_kept;
            match (slot, entry) {
                (Some(slot), MemEntry::Record(record)) => {
                    leaf.set_record(slot, record);
                    // A removed key that was set again has no `prev` that leads to the version here.
                    if !is_kept {
                        let slot = slot_of(page, slot);
                        slot.set_record(medium, record);
                        medium.flush(slot.0, 8);
                    }
                }
                (Some(slot), MemEntry::Purged) => bitmap &= !(1 << slot),
                (None, MemEntry::Record(record)) => added.push(NewEntry {
                    key: key.to_vec(),
                    record,
                }),
                (None, MemEntry::Purged) => {}
            }
        }
        let occupied = if injected(StoreFault::ReuseSlot) {
            bitmap
        } else {
            old_bitmap
        };
        let fits = bitmap.count_ones() as usize + added.len() <= ENTRIES
            && (occupied.count_ones() as usize) + added.len() <= ENTRIES
            && added.iter().all(|entry| entry.key.starts_with(leaf.prefix()));
        if injected(StoreFault::PlaceInPlace) {
            leaf.set_placed();
        }
        // A leaf of format 1 is written anew, so that its checksum covers its place.
        let stays = leaf.is_placed() || bitmap == old_bitmap && added.is_empty();
        if bitmap == 0 && added.is_empty() {
            return Ok(match old_bitmap {
                0 => None,
                _ => Some(Vec::new()),
            });
        }
        if !fits || bitmap == 0 || !stays {
            return self.split_leaf(&leaf, bitmap, added, is_last).map(Some);
        }
        let mut free = (0..ENTRIES).filter(|slot| occupied >> slot & 1 == 0);
        for entry in &added {
            let slot = free
                .next()
                .unwrap_or_else(|| unreachable!("there are enough slots"));
            leaf.set(slot, entry);
            bitmap |= 1 << slot;
        }
        if is_copied {
            leaf.set_bitmap(bitmap);
            let copy = self.alloc(SegmentKind::Leaves)?;
            medium.store(copy, leaf.moved_to(self.place(copy)).as_bytes());
            medium.flush(copy, LEAF);
            return Ok(Some(vec![(Vec::new(), copy)]));
        }
        if bitmap != old_bitmap {
            leaf.set_bitmap(bitmap);
            // All of the leaf but the word that makes the entries valid.
            medium.store(page + 8, &leaf.as_bytes()[8..]);
            medium.flush(page, LEAF);
            if injected(StoreFault::BitmapFirst) {
                medium.store_u64(page, leaf.word());
            }
            self.words.push((page, leaf.word()));
        }
        Ok(None)
    }

    /// Distributes the entries of a leaf and new ones over new leaves.
    fn split_leaf(
        &mut self,
        leaf: &Leaf,
        bitmap: u64,
        added: Vec<NewEntry>,
        is_last: bool,
    ) -> Result<NewLeaves> {
        let medium = self.medium();
        let mut all = Vec::with_capacity(ENTRIES + added.len());
        for (slot, _, record) in leaf.entries().filter(|(slot, ..)| bitmap >> slot & 1 == 1) {
            let found = RecordRef::load(medium, record).ok_or(Damage::record(record))?;
            let key = found.key(medium);
            self.verify_entry(leaf, slot, &found, &key)?;
            all.push(NewEntry { key, record });
        }
        let last_old = all.iter().map(|entry| &entry.key).max().cloned();
        // Ascending keys leave full leaves behind.
        let appends = is_last && added.iter().all(|entry| Some(&entry.key) > last_old.as_ref());
        all.extend(added);
        all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let per_leaf = if appends || all.len() <= ENTRIES {
            ENTRIES
        } else {
            SPLIT_ENTRIES
        };
        self.write_leaves(&all, per_leaf)
    }

    /// Fails unless an entry is one of the key of its record, which is read and not verified: a key that is
    /// damaged must not get an entry.
    fn verify_entry(&self, leaf: &Leaf, slot: usize, record: &RecordRef, key: &[u8]) -> Result<(), Damage> {
        if injected(StoreFault::TrustEntries) {
            return Ok(());
        }
        // The entry has all bytes of a short key, but not whether zeros at its end are part of it.
        let is_short = key.len() <= leaf.prefix().len() + 8 && key.last() != Some(&0);
        let is_of_entry = leaf.is_entry_of(slot, key);
        if (!is_short || !is_of_entry) && record.contents(self.medium()).is_none() {
            return Err(Damage::record(record.offset));
        }
        if !is_of_entry {
            return Err(Damage::entry(leaf.place().offset));
        }
        if record.head.store.get() == self.store {
            Ok(())
        } else {
            Err(Damage::store(record.offset))
        }
    }

    /// Writes leaves of `per_leaf` entries each, or a few fewer. Returns their lower separators and offsets.
    fn write_leaves(&mut self, entries: &[NewEntry], per_leaf: usize) -> Result<NewLeaves> {
        let medium = self.medium();
        let leaves = entries.len().div_ceil(per_leaf);
        let even = entries.len().div_ceil(leaves.max(1));
        let size = match per_leaf {
            ENTRIES => ENTRIES,
            _ => even,
        };
        let mut written = Vec::with_capacity(leaves);
        let mut before: Option<&NewEntry> = None;
        for entries in entries.chunks(size) {
            let page = self.alloc(SegmentKind::Leaves)?;
            medium.store(page, Leaf::new(self.place(page), entries).as_bytes());
            medium.flush(page, LEAF);
            written.push((separator(before.map(|entry| &entry.key), &entries[0].key), page));
            before = entries.last();
        }
        Ok(written)
    }

    /// Replaces the children that the edits name. Returns the branches that take the place of this one, each
    /// with its lower separator.
    fn edit_branch(
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
    fn new_root(&mut self, mut children: Vec<(Vec<u8>, Child)>) -> Result<MergedTree> {
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

    /// Makes new entries of leaves valid, once they are durable.
    pub(crate) fn publish_leaves(&mut self) -> Result<()> {
        let medium = self.medium();
        if !injected(StoreFault::BitmapFirst) {
            medium.fence()?;
        }
        for &(page, word) in &self.words {
            medium.store_u64(page, word);
            medium.flush(page, 8);
        }
        Ok(())
    }
}

/// The tree after a merge.
pub(crate) enum MergedTree {
    /// The root is the same; leaves may have changed.
    Unchanged,
    Changed(Tree),
}

/// An error of a merge, which has changed nothing that is valid.
#[derive(Debug)]
pub(crate) enum MergeError {
    Damage(Damage),
    Pool(PoolError),
    Media(MediaError),
}

impl MergeError {
    /// Returns true if there was no page to allocate: the disk is full, or another writer of the pool does
    /// not let the slab grow.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(
            self,
            Self::Pool(PoolError::DiskFull { .. } | PoolError::Locked { .. })
        )
    }
}

impl From<Damage> for MergeError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl From<PoolError> for MergeError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<MediaError> for MergeError {
    fn from(error: MediaError) -> Self {
        Self::Media(error)
    }
}

type Result<T, E = MergeError> = std::result::Result<T, E>;

#[derive(Clone)]
enum Child {
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

impl LeafEdit {
    fn share(&self) -> Self {
        Self {
            from: self.from.clone(),
            leaves: self.leaves.clone(),
        }
    }
}

fn new_entry(key: &[u8], entry: MemEntry) -> Option<NewEntry> {
    match entry {
        MemEntry::Record(record) => Some(NewEntry {
            key: key.to_vec(),
            record,
        }),
        MemEntry::Purged => None,
    }
}

/// Finds the slot of a key.
fn find(medium: &Medium, store: u32, leaf: &Leaf, key: &[u8]) -> Result<Option<usize>, Damage> {
    let trusted = injected(StoreFault::TrustEntries);
    for (slot, record) in leaf.matches(fingerprint(key)) {
        let found = RecordRef::load(medium, record).ok_or(Damage::record(record))?;
        let is_of_store = found.head.store.get() == store || trusted;
        if found.is_of(medium, key) && is_of_store {
            return Ok(Some(slot));
        }
        let contents = found.contents(medium).ok_or(Damage::record(record))?;
        if !is_of_store {
            return Err(Damage::store(record));
        }
        if !leaf.is_entry_of(slot, contents.key()) && !trusted {
            return Err(Damage::entry(leaf.place().offset));
        }
    }
    Ok(None)
}

/// Returns the shortest key that is above `before` and not above `first`.
pub(crate) fn separator(before: Option<&Vec<u8>>, first: &[u8]) -> Vec<u8> {
    match before {
        Some(before) => first[..(common_prefix(before, first) + 1).min(first.len())].to_vec(),
        None => Vec::new(),
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
