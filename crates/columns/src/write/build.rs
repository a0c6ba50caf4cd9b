//! From conditions on values to conditions on codes, and back into words.
//!
//! A value becomes the interval of keys that equal it: one key as a rule, two for a float zero, none (an
//! empty interval at the right place) for what is not in the dictionary, and one beyond all keys for a
//! decimal that does not fit 64 bits in a column with keys. Every builder works on these intervals; i128
//! leaves room at both ends.

use crate::read::bytes_array::for_each_bytes;
use crate::read::space::CodeSpace;
use crate::write::physical::{Native, Physical, append_keys, is_text, native_values};
use crate::{CodePredicate, ColumnsError, Result};
use arrow_array::Array;
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use std::ops::Bound;

/// Keys that equal a value: `lo..=hi`, empty if `lo > hi`.
#[derive(Debug, Clone, Copy)]
struct Interval {
    lo: i128,
    hi: i128,
}

impl Interval {
    fn one(key: u64) -> Self {
        Self {
            lo: i128::from(key),
            hi: i128::from(key),
        }
    }
}

/// Maximum number of values of a set that [`CodeSpace::describe`] spells out.
const MAX_DESCRIBED_VALUES: usize = 8;

impl CodeSpace {
    /// Returns the condition for rows equal to `value`, an array of length 1 of the column's type (any string
    /// type for strings). NULL equals nothing; NaN equals NaN and -0.0 equals 0.0.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`].
    pub fn equal(&self, value: &dyn Array) -> Result<CodePredicate> {
        Ok(match self.interval(value)? {
            Some(Interval { lo, hi }) => self.between(lo, hi),
            None => CodePredicate::Nothing,
        })
    }

    /// Returns the condition for rows between two values, each an array of length 1 of the column's type.
    /// NULL is never between; a NULL bound matches nothing; two open bounds match everything that is not
    /// NULL.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`].
    pub fn range(&self, lo: Bound<&dyn Array>, hi: Bound<&dyn Array>) -> Result<CodePredicate> {
        let interval = |value: &dyn Array| self.interval(value);
        let lo = match lo {
            Bound::Unbounded => Some(i128::MIN),
            Bound::Included(value) => interval(value)?.map(|keys| keys.lo),
            Bound::Excluded(value) => interval(value)?.map(|keys| keys.hi + 1),
        };
        let hi = match hi {
            Bound::Unbounded => Some(i128::MAX),
            Bound::Included(value) => interval(value)?.map(|keys| keys.hi),
            Bound::Excluded(value) => interval(value)?.map(|keys| keys.lo - 1),
        };
        Ok(match (lo, hi) {
            (Some(lo), Some(hi)) => self.between(lo, hi),
            _ => CodePredicate::Nothing,
        })
    }

    /// Returns the condition for rows equal to one of `values`, an array of the column's type; its NULLs are
    /// ignored. O(n log n).
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`].
    pub fn set(&self, values: &dyn Array) -> Result<CodePredicate> {
        let mut codes = Vec::with_capacity(values.len());
        for keys in self.intervals(values)?.into_iter().flatten() {
            if let Some((lo, hi)) = self.codes_between(keys.lo, keys.hi) {
                // One code, or those of two float zeros.
                codes.extend(lo..=hi);
            }
        }
        Ok(CodePredicate::set(codes))
    }

    /// Returns the condition for rows that are NULL.
    pub fn is_null(&self) -> CodePredicate {
        self.null_code()
            .map_or(CodePredicate::Nothing, CodePredicate::equal)
    }

    /// Returns the condition for rows that are not NULL.
    pub fn is_not_null(&self) -> CodePredicate {
        self.between(i128::MIN, i128::MAX)
    }

    /// Returns the condition for strings that start with `prefix`.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`] if the column does not hold strings.
    pub fn prefix(&self, prefix: &str) -> Result<CodePredicate> {
        match self.dictionary() {
            Some(dictionary) if is_text(self.data_type()) => {
                let ranks = dictionary.prefix_range(prefix.as_bytes())?;
                Ok(self.between(i128::from(ranks.start), i128::from(ranks.end) - 1))
            }
            _ => Err(ColumnsError::TypeMismatch {
                column: "prefix".into(),
                expected: self.data_type().clone(),
                got: DataType::Utf8,
            }),
        }
    }

    /// Returns the condition for rows whose key lies in `lo..=hi`, clamped to the column's own keys.
    fn between(&self, lo: i128, hi: i128) -> CodePredicate {
        match self.codes_between(lo, hi) {
            Some((0, hi)) if hi == self.max_code() => CodePredicate::Any,
            Some((lo, hi)) => CodePredicate::range(lo, hi),
            None => CodePredicate::Nothing,
        }
    }

    /// Returns the first and the last code of the column's own keys in `lo..=hi`; `None` if there are none.
    fn codes_between(&self, lo: i128, hi: i128) -> Option<(u64, u64)> {
        let (min, max) = self.keys()?;
        let (lo, hi) = (lo.max(i128::from(min)), hi.min(i128::from(max)));
        // Clamped to keys, both lie within u64.
        (lo <= hi).then(|| (self.code(lo as u64), self.code(hi as u64)))
    }

    fn interval(&self, value: &dyn Array) -> Result<Option<Interval>> {
        let intervals = self.intervals(value)?;
        match intervals[..] {
            [interval] => Ok(interval),
            _ => Err(ColumnsError::OutsideDomain {
                what: format!("an array of {} values where one is needed", value.len()),
                max_code: self.max_code(),
            }),
        }
    }

    /// Returns the interval of keys that equal each of `values`; `None` for NULL.
    fn intervals(&self, values: &dyn Array) -> Result<Vec<Option<Interval>>> {
        let values = self.same_type(values)?;
        let values = values.get();
        let mut intervals = Vec::with_capacity(values.len());
        match (self.physical(), self.dictionary()) {
            (_, Some(dictionary)) => {
                for_each_bytes(values, |value| {
                    let interval = match value {
                        Some(value) => Some(Interval {
                            lo: i128::from(dictionary.lower_bound(value)?),
                            hi: i128::from(dictionary.upper_bound(value)?) - 1,
                        }),
                        None => None,
                    };
                    intervals.push(interval);
                    Ok::<(), ColumnsError>(())
                })?;
            }
            (Physical::I128, None) => {
                // Beyond 64 bits the key of the value itself is beyond all keys, too.
                let key_of = |value: i128| value - i128::from(i64::MIN);
                for (row, &value) in native_values::<i128>(&values.to_data()).iter().enumerate() {
                    let key = i64::try_from(value).map_or_else(
                        |_| if value > 0 { i128::from(u64::MAX) + 1 } else { -1 },
                        |_| key_of(value),
                    );
                    intervals.push(values.is_valid(row).then_some(Interval { lo: key, hi: key }));
                }
            }
            (physical, None) => {
                let mut keys = Vec::with_capacity(values.len());
                let fits = append_keys(values, physical, &mut keys);
                debug_assert!(fits.is_ok(), "only decimals can be too wide");
                let zero = zero_keys(physical);
                intervals.extend(keys.iter().enumerate().map(|(row, &key)| {
                    values.is_valid(row).then(|| match zero {
                        Some((negative, positive)) if key == negative || key == positive => Interval {
                            lo: i128::from(negative),
                            hi: i128::from(positive),
                        },
                        _ => Interval::one(key),
                    })
                }));
            }
        }
        Ok(intervals)
    }

    /// Formats `predicate` with values instead of codes, for EXPLAIN: `= 5`,
    /// `between 1994-01-01 and 1994-12-31`, `>= 7`, `in (AIR, RAIL)`, `is null`.
    pub fn describe(&self, predicate: &CodePredicate) -> String {
        let first = u64::from(self.has_null());
        let max = self.max_code();
        let value = |code: u64| match self
            .decode(&[code.min(max)])
            .and_then(|v| Ok(array_value_to_string(&v, 0)?))
        {
            Ok(text) => text,
            Err(_) => format!("code {code}"),
        };
        match predicate {
            CodePredicate::Any => "any".into(),
            CodePredicate::Nothing => "nothing".into(),
            CodePredicate::Range { lo, hi } if lo == hi && Some(*lo) == self.null_code() => "is null".into(),
            CodePredicate::Range { lo, hi } if lo == hi => format!("= {}", value(*lo)),
            CodePredicate::Range { lo, hi } => match (*lo <= first, *hi >= max) {
                (true, true) if *lo < first => "any".into(),
                (true, true) => "is not null".into(),
                (true, false) if *lo < first => format!("is null or <= {}", value(*hi)),
                (true, false) => format!("<= {}", value(*hi)),
                (false, true) => format!(">= {}", value(*lo)),
                (false, false) => format!("between {} and {}", value(*lo), value(*hi)),
            },
            CodePredicate::Set(codes) => {
                let mut words: Vec<String> = codes
                    .iter()
                    .take(MAX_DESCRIBED_VALUES)
                    .map(|&code| {
                        if Some(code) == self.null_code() {
                            "null".into()
                        } else {
                            value(code)
                        }
                    })
                    .collect();
                if codes.len() > MAX_DESCRIBED_VALUES {
                    words.push(format!("… {} values", codes.len()));
                }
                format!("in ({})", words.join(", "))
            }
        }
    }
}

/// Returns the keys of -0.0 and 0.0 of a float type; `None` for other types.
fn zero_keys(physical: Physical) -> Option<(u64, u64)> {
    let positive = match physical {
        Physical::F16 => half::f16::ZERO.key(),
        Physical::F32 => 0f32.key(),
        Physical::F64 => 0f64.key(),
        _ => return None,
    };
    Some((positive - 1, positive))
}
