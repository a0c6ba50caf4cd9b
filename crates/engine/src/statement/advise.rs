//! `ADVISE`: indexes for queries, as rows.

use std::fs;

use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_sql::EngineError;
use halocline_sql::parse::{option_of, refuse};
use halocline_sql::size::read_limit;
use halocline_sql::syntax::SqlDialect;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::advise::indexes::{IndexSetOptions, WorkloadQuery, advise_indexes};

/// `ADVISE` in the list of statements.
pub(super) const ADVISE: StatementKind = StatementKind {
    name: "ADVISE",
    example: "ADVISE INDEXES FOR (SELECT a FROM t WHERE a = 1)",
    syntax: &[StatementSyntax::Text {
        word: "advise",
        parse,
    }],
};

const FORM: &str = "write ADVISE INDEXES FOR (SELECT …), 'SELECT …' WITH (space = '2GiB'), or ADVISE INDEXES FROM \
                    'queries.sql' WITH (space = '2GiB')";

/// An `ADVISE` as parsed.
#[derive(Debug)]
pub(super) struct AdviseStatement {
    /// The workload.
    source: AdviseSource,
    /// Bytes for the proposed indexes; none: no limit.
    space: Option<u64>,
    /// Bytes of DRAM for copies of them; none: no copies.
    dram: Option<u64>,
}

/// The workload.
#[derive(Debug)]
enum AdviseSource {
    /// The texts of queries.
    Queries(Vec<String>),
    /// A file of queries.
    File(String),
}

impl RunStatement for AdviseStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let workload = match self.source {
                AdviseSource::Queries(queries) => {
                    let query =
                        |(at, text): (usize, String)| WorkloadQuery::new(text, format!("query {}", at + 1));
                    queries.into_iter().enumerate().map(query).collect()
                }
                AdviseSource::File(file) => read_file(&file)?,
            };
            let options = IndexSetOptions::new(self.space.unwrap_or(u64::MAX)).with_dram(self.dram);
            let advice = advise_indexes(run.session, run.engine, &workload, &options).await?;
            let batch = advice.to_batch()?;
            let rows = RecordBatchStreamAdapter::new(
                batch.schema(),
                futures::stream::iter([Ok::<_, DataFusionError>(batch)]),
            );
            Ok(QueryResult::rows(Box::pin(rows)))
        })
    }
}

fn read_file(file: &str) -> Result<Vec<WorkloadQuery>, EngineError> {
    let text = fs::read_to_string(file)
        .map_err(|error| EngineError::Query(format!("{file} cannot be read: {error}")))?;
    let queries = WorkloadQuery::read_script(&text, file)?;
    if queries.is_empty() {
        Err(EngineError::Query(format!(
            "there is no query in {file}; write SELECT statements into it, separated by semicolons"
        )))
    } else {
        Ok(queries)
    }
}

/// Reads `ADVISE [INDEXES] FOR query, … [WITH (…)]` and `ADVISE [INDEXES] FROM 'file' [WITH (…)]`, which the
/// parser does not support. `None` for any other statement.
///
/// # Errors
/// It is one, and wrong.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !word(&mut parser, "advise") {
        return Ok(None);
    }
    let _indexes = word(&mut parser, "indexes");
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let source = if parser.parse_keyword(Keyword::FOR) {
        AdviseSource::Queries(parser.parse_comma_separated(query).map_err(wrong)?)
    } else if parser.parse_keyword(Keyword::FROM) {
        AdviseSource::File(quoted(&mut parser).map_err(wrong)?)
    } else {
        return refuse("ADVISE without FOR or FROM", FORM);
    };
    let mut advise = AdviseStatement {
        source,
        space: None,
        dram: None,
    };
    if parser.parse_keyword(Keyword::WITH) {
        parser.expect_token(&Token::LParen).map_err(wrong)?;
        for option in parser.parse_comma_separated(Parser::parse_expr).map_err(wrong)? {
            let size = |what: &str, value: &str| {
                let limit = read_limit(value);
                limit.map_err(|error| EngineError::Query(format!("ADVISE: {what}: {error}")))
            };
            match option_of(&option) {
                Some((key, value)) if key == "space" => advise.space = size("space", &value)?,
                Some((key, value)) if key == "dram" => advise.dram = size("dram", &value)?,
                _ => return refuse(format!("the option {option} of ADVISE"), FORM),
            }
        }
        parser.expect_token(&Token::RParen).map_err(wrong)?;
    }
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token().token {
        Token::EOF => boxed(advise),
        other => refuse(format!("'{other}' in ADVISE"), FORM),
    }
}

/// Reads a query in quotes or parentheses.
fn query(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(query.to_string());
    }
    quoted(parser)
}

/// Reads a text in single quotes.
fn quoted(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::SingleQuotedString(text) => Ok(text),
        _ => parser.expected("a text in single quotes", next),
    }
}

/// Consumes a word that need not be a keyword of the parser.
fn word(parser: &mut Parser<'_>, expected: &str) -> bool {
    let is_next = matches!(&parser.peek_token().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected));
    if is_next {
        parser.next_token();
    }
    is_next
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;

    fn read(text: &str) -> Result<AdviseStatement, String> {
        match parse(text) {
            Ok(Some(statement)) => {
                let any: Box<dyn Any> = statement;
                let advise = any.downcast::<AdviseStatement>();
                advise.map(|advise| *advise).map_err(|_| "another type".into())
            }
            Ok(None) => Err("another statement".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn queries_stand_in_quotes_or_parentheses() {
        let text = "/* x */ advise indexes FOR 'SELECT ''a''', (SELECT b FROM t WHERE c IN (1, 2)) WITH (space = '2MiB', dram = 4096);";
        let advise = read(text).unwrap();
        assert!(matches!(&advise.source, AdviseSource::Queries(queries)
            if *queries == ["SELECT 'a'", "SELECT b FROM t WHERE c IN (1, 2)"]));
        assert_eq!((advise.space, advise.dram), (Some(2 << 20), Some(4096)));
        let advise = read("ADVISE FROM 'q.sql'").unwrap();
        assert!(matches!(&advise.source, AdviseSource::File(file) if file == "q.sql"));
        assert_eq!((advise.space, advise.dram), (None, None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("SELECT 1", "another statement"),
            ("ADVISE", "without FOR or FROM"),
            ("ADVISE INDEXES SELECT 1", "without FOR or FROM"),
            ("ADVISE FOR SELECT 1", "a text in single quotes"),
            ("ADVISE FOR (SELECT 1", "Expected"),
            ("ADVISE FROM q", "a text in single quotes"),
            (
                "ADVISE FOR 'SELECT 1' WITH (space = 'much')",
                "ADVISE: space: `much` is not a size",
            ),
            ("ADVISE FOR 'SELECT 1' WITH (speed = 3)", "the option speed = 3"),
            ("ADVISE FOR 'SELECT 1' LIMIT 3", "'LIMIT' in ADVISE"),
        ] {
            let error = read(text).map(|advise| format!("{advise:?}")).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
