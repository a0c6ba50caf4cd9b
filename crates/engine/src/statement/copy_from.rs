//! `COPY … FROM 'file'` with its options, read token by token: DataFusion's parser knows `COPY … TO` only,
//! and the options of its SQL parser take no `QUOTE none`.

use std::path::PathBuf;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_import::{ImportFormat, ImportOptions, QuoteOption};
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, refuse};
use halocline_sql::syntax::SqlDialect;

use super::run::{StatementRun, counted};
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::CopyFrom;
use crate::QueryResult;

const INSTEAD: &str =
    "write COPY t FROM 'file' (FORMAT csv, HEADER false, DELIMITER ';', QUOTE none, NULL 'x', NULL 'y')";

/// `COPY … FROM` in the list of statements.
pub(super) const COPY_FROM: StatementKind = StatementKind {
    name: "COPY FROM",
    example: "COPY t FROM 't.csv'",
    syntax: &[StatementSyntax::Text { word: "copy", parse }],
};

/// A `COPY … FROM` as parsed.
#[derive(Debug)]
pub(super) struct CopyFromStatement(pub(super) CopyFrom);

impl RunStatement for CopyFromStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(mut copy) = *self;
        Box::pin(async move {
            let options = copy.options.with_time_zone(run.session.time_zone());
            copy.options = options.with_append(true);
            let table = run.table(&copy.table).await?;
            let rows = table.copy_from(&run, copy).await?;
            Ok(QueryResult::done(format!("copied {}", counted(rows))))
        })
    }
}

/// Parses `COPY … FROM`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !parser.parse_keyword(Keyword::COPY) {
        return Ok(None);
    }
    let Ok(name) = parser.parse_object_name(false) else {
        return Ok(None);
    };
    let columns = parser.consume_token(&Token::LParen);
    while columns && !matches!(parser.next_token().token, Token::RParen | Token::EOF) {}
    if !parser.parse_keyword(Keyword::FROM) {
        return Ok(None);
    }
    if columns {
        return refuse(
            "a column list in COPY … FROM",
            "the file has all columns of the table, in their order",
        );
    }
    let Some(file) = string(&mut parser) else {
        return refuse("COPY FROM anything but a file", INSTEAD);
    };
    let mut options = ImportOptions::default();
    let _ = parser.parse_keyword(Keyword::WITH) || parser.parse_keyword(Keyword::OPTIONS);
    let listed = parser.consume_token(&Token::LParen);
    while let Token::Word(word) = parser.peek_token().token {
        parser.next_token();
        option(&mut parser, &word.value.to_lowercase(), &mut options)?;
        if listed && !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if listed && !parser.consume_token(&Token::RParen) {
        return refuse(
            format!("'{}' among the options of COPY", parser.peek_token()),
            INSTEAD,
        );
    }
    while parser.consume_token(&Token::SemiColon) {}
    if parser.peek_token().token != Token::EOF {
        return refuse(format!("'{}' after COPY … FROM", parser.peek_token()), INSTEAD);
    }
    boxed(CopyFromStatement(CopyFrom {
        table: object_name(&name)?,
        file: PathBuf::from(file),
        options,
    }))
}

/// Reads the value of an option and keeps it.
fn option(parser: &mut Parser<'_>, name: &str, options: &mut ImportOptions) -> Result<(), EngineError> {
    let _ = parser.consume_token(&Token::Eq) || parser.parse_keyword(Keyword::AS);
    let needed = |value: Option<String>| match value {
        Some(value) => Ok(value),
        None => refuse(
            format!("the option {} of COPY without a value", name.to_uppercase()),
            INSTEAD,
        ),
    };
    match name {
        "csv" => options.format = ImportFormat::Csv,
        "format" => options.format = format(&needed(string(parser).or_else(|| word(parser)))?)?,
        "null" => options.nulls.push(needed(string(parser))?),
        "delimiter" => {
            options.delimiter = Some(byte(name, &needed(string(parser).or_else(|| word(parser)))?)?)
        }
        "quote" => {
            let value = needed(string(parser).or_else(|| word(parser)))?;
            options.quote = if value.eq_ignore_ascii_case("none") {
                QuoteOption::None
            } else {
                QuoteOption::Char(byte(name, &value)?)
            };
        }
        "header" => {
            let no = parser.parse_one_of_keywords(&[Keyword::FALSE, Keyword::NO, Keyword::OFF]);
            let _ = no.is_none()
                && parser
                    .parse_one_of_keywords(&[Keyword::TRUE, Keyword::YES, Keyword::ON])
                    .is_some();
            options.header = Some(no.is_none());
        }
        _ => {
            let value = string(parser).or_else(|| word(parser));
            let value = value.map_or_else(String::new, |value| format!(" '{value}'"));
            return refuse(
                format!("the option {}{value} of COPY", name.to_uppercase()),
                INSTEAD,
            );
        }
    }
    Ok(())
}

fn string(parser: &mut Parser<'_>) -> Option<String> {
    let (Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) = parser.peek_token().token
    else {
        return None;
    };
    parser.next_token();
    Some(text)
}

fn word(parser: &mut Parser<'_>) -> Option<String> {
    let Token::Word(word) = parser.peek_token().token else {
        return None;
    };
    parser.next_token();
    Some(word.value)
}

fn byte(option: &str, text: &str) -> Result<u8, EngineError> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ if text.eq_ignore_ascii_case("tab") => Ok(b'\t'),
        _ => refuse(
            format!("the option {} '{text}' of COPY", option.to_uppercase()),
            "name one ASCII character (or tab)",
        ),
    }
}

fn format(name: &str) -> Result<ImportFormat, EngineError> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "parquet" => ImportFormat::Parquet,
        "csv" => ImportFormat::Csv,
        "tbl" => ImportFormat::Tbl,
        "arrow" => ImportFormat::Arrow,
        other => return refuse(format!("the format {other}"), INSTEAD),
    })
}
