//! Predicates on the codes of one column.

/// A condition on the codes of one column. NULL is an ordinary code (0, in a column that holds NULLs), so a
/// condition that must not match NULL leaves code 0 out; [`CodeSpace`](crate::CodeSpace) builds them so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum CodePredicate {
    /// Every row, NULLs included.
    #[default]
    Any,
    /// Rows whose code lies in `lo..=hi`.
    Range {
        /// Smallest matching code.
        lo: u64,
        /// Largest matching code, at least `lo`.
        hi: u64,
    },
    /// Rows whose code is one of these: sorted, without duplicates.
    Set(Vec<u64>),
    /// No row.
    Nothing,
}

impl CodePredicate {
    /// Creates the condition that the code is `code`: a range of one.
    pub fn equal(code: u64) -> Self {
        Self::Range { lo: code, hi: code }
    }

    /// Creates the condition `lo <= code <= hi` ([`Nothing`](Self::Nothing) if `lo > hi`).
    pub fn range(lo: u64, hi: u64) -> Self {
        if lo <= hi {
            Self::Range { lo, hi }
        } else {
            Self::Nothing
        }
    }

    /// Creates the condition "one of `codes`" in its simplest form; sorts and removes duplicates. O(n log n).
    pub fn set(mut codes: Vec<u64>) -> Self {
        codes.sort_unstable();
        codes.dedup();
        match (codes.first(), codes.last()) {
            (Some(&lo), Some(&hi)) if hi - lo == codes.len() as u64 - 1 => Self::range(lo, hi),
            (Some(_), Some(_)) => Self::Set(codes),
            _ => Self::Nothing,
        }
    }

    /// Returns true if a row with this code matches. O(1), O(log n) for a set.
    pub fn matches(&self, code: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Range { lo, hi } => (*lo..=*hi).contains(&code),
            Self::Set(codes) => codes.binary_search(&code).is_ok(),
            Self::Nothing => false,
        }
    }

    /// Returns the smallest and the largest code that can match; `None` if none can. [`Any`](Self::Any) spans
    /// all of u64.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Self::Any => Some((0, u64::MAX)),
            Self::Range { lo, hi } => (lo <= hi).then_some((*lo, *hi)),
            Self::Set(codes) => Some((*codes.first()?, *codes.last()?)),
            Self::Nothing => None,
        }
    }

    /// Returns the condition that both hold, in its simplest form if theirs are. O(1), O(n log n) for sets.
    pub fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Any, test) | (test, Self::Any) => test.clone(),
            (Self::Set(codes), test) | (test, Self::Set(codes)) => {
                let common = codes.iter().copied().filter(|code| test.matches(*code));
                Self::set(common.collect())
            }
            _ => match (self.bounds(), other.bounds()) {
                (Some((a, b)), Some((c, d))) => Self::range(a.max(c), b.min(d)),
                _ => Self::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_ranges_take_their_simplest_form() {
        assert_eq!(CodePredicate::set(vec![]), CodePredicate::Nothing);
        assert_eq!(CodePredicate::set(vec![7, 7]), CodePredicate::equal(7));
        assert_eq!(
            CodePredicate::set(vec![5, 4, 6]),
            CodePredicate::Range { lo: 4, hi: 6 }
        );
        assert_eq!(CodePredicate::set(vec![9, 4]), CodePredicate::Set(vec![4, 9]));
        assert_eq!(
            CodePredicate::set(vec![0, u64::MAX]),
            CodePredicate::Set(vec![0, u64::MAX])
        );
        assert_eq!(CodePredicate::range(3, 2), CodePredicate::Nothing);
        assert!(CodePredicate::Set(vec![4, 9]).matches(9));
        assert!(!CodePredicate::Set(vec![4, 9]).matches(5));
    }

    #[test]
    fn conjunctions_match_what_both_match() {
        let predicates = [
            CodePredicate::Any,
            CodePredicate::equal(4),
            CodePredicate::range(2, 6),
            CodePredicate::range(5, u64::MAX),
            CodePredicate::set(vec![1, 4, 5, 9]),
            CodePredicate::set(vec![0, 4, 8]),
            CodePredicate::Nothing,
        ];
        for left in &predicates {
            for right in &predicates {
                let both = left.and(right);
                for code in (0..12).chain([u64::MAX]) {
                    let expected = left.matches(code) && right.matches(code);
                    assert_eq!(both.matches(code), expected, "{left:?} and {right:?} at {code}");
                }
            }
        }
        let set = CodePredicate::set(vec![1, 4, 5, 9]);
        assert_eq!(set.and(&CodePredicate::range(4, 8)), CodePredicate::range(4, 5));
        assert_eq!(set.and(&CodePredicate::range(6, 8)), CodePredicate::Nothing);
        assert_eq!(set.and(&CodePredicate::Any), set);
    }
}
