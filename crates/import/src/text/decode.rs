//! Decodes the fields of one column into an Arrow array.
//!
//! An inferred type takes only texts that it does not alter; a later value of another kind makes the import
//! infer anew. A type that the user gave takes every text of such a value (`007` as 7), but none that would
//! lose digits (`1.55` as `decimal(9,1)`).

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryViewBuilder, BooleanBuilder, PrimitiveBuilder, StringViewBuilder};
use arrow_array::timezone::Tz;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, Field, TimeUnit};

use super::canonical;
use super::infer::TypeCandidate;
use crate::value::{boolean, bytes_of, date, decimal, session_timestamp, timestamp, zone};

/// Takes the fields of a column.
pub(super) trait ColumnDecoder: Send {
    /// Appends a value; false if the text is none of the type.
    fn append(&mut self, text: &str) -> bool;
    /// Appends NULL.
    fn append_null(&mut self);
    /// Returns what was appended and starts anew.
    fn finish(&mut self) -> ArrayRef;
}

struct PrimitiveDecoder<T: ArrowPrimitiveType, F> {
    builder: PrimitiveBuilder<T>,
    parse: F,
}

impl<T: ArrowPrimitiveType, F: Fn(&str) -> Option<T::Native> + Send> ColumnDecoder
    for PrimitiveDecoder<T, F>
{
    fn append(&mut self, text: &str) -> bool {
        let value = (self.parse)(text);
        self.builder.append_option(value);
        value.is_some()
    }

    fn append_null(&mut self) {
        self.builder.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

struct BooleanDecoder {
    builder: BooleanBuilder,
    parse: fn(&str) -> Option<bool>,
}

impl ColumnDecoder for BooleanDecoder {
    fn append(&mut self, text: &str) -> bool {
        let value = (self.parse)(text);
        self.builder.append_option(value);
        value.is_some()
    }

    fn append_null(&mut self) {
        self.builder.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

struct TextDecoder(StringViewBuilder);

impl ColumnDecoder for TextDecoder {
    fn append(&mut self, text: &str) -> bool {
        self.0.append_value(text);
        true
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

struct BinaryDecoder(BinaryViewBuilder);

impl ColumnDecoder for BinaryDecoder {
    fn append(&mut self, text: &str) -> bool {
        let bytes = bytes_of(text);
        self.0.append_option(bytes.as_deref());
        bytes.is_some()
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    parse: impl Fn(&str) -> Option<T::Native> + Send + 'static,
) -> Box<dyn ColumnDecoder> {
    Box::new(PrimitiveDecoder {
        builder: PrimitiveBuilder::<T>::new().with_data_type(data_type.clone()),
        parse,
    })
}

fn parsed<T: Parser>(data_type: &DataType) -> Box<dyn ColumnDecoder> {
    primitive::<T>(data_type, T::parse)
}

/// Returns a decoder for a column, whose type was given, or inferred with values of a form; `None` if text
/// cannot be of the type. Timestamps that name no time zone are of `session`, or else of UTC.
pub(super) fn decoder(
    field: &Field,
    form: Option<TypeCandidate>,
    session: Option<Tz>,
) -> Option<Box<dyn ColumnDecoder>> {
    let data_type = field.data_type();
    if let Some(form) = form {
        return canonical_decoder(data_type, form);
    }
    Some(match data_type {
        DataType::Utf8View => Box::new(TextDecoder(StringViewBuilder::new())),
        DataType::BinaryView => Box::new(BinaryDecoder(BinaryViewBuilder::new())),
        DataType::Boolean => Box::new(BooleanDecoder {
            builder: BooleanBuilder::new(),
            parse: boolean,
        }),
        DataType::Int8 => parsed::<Int8Type>(data_type),
        DataType::Int16 => parsed::<Int16Type>(data_type),
        DataType::Int32 => parsed::<Int32Type>(data_type),
        DataType::Int64 => parsed::<Int64Type>(data_type),
        DataType::UInt8 => parsed::<UInt8Type>(data_type),
        DataType::UInt16 => parsed::<UInt16Type>(data_type),
        DataType::UInt32 => parsed::<UInt32Type>(data_type),
        DataType::UInt64 => parsed::<UInt64Type>(data_type),
        DataType::Float32 => parsed::<Float32Type>(data_type),
        DataType::Float64 => parsed::<Float64Type>(data_type),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            primitive::<Decimal128Type>(data_type, move |text| decimal(text, precision, scale))
        }
        DataType::Date32 => primitive::<Date32Type>(data_type, date),
        DataType::Date64 => parsed::<Date64Type>(data_type),
        DataType::Time32(TimeUnit::Second) => parsed::<Time32SecondType>(data_type),
        DataType::Time32(_) => parsed::<Time32MillisecondType>(data_type),
        DataType::Time64(TimeUnit::Microsecond) => parsed::<Time64MicrosecondType>(data_type),
        DataType::Time64(_) => parsed::<Time64NanosecondType>(data_type),
        DataType::Timestamp(unit, name) => match (session, name) {
            (Some(session), Some(_)) => {
                let of = data_type.clone();
                timestamps(data_type, move |text| session_timestamp(text, &of, session))?
            }
            _ => {
                let (unit, zone) = (*unit, zone(name.as_deref())?);
                timestamps(data_type, move |text| timestamp(text, unit, zone))?
            }
        },
        _ => return None,
    })
}

/// Returns a decoder of timestamps; `None` for another type.
fn timestamps(
    data_type: &DataType,
    parse: impl Fn(&str) -> Option<i64> + Send + 'static,
) -> Option<Box<dyn ColumnDecoder>> {
    let DataType::Timestamp(unit, _) = data_type else {
        return None;
    };
    Some(match unit {
        TimeUnit::Second => primitive::<TimestampSecondType>(data_type, parse),
        TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(data_type, parse),
        TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(data_type, parse),
        TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(data_type, parse),
    })
}

/// Returns a decoder that takes texts of one form only, for a type that inference gives.
fn canonical_decoder(data_type: &DataType, form: TypeCandidate) -> Option<Box<dyn ColumnDecoder>> {
    Some(match (form, data_type) {
        (TypeCandidate::Boolean, _) => Box::new(BooleanDecoder {
            builder: BooleanBuilder::new(),
            parse: canonical::boolean,
        }),
        (TypeCandidate::Integer, _) => primitive::<Int64Type>(data_type, canonical::long),
        (TypeCandidate::UnsignedInteger, _) => {
            primitive::<UInt64Type>(data_type, |text| u64::try_from(canonical::integer(text)?).ok())
        }
        (TypeCandidate::WideInteger, _) => primitive::<Decimal128Type>(data_type, canonical::integer),
        (TypeCandidate::Decimal, DataType::Decimal128(precision, scale)) => {
            let (precision, scale) = (*precision, scale.cast_unsigned());
            primitive::<Decimal128Type>(data_type, move |text| {
                let fixed = canonical::fixed(text)?;
                (fixed.scale == scale && fixed.precision <= precision).then_some(fixed.unscaled)
            })
        }
        (TypeCandidate::MixedDecimal, DataType::Decimal128(precision, scale)) => {
            let (precision, scale) = (*precision, *scale);
            primitive::<Decimal128Type>(data_type, move |text| {
                let plain = canonical::integer(text).is_some() || canonical::fixed(text).is_some();
                plain.then(|| decimal(text, precision, scale)).flatten()
            })
        }
        (TypeCandidate::Double, _) => primitive::<Float64Type>(data_type, canonical::number),
        (TypeCandidate::Date, _) => primitive::<Date32Type>(data_type, canonical::date),
        (TypeCandidate::SlashedDate(order), _) => {
            primitive::<Date32Type>(data_type, move |text| order.date(text))
        }
        (TypeCandidate::Timestamp, _) => {
            primitive::<TimestampNanosecondType>(data_type, canonical::timestamp)
        }
        (TypeCandidate::TimestampUtc, _) => {
            primitive::<TimestampNanosecondType>(data_type, canonical::timestamp_utc)
        }
        (TypeCandidate::SlashedTimestamp(order), _) => {
            primitive::<TimestampNanosecondType>(data_type, move |text| order.timestamp(text))
        }
        (TypeCandidate::Decimal | TypeCandidate::MixedDecimal, _) => return None,
    })
}
