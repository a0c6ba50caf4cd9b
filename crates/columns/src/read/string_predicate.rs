//! Conditions on strings that have no codes: [`StringPredicate`].
//!
//! Strings are compared as bytes, which for UTF-8 is the order of characters. NULL matches no condition but
//! [`null`](StringPredicate::null), and the negation of a condition is not true of it either, as in SQL.
//!
//! Strings that a chunk or a first byte leaves open are decided by `codec/strings/filter.rs`.

use crate::codec::strings::constant::Constant;
use crate::codec::strings::pending::prefix_key;
use crate::read::byte_range::ByteRange;
use crate::read::like::LikePattern;
use std::ops::Bound;
use std::sync::Arc;

/// A condition on the strings (or binary values) of a column. Cheap to clone.
///
/// ```
/// use halocline_columns::StringPredicate;
/// use std::ops::Bound;
/// let fruit = StringPredicate::range(Bound::Included(b"apple"), Bound::Excluded(b"fig"));
/// assert!(fruit.matches(Some(b"cherry")) && !fruit.matches(Some(b"fig")) && !fruit.matches(None));
/// assert!(!fruit.not().matches(Some(b"cherry")) && !fruit.not().matches(None));
/// ```
#[derive(Debug, Clone)]
pub struct StringPredicate {
    pub(crate) test: Test,
    pub(crate) negated: bool,
}

/// The condition, before it is negated.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// The value is NULL.
    Null,
    Range(ByteRange),
    /// One of these, sorted.
    Set(Arc<[Box<[u8]>]>),
    Like(Arc<LikePattern>, ByteRange),
    /// One of these is true.
    Any(Arc<[StringPredicate]>),
}

impl StringPredicate {
    fn from_test(test: Test) -> Self {
        Self { test, negated: false }
    }

    /// Creates the condition that the value is NULL.
    pub fn null() -> Self {
        Self::from_test(Test::Null)
    }

    /// Creates the condition that the value equals `value`.
    pub fn equal(value: &[u8]) -> Self {
        Self::range(Bound::Included(value), Bound::Included(value))
    }

    /// Creates the condition that the value lies between two bounds.
    pub fn range(lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Self {
        Self::from_test(Test::Range(ByteRange::new(
            lo.map(Constant::new),
            hi.map(Constant::new),
        )))
    }

    /// Creates the condition that the value starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self::from_test(Test::Range(ByteRange::of_prefix(prefix)))
    }

    /// Creates the condition that the value is one of `values`. O(n log n).
    pub fn set<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut values: Vec<Box<[u8]>> = values.into_iter().map(Box::from).collect();
        values.sort_unstable();
        values.dedup();
        match values.as_slice() {
            [only] => Self::equal(only),
            _ => Self::from_test(Test::Set(values.into())),
        }
    }

    /// Creates the condition that the value matches `pattern`.
    pub fn like(pattern: LikePattern) -> Self {
        if let Some(value) = pattern.as_equal() {
            return Self::equal(value);
        }
        if let Some(prefix) = pattern.as_prefix() {
            return Self::prefix(prefix);
        }
        let range = ByteRange::of_prefix(pattern.prefix());
        Self::from_test(Test::Like(Arc::new(pattern), range))
    }

    /// Creates the condition that at least one of `conditions` is true.
    pub fn any(conditions: impl IntoIterator<Item = Self>) -> Self {
        Self::from_test(Test::Any(conditions.into_iter().collect()))
    }

    /// Negates the condition. As in SQL, the negation is not true either if the condition is NULL, as a
    /// comparison with NULL is.
    #[must_use]
    pub fn not(&self) -> Self {
        Self {
            test: self.test.clone(),
            negated: !self.negated,
        }
    }

    /// Returns the condition that both are true; `None` unless both are ranges.
    pub fn and(&self, other: &Self) -> Option<Self> {
        match (self.as_range(), other.as_range()) {
            (Some(left), Some(right)) => Some(Self::from_test(Test::Range(left.intersect(right)))),
            _ => None,
        }
    }

    fn as_range(&self) -> Option<&ByteRange> {
        match &self.test {
            Test::Range(range) if !self.negated => Some(range),
            _ => None,
        }
    }

    /// Returns true if a value, `None` for NULL, matches.
    pub fn matches(&self, value: Option<&[u8]>) -> bool {
        match (value, &self.test) {
            (Some(_), Test::Null) => self.negated,
            (Some(value), _) => self.test.matches(value) != self.negated,
            (None, Test::Null) => !self.negated,
            // One of several may be IS NULL.
            (None, Test::Any(conditions)) if !self.negated => {
                conditions.iter().any(|condition| condition.matches(None))
            }
            (None, _) => false,
        }
    }

    /// Returns the answer for all strings whose first eight bytes lie within `min..=max`; `None` if that
    /// leaves it open.
    pub(crate) fn of_zone(&self, min: u64, max: u64) -> Option<bool> {
        self.test.of_zone(min, max).map(|answer| answer != self.negated)
    }

    /// Estimates the share of values that match, given the first eight bytes of the smallest and the largest
    /// one: ranges by interpolation, patterns by rule of thumb.
    pub(crate) fn share(&self, min: u64, max: u64, values: u64) -> f64 {
        let share = match &self.test {
            Test::Null => 0.0,
            Test::Range(range) => range.share(min, max, values),
            Test::Set(set) => set.len() as f64 / values.max(1) as f64,
            Test::Like(_, range) => LIKE_SHARE * range.share(min, max, values),
            Test::Any(conditions) => {
                let shares = conditions
                    .iter()
                    .map(|condition| condition.share(min, max, values));
                shares.sum()
            }
        };
        let share = share.min(1.0);
        if self.negated { 1.0 - share } else { share }
    }
}

/// The share of strings that a pattern is assumed to match, of those with its prefix.
const LIKE_SHARE: f64 = 0.1;

impl Test {
    /// Returns true if a value that is not NULL matches.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Null => false,
            Self::Range(range) => range.contains(value),
            Self::Set(values) => values.binary_search_by(|other| other.as_ref().cmp(value)).is_ok(),
            Self::Like(pattern, _) => pattern.matches(value),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.matches(Some(value))),
        }
    }

    /// Evaluates the test on a zone like [`StringPredicate::of_zone`], before it is negated.
    pub(crate) fn of_zone(&self, min: u64, max: u64) -> Option<bool> {
        match self {
            Self::Null => Some(false),
            Self::Range(range) => range.of_zone(min, max),
            Self::Set(values) => {
                let from = values.partition_point(|value| prefix_key(value) < min);
                let inside = values.get(from).is_some_and(|value| prefix_key(value) <= max);
                (!inside).then_some(false)
            }
            Self::Like(_, range) => range.of_zone(min, max).filter(|all| !all),
            Self::Any(conditions) => {
                let mut answer = Some(false);
                for condition in conditions.iter() {
                    match condition.of_zone(min, max) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => answer = None,
                    }
                }
                answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(u8::MAX)], 0..10)
    }

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            bytes().prop_map(Bound::Included),
            bytes().prop_map(Bound::Excluded),
            Just(Bound::Unbounded)
        ]
    }

    fn range(lo: &Bound<Vec<u8>>, hi: &Bound<Vec<u8>>) -> StringPredicate {
        StringPredicate::range(lo.as_ref().map(Vec::as_slice), hi.as_ref().map(Vec::as_slice))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn conditions_are_what_they_say(
            value in bytes(),
            other in bytes(),
            bounds in [bound(), bound(), bound(), bound()],
            set in proptest::collection::vec(bytes(), 0..4),
        ) {
            use std::ops::RangeBounds;
            let some = Some(value.as_slice());
            let inside = |lo: &Bound<Vec<u8>>, hi: &Bound<Vec<u8>>| (lo.clone(), hi.clone()).contains(&value);
            let [lo, hi, lo2, hi2] = &bounds;
            let (one, two) = (range(lo, hi), range(lo2, hi2));
            prop_assert_eq!(one.matches(some), inside(lo, hi));
            let both = one.and(&two).expect("two ranges");
            prop_assert_eq!(both.matches(some), inside(lo, hi) && inside(lo2, hi2));
            prop_assert_eq!(StringPredicate::any([one.clone(), two.not()]).matches(some), inside(lo, hi) || !inside(lo2, hi2));
            prop_assert_eq!(StringPredicate::prefix(&other).matches(some), value.starts_with(&other));
            prop_assert_eq!(StringPredicate::equal(&other).matches(some), value == other);
            let listed = StringPredicate::set(set.iter().map(Vec::as_slice));
            prop_assert_eq!(listed.matches(some), set.contains(&value));
            for condition in [both, one, listed, StringPredicate::prefix(&other)] {
                prop_assert!(!condition.matches(None) && !condition.not().matches(None));
                prop_assert_eq!(condition.not().matches(some), !condition.matches(some));
            }
        }

        #[test]
        fn zones_agree_with_their_strings(
            values in proptest::collection::vec(bytes(), 1..4),
            bounds in [bound(), bound()],
            prefix in bytes(),
        ) {
            let keys = values.iter().map(|value| prefix_key(value));
            let (min, max) = (keys.clone().min().expect("one"), keys.max().expect("one"));
            let conditions = [
                range(&bounds[0], &bounds[1]),
                range(&bounds[0], &bounds[1]).not(),
                StringPredicate::prefix(&prefix),
                StringPredicate::set([prefix.as_slice(), b"ab"]),
                StringPredicate::any([StringPredicate::prefix(&prefix), range(&bounds[0], &bounds[1]).not()]),
                StringPredicate::like(LikePattern::parse("ab%b").expect("no escape")),
                StringPredicate::null().not(),
            ];
            for condition in conditions {
                if let Some(answer) = condition.of_zone(min, max) {
                    let same = values.iter().all(|value| condition.matches(Some(value)) == answer);
                    prop_assert!(same, "{:?} {:?}", condition, values);
                }
                let share = condition.share(min, max, values.len() as u64);
                prop_assert!((0.0..=1.0).contains(&share));
            }
        }
    }

    #[test]
    fn null_is_a_condition_of_its_own() {
        let null = StringPredicate::null();
        assert!(null.matches(None) && !null.matches(Some(b"")));
        assert!(!null.not().matches(None) && null.not().matches(Some(b"")));
        assert!(null.and(&null).is_none());
        let or_null = StringPredicate::any([null, StringPredicate::equal(b"a")]);
        assert!(or_null.matches(None) && or_null.matches(Some(b"a")) && !or_null.matches(Some(b"b")));
    }
}
