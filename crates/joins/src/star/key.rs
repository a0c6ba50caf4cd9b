//! KeyLookup of several columns as one of 64 bits: the distances from each column's least value as the digits of a number.

use crate::{JoinError, Result};

/// What a column adds to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyDigit {
    /// The least and the greatest value in the dimension; if it has no row the least is greater.
    pub(super) low: i64,
    pub(super) high: i64,
    /// What value counts for nothing.
    origin: i64,
    /// How many keys there are to each value.
    place: i64,
}

impl KeyDigit {
    /// What a value adds to a key; none if the dimension has no such value.
    #[inline]
    pub(super) fn of(&self, value: i64) -> Option<i64> {
        (self.low..=self.high)
            .contains(&value)
            .then(|| value.wrapping_sub(self.origin).wrapping_mul(self.place))
    }
}

/// The digits of keys of so many columns, which follow each other in `keys`. KeyLookup of a single column stay as they are.
///
/// # Errors
/// [`JoinError::KeyTooWide`] if 63 bits cannot number the combinations of values between the least and the greatest.
pub(super) fn digits(keys: &[i64], columns: usize) -> Result<Vec<KeyDigit>> {
    let mut digits = Vec::with_capacity(columns);
    let mut place = 1_i64;
    for column in 0..columns {
        let values = || keys.iter().skip(column).step_by(columns).copied();
        let (low, high) = values().min().zip(values().max()).unwrap_or((0, -1));
        if columns == 1 {
            return Ok(vec![KeyDigit {
                low,
                high,
                origin: 0,
                place,
            }]);
        }
        digits.push(KeyDigit {
            low,
            high,
            origin: low,
            place,
        });
        let span = i128::from(high) - i128::from(low) + 1;
        place =
            i64::try_from(i128::from(place) * span.max(1)).map_err(|_| JoinError::KeyTooWide { columns })?;
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digits: &[KeyDigit], values: &[i64]) -> Option<i64> {
        let parts = digits.iter().zip(values);
        parts.map(|(digit, value)| digit.of(*value)).sum()
    }

    #[test]
    fn keys_of_several_columns_are_all_different() {
        let rows: Vec<[i64; 3]> = (0..500)
            .map(|i| [i % 7 - 3, (1 << 40) + i / 7, i64::MIN + i % 11])
            .collect();
        let digits = digits(rows.as_flattened(), 3).expect("few");
        let keys: std::collections::BTreeSet<i64> = rows.iter().filter_map(|row| key(&digits, row)).collect();
        assert_eq!(keys.len(), 500);
        assert_eq!(key(&digits, &[4, 1 << 40, i64::MIN]), None);
        assert_eq!(key(&digits, &[0, 0, i64::MAX]), None);
    }

    #[test]
    fn combinations_beyond_63_bits_are_refused() {
        let error = digits(&[0, 0, 1 << 33, 1 << 33], 2).expect_err("66 bits");
        assert!(matches!(error, JoinError::KeyTooWide { columns: 2 }), "{error}");
        let single = digits(&[i64::MIN, i64::MAX], 1).expect("as they are");
        assert_eq!(single[0].of(i64::MIN), Some(i64::MIN));
        assert_eq!(digits(&[], 2).expect("no rows")[1].of(0), None);
    }
}
