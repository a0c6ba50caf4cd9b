//! Predicates on the codes of one column.

/// A condition on the codes of one column. NULL is an ordinary code (0, in a column that holds NULLs), so a
/// condition that must not match NULL leaves code 0 out; [`CodeSpace`](crate::CodeSpace) builds them so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum CodePredicate {
    /// Every row, NULLs included.
    #[default]
    Any,
    /// Rows with exactly this code.
    Equal(u64),
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
    /// Creates the condition `lo <= code <= hi` in its simplest form ([`Nothing`](Self::Nothing) if
    /// `lo > hi`).
    pub fn range(lo: u64, hi: u64) -> Self {
        match lo.cmp(&hi) {
            std::cmp::Ordering::Less => Self::Range { lo, hi },
            std::cmp::Ordering::Equal => Self::Equal(lo),
            std::cmp::Ordering::Greater => Self::Nothing,
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
            Self::Equal(wanted) => code == *wanted,
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
            Self::Equal(code) => Some((*code, *code)),
            Self::Range { lo, hi } => (lo <= hi).then_some((*lo, *hi)),
            Self::Set(codes) => Some((*codes.first()?, *codes.last()?)),
            Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_ranges_take_their_simplest_form() {
        assert_eq!(CodePredicate::set(vec![]), CodePredicate::Nothing);
        assert_eq!(CodePredicate::set(vec![7, 7]), CodePredicate::Equal(7));
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
}
