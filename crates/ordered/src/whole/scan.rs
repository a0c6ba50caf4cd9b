//! Runs of entries in order, upward and downward: leaf by leaf, each read at one version, while the next children of the same parent are
//! being fetched.

use halocline_media::Medium;

use crate::TreeError;
use crate::locks::Backoff;

use super::format::Format;
use super::tree::Whole;

/// How many leaves are fetched ahead.
const AHEAD: usize = 6;

impl<M: Medium, F: Format> Whole<M, F> {
    pub(crate) fn scan_up(
        &self,
        from: u64,
        count: usize,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), TreeError> {
        let wanted = into.len().saturating_add(count);
        let mut from = from;
        let mut backoff = Backoff::default();
        loop {
            let family = self.family(from)?;
            let leaves = &family.entries[family.entries.child(from)..];
            leaves.iter().take(AHEAD).for_each(|leaf| self.fetch(leaf.1));
            for (slot, leaf) in leaves.iter().enumerate() {
                if let Some(ahead) = leaves.get(slot + AHEAD) {
                    self.fetch(ahead.1);
                }
                let start = into.len();
                let take = |key, value| {
                    if key >= from {
                        into.push((key, value));
                    }
                };
                let Some((_, high)) = self.read_leaf(leaf.1, from, take)? else {
                    into.truncate(start);
                    backoff.wait();
                    break;
                };
                match high.checked_add(1) {
                    Some(next) if into.len() < wanted => from = next,
                    _ => return Ok(()),
                }
            }
        }
    }

    pub(crate) fn scan_down(
        &self,
        from: u64,
        count: usize,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), TreeError> {
        let wanted = into.len().saturating_add(count);
        let mut from = from;
        let mut backoff = Backoff::default();
        loop {
            let family = self.family(from)?;
            let leaves = &family.entries[..=family.entries.child(from)];
            leaves
                .iter()
                .rev()
                .take(AHEAD)
                .for_each(|leaf| self.fetch(leaf.1));
            for (slot, leaf) in leaves.iter().enumerate().rev() {
                if let Some(ahead) = slot.checked_sub(AHEAD).and_then(|slot| leaves.get(slot)) {
                    self.fetch(ahead.1);
                }
                let start = into.len();
                let take = |key, value| {
                    if key <= from {
                        into.push((key, value));
                    }
                };
                let Some((low, _)) = self.read_leaf(leaf.1, from, take)? else {
                    into.truncate(start);
                    backoff.wait();
                    break;
                };
                into[start..].reverse();
                match low.checked_sub(1) {
                    Some(next) if into.len() < wanted => from = next,
                    _ => return Ok(()),
                }
            }
        }
    }

    /// Whether there are no entries; counts none.
    pub(crate) fn is_empty(&self) -> bool {
        let mut some = Vec::new();
        match self.scan_up(0, 1, &mut some) {
            Ok(()) => some.is_empty(),
            // Nobody knows what is in a damaged node.
            Err(_) => false,
        }
    }

    /// Reads the leaf that a key belongs to, probably the one that a link leads to; returns the keys that belong to it, from and to. Nothing if
    /// something has come in between, and then what was taken does not count.
    #[inline]
    fn read_leaf(
        &self,
        link: u64,
        key: u64,
        take: impl FnMut(u64, u64),
    ) -> Result<Option<(u64, u64)>, TreeError> {
        let number = self.number(link);
        let version = match self.locks.read(number) {
            Some(version) if number != 0 && self.seen.has(number) => version,
            // Finds out what is the matter.
            _ => return self.leaf_for(key).map(|_| None),
        };
        let node = self.node(number);
        if !node.is::<F>(0) || !node.covers(key) {
            return self.leaf_for(key).map(|_| None);
        }
        let keys = (node.low(), node.high());
        F::each(node, take);
        if !self.locks.validate(number, version) {
            return Ok(None);
        }
        self.intact(number)?;
        Ok(Some(keys))
    }

    fn fetch(&self, link: u64) {
        self.at(link).fetch();
    }
}
