//! Sets of codes as sorted, disjoint, inclusive ranges.

use halocline_columns::CodePredicate;

/// Most codes that a set of several ranges may hold to become a [`CodePredicate::Set`].
const MAX_SET: u64 = 1 << 16;

/// A set of codes. Invariant: ranges are sorted, and neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// Returns the empty set.
    pub(super) fn empty() -> Self {
        Self::default()
    }

    /// Returns the codes `lo..=hi`; empty if `lo > hi`.
    pub(super) fn range(lo: u64, hi: u64) -> Self {
        if lo > hi {
            Self::empty()
        } else {
            Self(vec![(lo, hi)])
        }
    }

    /// Returns the set of the given sorted codes.
    pub(super) fn codes(codes: impl IntoIterator<Item = u64>) -> Self {
        let mut out = Self::empty();
        for code in codes {
            out.push(code, code);
        }
        out
    }

    /// Returns the codes of `0..=max_code` that match `predicate`.
    pub(super) fn matching(predicate: &CodePredicate, max_code: u64) -> Self {
        match predicate {
            CodePredicate::Any => Self::range(0, max_code),
            CodePredicate::Range { lo, hi } => Self::range(*lo, *hi),
            CodePredicate::Set(codes) => Self::codes(codes.iter().copied()),
            CodePredicate::Nothing => Self::empty(),
        }
    }

    /// Appends a range that begins at or after the last one's begin.
    fn push(&mut self, lo: u64, hi: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 == u64::MAX || lo <= last.1 + 1 => last.1 = last.1.max(hi),
            _ => self.0.push((lo, hi)),
        }
    }

    /// Returns the codes in either set.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut out = Self::empty();
        for (lo, hi) in all {
            out.push(lo, hi);
        }
        out
    }

    /// Returns the codes in both sets.
    pub(super) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::new();
        while let (Some(&&(a, b)), Some(&&(c, d))) = (left.peek(), right.peek()) {
            let (lo, hi) = (a.max(c), b.min(d));
            if lo <= hi {
                out.push((lo, hi));
            }
            if b < d {
                left.next();
            } else {
                right.next();
            }
        }
        Self(out)
    }

    /// Returns the codes of `within` that are not in this set.
    pub(super) fn complement(&self, within: &Self) -> Self {
        let mut gaps = Vec::new();
        let mut next = Some(0);
        for &(lo, hi) in &self.0 {
            if let Some(from) = next
                && from < lo
            {
                gaps.push((from, lo - 1));
            }
            next = hi.checked_add(1);
        }
        if let Some(from) = next {
            gaps.push((from, u64::MAX));
        }
        Self(gaps).intersect(within)
    }

    /// Returns the smallest and the largest code; `None` if the set is empty.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// Returns the set as a predicate over `0..=max_code`, if there is an exact one.
    pub(super) fn to_predicate(&self, max_code: u64) -> Option<CodePredicate> {
        match self.0.as_slice() {
            [] => Some(CodePredicate::Nothing),
            [(0, hi)] if *hi >= max_code => Some(CodePredicate::Any),
            [(lo, hi)] => Some(CodePredicate::range(*lo, *hi)),
            many => {
                let codes = many.iter().try_fold(0u64, |sum, (lo, hi)| {
                    let sum = sum.checked_add(hi - lo)?.checked_add(1)?;
                    (sum <= MAX_SET).then_some(sum)
                });
                codes.map(|_| CodePredicate::Set(many.iter().flat_map(|(lo, hi)| *lo..=*hi).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(set: &Intervals) -> Vec<u64> {
        set.0.iter().flat_map(|(lo, hi)| *lo..=*hi).collect()
    }

    fn set() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::btree_set(0u64..40, 0..40).prop_map(|s| s.into_iter().collect())
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets(a in set(), b in set()) {
            let (left, right) = (Intervals::codes(a.clone()), Intervals::codes(b.clone()));
            let mut union: Vec<u64> = a.iter().chain(&b).copied().collect();
            union.sort_unstable();
            union.dedup();
            prop_assert_eq!(members(&left.union(&right)), union);
            let both: Vec<u64> = a.iter().filter(|x| b.contains(x)).copied().collect();
            prop_assert_eq!(members(&left.intersect(&right)), both);
            let rest: Vec<u64> = (5..=30).filter(|x| !a.contains(x)).collect();
            prop_assert_eq!(members(&left.complement(&Intervals::range(5, 30))), rest);
            let predicate = left.to_predicate(39).unwrap();
            for code in 0..40 {
                prop_assert_eq!(predicate.matches(code), a.contains(&code));
            }
        }
    }

    #[test]
    fn the_ends_of_u64_do_not_overflow() {
        let all = Intervals::range(0, u64::MAX);
        assert_eq!(all.complement(&all), Intervals::empty());
        assert_eq!(Intervals::empty().complement(&all), all);
        let but_one = Intervals::range(7, 7).complement(&all);
        assert_eq!(but_one.to_predicate(u64::MAX), None);
        assert_eq!(but_one.union(&Intervals::range(7, 7)), all);
        assert_eq!(all.to_predicate(u64::MAX), Some(CodePredicate::Any));
    }
}
