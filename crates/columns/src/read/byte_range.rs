//! Ranges of strings: [`ByteRange`]. Its conditions are tested with those of `string_predicate.rs`.

use crate::codec::strings::constant::Constant;
use crate::codec::strings::pending::prefix_key;
use std::ops::Bound;

/// Strings between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) lo: Bound<Constant>,
    pub(crate) hi: Bound<Constant>,
    /// True if it holds one string only.
    is_equal: bool,
}

impl ByteRange {
    /// Returns the range between two bounds.
    pub(crate) fn new(lo: Bound<Constant>, hi: Bound<Constant>) -> Self {
        let is_equal = matches!((&lo, &hi), (Bound::Included(lo), Bound::Included(hi)) if lo == hi);
        Self { lo, hi, is_equal }
    }

    /// Returns true if the range holds one string only, its lower bound.
    pub(crate) fn is_equal(&self) -> bool {
        self.is_equal
    }

    /// Returns the range of the strings that start with a prefix.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        // The smallest string after them all: the prefix up to the last byte that can be increased.
        let end = prefix.iter().rposition(|byte| *byte < u8::MAX).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Constant::new(&end)
        });
        let lo = match prefix {
            [] => Bound::Unbounded,
            _ => Bound::Included(Constant::new(prefix)),
        };
        Self::new(lo, end.map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Returns true if both ends are open: every string is in the range.
    pub(crate) fn is_unbounded(&self) -> bool {
        matches!((&self.lo, &self.hi), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Returns true if a string lies in the range.
    pub(crate) fn contains(&self, value: &[u8]) -> bool {
        let above = match &self.lo {
            Bound::Included(lo) => value >= lo.as_bytes(),
            Bound::Excluded(lo) => value > lo.as_bytes(),
            Bound::Unbounded => true,
        };
        let below = match &self.hi {
            Bound::Included(hi) => value <= hi.as_bytes(),
            Bound::Excluded(hi) => value < hi.as_bytes(),
            Bound::Unbounded => true,
        };
        above && below
    }

    /// Returns the range of the strings in both.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let is_tighter = |left: &Bound<Constant>, right: &Bound<Constant>, upper: bool| {
            let (Some(a), Some(b)) = (constant_of(left), constant_of(right)) else {
                return constant_of(left).is_some();
            };
            let order = a.as_bytes().cmp(b.as_bytes());
            let order = if upper { order } else { order.reverse() };
            order.is_lt() || order.is_eq() && matches!(left, Bound::Excluded(_))
        };
        let tighter = |left: &Bound<Constant>, right: &Bound<Constant>, upper: bool| {
            if is_tighter(left, right, upper) {
                left.clone()
            } else {
                right.clone()
            }
        };
        Self::new(
            tighter(&self.lo, &other.lo, false),
            tighter(&self.hi, &other.hi, true),
        )
    }

    /// Returns true if all strings whose first eight bytes lie within `min..=max` are in the range, false if
    /// none is. Strings with the first eight bytes of a bound may lie on either side of it.
    pub(crate) fn of_zone(&self, min: u64, max: u64) -> Option<bool> {
        let key =
            |bound: &Bound<Constant>| constant_of(bound).map(|constant| prefix_key(constant.as_bytes()));
        let (lo, hi) = (key(&self.lo), key(&self.hi));
        if lo.is_some_and(|lo| max < lo) || hi.is_some_and(|hi| min > hi) {
            return Some(false);
        }
        let all = lo.is_none_or(|lo| min > lo) && hi.is_none_or(|hi| max < hi);
        all.then_some(true)
    }

    /// Estimates the share of the strings, given the first eight bytes of the smallest and the largest one.
    pub(crate) fn share(&self, min: u64, max: u64, values: u64) -> f64 {
        let key = |bound: &Bound<Constant>, open: u64| {
            constant_of(bound).map_or(open, |constant| prefix_key(constant.as_bytes()))
        };
        let (lo, hi) = (key(&self.lo, min).max(min), key(&self.hi, max).min(max));
        if lo > hi || min > max {
            return 0.0;
        }
        let least = 1.0 / values.max(1) as f64;
        match max - min {
            _ if self.is_equal => least,
            // All begin alike.
            0 => 1.0,
            span => ((hi - lo) as f64 / span as f64).max(least),
        }
    }
}

/// Returns the constant of a bound.
fn constant_of(bound: &Bound<Constant>) -> Option<&Constant> {
    match bound {
        Bound::Included(constant) | Bound::Excluded(constant) => Some(constant),
        Bound::Unbounded => None,
    }
}
