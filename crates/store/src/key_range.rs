//! Ranges of keys: [`KeyRange`].

use std::ops::{Bound, RangeBounds};

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
    pub(crate) fn of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Self {
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

    /// Returns the bounds without their ownership.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (
            self.from.as_ref().map(Vec::as_slice),
            self.to.as_ref().map(Vec::as_slice),
        )
    }

    /// Returns true if a key is in the range.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&self.bounds(), key)
    }

    /// Returns true if no key can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        match self.bounds() {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
                from >= to
            }
            (_, Bound::Excluded(to)) => to.is_empty(),
            _ => false,
        }
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

    /// Splits the range at a key, which goes to the second part. `None` if one part would be empty.
    pub(crate) fn split_at(&self, key: &[u8]) -> Option<(Self, Self)> {
        let left = Self {
            from: self.from.clone(),
            to: Bound::Excluded(key.to_vec()),
        };
        let right = Self {
            from: Bound::Included(key.to_vec()),
            to: self.to.clone(),
        };
        let is_within = match &self.from {
            Bound::Included(from) | Bound::Excluded(from) => from.as_slice() < key,
            Bound::Unbounded => true,
        };
        (is_within && !left.is_empty() && !right.is_empty()).then_some((left, right))
    }
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
        let range = KeyRange::of(&(b"b".to_vec()..=b"d".to_vec()));
        let (left, right) = range.split_at(b"d").unwrap();
        assert!(left.contains(b"c\xFF") && !left.contains(b"d") && right.contains(b"d"));
        assert!(range.split_at(b"b").is_none() && range.split_at(b"e").is_none());
        assert_eq!(range.before(&right), Some(left));
        assert_eq!(range.before(&range), None);
        assert_eq!(KeyRange::ALL.before(&KeyRange::ALL), None);
        assert!(KeyRange::of(&(b"b".to_vec()..b"b".to_vec())).is_empty());
    }
}
