//! Keys: every value as a u64 that sorts like the value, whatever its type.
//!
//! A *key* is absolute (the same value has the same key in every chunk and column of its type); a *code* is a
//! key counted from the column's smallest. Invariants: `key` is strictly monotonic and `value(key(v)) == v`
//! bit for bit, with one exception: all NaNs share one key, right after +inf, and come back as the standard
//! NaN. -0.0 and 0.0 have two adjacent keys (so the sign survives storage); predicates treat them as equal.

use crate::kernel::{self, Lane};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

/// How a type's values lie in Arrow buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    Bytes,
}

impl Physical {
    /// Returns the physical form of a type that tables can store; `None` for others.
    pub(crate) fn from_data_type(data_type: &DataType) -> Option<Self> {
        use DataType as D;
        Some(match data_type {
            D::Boolean => Self::Bool,
            D::Int8 => Self::I8,
            D::Int16 => Self::I16,
            D::Int32 | D::Date32 | D::Time32(_) | D::Decimal32(..) => Self::I32,
            D::Int64 | D::Date64 | D::Time64(_) | D::Timestamp(..) | D::Duration(_) | D::Decimal64(..) => {
                Self::I64
            }
            D::Decimal128(..) => Self::I128,
            D::UInt8 => Self::U8,
            D::UInt16 => Self::U16,
            D::UInt32 => Self::U32,
            D::UInt64 => Self::U64,
            D::Float16 => Self::F16,
            D::Float32 => Self::F32,
            D::Float64 => Self::F64,
            D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView => Self::Bytes,
            _ => return None,
        })
    }
}

impl Physical {
    /// Returns the number of bits of the lane that holds a value; for strings, that of a string's number.
    /// Decimals with keys have keys of 64 bits.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 | Self::F16 => 16,
            Self::I32 | Self::U32 | Self::F32 | Self::Bytes => 32,
            Self::I64 | Self::I128 | Self::U64 | Self::F64 => 64,
        }
    }
}

/// Returns true if values of this type are UTF-8.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Returns the type as which a column of `data_type` is stored and read: dictionary types become their value
/// types.
pub(crate) fn storage_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => storage_type(values),
        other => other.clone(),
    }
}

/// A fixed-size value with a key.
pub(crate) trait Native: ArrowNativeType {
    fn key(self) -> u64;
    fn value(key: u64) -> Self;

    /// Appends the values whose keys are `base` plus an offset, wrapping.
    #[inline]
    fn append<L: Lane>(offsets: &[L], base: u64, out: &mut Vec<Self>) {
        kernel::append(offsets, out, |offset| Self::value(base.wrapping_add(offset)));
    }
}

const SIGN: u64 = 1 << 63;

macro_rules! signed {
    ($($t:ty),*) => {$(impl Native for $t {
        #[inline]
        fn key(self) -> u64 {
            (self as i64 as u64) ^ SIGN
        }
        #[inline]
        fn value(key: u64) -> Self {
            (key ^ SIGN) as i64 as $t
        }
    })*};
}
signed!(i8, i16, i32, i64);

// Decimals whose values were checked to fit an i64; `wide.rs` has the others.
impl Native for i128 {
    #[inline]
    fn key(self) -> u64 {
        (self as i64).key()
    }
    #[inline]
    fn value(key: u64) -> Self {
        i64::value(key).into()
    }
    #[inline]
    fn append<L: Lane>(offsets: &[L], base: u64, out: &mut Vec<Self>) {
        kernel::append_wide(offsets, out, |offset| i64::value(base.wrapping_add(offset)));
    }
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(impl Native for $t {
        #[inline]
        fn key(self) -> u64 {
            self as u64
        }
        #[inline]
        fn value(key: u64) -> Self {
            key as $t
        }
    })*};
}
unsigned!(u8, u16, u32, u64);

macro_rules! float {
    ($float:ty, $bits:ty) => {
        impl Native for $float {
            #[inline]
            fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let lowest = !Self::NEG_INFINITY.to_bits();
                if self.is_nan() {
                    return u64::from((Self::INFINITY.to_bits() | SIGN) - lowest) + 1;
                }
                let bits = self.to_bits();
                let ordered = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                u64::from(ordered - lowest)
            }
            #[inline]
            fn value(key: u64) -> Self {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let lowest = !Self::NEG_INFINITY.to_bits();
                let ordered = (key as $bits).wrapping_add(lowest);
                if ordered > (Self::INFINITY.to_bits() | SIGN) || ordered < lowest {
                    return Self::NAN;
                }
                Self::from_bits(if ordered & SIGN != 0 {
                    ordered & !SIGN
                } else {
                    !ordered
                })
            }
        }
    };
}
float!(f16, u16);
float!(f32, u32);
float!(f64, u64);

/// Runs `$body` with `$N` bound to the native type of a fixed-size physical form; `$other` for Bool and
/// Bytes.
macro_rules! with_native {
    (@types $physical:expr, $N:ident => $body:expr, $other:expr, $($form:ident $native:ty;)*) => {{
        use $crate::write::physical::Physical as P;
        match $physical {
            $(P::$form => {
                type $N = $native;
                $body
            })*
            P::Bool | P::Bytes => $other,
        }
    }};
    ($physical:expr, $N:ident => $body:expr, $other:expr) => {
        $crate::write::physical::with_native!(
            @types $physical, $N => $body, $other,
            I8 i8; I16 i16; I32 i32; I64 i64; I128 i128;
            U8 u8; U16 u16; U32 u32; U64 u64;
            F16 half::f16; F32 f32; F64 f64;
        )
    };
}
pub(crate) use with_native;

/// Returns the values of a fixed-size array regardless of its logical type.
pub(crate) fn native_values<N: ArrowNativeType>(data: &ArrayData) -> ScalarBuffer<N> {
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Appends the keys of a fixed-size or boolean array; NULL slots get any key.
///
/// # Errors
/// The first row (not NULL) whose value has no key: a decimal of more than 64 bits.
///
/// # Panics
/// For [`Physical::Bytes`], and when the array is of another physical form.
pub(crate) fn append_keys(array: &dyn Array, physical: Physical, keys: &mut Vec<u64>) -> Result<(), usize> {
    let data = array.to_data();
    match physical {
        Physical::Bool => {
            let bits = BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
            keys.extend(bits.iter().map(u64::from));
        }
        Physical::I128 => {
            for (row, value) in native_values::<i128>(&data).iter().enumerate() {
                match i64::try_from(*value) {
                    Ok(value) => keys.push(value.key()),
                    Err(_) if array.is_null(row) => keys.push(0),
                    Err(_) => return Err(row),
                }
            }
        }
        Physical::Bytes => unreachable!("strings have no keys of their own"),
        fixed => with_native!(
            fixed,
            N => keys.extend(native_values::<N>(&data).iter().map(|value| value.key())),
            ()
        ),
    }
    Ok(())
}

/// Builds an array of `data_type` from native values.
pub(crate) fn primitive_array<N: ArrowNativeType>(
    data_type: &DataType,
    values: Vec<N>,
    nulls: Option<NullBuffer>,
) -> crate::Result<ArrayRef> {
    let len = values.len();
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .add_buffer(Buffer::from_vec(values))
        .nulls(nulls)
        .build()?;
    Ok(make_array(data))
}

/// Builds a boolean array.
pub(crate) fn boolean_array(values: BooleanBuffer, nulls: Option<NullBuffer>) -> ArrayRef {
    std::sync::Arc::new(arrow_array::BooleanArray::new(values, nulls))
}

/// Builds an array of `data_type` (not a string type) from keys.
pub(crate) fn array_from_keys(
    data_type: &DataType,
    physical: Physical,
    keys: &[u64],
    nulls: Option<NullBuffer>,
) -> crate::Result<ArrayRef> {
    if physical == Physical::Bool {
        return Ok(boolean_array(
            BooleanBuffer::collect_bool(keys.len(), |i| keys[i] != 0),
            nulls,
        ));
    }
    with_native!(
        physical,
        N => primitive_array(data_type, keys.iter().map(|&key| N::value(key)).collect(), nulls),
        unreachable!("strings have no keys of their own")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_float(values: &[f64]) {
        for &a in values {
            assert_eq!(
                f64::value(a.key()).to_bits(),
                if a.is_nan() { f64::NAN } else { a }.to_bits()
            );
            for b in values.iter().filter(|b| !b.is_nan() && !a.is_nan()) {
                assert_eq!(a.key().cmp(&b.key()), a.total_cmp(b));
            }
        }
    }

    #[test]
    fn special_floats_keep_their_bits_and_order() {
        let specials = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -5e-324,
            -0.0,
            0.0,
            5e-324,
            1.0,
        ]
        .into_iter()
        .chain([f64::MAX, f64::INFINITY, f64::NAN, -f64::NAN]);
        let specials: Vec<f64> = specials.collect();
        check_float(&specials);
        assert_eq!(f64::NEG_INFINITY.key(), 0);
        assert_eq!(f64::NAN.key(), f64::INFINITY.key() + 1);
        assert_eq!((-f64::NAN).key(), f64::NAN.key());
        assert_eq!((-0.0f64).key() + 1, 0.0f64.key());
        assert_eq!(f32::value(f32::NAN.key() + 1).to_bits(), f32::NAN.to_bits());
        assert!(f64::value(u64::MAX).is_nan());
    }

    proptest! {
        #[test]
        fn float_keys_sort_like_the_values(bits in proptest::collection::vec(any::<u64>(), 1..20)) {
            check_float(&bits.iter().map(|&b| f64::from_bits(b)).collect::<Vec<_>>());
        }

        #[test]
        fn narrow_floats_come_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            let expected = if value.is_nan() { f32::NAN } else { value };
            prop_assert_eq!(f32::value(value.key()).to_bits(), expected.to_bits());
            let half = f16::from_bits(bits as u16);
            let expected = if half.is_nan() { f16::NAN } else { half };
            prop_assert_eq!(f16::value(half.key()).to_bits(), expected.to_bits());
        }

        #[test]
        fn integer_keys_sort_like_the_values(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(a.key().cmp(&b.key()), a.cmp(&b));
            prop_assert_eq!(i64::value(a.key()), a);
            prop_assert_eq!(i8::value((a as i8).key()), a as i8);
            prop_assert_eq!(i128::value(i128::from(a).key()), i128::from(a));
        }
    }
}
