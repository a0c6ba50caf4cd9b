//! `ADVISE` as parsed.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Statement, option_of, refuse};
use crate::EngineError;
use crate::size::read_limit;
use crate::syntax::SqlDialect;

const FORM: &str = "write ADVISE INDEXES FOR (SELECT …), 'SELECT …' WITH (space = '2GiB'), or ADVISE INDEXES FROM \
                    'queries.sql' WITH (space = '2GiB')";

/// The statement.
#[derive(Debug)]
pub struct Advise {
    /// The workload.
    pub source: AdviseSource,
    /// Bytes for the proposed indexes; none: no limit.
    pub space: Option<u64>,
    /// Bytes of DRAM for copies of them; none: no copies.
    pub dram: Option<u64>,
}

/// The workload.
#[derive(Debug)]
pub enum AdviseSource {
    /// The texts of queries.
    Queries(Vec<String>),
    /// A file of queries.
    File(String),
}

/// Reads `ADVISE [INDEXES] FOR query, … [WITH (…)]` and `ADVISE [INDEXES] FROM 'file' [WITH (…)]`, which the
/// parser does not support. `None` for any other statement.
///
/// # Errors
/// It is one, and wrong.
pub(super) fn advise(text: &str) -> Result<Option<Statement>, EngineError> {
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
    let mut advise = Advise {
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
        Token::EOF => Ok(Some(Statement::Advise(advise))),
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
    use super::*;

    fn read(text: &str) -> Result<Advise, String> {
        match advise(text) {
            Ok(Some(Statement::Advise(advise))) => Ok(advise),
            Ok(_) => Err("another statement".into()),
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
