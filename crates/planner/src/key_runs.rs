//! Runs of rows with equal keys, in rows that are sorted by them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;

/// Finds the runs of a stream batch by batch. Without keys there is one run.
pub struct KeyRuns {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// `None` without keys.
    converter: Option<RowConverter>,
    /// The keys of the last row so far.
    last: Option<OwnedRow>,
    has_begun: bool,
}

/// Rows of a batch with equal keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRun {
    /// The rows of the batch.
    pub rows: Range<usize>,
    /// False if they continue the last run of the batch before.
    pub begins: bool,
}

impl KeyRuns {
    /// Creates it for rows of a schema.
    ///
    /// # Errors
    /// A key has a type that cannot be compared.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>, schema: &Schema) -> Result<Self> {
        let fields = keys.iter().map(|key| Ok(SortField::new(key.data_type(schema)?)));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let converter = if fields.is_empty() {
            None
        } else {
            Some(RowConverter::new(fields)?)
        };
        Ok(Self {
            keys,
            converter,
            last: None,
            has_begun: false,
        })
    }

    /// Returns the runs of the next batch.
    ///
    /// # Errors
    /// A key cannot be evaluated.
    pub fn next(&mut self, batch: &RecordBatch) -> Result<Vec<KeyRun>> {
        let count = batch.num_rows();
        if count == 0 {
            return Ok(Vec::new());
        }
        let begins = !std::mem::replace(&mut self.has_begun, true);
        let Some(converter) = &self.converter else {
            return Ok(vec![KeyRun {
                rows: 0..count,
                begins,
            }]);
        };
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(count));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let rows = converter.convert_columns(&keys)?;
        let mut runs = Vec::new();
        let mut start = 0;
        while start < count {
            let key = rows.row(start);
            let others = (start + 1..count).find(|&other| rows.row(other) != key);
            let end = others.unwrap_or(count);
            let continues = start == 0 && self.last.as_ref().is_some_and(|last| last.row() == key);
            runs.push(KeyRun {
                rows: start..end,
                begins: !continues,
            });
            start = end;
        }
        self.last = Some(rows.row(count - 1).owned());
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;
    use arrow_schema::{DataType, Field};
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    #[test]
    fn runs_go_on_over_batches() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int32, true)]));
        let batch = |values: Vec<Option<i32>>| {
            let values: ArrayRef = Arc::new(Int32Array::from(values));
            RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap()
        };
        let run = |rows, begins| KeyRun { rows, begins };
        let mut runs = KeyRuns::new(vec![Arc::new(Column::new("k", 0))], &schema).unwrap();
        let first = runs.next(&batch(vec![None, None, Some(1)])).unwrap();
        assert_eq!(first, [run(0..2, true), run(2..3, true)]);
        assert!(runs.next(&batch(Vec::new())).unwrap().is_empty());
        let second = runs.next(&batch(vec![Some(1), Some(2)])).unwrap();
        assert_eq!(second, [run(0..1, false), run(1..2, true)]);
        let mut all = KeyRuns::new(Vec::new(), &schema).unwrap();
        assert_eq!(all.next(&batch(vec![None, Some(1)])).unwrap(), [run(0..2, true)]);
        assert_eq!(all.next(&batch(vec![Some(3)])).unwrap(), [run(0..1, false)]);
    }
}
