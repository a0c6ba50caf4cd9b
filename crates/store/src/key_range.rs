//! Ranges of keys: [`KeyRange`].

use std::ops::{Bound, RangeBounds};

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
        let range = KeyRange::of(&(b"b".to_vec()..=b"d".to_vec()));
        let (left, right) = range.split_at(b"d").unwrap();
        assert!(contains(left, b"c\xFF") && !contains(left, b"d") && contains(right, b"d"));
        assert!(range.split_at(b"b").is_none() && range.split_at(b"e").is_none());
        let rest = KeyRange::of(&(b"d".to_vec()..=b"d".to_vec()));
        assert_eq!(range.before(&rest).unwrap().bounds(), left);
        assert_eq!(range.before(&range), None);
        assert_eq!(KeyRange::ALL.before(&KeyRange::ALL), None);
        assert!(KeyRange::of(&(b"b".to_vec()..b"b".to_vec())).is_empty());
    }
}
