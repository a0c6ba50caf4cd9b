//! The columns that functions read of a partition that does not fit into memory, in files.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use halocline_catalog::spill_files::SpillFiles;

use crate::file_column::FileColumn;

/// The values of expressions over rows.
pub(super) struct FileColumns {
    schema: SchemaRef,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// None before [`create`](Self::create).
    columns: Vec<FileColumn>,
}

impl FileColumns {
    /// Creates it for rows of a schema, without expressions.
    pub(super) fn new(schema: &SchemaRef) -> Self {
        Self {
            schema: Arc::clone(schema),
            exprs: Vec::new(),
            columns: Vec::new(),
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds an expression, and returns its number; `None` for a type that cannot be in a file.
    pub(super) fn add(&mut self, expr: Arc<dyn PhysicalExpr>) -> Option<usize> {
        if let Some(at) = self.exprs.iter().position(|known| known.eq(&expr)) {
            return Some(at);
        }
        let data_type = expr.data_type(&self.schema).ok()?;
        FileColumn::takes(&data_type).then(|| {
            self.exprs.push(expr);
            self.exprs.len() - 1
        })
    }

    /// Creates the files.
    ///
    /// # Errors
    /// That of the system.
    pub(super) fn create(&mut self, files: &SpillFiles) -> Result<()> {
        let columns = self.exprs.iter();
        let columns = columns.map(|expr| FileColumn::new(expr.data_type(&self.schema)?, files));
        self.columns = columns.collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns the bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.columns.iter().map(FileColumn::size).sum()
    }

    /// Appends the values of rows.
    ///
    /// # Errors
    /// An expression cannot be evaluated; a file cannot be written.
    pub(super) fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        for (expr, column) in self.exprs.iter().zip(&mut self.columns) {
            column.append(&expr.evaluate(rows)?.into_array(rows.num_rows())?)?;
        }
        Ok(())
    }

    /// Returns the values of each expression.
    ///
    /// # Errors
    /// A file cannot be written, or mapped.
    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.columns.drain(..).map(FileColumn::finish).collect()
    }
}
