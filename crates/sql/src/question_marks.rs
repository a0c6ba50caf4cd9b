//! The parameters `?` as numbered ones.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Expr, Value, VisitorMut};

use crate::EngineError;
use crate::syntax::visit_mut;

/// Returns the expression of a parameter.
pub fn parameter(number: usize) -> Expr {
    Expr::value(Value::Placeholder(format!("${number}")))
}

/// Replaces the parameters `?` of a statement by `$1`, `$2` and so on, in the order of the text.
///
/// # Errors
/// [`EngineError::Parameter`]: it has parameters of both kinds.
pub fn number_question_marks(statement: &mut Parsed) -> Result<(), EngineError> {
    let mut found = QuestionMarks::default();
    let _ = visit_mut(statement, &mut found);
    if found.at.is_empty() {
        return Ok(());
    }
    if found.numbered {
        return Err(EngineError::Parameter {
            name: "?".into(),
            reason: "the statement also has parameters written as $1, $2 and so on; use one kind".into(),
        });
    }
    found.at.sort_unstable();
    found.replace = true;
    let _ = visit_mut(statement, &mut found);
    Ok(())
}

#[derive(Default)]
struct QuestionMarks {
    /// Their places in the text.
    at: Vec<(u64, u64)>,
    /// Set if there is a parameter of the other kind.
    numbered: bool,
    /// Set if they are to be replaced.
    replace: bool,
}

impl VisitorMut for QuestionMarks {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
        {
            let at = (value.span.start.line, value.span.start.column);
            match (name == "?", self.replace) {
                (true, false) => self.at.push(at),
                (true, true) => {
                    let before = self.at.partition_point(|other| *other < at);
                    *expr = parameter(before + 1);
                }
                (false, _) => self.numbered = true,
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;

    use super::*;

    fn parse(text: &str) -> Parsed {
        let parsed = DFParserBuilder::new(text).build().unwrap().parse_statements();
        parsed.unwrap().pop_front().unwrap()
    }

    #[test]
    fn question_marks_are_numbered_in_the_order_of_the_text() {
        let mut statement = parse("SELECT ?, '?' FROM t WHERE a BETWEEN ? AND ? ORDER BY ? LIMIT ? OFFSET ?");
        number_question_marks(&mut statement).unwrap();
        let expected = "SELECT $1, '?' FROM t WHERE a BETWEEN $2 AND $3 ORDER BY $4 LIMIT $5 OFFSET $6";
        assert_eq!(statement.to_string(), expected);
        let mut mixed = parse("SELECT ?, $1");
        let error = number_question_marks(&mut mixed).unwrap_err().to_string();
        assert!(error.contains("use one kind"), "{error}");
    }
}
