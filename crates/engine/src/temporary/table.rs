//! A table of a session: batches in DRAM, which count in the memory of queries.
//!
//! Invariants: all batches have the schema of the table. Versions of a table share the batches that they have
//! in common.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use halocline_catalog::delta::compact;
use halocline_catalog::write::WrittenTable;
use halocline_columns::{TableRule, TableRules};
use halocline_scan::plan::ADDRESS;
use halocline_sql::EngineError;
use roaring::RoaringTreemap;

/// Rows up to which batches are merged.
const MERGED_ROWS: usize = 8192;

/// A batch and its memory.
#[derive(Debug)]
struct StoredBatch {
    rows: RecordBatch,
    _memory: MemoryReservation,
}

impl StoredBatch {
    /// Counts the memory of a batch.
    ///
    /// # Errors
    /// There is not enough memory.
    fn new(rows: RecordBatch, memory: &Arc<dyn MemoryPool>) -> Result<Arc<Self>, EngineError> {
        let reservation = MemoryConsumer::new("temporary table").register(memory);
        reservation.try_grow(rows.get_array_memory_size())?;
        Ok(Arc::new(Self {
            rows,
            _memory: reservation,
        }))
    }
}

/// One version of a table of a session.
#[derive(Debug, Clone)]
pub(crate) struct TemporaryTable {
    name: String,
    schema: SchemaRef,
    defaults: Arc<[Option<ArrayRef>]>,
    rules: Arc<TableRules>,
    batches: Vec<Arc<StoredBatch>>,
}

impl WrittenTable for TemporaryTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn default_value(&self, column: usize) -> Option<&ArrayRef> {
        self.defaults.get(column).and_then(Option::as_ref)
    }

    fn rules(&self) -> &Arc<TableRules> {
        &self.rules
    }
}

impl TemporaryTable {
    /// Creates a table without rows. `defaults` are those of the columns, as arrays of one value; columns
    /// beyond its end have none.
    pub(crate) fn new(name: &str, schema: SchemaRef, defaults: Vec<Option<ArrayRef>>) -> Self {
        Self {
            name: name.to_owned(),
            schema,
            defaults: defaults.into(),
            rules: Arc::default(),
            batches: Vec::new(),
        }
    }

    /// Returns the table with rules that its rows obey.
    pub(crate) fn with_rules(self, rules: Vec<TableRule>) -> Self {
        Self {
            rules: Arc::new(rules.into()),
            ..self
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| batch.rows.num_rows() as u64)
            .sum()
    }

    /// Returns the table without rows.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            batches: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the rows.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = RecordBatch> {
        self.batches.into_iter().map(|batch| batch.rows.clone())
    }

    /// Adds rows at the end.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn append(
        &mut self,
        rows: &RecordBatch,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let mut rows = compact(rows);
        // Each row is merged a logarithmic number of times at most.
        while let Some(last) = self.batches.last()
            && last.rows.num_rows() <= rows.num_rows()
            && last.rows.num_rows() + rows.num_rows() <= MERGED_ROWS
        {
            rows = concat_batches(&self.schema, [&last.rows, &rows])?;
            self.batches.pop();
        }
        self.batches.push(StoredBatch::new(rows, memory)?);
        Ok(())
    }

    /// Returns the table without the rows of these numbers.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn without(
        &self,
        gone: &RoaringTreemap,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Self, EngineError> {
        let mut kept = self.emptied();
        let mut first = 0;
        for batch in &self.batches {
            let end = first + batch.rows.num_rows() as u64;
            if gone.range_cardinality(first..end) == 0 {
                kept.batches.push(Arc::clone(batch));
            } else {
                let is_kept: BooleanArray = (first..end).map(|row| Some(!gone.contains(row))).collect();
                let rows = filter_record_batch(&batch.rows, &is_kept)?;
                kept.append(&rows, memory)?;
            }
            first = end;
        }
        Ok(kept)
    }

    /// Returns the rows as a table of a query.
    ///
    /// # Errors
    /// The batches do not fit the schema, which does not happen.
    pub(crate) fn provider(&self) -> Result<Arc<dyn TableProvider>, EngineError> {
        let batches = self.batches.iter().map(|batch| batch.rows.clone()).collect();
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![batches])?;
        Ok(Arc::new(table))
    }

    /// Returns the rows as a table of a query, with a column of their numbers behind the others.
    ///
    /// # Errors
    /// The batches do not fit the schema, which does not happen.
    pub(crate) fn provider_with_addresses(&self) -> Result<Arc<dyn TableProvider>, EngineError> {
        let address = Arc::new(Field::new(ADDRESS, DataType::UInt64, false));
        let fields = self.schema.fields().iter().cloned().chain([address]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut first = 0;
        let mut numbered = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let end = first + batch.rows.num_rows() as u64;
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..end));
            let columns = batch.rows.columns().iter().cloned().chain([numbers]).collect();
            numbered.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
            first = end;
        }
        Ok(Arc::new(MemTable::try_new(schema, vec![numbered])?))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    fn values(table: &TemporaryTable) -> Vec<i64> {
        let columns = table.batches.iter().map(|batch| batch.rows.column(0));
        let values = columns.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec());
        values.collect()
    }

    #[test]
    fn rows_are_added_and_removed_and_their_memory_is_counted() {
        let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let mut table = TemporaryTable::new("t", batch([]).schema(), Vec::new());
        for value in 0..1000 {
            table.append(&batch([value]), &memory).unwrap();
        }
        assert!(table.batches.len() <= 10, "{}", table.batches.len());
        assert_eq!(values(&table), (0..1000).collect::<Vec<_>>());
        let full = memory.reserved();
        assert!((8_000..40_000).contains(&full), "{full}");
        let gone: RoaringTreemap = (0..1000).filter(|row| row % 3 != 0).collect();
        let fewer = table.without(&gone, &memory).unwrap();
        assert_eq!(values(&fewer), (0..1000).step_by(3).collect::<Vec<_>>());
        assert_eq!(
            (table.rows(), fewer.rows(), fewer.emptied().rows()),
            (1000, 334, 0)
        );
        drop(table);
        assert!(memory.reserved() < full);
        drop(fewer);
        assert_eq!(memory.reserved(), 0);
        let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let mut table = TemporaryTable::new("t", batch([]).schema(), Vec::new());
        let error = table.append(&batch(0..5000), &small).unwrap_err().to_string();
        assert!(error.contains("DRAM"), "{error}");
        assert_eq!((table.rows(), small.reserved()), (0, 0));
    }
}
