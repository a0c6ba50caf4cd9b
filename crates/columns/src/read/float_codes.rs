//! Floats of a column from their codes, without Arrow arrays.
//!
//! A code is a key counted from the column's smallest, and the keys of floats from 0.0 on are their bits
//! counted from those of negative infinity: unless the column has a negative float or NaN, a code and the
//! bits of its value differ by a constant.

use crate::read::space::CodeSpace;
use crate::write::physical::{Native, Physical};

/// The floats that the codes of a column stand for. Cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatCodes {
    /// The number to add to a code, wrapping: to get its key, or for [`FloatForm::Shifted`] the bits.
    base: u64,
    form: FloatForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FloatForm {
    /// Doubles from 0.0 to infinity.
    Shifted,
    Double,
    Single,
}

impl FloatCodes {
    /// Returns the floats of a column of doubles or single-precision floats; `None` for other types.
    pub(crate) fn from_space(space: &CodeSpace) -> Option<FloatCodes> {
        let base = space.key_to_code().wrapping_neg();
        let (first, last) = (0.0_f64.key(), f64::INFINITY.key());
        match space.physical() {
            Physical::F64 => Some(match space.keys() {
                Some((low, high)) if low >= first && high <= last => FloatCodes {
                    base: base.wrapping_sub(first),
                    form: FloatForm::Shifted,
                },
                _ => FloatCodes {
                    base,
                    form: FloatForm::Double,
                },
            }),
            Physical::F32 => Some(FloatCodes {
                base,
                form: FloatForm::Single,
            }),
            _ => None,
        }
    }

    /// Returns the value of a code, which must be one of a value of the column.
    pub fn value(self, code: u64) -> f64 {
        let key = code.wrapping_add(self.base);
        match self.form {
            FloatForm::Shifted => f64::from_bits(key),
            FloatForm::Double => f64::value(key),
            FloatForm::Single => f32::value(key).into(),
        }
    }

    /// Appends the bits of the values of codes as doubles; any bits for the code of NULL.
    pub fn append_bits(self, codes: impl Iterator<Item = u64>, bits: &mut Vec<i64>) {
        let keys = codes.map(|code| code.wrapping_add(self.base));
        // A loop for each form, so that none has a branch.
        match self.form {
            FloatForm::Shifted => bits.extend(keys.map(|key| key as i64)),
            FloatForm::Double => bits.extend(keys.map(|key| f64::value(key).to_bits() as i64)),
            FloatForm::Single => {
                bits.extend(keys.map(|key| f64::from(f32::value(key)).to_bits() as i64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Float64Type};
    use arrow_array::{ArrayRef, Float32Array, Float64Array};
    use arrow_schema::DataType;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Returns the space of a column with these values, and their codes.
    fn space(values: &ArrayRef, keys: &[u64], has_null: bool) -> (CodeSpace, Vec<u64>) {
        let bounds = keys.iter().min().zip(keys.iter().max());
        let bounds = bounds.map(|(low, high)| (*low, *high));
        let data_type = values.data_type();
        let physical = Physical::from_data_type(data_type).expect("a type of tables");
        let space = CodeSpace::of_keys(data_type, physical, has_null, bounds, 9).expect("few codes");
        let mut codes = Vec::new();
        space.encode(values, &mut codes).expect("its own values");
        (space, codes)
    }

    fn check(values: ArrayRef, keys: &[u64], wanted: &[f64], has_null: bool) {
        let (space, codes) = space(&values, keys, has_null);
        let floats = space.floats().expect("floats");
        let mut bits = vec![7];
        floats.append_bits(codes.iter().copied(), &mut bits);
        let wanted: Vec<i64> = wanted.iter().map(|value| value.to_bits() as i64).collect();
        assert_eq!(bits[0], 7);
        assert_eq!(bits[1..], wanted);
        let single: Vec<i64> = codes
            .iter()
            .map(|code| floats.value(*code).to_bits() as i64)
            .collect();
        assert_eq!(single, wanted);
    }

    fn doubles(values: &[f64], has_null: bool) {
        let keys: Vec<u64> = values.iter().map(|value| value.key()).collect();
        let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        // NaN has one form in a table.
        let wanted: Vec<f64> = values.iter().map(|value| f64::value(value.key())).collect();
        check(array, &keys, &wanted, has_null);
    }

    #[test]
    fn special_values() {
        for has_null in [false, true] {
            doubles(&[0.0, 1.5, f64::INFINITY, f64::MIN_POSITIVE, 5e-324], has_null);
            doubles(&[0.0, f64::NAN], has_null);
            doubles(&[-0.0, 0.0, f64::NEG_INFINITY, f64::MIN, -f64::NAN], has_null);
            doubles(&[-0.0], has_null);
            let values = [-0.0_f32, 0.1, f32::NEG_INFINITY, f32::MAX, f32::NAN];
            let keys: Vec<u64> = values.iter().map(|value| value.key()).collect();
            let array: ArrayRef = Arc::new(Float32Array::from(values.to_vec()));
            check(array, &keys, &values.map(f64::from), has_null);
        }
        let (space, _) = space(
            &(Arc::new(Float64Array::from(vec![0.0; 0])) as ArrayRef),
            &[],
            true,
        );
        assert!(space.floats().is_some());
        let integers = CodeSpace::of_keys(&DataType::Int32, Physical::I32, false, Some((0, 9)), 9);
        assert_eq!(integers.expect("few codes").floats(), None);
    }

    proptest! {
        #[test]
        fn as_decoded(bits in proptest::collection::vec(any::<u64>(), 1..40), sign in any::<bool>()) {
            let mask = if sign { u64::MAX } else { u64::MAX >> 1 };
            let values: Vec<f64> = bits.iter().map(|bits| f64::from_bits(bits & mask)).collect();
            doubles(&values, false);
            let keys: Vec<u64> = values.iter().map(|value| value.key()).collect();
            let (space, codes) = space(&(Arc::new(Float64Array::from(values)) as ArrayRef), &keys, true);
            let decoded = space.decode(&codes).expect("its own codes");
            let floats = space.floats().expect("floats");
            for (row, code) in codes.iter().enumerate() {
                let wanted = decoded.as_primitive::<Float64Type>().value(row);
                prop_assert_eq!(floats.value(*code).to_bits(), wanted.to_bits());
            }
        }

        #[test]
        fn narrow_as_decoded(bits in proptest::collection::vec(any::<u32>(), 1..40)) {
            let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
            let keys: Vec<u64> = values.iter().map(|value| value.key()).collect();
            let (space, codes) = space(&(Arc::new(Float32Array::from(values)) as ArrayRef), &keys, true);
            let decoded = space.decode(&codes).expect("its own codes");
            let floats = space.floats().expect("floats");
            for (row, code) in codes.iter().enumerate() {
                let wanted = f64::from(decoded.as_primitive::<Float32Type>().value(row));
                prop_assert_eq!(floats.value(*code).to_bits(), wanted.to_bits());
            }
        }
    }
}
