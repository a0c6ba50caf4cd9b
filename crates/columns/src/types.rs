//! Type names in a table's durable description. They belong to the pool format: an Arrow upgrade cannot
//! change them.

use arrow_schema::{DataType, TimeUnit};

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn parse_unit(text: &str) -> Option<TimeUnit> {
    Some(match text {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// Types without parameters and their names.
const PLAIN: [(&str, DataType); 20] = [
    ("bool", DataType::Boolean),
    ("i8", DataType::Int8),
    ("i16", DataType::Int16),
    ("i32", DataType::Int32),
    ("i64", DataType::Int64),
    ("u8", DataType::UInt8),
    ("u16", DataType::UInt16),
    ("u32", DataType::UInt32),
    ("u64", DataType::UInt64),
    ("f16", DataType::Float16),
    ("f32", DataType::Float32),
    ("f64", DataType::Float64),
    ("date32", DataType::Date32),
    ("date64", DataType::Date64),
    ("utf8", DataType::Utf8),
    ("large_utf8", DataType::LargeUtf8),
    ("utf8_view", DataType::Utf8View),
    ("binary", DataType::Binary),
    ("large_binary", DataType::LargeBinary),
    ("binary_view", DataType::BinaryView),
];

/// Returns the durable name of a type; `None` if tables cannot store it.
pub fn type_name(data_type: &DataType) -> Option<String> {
    if let Some((name, _)) = PLAIN.iter().find(|(_, plain)| plain == data_type) {
        return Some((*name).to_owned());
    }
    Some(match data_type {
        DataType::Time32(unit) => format!("time32({})", unit_name(*unit)),
        DataType::Time64(unit) => format!("time64({})", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration({})", unit_name(*unit)),
        DataType::Timestamp(unit, None) => format!("timestamp({})", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp({},{zone})", unit_name(*unit)),
        DataType::Decimal32(precision, scale) => format!("decimal32({precision},{scale})"),
        DataType::Decimal64(precision, scale) => format!("decimal64({precision},{scale})"),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision},{scale})"),
        _ => return None,
    })
}

/// Parses a durable type name; `None` if it is unknown.
pub fn parse_type(name: &str) -> Option<DataType> {
    if let Some((_, plain)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
        return Some(plain.clone());
    }
    let (kind, arguments) = name.strip_suffix(')')?.split_once('(')?;
    let decimal = || {
        let (precision, scale) = arguments.split_once(',')?;
        Some((precision.parse().ok()?, scale.parse().ok()?))
    };
    Some(match kind {
        "time32" => DataType::Time32(parse_unit(arguments)?),
        "time64" => DataType::Time64(parse_unit(arguments)?),
        "duration" => DataType::Duration(parse_unit(arguments)?),
        "timestamp" => match arguments.split_once(',') {
            Some((unit, zone)) => DataType::Timestamp(parse_unit(unit)?, Some(zone.into())),
            None => DataType::Timestamp(parse_unit(arguments)?, None),
        },
        "decimal32" => decimal().map(|(p, s)| DataType::Decimal32(p, s))?,
        "decimal64" => decimal().map(|(p, s)| DataType::Decimal64(p, s))?,
        "decimal128" => decimal().map(|(p, s)| DataType::Decimal128(p, s))?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_the_same_type() {
        let more = [
            DataType::Time32(TimeUnit::Second),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Millisecond),
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
            DataType::Timestamp(TimeUnit::Second, Some("+05:30".into())),
            DataType::Decimal32(9, 2),
            DataType::Decimal64(18, -3),
            DataType::Decimal128(38, 10),
        ];
        for data_type in PLAIN.iter().map(|(_, plain)| plain.clone()).chain(more) {
            let name = type_name(&data_type).expect("storable");
            assert_eq!(parse_type(&name), Some(data_type), "{name}");
        }
        assert_eq!(type_name(&DataType::Null), None);
        for bad in [
            "",
            "i3",
            "time32(h)",
            "decimal128(1)",
            "decimal128(300,1)",
            "timestamp(",
            "utf8()",
        ] {
            assert_eq!(parse_type(bad), None, "{bad}");
        }
    }
}
