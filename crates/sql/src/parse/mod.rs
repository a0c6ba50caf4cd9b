//! Classification of statements by their syntax trees.

mod advise;
mod columns;
mod control;
mod copy;
mod frames;
mod index;
mod prepared;
mod rows;
mod table;

use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, ParserInput, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, ObjectType, Query, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

pub use advise::{Advise, AdviseSource};
pub use columns::KeyedColumns;
pub use copy::CopyFrom;
pub use rows::{Delete, Insert, InsertSource, OnConflict, Update, is_default};
pub use table::{Alter, Alteration};

use crate::EngineError;
use crate::index_spec::IndexSpec;
use crate::lexer::without_mark;
use crate::nesting::Nesting;
use crate::parameters;
use crate::placement_spec::PlacementSpec;
use crate::question_marks::number_question_marks;
use crate::semantics;
use crate::syntax::SqlDialect;
use crate::table_spec::TableSpec;
use crate::unsupported::unsupported;
use crate::{CATALOG, SCHEMA};

/// A parsed statement.
#[derive(Debug)]
pub enum Statement {
    /// A statement that DataFusion plans and runs: queries, EXPLAIN, SHOW, DESCRIBE.
    Plan(Parsed),
    /// `COPY … TO`, which DataFusion plans and runs as well.
    CopyTo(Parsed),
    /// `SHOW INDEXES`.
    ShowIndexes,
    /// `ADVISE`.
    Advise(Advise),
    /// `SET` or `RESET`.
    Setting(Parsed),
    /// `CREATE EXTERNAL TABLE`, which belongs to the session.
    External(Parsed),
    /// `CREATE TABLE … AS`.
    CreateTable {
        /// The table.
        spec: TableSpec,
        /// Its rows.
        query: Box<Query>,
    },
    /// `CREATE TABLE … PRIMARY KEY … AS`.
    CreateKeyedAs {
        /// The table.
        spec: TableSpec,
        /// Its columns and its key.
        columns: KeyedColumns,
        /// Its rows.
        query: Box<Query>,
    },
    /// `CREATE TABLE` with a column list.
    NewTable {
        /// The table.
        spec: TableSpec,
        /// Its columns.
        schema: SchemaRef,
        /// The default of each.
        defaults: Vec<Option<Expr>>,
        /// The columns of its primary key; none if it has no key.
        key: Vec<String>,
    },
    /// `INSERT`.
    Insert(Insert),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
    Delete(Delete),
    /// `TRUNCATE`.
    Truncate {
        /// The tables.
        names: Vec<String>,
        /// Skip missing ones.
        if_exists: bool,
    },
    /// `ALTER TABLE`.
    Alter(Alter),
    /// `COPY … FROM`.
    CopyFrom(CopyFrom),
    /// `BEGIN`.
    Begin,
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `PREPARE`.
    Prepare {
        /// The name.
        name: String,
        /// The types of the parameters, if they are declared.
        types: Option<Vec<DataType>>,
        /// The statement to prepare.
        statement: Parsed,
    },
    /// `EXECUTE`.
    Execute {
        /// The name of a prepared statement.
        name: String,
        /// Values for its parameters.
        arguments: Vec<Expr>,
    },
    /// `DEALLOCATE`.
    Deallocate {
        /// The name of a prepared statement; all if none is named.
        name: Option<String>,
    },
    /// `VACUUM`.
    Vacuum {
        /// The table; all if none is named.
        table: Option<String>,
        /// Rewrite all segments.
        full: bool,
    },
    /// `DROP TABLE`.
    DropTables {
        /// The tables.
        names: Vec<String>,
        /// Skip missing ones.
        if_exists: bool,
    },
    /// `CREATE INDEX`.
    CreateIndex {
        /// The index.
        spec: IndexSpec,
        /// Do nothing if there is one.
        if_not_exists: bool,
        /// Its placement.
        placed: PlacementSpec,
    },
    /// `ALTER INDEX … SET`.
    PlaceIndex {
        /// The index.
        name: String,
        /// Do nothing if it does not exist.
        if_exists: bool,
        /// Its placement.
        placed: PlacementSpec,
    },
    /// `DROP INDEX`.
    DropIndexes {
        /// The indexes.
        names: Vec<String>,
        /// Skip missing ones.
        if_exists: bool,
    },
}

/// Parses one statement, with `values` in place of its parameters.
///
/// # Errors
/// It is not SQL, is none or several statements, or is not supported; values and parameters do not match.
pub fn parse(text: &str, values: &[ScalarValue]) -> Result<Statement, EngineError> {
    let text = without_mark(text);
    Nesting::check_text(text)?;
    if let Some(statement) = extension(text)? {
        parameters::refuse(values)?;
        return Ok(statement);
    }
    let mut statement = parsed(text)?;
    if let Some(prepare) = prepared::prepare(&statement)? {
        parameters::refuse(values)?;
        return Ok(prepare);
    }
    parameters::bind(&mut statement, values)?;
    classify(statement)
}

/// Parses one statement and leaves its parameters, numbered, where they are.
///
/// # Errors
/// It is not SQL, or is none or several statements; it has parameters of both kinds.
pub fn parse_unbound(text: &str) -> Result<Parsed, EngineError> {
    let text = without_mark(text);
    Nesting::check_text(text)?;
    parsed(text)
}

/// Parses the text of one statement, whose parameters `?` are numbered.
fn parsed(text: &str) -> Result<Parsed, EngineError> {
    columns::refuse_untyped(text)?;
    let statements_of = |input: ParserInput<'_>| {
        let parser = DFParserBuilder::new(input).with_dialect(&SqlDialect).build();
        parser.and_then(|mut parser| parser.parse_statements())
    };
    let mut statements = match statements_of(text.into()) {
        Ok(statements) => statements,
        Err(error) => match frames::with_markers(text) {
            Some(tokens) => statements_of(tokens.into())?,
            None => return Err(error.into()),
        },
    };
    match (statements.pop_front(), statements.len()) {
        (Some(mut statement), 0) => {
            Nesting::bound(&mut statement)?;
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

/// Parses the statements that the parser does not support; `None` if it is another one.
///
/// # Errors
/// Something in it is not offered.
fn extension(text: &str) -> Result<Option<Statement>, EngineError> {
    if !may_be_extension(text) {
        return Ok(None);
    }
    if is_abort(text) {
        return Ok(Some(Statement::Rollback));
    }
    if let Some(statement) = copy::copy_from(text)? {
        return Ok(Some(statement));
    }
    match advise::advise(text)? {
        Some(statement) => Ok(Some(statement)),
        None => index::alter(text),
    }
}

/// Returns true unless the first word of a text shows that it is none of these statements.
fn may_be_extension(text: &str) -> bool {
    let text = text.trim_start();
    let word = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    // A comment may come first.
    word.is_empty()
        || ["abort", "advise", "copy", "alter"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
}

/// Returns true for `ABORT`, which the parser does not support.
fn is_abort(text: &str) -> bool {
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return false;
    };
    if !parser.parse_keyword(Keyword::ABORT) {
        return false;
    }
    let _word = parser.parse_one_of_keywords(&[Keyword::WORK, Keyword::TRANSACTION]);
    while parser.consume_token(&Token::SemiColon) {}
    parser.peek_token() == Token::EOF
}

/// Classifies a statement without parameters.
///
/// # Errors
/// It is not supported.
pub fn classify(statement: Parsed) -> Result<Statement, EngineError> {
    match &statement {
        Parsed::CreateExternalTable(_) => Ok(Statement::External(statement)),
        Parsed::Reset(_) => Ok(Statement::Setting(statement)),
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Relation(_) | CopyToSource::Query(_) => Ok(Statement::CopyTo(statement)),
        },
        Parsed::Explain(explain) => match &*explain.statement {
            Parsed::Statement(inner) if matches!(**inner, ast::Statement::Query(_)) => {
                Ok(Statement::Plan(statement))
            }
            _ => Err(EngineError::Unsupported {
                what: "EXPLAIN of anything but a query".into(),
                instead: "explain the SELECT alone".into(),
            }),
        },
        Parsed::Statement(inner) => match &**inner {
            ast::Statement::ShowVariable { variable } if matches!(variable.as_slice(), [word] if word.value.eq_ignore_ascii_case("indexes")) => {
                Ok(Statement::ShowIndexes)
            }
            ast::Statement::Query(_)
            | ast::Statement::ShowVariable { .. }
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ShowColumns { .. }
            | ast::Statement::ShowFunctions { .. }
            | ast::Statement::ExplainTable { .. } => Ok(Statement::Plan(statement)),
            ast::Statement::Set(_) => Ok(Statement::Setting(statement)),
            other => own(other),
        },
    }
}

fn own(statement: &ast::Statement) -> Result<Statement, EngineError> {
    match statement {
        ast::Statement::CreateTable(create) => table::create(create),
        ast::Statement::AlterTable(alter) => table::alter(alter),
        ast::Statement::Truncate(truncate) => table::truncate(truncate),
        ast::Statement::Insert(insert) => rows::insert(insert),
        ast::Statement::Update(update) => rows::update(update),
        ast::Statement::Delete(delete) => rows::delete(delete),
        ast::Statement::CreateIndex(create) => index::create(create),
        ast::Statement::Prepare { .. }
        | ast::Statement::Execute { .. }
        | ast::Statement::Deallocate { .. } => prepared::read(statement),
        ast::Statement::StartTransaction { .. }
        | ast::Statement::Commit { .. }
        | ast::Statement::Rollback { .. }
        | ast::Statement::Vacuum(_) => control::read(statement),
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            purge,
            temporary,
            cascade: _,
            restrict: _,
            table: _,
        } => {
            if *purge || *temporary {
                return refuse("PURGE or TEMPORARY in DROP", "leave it out");
            }
            let names = names.iter().map(object_name).collect::<Result<_, _>>()?;
            match object_type {
                ObjectType::Table => Ok(Statement::DropTables {
                    names,
                    if_exists: *if_exists,
                }),
                ObjectType::Index => Ok(Statement::DropIndexes {
                    names,
                    if_exists: *if_exists,
                }),
                _ => Err(unsupported(statement)),
            }
        }
        other => Err(unsupported(other)),
    }
}

/// Returns an identifier as the catalog knows it: lower case unless quoted.
pub(super) fn identifier(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Returns the last part of a name whose first parts, if any, are the catalog and the schema.
pub(super) fn object_name(name: &ObjectName) -> Result<String, EngineError> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(identifier)
        .collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [name] | [SCHEMA, name] | [CATALOG, SCHEMA, name] if !name.is_empty() => Ok((*name).to_string()),
        _ => Err(EngineError::Unsupported {
            what: format!("the name {name}"),
            instead: format!("a pool has one schema, {CATALOG}.{SCHEMA}: leave it out"),
        }),
    }
}

/// Returns the error for an unsupported statement or option, with a hint on what to do instead.
fn refuse<T>(what: impl Into<String>, instead: &str) -> Result<T, EngineError> {
    Err(EngineError::Unsupported {
        what: what.into(),
        instead: instead.into(),
    })
}

/// Reads `key = 'value'`, `key = value` or `key = 12`, in lower case.
fn option_of(option: &Expr) -> Option<(String, String)> {
    let Expr::BinaryOp {
        left,
        op: ast::BinaryOperator::Eq,
        right,
    } = option
    else {
        return None;
    };
    let Expr::Identifier(key) = &**left else {
        return None;
    };
    let value = match &**right {
        Expr::Identifier(word) => word.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            Value::Number(number, _) => number.to_string(),
            _ => return None,
        },
        _ => return None,
    };
    Some((key.value.to_lowercase(), value.to_lowercase()))
}
