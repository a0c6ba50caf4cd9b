//! Types of SQL whose values are numbers of the star join.

use arrow_schema::DataType;

/// Returns true if values of the type are numbers of 64 bits in the star join.
pub(in crate::star) fn is_countable(data_type: &DataType) -> bool {
    is_whole(data_type) || matches!(data_type, DataType::Decimal128(..) | DataType::Timestamp(..))
}

/// Returns true if values of the type convert to integers of the star join and back without loss.
pub(in crate::star) fn is_whole(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::UInt8 | D::UInt16 | D::UInt32 | D::Date32
    )
}

/// Returns true if all values of an integer type are values of another type.
pub(in crate::star) fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    let range = |data_type: &DataType| {
        Some(match data_type {
            D::Int8 => (-0x80, 0x7F),
            D::Int16 => (-0x8000, 0x7FFF),
            D::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            D::Int64 => (i64::MIN, i64::MAX),
            D::UInt8 => (0, 0xFF),
            D::UInt16 => (0, 0xFFFF),
            D::UInt32 => (0, i64::from(u32::MAX)),
            _ => return None,
        })
    };
    match (range(from), range(to)) {
        (Some((low, high)), Some((least, most))) => least <= low && high <= most,
        _ => from == to,
    }
}
