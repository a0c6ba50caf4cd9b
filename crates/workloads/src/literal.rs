//! Values in predicates: as SQL text, and as Arrow arrays for APIs that take codes.

use std::fmt;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow_schema::DataType;

/// One value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Literal {
    /// A whole number.
    Int(i64),
    /// A decimal number with two digits after the point, in hundredths (all that TPC-H uses).
    Cents(i64),
    /// A date, in days since 1970-01-01.
    Date(i32),
    /// A string.
    Text(String),
}

impl Literal {
    /// Creates a date literal from a calendar date.
    #[must_use]
    pub fn date(year: i32, month: u32, day: u32) -> Self {
        Self::Date(days_from_civil(year, month, day))
    }

    /// Creates a string literal.
    #[must_use]
    pub fn text(value: &str) -> Self {
        Self::Text(value.to_owned())
    }

    /// Returns the value as an array of one element of `data_type`, or `None` if the types are incompatible.
    #[must_use]
    pub fn to_array(&self, data_type: &DataType) -> Option<ArrayRef> {
        Some(match (self, data_type) {
            (Self::Int(v), DataType::Int64) => Arc::new(Int64Array::from(vec![*v])),
            (Self::Int(v), DataType::Int32) => Arc::new(Int32Array::from(vec![i32::try_from(*v).ok()?])),
            (Self::Cents(v), DataType::Decimal128(precision, 2)) => Arc::new(
                Decimal128Array::from(vec![i128::from(*v)])
                    .with_precision_and_scale(*precision, 2)
                    .ok()?,
            ),
            (Self::Date(v), DataType::Date32) => Arc::new(Date32Array::from(vec![*v])),
            (Self::Text(v), DataType::Utf8) => Arc::new(StringArray::from(vec![v.as_str()])),
            (Self::Text(v), DataType::LargeUtf8) => Arc::new(LargeStringArray::from(vec![v.as_str()])),
            (Self::Text(v), DataType::Utf8View) => Arc::new(StringViewArray::from(vec![v.as_str()])),
            _ => return None,
        })
    }
}

/// Formats the literal as SQL.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::Cents(v) => {
                let sign = if *v < 0 { "-" } else { "" };
                write!(
                    f,
                    "{sign}{}.{:02}",
                    v.unsigned_abs() / 100,
                    v.unsigned_abs() % 100
                )
            }
            Self::Date(days) => {
                let (year, month, day) = civil_from_days(*days);
                write!(f, "DATE '{year:04}-{month:02}-{day:02}'")
            }
            Self::Text(v) => write!(f, "'{}'", v.replace('\'', "''")),
        }
    }
}

/// Returns the days since 1970-01-01 of a proleptic Gregorian date (Hinnant, "chrono-compatible
/// low-level date algorithms").
fn days_from_civil(year: i32, month: u32, day: u32) -> i32 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year as i32;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the date of a number of days since 1970-01-01, the inverse of [`days_from_civil`].
fn civil_from_days(days: i32) -> (i32, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    (year_of_era + era * 400 + i32::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        assert_eq!(Literal::date(1970, 1, 1), Literal::Date(0));
        assert_eq!(Literal::date(1992, 1, 1), Literal::Date(8035));
        assert_eq!(Literal::date(1996, 2, 29).to_string(), "DATE '1996-02-29'");
        for days in (-200_000..200_000).step_by(13) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn sql_text() {
        assert_eq!(Literal::Int(-3).to_string(), "-3");
        assert_eq!(Literal::Cents(5).to_string(), "0.05");
        assert_eq!(Literal::Cents(-1250).to_string(), "-12.50");
        assert_eq!(Literal::text("it's").to_string(), "'it''s'");
    }

    #[test]
    fn arrays_have_the_wanted_type_or_are_refused() {
        let decimal = DataType::Decimal128(15, 2);
        assert_eq!(
            Literal::Cents(5).to_array(&decimal).unwrap().data_type(),
            &decimal
        );
        for text in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            assert_eq!(Literal::text("x").to_array(&text).unwrap().data_type(), &text);
        }
        assert!(Literal::Int(1 << 40).to_array(&DataType::Int32).is_none());
        assert!(Literal::Int(1).to_array(&DataType::Date32).is_none());
    }
}
