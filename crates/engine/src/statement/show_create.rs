//! `SHOW CREATE TABLE` and `SHOW CREATE VIEW`: the statements that create a table with its indexes, or a
//! view.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{self, ShowCreateObject};
use halocline_scan::keyed::keyed_infos;
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, refuse};

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::ddl::{create_index, create_keyed_table, create_table};
use crate::info::{index_info, table_info};
use crate::views::ViewDefinition;

/// `SHOW CREATE` in the list of statements.
pub(super) const SHOW_CREATE: StatementKind = StatementKind {
    name: "SHOW CREATE",
    example: "SHOW CREATE TABLE t",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `SHOW CREATE` as parsed.
#[derive(Debug)]
pub(super) struct ShowCreateStatement {
    name: String,
    is_view: bool,
}

impl RunStatement for ShowCreateStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let statements = if self.is_view {
                vec![view(&run, &self.name)?]
            } else {
                table(&run, &self.name)?
            };
            let names = vec![self.name.as_str(); statements.len()];
            let columns: [(&str, ArrayRef); 2] = [
                ("name", Arc::new(StringArray::from(names))),
                ("statement", Arc::new(StringArray::from(statements))),
            ];
            let batch = RecordBatch::try_from_iter(columns)?;
            let rows = RecordBatchStreamAdapter::new(
                batch.schema(),
                futures::stream::iter([Ok::<_, DataFusionError>(batch)]),
            );
            Ok(QueryResult::rows(Box::pin(rows)))
        })
    }
}

fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::ShowCreate { obj_type, obj_name } = statement else {
        return Ok(None);
    };
    let is_view = match obj_type {
        ShowCreateObject::Table => false,
        ShowCreateObject::View => true,
        _ => return Ok(None),
    };
    let name = object_name(obj_name)?;
    boxed(ShowCreateStatement { name, is_view })
}

/// Returns the statement that creates a view.
///
/// # Errors
/// There is none of this name, or its definition cannot be read.
fn view(run: &StatementRun<'_>, name: &str) -> Result<String, EngineError> {
    if let Some(view) = run.session.temporaries().now().views.get(name) {
        return Ok(view.statement(name, true));
    }
    let catalog = run.session.catalog(run.engine)?;
    let record = catalog
        .objects()
        .view(name)
        .ok_or_else(|| catalog.no_view(name))?;
    let definition = ViewDefinition::decode(record).map_err(|reason| EngineError::View {
        name: name.to_owned(),
        reason,
    })?;
    Ok(definition.statement(name, false))
}

/// Returns the statements that create a table and its indexes.
///
/// # Errors
/// There is none of this name; it cannot be read.
fn table(run: &StatementRun<'_>, name: &str) -> Result<Vec<String>, EngineError> {
    if run.session.temporaries().table(name).is_some() {
        return refuse(
            format!("SHOW CREATE TABLE of the temporary table {name}"),
            "DESCRIBE lists its columns",
        );
    }
    let catalog = run.session.catalog(run.engine)?;
    let mut statements = Vec::new();
    if !catalog.has_table(name) {
        let keyed = keyed_infos(run.engine)?;
        let found = keyed.iter().find(|table| table.name == name);
        statements.push(create_keyed_table(found.ok_or_else(|| catalog.no_table(name))?));
    } else {
        statements.push(create_table(&table_info(&catalog, name)?));
        for index in catalog.indexes_of(name) {
            statements.push(create_index(&index_info(&catalog, &index)?));
        }
    }
    // Sent one by one, statements end without a semicolon.
    let text = |statement: String| statement.trim_end_matches(';').to_owned();
    Ok(statements.into_iter().map(text).collect())
}
