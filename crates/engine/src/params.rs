//! The macro [`params!`](crate::params).

/// Makes a list of values of several types, for [`Database::sql_with`](crate::Database::sql_with).
///
/// ```
/// use halocline_engine::{ScalarValue, params};
///
/// let values = params![17, "seventeen", 1.7, Option::<i64>::None];
/// assert_eq!(values[1], ScalarValue::from("seventeen"));
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        [$($crate::ScalarValue::from($value)),*]
    };
}
