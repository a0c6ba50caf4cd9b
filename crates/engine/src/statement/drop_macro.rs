//! `DROP MACRO` and `DROP FUNCTION`.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_catalog::macro_object;
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, refuse};
use halocline_sql::syntax::SqlDialect;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;

/// `DROP MACRO` in the list of statements.
pub(super) const DROP_MACRO: StatementKind = StatementKind {
    name: "DROP MACRO",
    example: "DROP MACRO m",
    syntax: &[StatementSyntax::Text { word: "drop", parse }],
};

/// A `DROP MACRO` as parsed.
#[derive(Debug)]
pub(super) struct DropMacroStatement {
    names: Vec<String>,
    if_exists: bool,
}

impl RunStatement for DropMacroStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self { names, if_exists } = *self;
        Box::pin(async move {
            let catalog = run.session.peek(run.engine)?;
            if if_exists && names.iter().all(|name| !catalog.objects().has_macro(name)) {
                return Ok(QueryResult::done("nothing to drop"));
            }
            let dropped = run
                .change("DROP MACRO", move |transaction| {
                    let catalog = transaction.catalog();
                    let mut dropped: Vec<String> = Vec::new();
                    for name in names {
                        if dropped.contains(&name) || if_exists && !catalog.objects().has_macro(&name) {
                            continue;
                        }
                        if !catalog.objects().has_macro(&name) {
                            return Err(catalog.objects().no_macro(&name));
                        }
                        transaction.txn().remove(&macro_object(&name))?;
                        dropped.push(name);
                    }
                    transaction.changed([]);
                    Ok(dropped)
                })
                .await?;
            Ok(QueryResult::done(format!("dropped macro {}", dropped.join(", "))))
        })
    }
}

/// Reads `DROP MACRO [IF EXISTS] a, b`, or `DROP FUNCTION`; `None` for any other text.
///
/// # Errors
/// It is one, and wrong.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !parser.parse_keyword(Keyword::DROP)
        || parser
            .parse_one_of_keywords(&[Keyword::MACRO, Keyword::FUNCTION])
            .is_none()
    {
        return Ok(None);
    }
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser
        .parse_comma_separated(|parser| parser.parse_object_name(false))
        .map_err(wrong)?;
    let names: Vec<String> = names.iter().map(object_name).collect::<Result<_, _>>()?;
    while parser.consume_token(&Token::SemiColon) {}
    if parser.peek_token().token != Token::EOF {
        return refuse(
            format!("'{}' in DROP MACRO or DROP FUNCTION", parser.peek_token()),
            "write DROP MACRO [IF EXISTS] name",
        );
    }
    boxed(DropMacroStatement { names, if_exists })
}
