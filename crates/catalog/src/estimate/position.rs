//! Positions of values on a line, so that the share of a range can be interpolated.

use datafusion::common::ScalarValue;

/// Returns the position of a value, which is comparable with those of the same and of similar types: numbers,
/// seconds for dates and timestamps, the first eight bytes of texts. `None` for NULL, NaN and other types.
pub fn value_position(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as S;
    const DAY: f64 = 86_400.0;
    let position = match value {
        S::Boolean(value) => f64::from(u8::from((*value)?)),
        S::Int8(value) => f64::from((*value)?),
        S::Int16(value) => f64::from((*value)?),
        S::Int32(value) => f64::from((*value)?),
        S::Int64(value) => (*value)? as f64,
        S::UInt8(value) => f64::from((*value)?),
        S::UInt16(value) => f64::from((*value)?),
        S::UInt32(value) => f64::from((*value)?),
        S::UInt64(value) => (*value)? as f64,
        S::Float32(value) => f64::from((*value)?),
        S::Float64(value) => (*value)?,
        S::Decimal32(value, _, scale) => f64::from((*value)?) / 10f64.powi((*scale).into()),
        S::Decimal64(value, _, scale) => (*value)? as f64 / 10f64.powi((*scale).into()),
        S::Decimal128(value, _, scale) => (*value)? as f64 / 10f64.powi((*scale).into()),
        S::Date32(days) => f64::from((*days)?) * DAY,
        S::Date64(millis) => (*millis)? as f64 / 1e3,
        S::Time32Second(value) => f64::from((*value)?),
        S::Time32Millisecond(value) => f64::from((*value)?) / 1e3,
        S::Time64Microsecond(value) | S::DurationMicrosecond(value) => (*value)? as f64 / 1e6,
        S::Time64Nanosecond(value) | S::DurationNanosecond(value) => (*value)? as f64 / 1e9,
        S::DurationSecond(value) => (*value)? as f64,
        S::DurationMillisecond(value) => (*value)? as f64 / 1e3,
        S::TimestampSecond(value, _) => (*value)? as f64,
        S::TimestampMillisecond(value, _) => (*value)? as f64 / 1e3,
        S::TimestampMicrosecond(value, _) => (*value)? as f64 / 1e6,
        S::TimestampNanosecond(value, _) => (*value)? as f64 / 1e9,
        S::Utf8(text) | S::LargeUtf8(text) | S::Utf8View(text) => of_bytes(text.as_ref()?.as_bytes()),
        S::Binary(bytes) | S::LargeBinary(bytes) | S::BinaryView(bytes) => of_bytes(bytes.as_ref()?),
        S::Dictionary(_, value) => value_position(value)?,
        _ => return None,
    };
    position.is_finite().then_some(position)
}

/// Returns the number that the first eight bytes are, highest byte first.
fn of_bytes(bytes: &[u8]) -> f64 {
    let padded = bytes.iter().copied().chain(std::iter::repeat(0)).take(8);
    padded.fold(0u64, |all, byte| all << 8 | u64::from(byte)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_like_the_values() {
        let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
        let decimal = |value: i128| ScalarValue::Decimal128(Some(value), 15, 2);
        let ascending = [
            vec![
                text(""),
                text("A"),
                text("AIR"),
                text("AIR REG"),
                text("RAIL"),
                text("Ä"),
            ],
            vec![decimal(-150), decimal(0), decimal(7), decimal(12_345)],
            vec![ScalarValue::Date32(Some(-3)), ScalarValue::Date32(Some(9000))],
            vec![
                ScalarValue::Float64(Some(-1e300)),
                ScalarValue::Float64(Some(2.5)),
            ],
            vec![
                ScalarValue::Boolean(Some(false)),
                ScalarValue::Boolean(Some(true)),
            ],
        ];
        for values in ascending {
            let positions: Vec<f64> = values
                .iter()
                .map(|value| value_position(value).unwrap())
                .collect();
            assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
        }
        let day = ScalarValue::Date32(Some(1));
        let timestamp = ScalarValue::TimestampMillisecond(Some(86_400_000), None);
        assert_eq!(value_position(&day), value_position(&timestamp));
        for none in [
            ScalarValue::Null,
            ScalarValue::Int32(None),
            ScalarValue::Utf8(None),
            ScalarValue::Float64(Some(f64::NAN)),
        ] {
            assert_eq!(value_position(&none), None);
        }
    }
}
