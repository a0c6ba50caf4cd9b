//! Decimals of more than 64 bits: values without a key, stored as byte strings that sort like them.
//!
//! A column of decimals has keys (`physical.rs`) in every segment whose values all fit an i64. In any other
//! segment all of its values are stored like strings: a dictionary with ranks, or strings as they are. Such a
//! string is the unscaled value, 16 bytes with the highest first and the sign bit flipped, so that comparing
//! the bytes compares the numbers. Which of the two a segment has, the kind of its column says.
//!
//! The codes of such a column are ranks, or missing; `integer_base` is missing, so the star join falls back
//! to the general plan. Filters, zone maps, indexes and sorting work on ranks and bytes, as for strings. A
//! merge gives keys back to a column that has no wide value left.

use crate::read::space::unpack_dictionary;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Decimal128Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// Bytes of a decimal that is stored as a string.
pub(crate) const WIDE_BYTES: usize = 16;

const SIGN: u128 = 1 << 127;

/// Encodes an unscaled value as a byte string that sorts like the value.
#[inline]
pub(crate) fn to_bytes(value: i128) -> [u8; WIDE_BYTES] {
    (value as u128 ^ SIGN).to_be_bytes()
}

/// Decodes the unscaled value of a byte string; `None` unless it has [`WIDE_BYTES`] bytes.
#[inline]
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<i128> {
    let bytes: [u8; WIDE_BYTES] = bytes.try_into().ok()?;
    Some((u128::from_be_bytes(bytes) ^ SIGN) as i128)
}

/// Returns true if an unscaled value has no key.
#[inline]
pub(crate) fn is_wide(value: i128) -> bool {
    i128::from(value as i64) != value
}

/// Returns true if values of this type may have no key.
pub(crate) fn may_be_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

/// Returns true if an array, or the values of a dictionary array, are decimals of which one, NULL slots
/// apart, has more than 64 bits.
pub fn holds_wide_decimals(array: &dyn Array) -> bool {
    let Ok(plain) = unpack_dictionary(array) else {
        return false;
    };
    let Some(decimals) = plain.get().as_primitive_opt::<Decimal128Type>() else {
        return false;
    };
    // In one go: no branch for each value.
    let any = decimals
        .values()
        .iter()
        .fold(false, |any, value| any | is_wide(*value));
    any && decimals.iter().flatten().any(is_wide)
}

/// Builds an array of decimals from their byte strings in `bytes`. The first of `ends` is the start of the
/// first string, the others are the end of each. A NULL takes no bytes.
///
/// # Errors
/// If a string has another length, which means damage.
pub(crate) fn array(
    data_type: &DataType,
    bytes: &[u8],
    ends: &[i64],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let value = |(row, ends): (usize, &[i64])| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(0);
        }
        let string = &bytes[ends[0] as usize..ends[1] as usize];
        from_bytes(string).ok_or_else(|| {
            let what = format!(
                "a decimal is stored in {} bytes instead of {WIDE_BYTES}",
                string.len()
            );
            ArrowError::InvalidArgumentError(what)
        })
    };
    let values = ends.windows(2).enumerate().map(value);
    let values: Vec<i128> = values.collect::<Result<_, _>>()?;
    let decimals = Decimal128Array::try_new(values.into(), nulls)?;
    Ok(Arc::new(decimals.with_data_type(data_type.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_is_what_leaves_64_bits() {
        let ends = [i64::MIN, -1, 0, i64::MAX].map(i128::from);
        assert!(ends.iter().all(|value| !is_wide(*value)));
        let beyond = [
            i128::from(i64::MAX) + 1,
            i128::from(i64::MIN) - 1,
            i128::MAX,
            i128::MIN,
        ];
        assert!(beyond.iter().all(|value| is_wide(*value)));
        let array =
            |values: Vec<i128>, nulls: Vec<bool>| Decimal128Array::new(values.into(), Some(nulls.into()));
        assert!(holds_wide_decimals(&array(vec![1, i128::MAX], vec![true, true])));
        assert!(!holds_wide_decimals(&array(
            vec![1, i128::MAX],
            vec![true, false]
        )));
        assert_eq!(from_bytes(&[0; 15]), None);
        assert!(super::array(&DataType::Decimal128(38, 0), &[0; 15], &[0, 15], None).is_err());
    }

    proptest! {
        #[test]
        fn strings_sort_like_the_numbers(a in any::<i128>(), b in any::<i128>(), narrow in any::<i64>()) {
            for (a, b) in [(a, b), (a, narrow.into()), (narrow.into(), b), (a, a)] {
                prop_assert_eq!(to_bytes(a).cmp(&to_bytes(b)), a.cmp(&b));
                prop_assert_eq!(from_bytes(&to_bytes(a)), Some(a));
            }
            prop_assert!(!is_wide(narrow.into()));
        }
    }
}
