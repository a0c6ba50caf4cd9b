//! `CREATE TABLE … AS`.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_sql::EngineError;
use halocline_sql::parse::refuse;
use halocline_sql::syntax::SqlDialect;

use super::distinct_names::distinctly_named;
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementQuery, StatementSyntax, boxed,
};
use super::table_changes::NewTableAs;
use super::table_definition::read_definition;
use super::table_kind::kind_of_key;
use crate::QueryResult;

/// `CREATE TABLE … AS` in the list of statements.
pub(super) const CREATE_TABLE_AS: StatementKind = StatementKind {
    name: "CREATE TABLE AS",
    example: "CREATE TABLE t AS SELECT 1 AS a",
    syntax: &[
        StatementSyntax::Refused(refuse_untyped),
        StatementSyntax::Tree(parse),
    ],
};

/// A `CREATE TABLE … AS` as parsed.
#[derive(Debug)]
pub(super) struct CreateTableAsStatement(pub(super) NewTableAs);

impl RunStatement for CreateTableAsStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(table) = *self;
        Box::pin(async move {
            let kind = kind_of_key(&table.key);
            let message = kind.create_as(&run, table).await?;
            Ok(QueryResult::done(message))
        })
    }

    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        Some(StatementQuery::stored(self.0.query))
    }
}

/// Parses `CREATE TABLE` with a query; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    match statement {
        ast::Statement::CreateTable(create) if !create.temporary => match &create.query {
            Some(query) => boxed(CreateTableAsStatement(new_table_as(create, query)?)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Reads the table of a statement with a query.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn new_table_as(create: &ast::CreateTable, query: &ast::Query) -> Result<NewTableAs, EngineError> {
    let (spec, listed) = read_definition(create)?;
    let (schema, query) = match (listed.key.is_empty(), listed.columns.is_empty()) {
        (no_key, true) if !no_key || listed.rules.is_empty() => (None, Box::new(query.clone())),
        (_, true) => {
            return refuse(
                "a constraint in CREATE TABLE … AS without PRIMARY KEY",
                "add it afterwards: ALTER TABLE t ADD CHECK (…)",
            );
        }
        (true, false) => {
            return refuse(
                "a column list without PRIMARY KEY in CREATE TABLE … AS",
                "name and cast the columns in the SELECT",
            );
        }
        (false, false) => (Some(listed.schema(&spec.name)?), distinctly_named(query)),
    };
    Ok(NewTableAs {
        spec,
        schema,
        defaults: listed.defaults,
        key: listed.key,
        rules: listed.rules,
        query,
    })
}

/// Fails for a `CREATE TABLE … AS` with a column that has no type, which the parser does not support.
///
/// # Errors
/// It is one; the error says what to write instead.
fn refuse_untyped(text: &str) -> Result<(), EngineError> {
    let is_create = text
        .trim_start()
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case("create"));
    if !is_create {
        return Ok(());
    }
    match untyped(text) {
        Some(column) => refuse(
            format!("the column {column} without a type in CREATE TABLE … AS"),
            "give each column its type, or none of them: CREATE TABLE t (PRIMARY KEY (a, b)) AS SELECT …; \
             or CREATE TABLE t (…) first, then INSERT INTO t SELECT …",
        ),
        None => Ok(()),
    }
}

/// Returns the first column without a type in the list of a `CREATE TABLE … AS`.
fn untyped(text: &str) -> Option<String> {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text).ok()?;
    let _ = parser.parse_keyword(Keyword::CREATE) && parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    if !parser.parse_keyword(Keyword::TABLE) {
        return None;
    }
    let _ = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    parser.parse_object_name(false).ok()?;
    if !parser.consume_token(&Token::LParen) {
        return None;
    }
    let (mut column, mut depth, mut is_start) = (None, 1, true);
    while depth > 0 {
        let token = parser.next_token().token;
        if is_start && column.is_none() && is_untyped(&token, &parser.peek_token().token) {
            column = Some(token.to_string());
        }
        is_start = depth == 1 && token == Token::Comma;
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    column.filter(|_| parser.parse_keyword(Keyword::AS))
}

/// Returns true if an element of the list that begins with these tokens is a column without a type.
fn is_untyped(first: &Token, second: &Token) -> bool {
    use Keyword as K;
    let ends = match second {
        Token::Comma | Token::RParen => true,
        Token::Word(word) => matches!(
            word.keyword,
            K::PRIMARY | K::NOT | K::NULL | K::DEFAULT | K::UNIQUE
        ),
        _ => false,
    };
    ends && matches!(first, Token::Word(_))
}
