//! Statements matched on the parsed SQL.

use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    self, CreateIndex, CreateTableOptions, Expr, Ident, IndexType, ObjectName, ObjectType, Query, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;

use super::unsupported::unsupported;
use crate::catalog::{CATALOG, SCHEMA};
use crate::{EngineError, IndexSpec, Layout, Order};

/// A statement, by who runs it.
#[derive(Debug)]
pub(crate) enum Statement {
    /// DataFusion plans and runs it: queries, EXPLAIN, SHOW, DESCRIBE, COPY TO.
    Plan(Parsed),
    /// It changes the session's settings.
    Setting(Parsed),
    /// `CREATE EXTERNAL TABLE`: the session remembers it.
    External(Parsed),
    /// `CREATE TABLE … AS`.
    CreateTable {
        /// The table.
        name: String,
        /// Do nothing if there is one.
        if_not_exists: bool,
        /// Replace the one there is.
        or_replace: bool,
        /// Its rows.
        query: Box<Query>,
    },
    /// `DROP TABLE`.
    DropTables {
        /// The tables.
        names: Vec<String>,
        /// Do nothing for those that are not there.
        if_exists: bool,
    },
    /// `CREATE INDEX`.
    CreateIndex {
        /// The index.
        spec: IndexSpec,
        /// Do nothing if there is one.
        if_not_exists: bool,
    },
    /// `DROP INDEX`.
    DropIndexes {
        /// The indexes.
        names: Vec<String>,
        /// Do nothing for those that are not there.
        if_exists: bool,
    },
}

/// Parses one statement.
///
/// # Errors
/// It is not SQL, is none or several statements, or is not offered.
pub(crate) fn parse(text: &str) -> Result<Statement, EngineError> {
    let mut statements = DFParserBuilder::new(text)
        .with_dialect(&GenericDialect {})
        .build()
        .and_then(|mut p| p.parse_statements())?;
    match (statements.pop_front(), statements.len()) {
        (Some(statement), 0) => classify(statement),
        (None, _) => Err(EngineError::Query("there is no statement in the text".into())),
        (Some(_), more) => {
            let text = format!("the text has {} statements; send them one by one", more + 1);
            Err(EngineError::Query(text))
        }
    }
}

fn classify(statement: Parsed) -> Result<Statement, EngineError> {
    match &statement {
        Parsed::CreateExternalTable(_) => Ok(Statement::External(statement)),
        Parsed::Reset(_) => Ok(Statement::Setting(statement)),
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Relation(_) | CopyToSource::Query(_) => Ok(Statement::Plan(statement)),
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
        ast::Statement::CreateTable(create) => create_table(create),
        ast::Statement::CreateIndex(create) => create_index(create),
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            ..
        } => {
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

/// An identifier as the catalog knows it: lower case unless quoted.
fn identifier(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The last part of a name whose first parts, if any, are the catalog and the schema.
fn object_name(name: &ObjectName) -> Result<String, EngineError> {
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

fn create_table(create: &ast::CreateTable) -> Result<Statement, EngineError> {
    let name = object_name(&create.name)?;
    let refuse = |what: &str, instead: &str| {
        Err(EngineError::Unsupported {
            what: what.into(),
            instead: instead.into(),
        })
    };
    let Some(query) = &create.query else {
        return refuse(
            "CREATE TABLE without AS",
            "use CREATE TABLE … AS SELECT …, or import a file",
        );
    };
    if !create.columns.is_empty() || !create.constraints.is_empty() {
        return refuse(
            "a column list in CREATE TABLE … AS",
            "name and cast the columns in the SELECT",
        );
    }
    if create.temporary || create.external {
        return refuse(
            "a temporary table",
            "use WITH … in the query, or create the table and drop it",
        );
    }
    if create.table_options != CreateTableOptions::None || create.like.is_some() || create.clone.is_some() {
        return refuse("an option of CREATE TABLE", "leave it out");
    }
    if create.or_replace && create.if_not_exists {
        return refuse("OR REPLACE with IF NOT EXISTS", "use one of them");
    }
    let query = query.clone();
    Ok(Statement::CreateTable {
        name,
        if_not_exists: create.if_not_exists,
        or_replace: create.or_replace,
        query,
    })
}

fn create_index(create: &CreateIndex) -> Result<Statement, EngineError> {
    let refuse = |what: String, instead: &str| {
        Err(EngineError::Unsupported {
            what,
            instead: instead.into(),
        })
    };
    let Some(name) = &create.name else {
        return refuse(
            "CREATE INDEX without a name".into(),
            "write CREATE INDEX name ON …",
        );
    };
    match &create.using {
        None => {}
        Some(IndexType::Custom(kind)) if kind.value.eq_ignore_ascii_case("elf") => {}
        Some(other) => {
            return refuse(
                format!("an index of type {other}"),
                "there is one type: USING elf",
            );
        }
    }
    if create.unique {
        return refuse(
            "a UNIQUE index".into(),
            "an Elf holds equal rows as well; leave UNIQUE out",
        );
    }
    if create.predicate.is_some() || !create.include.is_empty() {
        return refuse(
            "WHERE or INCLUDE in CREATE INDEX".into(),
            "an Elf holds all rows; leave it out",
        );
    }
    let mut columns = Vec::new();
    for column in &create.columns {
        let Expr::Identifier(ident) = &column.column.expr else {
            return refuse(
                format!("an index on {}", column.column.expr),
                "index a column of its own",
            );
        };
        if column.column.options.asc.is_some() || column.column.options.nulls_first.is_some() {
            return refuse(
                format!("a direction for {ident} in an index"),
                "an Elf has none; leave it out",
            );
        }
        columns.push(identifier(ident));
    }
    let (mut layout, mut order) = (Layout::default(), Order::default());
    for option in &create.with {
        match option_of(option)
            .as_ref()
            .map(|(key, value)| (key.as_str(), value.as_str()))
        {
            Some(("layout", "packed")) => layout = Layout::Packed,
            Some(("layout", "published")) => layout = Layout::Published,
            Some(("order", "auto")) => order = Order::Auto,
            Some(("order", "given")) => order = Order::Given,
            _ => {
                let instead =
                    "the options are layout = 'packed' or 'published' and order = 'auto' or 'given'";
                return refuse(format!("the index option {option}"), instead);
            }
        }
    }
    let spec = IndexSpec {
        name: object_name(name)?,
        table: object_name(&create.table_name)?,
        columns,
        layout,
        order,
    };
    Ok(Statement::CreateIndex {
        spec,
        if_not_exists: create.if_not_exists,
    })
}

/// `key = 'value'` or `key = value`, in lower case.
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
            _ => return None,
        },
        _ => return None,
    };
    Some((key.value.to_lowercase(), value.to_lowercase()))
}
