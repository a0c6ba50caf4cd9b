//! Is a text a value of a type: the same parsers that decode columns.

use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_cast::parse::{Parser, parse_decimal, string_to_timestamp_nanos};
use arrow_schema::{DataType, TimeUnit};

/// Whether `text` can be decoded as `data_type`.
pub(crate) fn is_value(text: &str, data_type: &DataType) -> bool {
    fn parses<T: Parser>(text: &str) -> bool {
        <T as Parser>::parse(text).is_some()
    }
    match data_type {
        DataType::Boolean => text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"),
        DataType::Int8 => parses::<Int8Type>(text),
        DataType::Int16 => parses::<Int16Type>(text),
        DataType::Int32 => parses::<Int32Type>(text),
        DataType::Int64 => parses::<Int64Type>(text),
        DataType::UInt8 => parses::<UInt8Type>(text),
        DataType::UInt16 => parses::<UInt16Type>(text),
        DataType::UInt32 => parses::<UInt32Type>(text),
        DataType::UInt64 => parses::<UInt64Type>(text),
        DataType::Float32 => parses::<Float32Type>(text),
        DataType::Float64 => parses::<Float64Type>(text),
        DataType::Decimal128(precision, scale) => {
            parse_decimal::<Decimal128Type>(text, *precision, *scale).is_ok()
        }
        DataType::Date32 => parses::<Date32Type>(text),
        DataType::Date64 => parses::<Date64Type>(text),
        DataType::Time32(TimeUnit::Second) => parses::<Time32SecondType>(text),
        DataType::Time32(_) => parses::<Time32MillisecondType>(text),
        DataType::Time64(TimeUnit::Microsecond) => parses::<Time64MicrosecondType>(text),
        DataType::Time64(_) => parses::<Time64NanosecondType>(text),
        DataType::Timestamp(_, _) => string_to_timestamp_nanos(text).is_ok(),
        _ => true,
    }
}

/// A calendar date and nothing more.
pub(crate) fn is_date(text: &str) -> bool {
    text.len() <= 10 && is_value(text, &DataType::Date32)
}

/// The value as a user writes its type in SQL.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::UInt8 => "tinyint unsigned".into(),
        DataType::UInt16 => "smallint unsigned".into(),
        DataType::UInt32 => "int unsigned".into(),
        DataType::UInt64 => "bigint unsigned".into(),
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Date32 => "date".into(),
        DataType::Utf8 | DataType::Utf8View => "varchar".into(),
        DataType::Binary | DataType::BinaryView => "bytea".into(),
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            format!(
                "timestamp({digits}){}",
                if zone.is_some() { " with time zone" } else { "" }
            )
        }
        other => other.to_string().to_lowercase(),
    }
}
