//! The delta: small changes in the log that are in no segment yet.
//!
//! A version of the database is a generation of the pool and a position in that generation's log. Statements
//! share one immutable `Delta` per version; the next one is made from it by the records in between. Every
//! publish folds the delta into segments, so that a new generation begins with an empty one.
//!
//! Added rows are kept in batches like the digits of a binary counter, so that n single rows copy O(n log n);
//! deleted rows are bitmaps.

mod record;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;

pub use record::{TableChange, TableChanges, compact, encode, size};
pub use table::TableDelta;

use halocline_sql::EngineError;

/// Small changes of all tables, by table uid. Clones share the rows.
#[derive(Debug, Clone, Default)]
pub struct Delta {
    tables: BTreeMap<u64, Arc<TableDelta>>,
}

impl Delta {
    /// Returns the changes of one table, if there are any.
    pub fn table(&self, table: u64) -> Option<&Arc<TableDelta>> {
        self.tables.get(&table)
    }

    /// Returns the tables that have changes.
    pub fn tables(&self) -> impl Iterator<Item = (u64, &Arc<TableDelta>)> {
        self.tables.iter().map(|(table, delta)| (*table, delta))
    }

    /// Returns the approximate number of bytes of DRAM that the added rows occupy.
    pub fn bytes(&self) -> usize {
        self.tables.values().map(|table| table.bytes()).sum()
    }

    /// Applies a change of a table.
    ///
    /// # Errors
    /// Rows have other columns than those before them.
    pub fn apply(&mut self, table: u64, change: &TableChange) -> Result<(), EngineError> {
        let delta = Arc::make_mut(self.tables.entry(table).or_default());
        delta
            .apply(change)
            .map_err(|error| record::unusable(&error.to_string()))
    }

    /// Applies a record of the log.
    ///
    /// # Errors
    /// The record is newer than this program or not well-formed.
    pub fn apply_record(
        &mut self,
        bytes: &[u8],
        schema_of: impl FnMut(u64) -> Result<SchemaRef, EngineError>,
    ) -> Result<(), EngineError> {
        for (table, change) in record::decode(bytes, schema_of)? {
            self.apply(table, &change)?;
        }
        Ok(())
    }

    /// Removes the deleted rows of a table's segments, which are marked there now.
    pub fn forget_deleted(&mut self, table: u64) {
        if let Some(delta) = self.tables.get_mut(&table) {
            Arc::make_mut(delta).forget_deleted();
        }
    }

    /// Removes the changes of a table, which are in its segments now or obsolete because it was dropped.
    pub fn forget(&mut self, table: u64) {
        self.tables.remove(&table);
    }
}
