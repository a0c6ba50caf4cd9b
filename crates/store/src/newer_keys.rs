//! Where a deleted range may have keys that it does not hide: [`NewerKeys`].

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::key_cut::KeyCut;

/// Maximum number of parts.
const MAX_PARTS: usize = 1024;

/// The parts of a deleted range outside of which no key has a version that is newer than the range.
///
/// Keys are added as they are written. Neighbours are joined when there are too many parts, so the memory is
/// bounded: a part can contain hidden keys, too.
#[derive(Debug, Default)]
pub(crate) struct NewerKeys {
    /// The end of each part by its start. Parts do not overlap and are not empty.
    parts: BTreeMap<KeyCut, KeyCut>,
}

impl NewerKeys {
    /// Returns a single part, of whose keys nothing is known.
    pub(crate) fn unknown(from: KeyCut, to: KeyCut) -> Self {
        Self {
            parts: BTreeMap::from([(from, to)]),
        }
    }

    /// Adds a key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let before = KeyCut::before(key);
        if self.next_after(&before).is_some_and(|(from, _)| *from <= before) {
            return;
        }
        self.parts.insert(before, KeyCut::after(key));
        if self.parts.len() > MAX_PARTS {
            self.join_neighbours();
        }
    }

    /// Joins each part with the one after it, so that half as many are left.
    fn join_neighbours(&mut self) {
        let mut joined = BTreeMap::new();
        let mut parts = std::mem::take(&mut self.parts).into_iter();
        while let Some((from, to)) = parts.next() {
            let to = parts.next().map_or(to, |(_, end)| end);
            joined.insert(from, to);
        }
        self.parts = joined;
    }

    /// Returns the first part that ends after a place.
    pub(crate) fn next_after(&self, at: &KeyCut) -> Option<(&KeyCut, &KeyCut)> {
        let around = self.parts.range(..=at).next_back().filter(|(_, to)| *to > at);
        around.or_else(|| self.parts.range((Bound::Excluded(at), Bound::Unbounded)).next())
    }

    /// Returns the last part that starts before a place.
    pub(crate) fn last_before(&self, at: &KeyCut) -> Option<(&KeyCut, &KeyCut)> {
        self.parts.range(..at).next_back()
    }

    /// Replaces what is noted between two places by the keys that are there. Changes nothing if that makes
    /// too many parts.
    pub(crate) fn replace(&mut self, from: &KeyCut, to: &KeyCut, keys: &[Vec<u8>]) {
        if from >= to || self.parts.len() + keys.len() >= MAX_PARTS {
            return;
        }
        let first = self.next_after(from).map(|(start, _)| start.clone());
        let Some(first) = first else {
            return;
        };
        let overlapping: Vec<KeyCut> = self
            .parts
            .range(first..)
            .map(|(start, _)| start.clone())
            .collect();
        for start in overlapping.into_iter().take_while(|start| start < to) {
            let Some(end) = self.parts.remove(&start) else {
                continue;
            };
            if end > *to {
                self.parts.insert(to.clone(), end);
            }
            if start < *from {
                self.parts.insert(start, from.clone());
            }
        }
        keys.iter().for_each(|key| self.add(key));
    }

    /// Forgets the parts below a place.
    pub(crate) fn forget_below(&mut self, at: &KeyCut) {
        while let Some(part) = self.parts.first_entry().filter(|part| part.get() <= at) {
            part.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_noted(newer: &NewerKeys, key: &[u8]) -> bool {
        let before = KeyCut::before(key);
        let after = newer.next_after(&before).is_some_and(|(from, _)| *from <= before);
        let end = KeyCut::after(key);
        let below = newer.last_before(&end).is_some_and(|(_, to)| *to >= end);
        assert_eq!(after, below, "{}", key.escape_ascii());
        after
    }

    #[test]
    fn keys_stay_noted_in_bounded_memory() {
        let mut newer = NewerKeys::default();
        let key = |number: u32| (number.wrapping_mul(2_654_435_769)).to_be_bytes();
        for number in 0..5000 {
            newer.add(&key(number));
            assert!(newer.parts.len() <= MAX_PARTS);
        }
        assert!((0..5000).all(|number| is_noted(&newer, &key(number))));
        newer.forget_below(&KeyCut::before(&[0x80]));
        let are_noted = |number: u32| key(number)[0] < 0x80 || is_noted(&newer, &key(number));
        assert!((0..5000).all(are_noted));
    }

    #[test]
    fn what_was_read_takes_the_place_of_what_is_unknown() {
        let mut newer = NewerKeys::unknown(KeyCut::before(b""), KeyCut::End);
        let known = [b"c".to_vec(), b"f".to_vec()];
        newer.replace(&KeyCut::after(b"b"), &KeyCut::before(b"m"), &known);
        for letter in b'a'..=b'z' {
            let is_known = (b'c'..b'm').contains(&letter);
            let expected = !is_known || known.contains(&vec![letter]);
            assert_eq!(is_noted(&newer, &[letter]), expected, "{letter}");
        }
        newer.replace(&KeyCut::before(b""), &KeyCut::End, &[]);
        assert!(newer.parts.is_empty());
    }
}
