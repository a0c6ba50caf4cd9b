//! `lead` with `IGNORE NULLS`, which DataFusion evaluates for a whole partition at once.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::windows::WindowUDFExpr;

/// Returns how many values that are not NULL a call of `lead` with `IGNORE NULLS` goes ahead, and the value
/// for rows that have fewer.
pub(super) fn lead_ignoring_nulls(function: &WindowUDFExpr, schema: &Schema) -> Option<(usize, ScalarValue)> {
    // DataFusion shows it nowhere else.
    let ignores_nulls = format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: true }");
    if function.fun().name() != "lead" || !ignores_nulls {
        return None;
    }
    let args = function.args();
    let literal = |at: usize| args.get(at).map(|arg| arg.downcast_ref::<Literal>());
    let offset = match literal(1) {
        None => 1,
        Some(offset) => match offset?.value().cast_to(&DataType::UInt64).ok()? {
            ScalarValue::UInt64(Some(offset)) => usize::try_from(offset).ok().filter(|offset| *offset > 0)?,
            _ => return None,
        },
    };
    let data_type = args.first()?.data_type(schema).ok()?;
    let default = match literal(2) {
        None => ScalarValue::try_from(&data_type).ok()?,
        Some(default) => default?.value().cast_to(&data_type).ok()?,
    };
    Some((offset, default))
}

/// The values after each row that are not NULL.
pub(super) struct RowsAhead {
    values: ArrayRef,
    offset: usize,
    default: ScalarValue,
    /// The next rows with a value after the current one: `offset` of them, if there are as many.
    ahead: VecDeque<usize>,
    /// The first row that was not looked at.
    next: usize,
}

impl RowsAhead {
    pub(super) fn new(values: &ArrayRef, offset: usize, default: ScalarValue) -> Self {
        Self {
            values: values.clone(),
            offset,
            default,
            ahead: VecDeque::new(),
            next: 0,
        }
    }

    /// Returns the result for a row. Rows are asked for in order.
    ///
    /// # Errors
    /// The type of the values has no scalars.
    pub(super) fn from(&mut self, row: usize) -> Result<ScalarValue> {
        while self.ahead.front().is_some_and(|ahead| *ahead <= row) {
            self.ahead.pop_front();
        }
        self.next = self.next.max(row + 1);
        while self.ahead.len() < self.offset && self.next < self.values.len() {
            if self.values.is_valid(self.next) {
                self.ahead.push_back(self.next);
            }
            self.next += 1;
        }
        match self.ahead.get(self.offset - 1) {
            Some(row) => ScalarValue::try_from_array(&self.values, *row),
            None => Ok(self.default.clone()),
        }
    }
}
