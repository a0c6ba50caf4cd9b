//! Parameters of a statement, `$1`, `$2` and so on, and the values given for them.
//!
//! Values take the place of parameters in the syntax tree, so that no text of a value is ever read as SQL,
//! and every statement can have parameters, not only a query.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Expr, Value, VisitorMut};

use super::literal_expr::literal_expr;
use crate::EngineError;
use crate::syntax::visit_mut;

/// Replaces the parameters of a statement by `values`, the first of which is `$1`.
///
/// # Errors
/// [`EngineError::Parameter`]: a parameter has no value, a value is not used, or a parameter is not written
/// as `$` and a number.
pub fn bind(statement: &mut Parsed, values: &[ScalarValue]) -> Result<(), EngineError> {
    let mut binder = Binder {
        values,
        used: vec![false; values.len()],
        left: &[],
    };
    if let ControlFlow::Break(error) = visit_mut(statement, &mut binder) {
        return Err(error);
    }
    match binder.used.iter().position(|used| !used) {
        None => Ok(()),
        Some(unused) => Err(unused_value(unused, values)),
    }
}

/// Replaces some parameters of a statement, which has as many as there are values: those that are not to be
/// `left`.
///
/// # Errors
/// [`EngineError::Parameter`]: a value cannot be written as an expression.
pub fn bind_some(statement: &mut Parsed, values: &[ScalarValue], left: &[bool]) -> Result<(), EngineError> {
    let mut binder = Binder {
        values,
        used: vec![false; values.len()],
        left,
    };
    match visit_mut(statement, &mut binder) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Refuses values for a statement that has no parameters.
///
/// # Errors
/// [`EngineError::Parameter`] if there is a value.
pub fn refuse(values: &[ScalarValue]) -> Result<(), EngineError> {
    match values {
        [] => Ok(()),
        values => Err(unused_value(0, values)),
    }
}

fn unused_value(index: usize, values: &[ScalarValue]) -> EngineError {
    EngineError::Parameter {
        name: format!("${}", index + 1),
        reason: format!(
            "it is not in the statement, for which {} values are given",
            values.len()
        ),
    }
}

struct Binder<'a> {
    values: &'a [ScalarValue],
    used: Vec<bool>,
    /// For each parameter, whether it stays; all are replaced if it is empty.
    left: &'a [bool],
}

impl Binder<'_> {
    /// Returns the value of a parameter; `None` if it stays.
    fn value(&mut self, name: &str) -> Result<Option<Expr>, EngineError> {
        let error = |reason: String| EngineError::Parameter {
            name: name.to_owned(),
            reason,
        };
        let number = name.strip_prefix('$').and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|number: &usize| *number > 0) else {
            return Err(error("write parameters as $1, $2 and so on, or as ?".to_owned()));
        };
        if self.left.get(number - 1) == Some(&true) {
            return Ok(None);
        }
        match self.values.get(number - 1) {
            Some(value) => {
                self.used[number - 1] = true;
                literal_expr(value)
                    .map(Some)
                    .map_err(|reason| error(reason.to_string()))
            }
            None => Err(error(format!(
                "it has no value, {} are given; Rust programs give them with `Database::sql_with`",
                self.values.len()
            ))),
        }
    }
}

impl VisitorMut for Binder<'_> {
    type Break = EngineError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        if let Expr::Value(value) = &*expr
            && let Value::Placeholder(name) = &value.value
        {
            match self.value(name) {
                Ok(Some(bound)) => *expr = bound,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}
