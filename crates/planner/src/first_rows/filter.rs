//! The filter of one partition.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema};
use datafusion::error::Result;

use super::compared::ComparedKeys;
use super::groups::Groups;
use super::ids::GroupMemory;
use super::node::FirstRows;
use super::thresholds::Thresholds;
use super::trial::Trial;

/// Drops rows that cannot be among the first ones of their group.
pub(super) struct FirstRowsFilter {
    first: FirstRows,
    groups: Groups,
    keys: ComparedKeys,
    thresholds: Thresholds,
    trial: Trial,
    memory: GroupMemory,
    /// The groups and sort keys of the rows of a batch.
    row_groups: Vec<u32>,
    row_keys: Vec<u64>,
}

impl FirstRowsFilter {
    /// Makes a filter of rows of a schema.
    ///
    /// # Errors
    /// A type cannot be sorted.
    pub(super) fn new(first: FirstRows, schema: &Schema, memory: GroupMemory) -> Result<Self> {
        let types = first.partition_by.iter().map(|expr| expr.data_type(schema));
        let types = types.collect::<Result<Vec<DataType>>>()?;
        let keys = ComparedKeys::new(first.first_key(), schema)?;
        let thresholds = Thresholds::new(first.fetch);
        Ok(Self {
            groups: Groups::new(&types, thresholds.group_bytes())?,
            keys,
            thresholds,
            trial: Trial::default(),
            memory,
            row_groups: Vec::new(),
            row_keys: Vec::new(),
            first,
        })
    }

    /// Returns the rows of a batch that do not sort after `fetch` earlier rows of their group.
    ///
    /// # Errors
    /// A key cannot be evaluated.
    pub(super) fn compare(&mut self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let rows = batch.num_rows();
        let by = self.first.partition_by.iter();
        let by = by.map(|expr| expr.evaluate(batch)?.into_array(rows));
        let by = by.collect::<Result<Vec<ArrayRef>>>()?;
        self.groups.assign(&by, &mut self.memory, &mut self.row_groups)?;
        self.keys.fill(batch, &mut self.row_keys)?;
        self.thresholds
            .extend_to(self.groups.len(), self.groups.capacity());
        let (groups, keys) = (&self.row_groups[..rows], &self.row_keys[..rows]);
        let thresholds = &mut self.thresholds;
        Ok(BooleanBuffer::collect_bool(rows, |row| {
            thresholds.admit(groups[row], keys[row])
        }))
    }

    /// Returns the groups and sort keys of the rows of the last batch.
    pub(super) fn compared(&self) -> (&[u32], &[u64]) {
        (&self.row_groups, &self.row_keys)
    }

    pub(super) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Returns true if it pays to compare further rows, after a batch of `rows` rows of which `dropped` ones
    /// were dropped.
    pub(super) fn pays(&mut self, rows: usize, dropped: usize) -> bool {
        self.trial
            .pays(rows, dropped, self.groups.len(), self.first.fetch)
    }
}
