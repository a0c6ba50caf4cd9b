//! Ranges of keys: [`KeyRange`].

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use crate::layout::MAX_KEY;

/// The bounds of a range of keys that something else owns.
pub(crate) type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range of all keys.
    pub(crate) const ALL: KeyRange = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };

    /// Returns a range that owns its bounds.
    pub(crate) fn from_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Self {
            from: owned(range.start_bound()),
            to: owned(range.end_bound()),
        }
    }

    /// Returns the range of all keys with a prefix.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xFF) {
            end.pop();
        }
        let to = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self {
            from: Bound::Included(prefix.to_vec()),
            to,
        }
    }

    /// Returns the range of the same keys whose bounds are no longer than keys can be.
    pub(crate) fn clamped(self) -> Self {
        // No key lies between such a bound and its beginning, except for the beginning itself.
        let Self { mut from, mut to } = self;
        if let Bound::Included(key) | Bound::Excluded(key) = &mut from
            && key.len() > MAX_KEY
        {
            key.truncate(MAX_KEY);
            from = Bound::Excluded(std::mem::take(key));
        }
        if let Bound::Included(key) | Bound::Excluded(key) = &mut to
            && key.len() > MAX_KEY
        {
            key.truncate(MAX_KEY);
            to = Bound::Included(std::mem::take(key));
        }
        Self { from, to }
    }

    /// Returns the bounds without their ownership.
    pub(crate) fn bounds(&self) -> KeyBounds<'_> {
        (
            self.from.as_ref().map(Vec::as_slice),
            self.to.as_ref().map(Vec::as_slice),
        )
    }

    /// Returns true if a key is in the range.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        contains(self.bounds(), key)
    }

    /// Returns true if no key can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        is_empty(self.bounds())
    }

    /// Returns the key of the lower bound.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        match &self.from {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        }
    }

    /// Returns the range without its upper part `rest`; `None` if nothing is left.
    pub(crate) fn before(&self, rest: &Self) -> Option<Self> {
        let to = match &rest.from {
            Bound::Included(key) => Bound::Excluded(key.clone()),
            Bound::Excluded(key) => Bound::Included(key.clone()),
            Bound::Unbounded => return None,
        };
        let before = Self {
            from: self.from.clone(),
            to,
        };
        (!before.is_empty()).then_some(before)
    }

    /// Returns true if a key is below the range.
    pub(crate) fn is_above(&self, key: &[u8]) -> bool {
        match &self.from {
            Bound::Included(from) => key < from.as_slice(),
            Bound::Excluded(from) => key <= from.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Returns true if a key can be in both ranges.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let from = compare_from(&self.from, &other.from);
        let to = compare_to(&self.to, &other.to);
        let from = if from.is_lt() { &other.from } else { &self.from };
        let to = if to.is_lt() { &self.to } else { &other.to };
        let both = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        !self.is_empty() && !other.is_empty() && !is_empty(both)
    }

    /// Splits the range at a key, which goes to the second part. `None` if one part would be empty.
    pub(crate) fn split_at<'a>(&'a self, key: &'a [u8]) -> Option<(KeyBounds<'a>, KeyBounds<'a>)> {
        let (from, to) = self.bounds();
        let left = (from, Bound::Excluded(key));
        let right = (Bound::Included(key), to);
        let is_within = match from {
            Bound::Included(from) | Bound::Excluded(from) => from < key,
            Bound::Unbounded => true,
        };
        (is_within && !is_empty(left) && !is_empty(right)).then_some((left, right))
    }
}

/// Compares two lower bounds by the first keys after them.
fn compare_from(one: &Bound<Vec<u8>>, other: &Bound<Vec<u8>>) -> Ordering {
    fn place(bound: &Bound<Vec<u8>>) -> (Option<&Vec<u8>>, bool) {
        match bound {
            Bound::Unbounded => (None, false),
            Bound::Included(key) => (Some(key), false),
            Bound::Excluded(key) => (Some(key), true),
        }
    }
    place(one).cmp(&place(other))
}

/// Compares two upper bounds by the last keys before them.
fn compare_to(one: &Bound<Vec<u8>>, other: &Bound<Vec<u8>>) -> Ordering {
    fn place(bound: &Bound<Vec<u8>>) -> (bool, Option<&Vec<u8>>, bool) {
        match bound {
            Bound::Unbounded => (true, None, false),
            Bound::Excluded(key) => (false, Some(key), false),
            Bound::Included(key) => (false, Some(key), true),
        }
    }
    place(one).cmp(&place(other))
}

/// Returns ranges that contain the same keys, in order, none of which overlaps another one.
pub(crate) fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by(|one, other| compare_from(&one.from, &other.from));
    let mut disjoint: Vec<KeyRange> = Vec::new();
    for range in ranges {
        match disjoint.last_mut().filter(|last| last.overlaps(&range)) {
            Some(last) if compare_to(&last.to, &range.to).is_lt() => last.to = range.to,
            Some(_) => {}
            None => disjoint.push(range),
        }
    }
    disjoint
}

/// Returns true if no key can be between two bounds.
fn is_empty(bounds: KeyBounds<'_>) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        (_, Bound::Excluded(to)) => to.is_empty(),
        _ => false,
    }
}

/// Returns true if a key is between two bounds.
#[inline]
pub(crate) fn contains(bounds: KeyBounds<'_>, key: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(&bounds, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_splits() {
        let range = KeyRange::of_prefix(b"a\xFF");
        assert!(range.contains(b"a\xFF") && range.contains(b"a\xFF\xFF") && !range.contains(b"b"));
        assert!(!range.contains(b"a"));
        assert!(KeyRange::of_prefix(b"\xFF").contains(b"\xFF\xFF"));
        let range = KeyRange::from_bounds(&(b"b".to_vec()..=b"d".to_vec()));
        let (left, right) = range.split_at(b"d").unwrap();
        assert!(contains(left, b"c\xFF") && !contains(left, b"d") && contains(right, b"d"));
        assert!(range.split_at(b"b").is_none() && range.split_at(b"e").is_none());
        let rest = KeyRange::from_bounds(&(b"d".to_vec()..=b"d".to_vec()));
        assert_eq!(range.before(&rest).unwrap().bounds(), left);
        assert_eq!(range.before(&range), None);
        assert_eq!(KeyRange::ALL.before(&KeyRange::ALL), None);
        assert!(KeyRange::from_bounds(&(b"b".to_vec()..b"b".to_vec())).is_empty());
    }

    #[test]
    fn bounds_that_are_too_long_are_clamped() {
        let key = |len: usize, last: u8| {
            let mut key = vec![b'k'; len];
            key[len - 1] = last;
            key
        };
        let keys = [
            key(MAX_KEY, b'j'),
            key(MAX_KEY, b'k'),
            key(MAX_KEY, b'l'),
            key(MAX_KEY - 1, b'k'),
        ];
        let long = [key(MAX_KEY + 1, 0), key(MAX_KEY + 7, b'z'), key(MAX_KEY, b'k')];
        for bound in long
            .iter()
            .flat_map(|key| [Bound::Included(key), Bound::Excluded(key)])
        {
            let of = |from: Bound<&Vec<u8>>, to: Bound<&Vec<u8>>| KeyRange {
                from: from.cloned(),
                to: to.cloned(),
            };
            for range in [of(bound, Bound::Unbounded), of(Bound::Unbounded, bound)] {
                let clamped = range.clone().clamped();
                let same = |key: &Vec<u8>| range.contains(key) == clamped.contains(key);
                assert!(keys.iter().all(same), "{range:?} {clamped:?}");
            }
        }
    }

    #[test]
    fn ranges_overlap_where_a_key_is_in_both() {
        let bounds = |key: u8| {
            let key = vec![b'a' + key];
            [
                Bound::Included(key.clone()),
                Bound::Excluded(key),
                Bound::Unbounded,
            ]
        };
        let ends: Vec<Bound<Vec<u8>>> = (0..3).flat_map(bounds).collect();
        let ends: Vec<_> = ends.iter().collect();
        let ranges: Vec<KeyRange> = ends
            .iter()
            .flat_map(|from| ends.iter().map(move |to| ((*from).clone(), (*to).clone())))
            .map(|(from, to)| KeyRange { from, to })
            .collect();
        let keys: Vec<Vec<u8>> = ["", "a", "aa", "b", "ba", "c", "ca"].map(|key| key.into()).into();
        for one in &ranges {
            for other in &ranges {
                let both = |key: &&Vec<u8>| one.contains(key) && other.contains(key);
                let common = keys.iter().any(|key| both(&key));
                assert_eq!(one.overlaps(other), common, "{one:?} {other:?}");
                let merged = disjoint(vec![one.clone(), other.clone()]);
                for key in &keys {
                    let is_in = one.contains(key) || other.contains(key);
                    let ranges = merged.iter().filter(|range| range.contains(key)).count();
                    assert_eq!(ranges, usize::from(is_in), "{one:?} {other:?}");
                    let below = merged.partition_point(|range| !range.is_above(key));
                    let found = below.checked_sub(1).is_some_and(|at| merged[at].contains(key));
                    assert_eq!(found, is_in, "{one:?} {other:?}");
                }
            }
        }
    }
}
