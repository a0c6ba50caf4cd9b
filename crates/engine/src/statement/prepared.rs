//! `PREPARE`, `EXECUTE` and `DEALLOCATE`.

use arrow_schema::DataType;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Expr};
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};
use halocline_sql::sql_types::data_type;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::prepared::{PreparedBody, evaluated, literals};

/// `PREPARE` in the list of statements. The parameters of the statement in it have no values yet.
pub(super) const PREPARE: StatementKind = StatementKind {
    name: "PREPARE",
    example: "PREPARE p AS SELECT a FROM t WHERE a = $1",
    syntax: &[StatementSyntax::Unbound(prepare)],
};

/// `EXECUTE` in the list of statements.
pub(super) const EXECUTE: StatementKind = StatementKind {
    name: "EXECUTE",
    example: "EXECUTE p (1)",
    syntax: &[StatementSyntax::Tree(execute)],
};

/// `DEALLOCATE` in the list of statements.
pub(super) const DEALLOCATE: StatementKind = StatementKind {
    name: "DEALLOCATE",
    example: "DEALLOCATE p",
    syntax: &[StatementSyntax::Tree(deallocate)],
};

/// A statement to prepare under a name.
#[derive(Debug)]
pub(super) struct PrepareStatement {
    name: String,
    /// The types of the parameters, if they are declared.
    types: Option<Vec<DataType>>,
    statement: Parsed,
}

impl RunStatement for PrepareStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self {
            name,
            types,
            statement,
        } = *self;
        Box::pin(async move {
            let body = PreparedBody::new(run.session, run.engine, statement, types, run.stack).await?;
            run.session.prepared().add(&name, body)?;
            Ok(QueryResult::done(format!("prepared statement {name}")))
        })
    }
}

/// The run of a prepared statement.
#[derive(Debug)]
pub(super) struct ExecuteStatement {
    name: String,
    /// Values for its parameters.
    arguments: Vec<Expr>,
}

impl RunStatement for ExecuteStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self { name, arguments } = *self;
        Box::pin(async move {
            let body = run.session.prepared().get(&name)?;
            let values = match literals(&arguments) {
                Some(values) => values,
                None => evaluated(&run.session.schema_planner(run.engine)?, arguments).await?,
            };
            body.execute(run.session, run.engine, values).await
        })
    }
}

/// The removal of a prepared statement; of all if none is named.
#[derive(Debug)]
pub(super) struct DeallocateStatement {
    name: Option<String>,
}

impl RunStatement for DeallocateStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let prepared = run.session.prepared();
            let message = match self.name {
                Some(name) => {
                    prepared.remove(&name)?;
                    format!("removed prepared statement {name}")
                }
                None => format!("removed {} prepared statements", prepared.clear()),
            };
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `PREPARE`; `None` for any other statement.
///
/// # Errors
/// It declares a type that does not exist.
fn prepare(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Prepare {
        name,
        data_types,
        statement,
    } = statement
    else {
        return Ok(None);
    };
    let name = identifier(name);
    let wrong = |reason| EngineError::Query(format!("PREPARE {name}: {reason}"));
    let types = data_types.iter().map(|sql| data_type(sql).map_err(wrong));
    let types: Vec<_> = types.collect::<Result<_, _>>()?;
    boxed(PrepareStatement {
        types: (!types.is_empty()).then_some(types),
        statement: Parsed::Statement(statement.clone()),
        name,
    })
}

/// Parses `EXECUTE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn execute(statement: &ast::Statement) -> ParsedStatement {
    match statement {
        ast::Statement::Execute {
            name: Some(name),
            parameters,
            has_parentheses: _,
            immediate: false,
            into,
            using,
            output: false,
            default: false,
        } if into.is_empty() && using.is_empty() => boxed(ExecuteStatement {
            name: object_name(name)?,
            arguments: parameters.clone(),
        }),
        ast::Statement::Execute { .. } => refuse("this form of EXECUTE", "write EXECUTE name (value, …)"),
        _ => Ok(None),
    }
}

/// Parses `DEALLOCATE`; `None` for any other statement.
fn deallocate(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Deallocate { name, prepare: _ } = statement else {
        return Ok(None);
    };
    let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
    boxed(DeallocateStatement {
        name: (!is_all).then(|| identifier(name)),
    })
}
