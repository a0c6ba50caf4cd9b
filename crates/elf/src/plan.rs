//! Predicates in the form that the kernels evaluate.

use crate::geometry::{MAX_DIMS, RecordGeometry};
use crate::kernel::CodeRange;
use crate::{CodePredicate, ElfError, Result};

/// Sets up to this span also get a bitmap.
const BITMAP_SPAN: u64 = 1 << 16;

/// Condition on one dimension, clamped to its codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    Any,
    Range(CodeRange),
    Set(Box<Set>),
}

/// Sorted codes, with a bitmap if they are close together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) codes: Vec<u64>,
    pub(crate) bounds: CodeRange,
    bits: Vec<u64>,
}

impl Set {
    fn new(codes: Vec<u64>) -> Option<Self> {
        let (&lo, &hi) = (codes.first()?, codes.last()?);
        let span = hi - lo;
        let mut bits = vec![];
        if span < BITMAP_SPAN {
            bits = vec![0; span as usize / 64 + 1];
            for code in &codes {
                bits[((code - lo) / 64) as usize] |= 1 << ((code - lo) % 64);
            }
        }
        Some(Self {
            codes,
            bounds: CodeRange { lo, span },
            bits,
        })
    }

    pub(crate) fn holds(&self, code: u64) -> bool {
        if self.bits.is_empty() {
            return self.codes.binary_search(&code).is_ok();
        }
        let at = code.wrapping_sub(self.bounds.lo);
        at <= self.bounds.span && self.bits[(at / 64) as usize] >> (at % 64) & 1 == 1
    }
}

impl Test {
    /// Returns the test; `None` if no code up to `max` matches.
    pub(crate) fn new(predicate: &CodePredicate, max: u64) -> Option<Self> {
        match predicate {
            CodePredicate::Any => Some(Self::Any),
            CodePredicate::Range { lo, hi } => Self::between(*lo, *hi, max),
            CodePredicate::Set(codes) => {
                let mut codes: Vec<u64> = codes.iter().copied().filter(|&code| code <= max).collect();
                codes.sort_unstable();
                codes.dedup();
                Self::one_of(codes, max)
            }
            CodePredicate::Nothing => None,
        }
    }

    /// Returns the test for one of `codes`, which are sorted, distinct and at most `max`; `None` if there are
    /// none.
    pub(crate) fn one_of(codes: Vec<u64>, max: u64) -> Option<Self> {
        match (codes.first(), codes.last()) {
            (Some(&lo), Some(&hi)) if hi - lo == codes.len() as u64 - 1 => Self::between(lo, hi, max),
            _ => Set::new(codes).map(|set| Self::Set(Box::new(set))),
        }
    }

    fn between(lo: u64, hi: u64, max: u64) -> Option<Self> {
        let hi = hi.min(max);
        match (lo, hi) {
            (lo, hi) if lo > hi => None,
            (0, hi) if hi == max => Some(Self::Any),
            (lo, hi) => Some(Self::Range(CodeRange { lo, span: hi - lo })),
        }
    }
}

/// A conjunction of conditions, one for each dimension.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) tests: Vec<Test>,
    /// The restricted dimensions, ascending.
    restricted: [u8; MAX_DIMS],
    count: usize,
    /// From this dimension on all are `Any`.
    pub(crate) open_from: usize,
}

impl Plan {
    /// Returns the plan; `None` if no row can match.
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`].
    pub(crate) fn new(predicates: &[CodePredicate], geometry: &RecordGeometry) -> Result<Option<Self>> {
        if predicates.len() != geometry.dims() {
            return Err(ElfError::WrongDimensions {
                expected: geometry.dims(),
                found: predicates.len(),
            });
        }
        let mut tests = Vec::with_capacity(predicates.len());
        for (predicate, &max) in predicates.iter().zip(&geometry.max_codes) {
            match Test::new(predicate, max) {
                Some(test) => tests.push(test),
                None => return Ok(None),
            }
        }
        Ok(Some(Self::from_tests(tests)))
    }

    /// Creates a plan of at most [`MAX_DIMS`] tests.
    pub(crate) fn from_tests(tests: Vec<Test>) -> Self {
        let (mut restricted, mut count) = ([0; MAX_DIMS], 0);
        for (dim, _) in tests
            .iter()
            .enumerate()
            .filter(|(_, test)| !matches!(test, Test::Any))
        {
            restricted[count] = dim as u8;
            count += 1;
        }
        let open_from = if count == 0 {
            0
        } else {
            usize::from(restricted[count - 1]) + 1
        };
        Self {
            tests,
            restricted,
            count,
            open_from,
        }
    }

    /// Returns the restricted dimensions in ascending order.
    pub(crate) fn restricted(&self) -> &[u8] {
        &self.restricted[..self.count]
    }

    /// Returns the restricted dimensions beyond `depth`.
    #[inline]
    pub(crate) fn rest(&self, depth: usize) -> &[u8] {
        let first = self.restricted().iter().position(|&dim| usize::from(dim) > depth);
        &self.restricted()[first.unwrap_or(self.count)..]
    }
}
