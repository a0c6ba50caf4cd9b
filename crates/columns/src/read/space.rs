//! The order-preserving map between the values of one column (in one segment) and its codes.
//!
//! Invariants: codes sort like the values; NULL is code 0 iff the column holds NULLs, and then values start
//! at 1; the smallest value has the smallest code of a value; `max_code` belongs to the largest value. For
//! fixed-size types a code is `key - smallest key` (+ 1), so values that lie between the column's own have
//! codes too; for strings, and decimals that are stored like strings, a code is the rank in the sorted
//! dictionary (+ 1).
//!
//! Decided: all NaNs are one value, the largest; -0.0 and 0.0 have two neighbouring codes, so the sign is
//! kept, and predicates treat them as equal (`equal(0.0)` is a range of both).

use crate::format::wide;
use crate::read::bytes_array::{BytesBuilder, for_each_bytes};
use crate::read::dictionary::Dictionary;
use crate::read::float_codes::FloatCodes;
use crate::write::physical::{Physical, append_keys, array_from_keys, storage_type};
use crate::{ColumnsError, Result};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;

/// Order-preserving codes of one column of one segment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CodeSpace {
    data_type: DataType,
    physical: Physical,
    has_null: bool,
    /// Smallest and largest key (rank in a dictionary); `None` if there is no value but NULL.
    keys: Option<(u64, u64)>,
    distinct: u64,
    dictionary: Option<Dictionary>,
}

impl CodeSpace {
    /// Creates the code space of a fixed-size column with these smallest and largest keys; `None` if 64 bits
    /// cannot number its values and NULL.
    pub(crate) fn of_keys(
        data_type: &DataType,
        physical: Physical,
        has_null: bool,
        keys: Option<(u64, u64)>,
        distinct: u64,
    ) -> Option<Self> {
        if has_null && keys == Some((0, u64::MAX)) {
            return None;
        }
        Some(Self {
            data_type: data_type.clone(),
            physical,
            has_null,
            keys,
            distinct,
            dictionary: None,
        })
    }

    /// Creates the code space of a column of `data_type` (a string or binary type, or decimals stored like
    /// strings) with the values of `dictionary`. An index uses it to give codes to a column that has none.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`] if `data_type` is another type.
    pub fn from_dictionary(data_type: &DataType, dictionary: Dictionary, has_null: bool) -> Result<Self> {
        let data_type = storage_type(data_type);
        if !is_rankable(&data_type) {
            return Err(ColumnsError::TypeMismatch {
                column: "dictionary".into(),
                expected: DataType::Utf8,
                got: data_type,
            });
        }
        let distinct = dictionary.len() as u64;
        let keys = distinct.checked_sub(1).map(|last| (0, last));
        Ok(Self {
            data_type,
            physical: Physical::Bytes,
            has_null,
            keys,
            distinct,
            dictionary: Some(dictionary),
        })
    }

    /// Returns the type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the largest code; 0 if there is no row, or only NULLs.
    pub fn max_code(&self) -> u64 {
        self.keys.map_or(0, |(_, max)| self.code(max))
    }

    /// Returns true if the column holds NULLs (then NULL is code 0).
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    /// Returns the code of NULL, if the column holds NULLs.
    pub fn null_code(&self) -> Option<u64> {
        self.has_null.then_some(0)
    }

    /// Returns the number of distinct values, not counting NULL: exact if there is a dictionary, otherwise
    /// estimated (to a few percent).
    pub fn distinct_estimate(&self) -> u64 {
        self.distinct
    }

    /// Returns the number to add to a code (wrapping) to get its value, for columns of integers, dates,
    /// times, and decimals without their point if those of the segment all have 64 bits. `None` for other
    /// types and for UInt64. O(1).
    pub fn integer_base(&self) -> Option<i64> {
        const SIGN: u64 = 1 << 63;
        let base = self.key_to_code().wrapping_neg();
        match self.physical {
            Physical::I8 | Physical::I16 | Physical::I32 | Physical::I64 | Physical::I128 => {
                Some((base ^ SIGN) as i64)
            }
            Physical::U8 | Physical::U16 | Physical::U32 => Some(base as i64),
            _ => None,
        }
    }

    /// Returns the map from codes to values of a column of doubles or single-precision floats; `None` for
    /// other types. O(1).
    pub fn floats(&self) -> Option<FloatCodes> {
        FloatCodes::from_space(self)
    }

    /// Returns the dictionary of a column of strings, or of decimals stored like strings.
    pub fn dictionary(&self) -> Option<&Dictionary> {
        self.dictionary.as_ref()
    }

    pub(crate) fn physical(&self) -> Physical {
        self.physical
    }

    /// Returns the smallest and the largest key; `None` if there is no value but NULL.
    pub(crate) fn keys(&self) -> Option<(u64, u64)> {
        self.keys
    }

    /// Returns the code of a key, which must lie within the column's keys.
    #[inline]
    pub(crate) fn code(&self, key: u64) -> u64 {
        key - self.first_key() + u64::from(self.has_null)
    }

    /// Returns the number to add to a key to get its code (wrapping).
    pub(crate) fn key_to_code(&self) -> u64 {
        u64::from(self.has_null).wrapping_sub(self.first_key())
    }

    fn first_key(&self) -> u64 {
        self.keys.map_or(0, |(min, _)| min)
    }

    /// Returns `values` if they have the column's own type: dictionary arrays are unpacked, and the six
    /// string and binary types are interchangeable.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`] for other types.
    pub(crate) fn same_type<'a>(&self, values: &'a dyn Array) -> Result<Plain<'a>> {
        unpack_dictionary(values).and_then(|values| {
            let got = values.get().data_type();
            let strings = |data_type: &DataType| Physical::from_data_type(data_type) == Some(Physical::Bytes);
            let same = *got == self.data_type || (strings(&self.data_type) && strings(got));
            let got = got.clone();
            if same {
                return Ok(values);
            }
            Err(ColumnsError::TypeMismatch {
                column: "code space".into(),
                expected: self.data_type.clone(),
                got,
            })
        })
    }

    /// Appends the code of each of `values`. O(1) per value, O(log n) in the dictionary for strings.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`]; [`ColumnsError::OutsideDomain`] for a value that is not between the
    /// column's smallest and largest (for strings: not in the dictionary), or a NULL where the column has
    /// none.
    pub fn encode(&self, values: &dyn Array, codes: &mut Vec<u64>) -> Result<()> {
        let values = self.same_type(values)?;
        let values = values.get();
        let outside = |row: usize| ColumnsError::OutsideDomain {
            what: array_value_to_string(values, row).unwrap_or_else(|error| error.to_string()),
            max_code: self.max_code(),
        };
        let mut row = 0;
        if let Some(dictionary) = &self.dictionary {
            let shift = u64::from(self.has_null);
            return for_each_bytes(values, |value| {
                let code = match value {
                    Some(value) => dictionary.find(value)?.map(|rank| rank + shift),
                    None => self.null_code(),
                };
                codes.push(code.ok_or_else(|| outside(row))?);
                row += 1;
                Ok(())
            });
        }
        let start = codes.len();
        append_keys(values, self.physical, codes).map_err(outside)?;
        for (row, code) in codes[start..].iter_mut().enumerate() {
            *code = if values.is_null(row) {
                self.null_code().ok_or_else(|| outside(row))?
            } else {
                let within = self.keys.filter(|(min, max)| (min..=max).contains(&&*code));
                within.map(|_| self.code(*code)).ok_or_else(|| outside(row))?
            };
        }
        Ok(())
    }

    /// Appends the codes of those of `values` that the column may have: NULL, values outside of its bounds,
    /// and strings that are not in the dictionary are left out. O(1) per value, O(log n) in the
    /// dictionary for strings.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`]; [`ColumnsError::OutsideDomain`] for a decimal of more than 64 bits.
    pub fn encode_present(&self, values: &dyn Array, codes: &mut Vec<u64>) -> Result<()> {
        let values = self.same_type(values)?;
        let values = values.get();
        if let Some(dictionary) = &self.dictionary {
            let shift = u64::from(self.has_null);
            return for_each_bytes(values, |value| {
                let rank = value.map(|value| dictionary.find(value)).transpose()?;
                codes.extend(rank.flatten().map(|rank| rank + shift));
                Ok(())
            });
        }
        let Some((min, max)) = self.keys else {
            return Ok(());
        };
        let start = codes.len();
        append_keys(values, self.physical, codes).map_err(|row| ColumnsError::OutsideDomain {
            what: array_value_to_string(values, row).unwrap_or_else(|error| error.to_string()),
            max_code: self.max_code(),
        })?;
        let mut kept = start;
        for row in start..codes.len() {
            let key = codes[row];
            if (min..=max).contains(&key) && values.is_valid(row - start) {
                codes[kept] = self.code(key);
                kept += 1;
            }
        }
        codes.truncate(kept);
        Ok(())
    }

    /// Decodes `codes` to an array of [`data_type`](Self::data_type). O(1) per code.
    ///
    /// # Errors
    /// [`ColumnsError::OutsideDomain`] for a code above `max_code`; [`ColumnsError::Damaged`] if a string of
    /// the dictionary is not UTF-8.
    pub fn decode(&self, codes: &[u64]) -> Result<ArrayRef> {
        let max_code = self.max_code();
        let outside = |code: u64| ColumnsError::OutsideDomain {
            what: format!("code {code}"),
            max_code,
        };
        let no_value = self.keys.is_none();
        if let Some(&code) = codes
            .iter()
            .find(|&&code| code > max_code || (no_value && !self.has_null))
        {
            return Err(outside(code));
        }
        let shift = u64::from(self.has_null);
        if let Some(dictionary) = &self.dictionary {
            let mut builder = BytesBuilder::new(&self.data_type, codes.len());
            for &code in codes {
                if code < shift {
                    builder.push_null();
                } else {
                    builder.push(dictionary.string(code - shift)?);
                }
            }
            return builder.finish_stored(dictionary.place());
        }
        let nulls = self
            .has_null
            .then(|| NullBuffer::from_iter(codes.iter().map(|&code| code != 0)));
        let base = self.first_key();
        let keys: Vec<u64> = codes
            .iter()
            .map(|&code| base.wrapping_add(code.saturating_sub(shift)))
            .collect();
        array_from_keys(&self.data_type, self.physical, &keys, nulls)
    }
}

/// Returns true if values of this type can be given codes by a dictionary of them.
pub(crate) fn is_rankable(data_type: &DataType) -> bool {
    Physical::from_data_type(data_type) == Some(Physical::Bytes) || wide::may_be_wide(data_type)
}

/// An array that was unpacked, or one that needed not to be.
pub(crate) enum Plain<'a> {
    Borrowed(&'a dyn Array),
    Owned(ArrayRef),
}

impl Plain<'_> {
    pub(crate) fn get(&self) -> &dyn Array {
        match self {
            Self::Borrowed(array) => *array,
            Self::Owned(array) => array,
        }
    }
}

/// Unpacks a dictionary array to a plain one; returns any other array unchanged.
///
/// # Errors
/// [`ColumnsError::Arrow`] if a dictionary array is corrupt.
pub(crate) fn unpack_dictionary(values: &dyn Array) -> Result<Plain<'_>> {
    match values.data_type() {
        DataType::Dictionary(..) => {
            let plain = arrow_cast::cast(values, &storage_type(values.data_type()))?;
            Ok(Plain::Owned(plain))
        }
        _ => Ok(Plain::Borrowed(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_is_not_utf8_names_its_dictionary() {
        let bytes = Dictionary::encode([b"\xff".as_slice()]);
        let dictionary = Dictionary::from_vec(bytes).expect("one string");
        let space = CodeSpace::from_dictionary(&DataType::Utf8View, dictionary, false).expect("a text type");
        let error = space.decode(&[0]).expect_err("the string is not UTF-8");
        assert!(
            matches!(&error, ColumnsError::Damaged { place, .. } if place == "dictionary"),
            "{error}"
        );
    }
}
