//! Keys of several columns, combined to 64 bits: the offsets from the least value of each column are the
//! digits of a number.

use crate::{JoinError, JoinResult};

/// The contribution of a column to a combined key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyDigit {
    /// The least and the greatest value in the dimension; the least is greater if it has no row.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The value that contributes 0.
    origin: i64,
    /// The factor of the distance from that value.
    place: i64,
}

impl KeyDigit {
    /// Returns the contribution of a value; `None` if it is out of the range of the dimension.
    #[inline]
    pub(super) fn contribution(&self, value: i64) -> Option<i64> {
        (self.low..=self.high)
            .contains(&value)
            .then(|| value.wrapping_sub(self.origin).wrapping_mul(self.place))
    }
}

/// Computes the digits for keys of `columns` columns, stored row by row. Keys of a single column stay
/// unchanged.
///
/// # Errors
/// [`JoinError::KeyTooWide`] if 63 bits cannot number the combinations of values between the least and the
/// greatest.
pub(super) fn digits(keys: &[i64], columns: usize) -> JoinResult<Vec<KeyDigit>> {
    let mut digits = Vec::with_capacity(columns);
    let mut place = 1_i64;
    for column in 0..columns {
        let values = || keys.iter().skip(column).step_by(columns).copied();
        let (low, high) = values().min().zip(values().max()).unwrap_or((0, -1));
        // A single column is the key itself: the distances of its values may need more than 63 bits.
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
        parts.map(|(digit, value)| digit.contribution(*value)).sum()
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
        assert_eq!(single[0].contribution(i64::MIN), Some(i64::MIN));
        assert_eq!(digits(&[], 2).expect("no rows")[1].contribution(0), None);
    }
}
