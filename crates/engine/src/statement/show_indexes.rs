//! `SHOW INDEXES`: the indexes as rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use halocline_catalog::{Catalog, OpenIndex};
use halocline_sql::EngineError;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::info::{IndexInfo, index_info};

/// `SHOW INDEXES` in the list of statements.
pub(super) const SHOW_INDEXES: StatementKind = StatementKind {
    name: "SHOW INDEXES",
    example: "SHOW INDEXES",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `SHOW INDEXES` as parsed.
#[derive(Debug)]
pub(super) struct ShowIndexesStatement;

impl RunStatement for ShowIndexesStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let catalog = run.session.catalog(run.engine)?;
            show_indexes(&catalog)
        })
    }
}

/// Returns true for `SHOW INDEXES`, which the SQL parser reads as a variable.
pub(super) fn is_show_indexes(statement: &ast::Statement) -> bool {
    match statement {
        ast::Statement::ShowVariable { variable } => {
            matches!(variable.as_slice(), [word] if word.value.eq_ignore_ascii_case("indexes"))
        }
        _ => false,
    }
}

fn parse(statement: &ast::Statement) -> ParsedStatement {
    if is_show_indexes(statement) {
        boxed(ShowIndexesStatement)
    } else {
        Ok(None)
    }
}

/// Returns one row for each index; sizes in bytes. Of one that cannot be read, `fallback` has the reason.
///
/// # Errors
/// The rows do not make a batch.
fn show_indexes(catalog: &Catalog) -> Result<QueryResult, EngineError> {
    let info = |index: &OpenIndex| {
        index_info(catalog, &index.name).unwrap_or_else(|error| IndexInfo {
            name: index.name.clone(),
            table: index.table.clone().unwrap_or_default(),
            layout: String::new(),
            columns: Vec::new(),
            rows: 0,
            bytes: 0,
            placement: String::new(),
            dram: None,
            dram_bytes: None,
            dram_most: 0,
            fallback: Some(error.to_string()),
        })
    };
    let infos: Vec<IndexInfo> = catalog.indexes().iter().map(info).collect();
    let text = |of: fn(&IndexInfo) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(infos.iter().map(of)))
    };
    let number = |of: fn(&IndexInfo) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(infos.iter().map(of)))
    };
    let columns: [(&str, DataType, ArrayRef); 10] = [
        ("name", DataType::Utf8, text(|i| Some(i.name.clone()))),
        ("table", DataType::Utf8, text(|i| Some(i.table.clone()))),
        ("columns", DataType::Utf8, text(|i| Some(i.columns.join(", ")))),
        ("layout", DataType::Utf8, text(|i| Some(i.layout.clone()))),
        ("rows", DataType::UInt64, number(|i| Some(i.rows))),
        ("bytes", DataType::UInt64, number(|i| Some(i.bytes))),
        ("placement", DataType::Utf8, text(|i| Some(i.placement.clone()))),
        ("dram", DataType::UInt64, number(|i| i.dram)),
        ("dram_bytes", DataType::UInt64, number(|i| i.dram_bytes)),
        ("fallback", DataType::Utf8, text(|i| i.fallback.clone())),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, kind, _)| Field::new(*name, kind.clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(DataFusionError::from)?;
    let rows = futures::stream::iter([Ok(batch)]);
    Ok(QueryResult::rows(Box::pin(RecordBatchStreamAdapter::new(
        schema, rows,
    ))))
}
