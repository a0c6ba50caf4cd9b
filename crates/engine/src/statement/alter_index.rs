//! `ALTER INDEX … SET`.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, option_of, refuse};
use halocline_sql::placement_spec::PlacementSpec;
use halocline_sql::syntax::SqlDialect;

use super::place_index::{place_now, read_placed, set_placement};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;

/// `ALTER INDEX` in the list of statements.
pub(super) const ALTER_INDEX: StatementKind = StatementKind {
    name: "ALTER INDEX",
    example: "ALTER INDEX i SET (placement = 'hybrid')",
    syntax: &[StatementSyntax::Text { word: "alter", parse }],
};

/// An `ALTER INDEX … SET` as parsed.
#[derive(Debug)]
pub(super) struct AlterIndexStatement {
    /// The index.
    name: String,
    /// Do nothing if it does not exist.
    if_exists: bool,
    /// Its placement.
    placed: PlacementSpec,
}

impl RunStatement for AlterIndexStatement {
    /// Stores the placement of the index, and makes its copies in DRAM unless a transaction is open.
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self {
            name,
            if_exists,
            placed,
        } = *self;
        Box::pin(async move {
            let (index, cancel) = (name.clone(), run.cancel_flag());
            let stored = run
                .change("ALTER INDEX", move |transaction| {
                    set_placement(transaction, &index, if_exists, placed, &cancel)
                })
                .await?;
            if !stored {
                return Ok(QueryResult::done(format!("there is no index {name}")));
            }
            if run.session.slot().must_be_idle("").is_err() {
                let message = format!("index {name}: in effect when the transaction commits");
                return Ok(QueryResult::done(message));
            }
            let cancel = run.cancel_flag();
            let info = run
                .blocking(move |_, engine| place_now(engine, &name, &cancel))
                .await?;
            let message = format!("index {}: {}", info.name, info.placement_text());
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `ALTER INDEX name SET (placement = 'hybrid', dram = '1GiB')`, with or without the parentheses; the
/// parser knows only `RENAME`. `None` for any other statement.
///
/// # Errors
/// It is one, and wrong.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is none of these statements; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::INDEX]) {
        return Ok(None);
    }
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = object_name(&parser.parse_object_name(false).map_err(wrong)?)?;
    if !parser.parse_keyword(Keyword::SET) {
        return refuse(
            "ALTER INDEX without SET",
            "write ALTER INDEX name SET (placement = 'static', dram = '64MiB'); for another name drop the index and \
             build it anew",
        );
    }
    let parentheses = parser.consume_token(&Token::LParen);
    let options = parser.parse_comma_separated(Parser::parse_expr).map_err(wrong)?;
    if parentheses {
        parser.expect_token(&Token::RParen).map_err(wrong)?;
    }
    while parser.consume_token(&Token::SemiColon) {}
    parser.expect_token(&Token::EOF).map_err(wrong)?;
    let mut placed = PlacementSpec::default();
    for option in &options {
        let known = match option_of(option) {
            Some((key, value)) => read_placed(&name, &key, &value, &mut placed)?,
            None => false,
        };
        if !known {
            return refuse(
                format!("ALTER INDEX … SET {option}"),
                "there are placement = 'static' (or another one) and dram = '64MiB'; for another layout or order drop the \
                 index and build it anew",
            );
        }
    }
    boxed(AlterIndexStatement {
        name,
        if_exists,
        placed,
    })
}
