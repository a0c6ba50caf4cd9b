//! Names of types in SQL.

use arrow_schema::{DataType, TimeUnit};

/// Returns a type as a user writes it in SQL.
pub fn sql_name(data_type: &DataType) -> String {
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
