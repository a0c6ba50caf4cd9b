//! Parsing of statements by the [list](super::list) of their kinds.
//!
//! A statement is parsed once: its text, if the SQL parser does not support it, else its syntax tree.

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use halocline_sql::EngineError;
use halocline_sql::lexer::without_mark;
use halocline_sql::nesting::Nesting;
use halocline_sql::parameters;
use halocline_sql::parse::parse_tree;
use halocline_sql::unsupported::unsupported;

use super::list::STATEMENT_KINDS;
use super::pool_targets::checked;
use super::statement_kind::{BoxedStatement, ParsedStatement, StatementSyntax, sql_statement};

/// Parses one statement, with `values` in place of its parameters.
///
/// # Errors
/// It is not SQL, is none or several statements, or is not supported; values and parameters do not match.
pub(crate) fn parse(text: &str, values: &[ScalarValue]) -> Result<BoxedStatement, EngineError> {
    let text = without_mark(text);
    Nesting::check_text(text)?;
    if let Some(statement) = from_text(text)? {
        parameters::refuse(values)?;
        return Ok(statement);
    }
    let mut tree = tree(text)?;
    if let Some(statement) = from_unbound(&tree)? {
        parameters::refuse(values)?;
        return Ok(statement);
    }
    parameters::bind(&mut tree, values)?;
    from_tree(tree)
}

/// Parses one statement and leaves its parameters, numbered, where they are.
///
/// # Errors
/// It is not SQL, or is none or several statements; it has parameters of both kinds.
pub(crate) fn parse_unbound(text: &str) -> Result<Parsed, EngineError> {
    let text = without_mark(text);
    Nesting::check_text(text)?;
    tree(text)
}

/// Parses a syntax tree without parameters.
///
/// # Errors
/// It is not supported.
pub(crate) fn from_tree(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    for syntax in syntaxes() {
        match syntax {
            StatementSyntax::Whole { is, parse } if is(&tree) => return parse(tree),
            StatementSyntax::Tree(parse) => {
                if let Some(statement) = sql_statement(&tree)
                    && let Some(parsed) = parse(statement)?
                {
                    return Ok(checked(statement, parsed));
                }
            }
            _ => {}
        }
    }
    Err(match sql_statement(&tree) {
        Some(statement) => unsupported(statement),
        None => EngineError::Unsupported {
            what: "this statement".into(),
            instead: "see the manual for the statements there are".into(),
        },
    })
}

/// Parses a text that the SQL parser does not support; `None` for any other text.
fn from_text(text: &str) -> ParsedStatement {
    let first = first_word(text);
    for syntax in syntaxes() {
        // A comment may come first.
        if let StatementSyntax::Text { word, parse } = syntax
            && (first.is_empty() || first.eq_ignore_ascii_case(word))
            && let Some(statement) = parse(text)?
        {
            return Ok(Some(statement));
        }
    }
    Ok(None)
}

/// Parses a syntax tree whose parameters get no values; `None` for any other tree.
fn from_unbound(tree: &Parsed) -> ParsedStatement {
    let Some(statement) = sql_statement(tree) else {
        return Ok(None);
    };
    for syntax in syntaxes() {
        if let StatementSyntax::Unbound(parse) = syntax
            && let Some(parsed) = parse(statement)?
        {
            return Ok(Some(parsed));
        }
    }
    Ok(None)
}

/// Returns the syntax tree of a text that the SQL parser supports.
fn tree(text: &str) -> Result<Parsed, EngineError> {
    for syntax in syntaxes() {
        if let StatementSyntax::Refused(check) = syntax {
            check(text)?;
        }
    }
    parse_tree(text)
}

fn syntaxes() -> impl Iterator<Item = &'static StatementSyntax> {
    STATEMENT_KINDS.iter().flat_map(|kind| kind.syntax)
}

/// Returns the first word of a text; an empty one if a comment or a sign comes first.
fn first_word(text: &str) -> &str {
    let mut words = text.trim_start().split(|c: char| !c.is_ascii_alphabetic());
    words.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast;

    use super::*;
    use crate::statement::statement_kind::StatementKind;

    fn recognises(kind: &StatementKind, text: &str) -> bool {
        let is_parsed = |parse: &fn(&ast::Statement) -> ParsedStatement| match tree(text) {
            Ok(Parsed::Statement(statement)) => matches!(parse(&statement), Ok(Some(_))),
            _ => false,
        };
        kind.syntax.iter().any(|syntax| match syntax {
            StatementSyntax::Text { parse, .. } => matches!(parse(text), Ok(Some(_))),
            StatementSyntax::Refused(_) => false,
            StatementSyntax::Unbound(parse) | StatementSyntax::Tree(parse) => is_parsed(parse),
            StatementSyntax::Whole { is, .. } => tree(text).is_ok_and(|tree| is(&tree)),
        })
    }

    #[test]
    fn each_example_is_a_statement_of_its_kind_only() {
        for kind in STATEMENT_KINDS {
            parse(kind.example, &[]).unwrap();
            let kinds = STATEMENT_KINDS
                .iter()
                .filter(|other| recognises(other, kind.example));
            let names: Vec<_> = kinds.map(|kind| kind.name).collect();
            assert_eq!(names, [kind.name], "{}", kind.example);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = STATEMENT_KINDS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STATEMENT_KINDS.len());
    }
}
