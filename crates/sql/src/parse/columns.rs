//! The list of columns and constraints of `CREATE TABLE` as parsed.

use arrow_schema::SchemaRef;
use datafusion::sql::sqlparser::ast::{self, ColumnDef, ColumnOption, Expr, TableConstraint};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{identifier, refuse};
use crate::EngineError;
use crate::sql_types::read_columns;
use crate::syntax::SqlDialect;

/// The columns of a table with a primary key that is created from a query.
#[derive(Debug)]
pub struct KeyedColumns {
    /// The columns; those of the query if there is no list of them.
    pub schema: Option<SchemaRef>,
    /// The default of each listed column.
    pub defaults: Vec<Option<Expr>>,
    /// The columns of the primary key.
    pub key: Vec<String>,
}

/// A list of columns and constraints.
pub(super) struct ListedColumns {
    /// The columns, without their defaults and without PRIMARY KEY.
    pub(super) columns: Vec<ColumnDef>,
    /// The default of each.
    pub(super) defaults: Vec<Option<Expr>>,
    /// The columns of the primary key; none if there is no key.
    pub(super) key: Vec<String>,
}

impl ListedColumns {
    /// Reads the list of a statement.
    ///
    /// # Errors
    /// There are two primary keys, or constraints of another kind.
    pub(super) fn read(create: &ast::CreateTable) -> Result<Self, EngineError> {
        let mut key = primary_key(&create.constraints)?;
        let (mut columns, defaults): (Vec<_>, Vec<_>) = create.columns.iter().map(without_default).unzip();
        for column in &mut columns {
            let options = column.options.len();
            column
                .options
                .retain(|option| !matches!(option.option, ColumnOption::PrimaryKey(_)));
            if column.options.len() == options {
                continue;
            }
            if !key.is_empty() {
                let instead = "for several columns write PRIMARY KEY (a, b) behind the columns";
                return refuse("PRIMARY KEY twice", instead);
            }
            key = vec![identifier(&column.name)];
        }
        Ok(Self {
            columns,
            defaults,
            key,
        })
    }

    /// Returns the columns.
    ///
    /// # Errors
    /// There are none; one cannot be stored, or has an option that is not offered.
    pub(super) fn schema(&self, table: &str) -> Result<SchemaRef, EngineError> {
        let wrong = |reason| EngineError::Query(format!("CREATE TABLE {table}: {reason}"));
        read_columns(&self.columns).map_err(wrong)
    }
}

/// Fails for a `CREATE TABLE … AS` with a column that has no type, which the parser does not support.
///
/// # Errors
/// It is one; the error says what to write instead.
pub(super) fn refuse_untyped(text: &str) -> Result<(), EngineError> {
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

/// Returns the columns of the primary key among the constraints; none if there is no key.
fn primary_key(constraints: &[TableConstraint]) -> Result<Vec<String>, EngineError> {
    let mut key = Vec::new();
    for constraint in constraints {
        let TableConstraint::PrimaryKey(primary) = constraint else {
            return refuse(
                "a constraint",
                "NOT NULL and PRIMARY KEY are the only ones; leave the others out",
            );
        };
        if !key.is_empty() {
            return refuse("PRIMARY KEY twice", "write PRIMARY KEY (a, b)");
        }
        for column in &primary.columns {
            match &column.column.expr {
                Expr::Identifier(name) if column.column.options.asc != Some(false) => {
                    key.push(identifier(name));
                }
                other => {
                    return refuse(format!("PRIMARY KEY ({other})"), "name columns, without DESC");
                }
            }
        }
    }
    Ok(key)
}

/// Returns a column without its default, and the default.
pub(super) fn without_default(column: &ColumnDef) -> (ColumnDef, Option<Expr>) {
    let mut column = column.clone();
    let mut default = None;
    column.options.retain(|option| match &option.option {
        ColumnOption::Default(value) => {
            default = Some(value.clone());
            false
        }
        _ => true,
    });
    (column, default)
}
