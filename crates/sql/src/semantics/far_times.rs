//! Times in SQL text. A timestamp without precision has nanoseconds, and microseconds if its year has no
//! place in these (1677 and before, 2262 and later). `AT TIME ZONE` is a function, as in PostgreSQL and
//! DuckDB.

use std::ops::ControlFlow;

use arrow_schema::{DataType, TimeUnit};
use datafusion::sql::sqlparser::ast::{self, Expr, Value, VisitorMut};
use halocline_values::times;

use super::at_time_zone::NAME;
use crate::syntax::call_of;

/// Rewrites the times of a tree that DataFusion would refuse or read otherwise.
pub(super) struct TimeRewriter;

impl VisitorMut for TimeRewriter {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::TypedString(typed) => {
                if let Value::SingleQuotedString(text) = &typed.value.value {
                    widen(&mut typed.data_type, text);
                }
            }
            Expr::Cast {
                expr: inner,
                data_type,
                ..
            } => {
                if let Expr::Value(value) = &**inner
                    && let Value::SingleQuotedString(text) = &value.value
                {
                    widen(data_type, text);
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let args = [(**timestamp).clone(), (**time_zone).clone()];
                *expr = call_of(NAME, args);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Gives a timestamp of nanoseconds microseconds, if the text of the literal has no place in nanoseconds.
fn widen(data_type: &mut ast::DataType, text: &str) {
    let (precision, room) = match data_type {
        // A day at each end leaves room for any time zone.
        ast::DataType::Timestamp(
            precision @ None,
            ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz,
        ) => (precision, 86_400_000_000_000),
        ast::DataType::Timestamp(precision @ None, _) | ast::DataType::Datetime(precision @ None) => {
            (precision, 0)
        }
        _ => return,
    };
    let nanoseconds = times::read(text, &DataType::Timestamp(TimeUnit::Nanosecond, None), None);
    let range = i128::from(i64::MIN) + room..=i128::from(i64::MAX) - room;
    if nanoseconds.is_some_and(|value| !range.contains(&value)) {
        *precision = Some(6);
    }
}
