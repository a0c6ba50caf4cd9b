//! Runs of entries in order, upward and downward.
//!
//! The leaves of one parent are read one after the other, each validated by its own version and the parent's, while the next
//! ones are being fetched. The links between leaves are not used: they are for recovery.

use halocline_media::{LINE, Medium};

use crate::TreeError;
use crate::inner::Family;
use crate::kernel::{RANKED, ranks};
use crate::locks::Backoff;

use super::leaves::Leaves;
use super::tree::Hybrid;

/// How many lines are fetched ahead.
const AHEAD: u64 = 24;

impl<M: Medium, L: Leaves> Hybrid<M, L> {
    /// How many leaves are.
    const AHEAD: usize = {
        let leaves = AHEAD * LINE / L::BYTES;
        if leaves > 1 { leaves as usize } else { 1 }
    };

    pub(super) fn scan_up(
        &self,
        from: u64,
        count: usize,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), TreeError> {
        let wanted = into.len().saturating_add(count);
        let (mut from, mut backoff) = (from, Backoff::default());
        'family: loop {
            let family = self.inner.family(from);
            let leaves = family.leaves();
            leaves[family.slot..]
                .iter()
                .take(Self::AHEAD)
                .for_each(|leaf| self.fetch(*leaf));
            for slot in family.slot..leaves.len() {
                if let Some(leaf) = leaves.get(slot + Self::AHEAD) {
                    self.fetch(*leaf);
                }
                let start = into.len();
                if !self.append(&family, slot, into)? {
                    into.truncate(start);
                    backoff.wait();
                    continue 'family;
                }
                let run = sorted(into, start, self.inner.vectors());
                let below = run.partition_point(|(key, _)| *key < from);
                into.drain(start..start + below);
                match family.high(slot).checked_add(1) {
                    Some(next) if into.len() < wanted => from = next,
                    _ => return Ok(()),
                }
            }
        }
    }

    pub(super) fn scan_down(
        &self,
        from: u64,
        count: usize,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), TreeError> {
        let wanted = into.len().saturating_add(count);
        let (mut from, mut backoff) = (from, Backoff::default());
        'family: loop {
            let family = self.inner.family(from);
            let leaves = family.leaves();
            leaves[..=family.slot]
                .iter()
                .rev()
                .take(Self::AHEAD)
                .for_each(|leaf| self.fetch(*leaf));
            for slot in (0..=family.slot).rev() {
                if let Some(leaf) = slot.checked_sub(Self::AHEAD).and_then(|slot| leaves.get(slot)) {
                    self.fetch(*leaf);
                }
                let start = into.len();
                if !self.append(&family, slot, into)? {
                    into.truncate(start);
                    backoff.wait();
                    continue 'family;
                }
                let run = sorted(into, start, self.inner.vectors());
                let below = run.partition_point(|(key, _)| *key <= from);
                into.truncate(start + below);
                into[start..].reverse();
                match family.low(slot).checked_sub(1) {
                    Some(next) if into.len() < wanted => from = next,
                    _ => return Ok(()),
                }
            }
        }
    }

    /// Appends the entries of one leaf of a family, in no order; false if something has come in between.
    #[inline]
    fn append(&self, family: &Family, slot: usize, into: &mut Vec<(u64, u64)>) -> Result<bool, TreeError> {
        let number = family.leaves()[slot];
        let Some(version) = self.locks.read(number) else {
            return Ok(false);
        };
        if !self.inner.is_current_family(family) {
            return Ok(false);
        }
        let at = self.at(number);
        into.extend(L::entries(at, &L::head(at)).map(|entry| (entry.key, entry.value)));
        if !self.locks.validate(number, version) {
            return Ok(false);
        }
        self.intact(number)?;
        Ok(true)
    }

    fn fetch(&self, leaf: u32) {
        L::fetch_all(self.at(leaf));
    }
}

/// Sorts what was appended.
#[inline]
fn sorted(entries: &mut [(u64, u64)], start: usize, vectors: bool) -> &[(u64, u64)] {
    let run = &mut entries[start..];
    let count = run.len();
    if count > RANKED {
        run.sort_unstable_by_key(|(key, _)| *key);
        return run;
    }
    let (mut keys, mut unsorted) = ([u64::MAX; RANKED], [(0, 0); RANKED]);
    unsorted[..count].copy_from_slice(run);
    for (key, entry) in keys.iter_mut().zip(&*run) {
        *key = entry.0;
    }
    for (entry, rank) in unsorted[..count].iter().zip(ranks(&keys, vectors)) {
        run[rank as usize] = *entry;
    }
    run
}
