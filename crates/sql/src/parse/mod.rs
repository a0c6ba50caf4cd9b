//! Syntax trees of statements, and the parts of them that several statements have.

mod copy_options;
mod forms;
mod frames;
mod parts;

use datafusion::sql::parser::{DFParserBuilder, ParserInput, Statement as Parsed};

pub use parts::{identifier, is_default, object_name, option_of, refuse};

use crate::EngineError;
use crate::nesting::Nesting;
use crate::question_marks::number_question_marks;
use crate::semantics;
use crate::syntax::SqlDialect;
use crate::unsupported::unsupported_text;

/// Parses the text of one statement that the parser supports, and numbers its parameters `?`.
///
/// # Errors
/// It is not SQL, is none or several statements, nests too deeply, or has parameters of both kinds.
pub fn parse_tree(text: &str) -> Result<Parsed, EngineError> {
    let statements_of = |input: ParserInput<'_>| {
        let parser = DFParserBuilder::new(input).with_dialect(&SqlDialect).build();
        parser.and_then(|mut parser| parser.parse_statements())
    };
    let mut statements = match statements_of(text.into()) {
        Ok(statements) => statements,
        Err(error) => match frames::with_markers(text) {
            Some(tokens) => statements_of(tokens.into())?,
            None => match copy_options::with_clauses(text)? {
                Some(tokens) => statements_of(tokens.into())?,
                None => return Err(unsupported_text(text).unwrap_or_else(|| error.into())),
            },
        },
    };
    match (statements.pop_front(), statements.len()) {
        (Some(mut statement), 0) => {
            Nesting::bound(&mut statement)?;
            forms::rewrite(&mut statement)?;
            semantics::check(&statement)?;
            if text.contains('?') {
                number_question_marks(&mut statement)?;
            }
            Ok(statement)
        }
        (None, _) => Err(EngineError::Query("there is no statement in the text".into())),
        (Some(_), more) => {
            let text = format!("the text has {} statements; send them one by one", more + 1);
            Err(EngineError::Query(text))
        }
    }
}
