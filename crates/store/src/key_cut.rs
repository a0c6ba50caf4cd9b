//! Places between keys: [`KeyCut`].

use std::ops::Bound;

use crate::key_range::KeyRange;
use crate::scan::Direction;

/// A place right before or right after a key, or after all keys. Ordered as keys are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyCut {
    /// Before a key, or after it if the second part is true.
    At(Vec<u8>, bool),
    /// After all keys.
    End,
}

impl KeyCut {
    pub(crate) fn before(key: &[u8]) -> Self {
        Self::At(key.to_vec(), false)
    }

    pub(crate) fn after(key: &[u8]) -> Self {
        Self::At(key.to_vec(), true)
    }

    /// Returns the place of a scan that has read everything up to a key.
    pub(crate) fn past(key: &[u8], direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::after(key),
            Direction::Backward => Self::before(key),
        }
    }

    /// Returns the lower end of a range.
    pub(crate) fn start_of(range: &KeyRange) -> Self {
        match &range.from {
            Bound::Included(key) => Self::before(key),
            Bound::Excluded(key) => Self::after(key),
            Bound::Unbounded => Self::before(&[]),
        }
    }

    /// Returns the upper end of a range.
    pub(crate) fn end_of(range: &KeyRange) -> Self {
        match &range.to {
            Bound::Excluded(key) => Self::before(key),
            Bound::Included(key) => Self::after(key),
            Bound::Unbounded => Self::End,
        }
    }

    /// Returns the end of a range where a scan begins.
    pub(crate) fn near_end(range: &KeyRange, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::start_of(range),
            Direction::Backward => Self::end_of(range),
        }
    }

    /// Returns the end of a range where a scan ends.
    pub(crate) fn far_end(range: &KeyRange, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::end_of(range),
            Direction::Backward => Self::start_of(range),
        }
    }

    /// Returns the part of a range that a scan has before it at this place; `None` if there is none.
    pub(crate) fn rest_of(&self, range: &KeyRange, direction: Direction) -> Option<KeyRange> {
        let rest = match (direction, self.clone()) {
            (Direction::Forward, Self::End) => return None,
            (Direction::Forward, Self::At(key, is_after)) => KeyRange {
                from: if is_after {
                    Bound::Excluded(key)
                } else {
                    Bound::Included(key)
                },
                to: range.to.clone(),
            },
            (Direction::Backward, Self::End) => range.clone(),
            (Direction::Backward, Self::At(key, is_after)) => KeyRange {
                from: range.from.clone(),
                to: if is_after {
                    Bound::Included(key)
                } else {
                    Bound::Excluded(key)
                },
            },
        };
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys on either side of a place are told apart by the ranges that it divides.
    #[test]
    fn places_divide_ranges() {
        let keys: [&[u8]; 5] = [b"", b"a", b"a\0", b"b", b"c"];
        let mut cuts: Vec<KeyCut> = keys
            .iter()
            .flat_map(|key| [KeyCut::before(key), KeyCut::after(key)])
            .collect();
        cuts.push(KeyCut::End);
        assert!(cuts.is_sorted_by(|one, other| one < other));
        for cut in &cuts {
            for direction in [Direction::Forward, Direction::Backward] {
                let rest = cut.rest_of(&KeyRange::ALL, direction);
                for key in keys {
                    let is_ahead = match direction {
                        Direction::Forward => *cut <= KeyCut::before(key),
                        Direction::Backward => *cut >= KeyCut::after(key),
                    };
                    let found = rest.as_ref().is_some_and(|rest| rest.contains(key));
                    assert_eq!(found, is_ahead, "{cut:?} {direction:?} {key:?}");
                }
                if let Some(rest) = rest {
                    assert_eq!(KeyCut::near_end(&rest, direction), *cut);
                }
            }
        }
    }
}
