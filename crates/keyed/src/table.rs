//! One table: [`KeyedTable`].

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use halocline_store::{MAX_KEY, MAX_VALUE, Store};

use crate::column_builder::ColumnBuilder;
use crate::column_values::ColumnValues;
use crate::definition::TableDefinition;
use crate::error::{KeyedError, Result};
use crate::key;
use crate::kind::ColumnKind;
use crate::ranges::{KeyCondition, KeyRanges};
use crate::row;
use crate::scan::KeyedScan;
use crate::unique::UniqueColumns;
use crate::view::KeyedView;

/// A table with a primary key.
///
/// Its rows are the pairs of a store. The key of a pair is the primary key: integers, dates, timestamps and
/// decimals are big-endian with the sign inverted; text and bytes end with two zero bytes, a zero byte in
/// them being followed by 255; of floats, both zeros are equal, and all NaNs. The value has the other
/// columns.
#[derive(Debug)]
pub struct KeyedTable {
    pub(crate) definition: TableDefinition,
    pub(crate) store: Store,
    /// Of each column.
    pub(crate) kinds: Vec<ColumnKind>,
    /// Positions of the columns that are not in the key, in their order.
    pub(crate) others: Vec<usize>,
    /// The unique constraints.
    pub(crate) unique: Vec<UniqueColumns>,
    /// The store that leads from their values to the rows. There may be one without constraints.
    pub(crate) index: Option<Store>,
}

/// An encoded row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRow {
    /// The primary key.
    pub key: Vec<u8>,
    /// The other columns.
    pub value: Vec<u8>,
}

impl KeyedTable {
    pub(crate) fn new(definition: TableDefinition, store: Store, index: Option<Store>) -> Self {
        let fields = definition.schema.fields();
        let kinds = fields
            .iter()
            .filter_map(|field| ColumnKind::from_type(field.data_type()));
        Self {
            kinds: kinds.collect(),
            others: (0..fields.len())
                .filter(|at| !definition.key.contains(at))
                .collect(),
            unique: UniqueColumns::of(&definition),
            index,
            definition,
            store,
        }
    }

    /// Returns the definition.
    pub fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.definition.schema
    }

    /// Returns the store with the rows.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Encodes the rows of a batch with the columns of the table.
    ///
    /// # Errors
    /// [`KeyedError::NullKey`], [`KeyedError::KeyTooLong`], [`KeyedError::RowTooLong`].
    pub fn encode(&self, batch: &RecordBatch) -> Result<Vec<KeyedRow>> {
        let mut rows = Vec::with_capacity(batch.num_rows());
        self.for_each_row(batch, |key, value| {
            rows.push(KeyedRow {
                key: key.to_vec(),
                value: value.to_vec(),
            });
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `each` with the encoded key and value of each row of a batch with the columns of the table.
    pub(crate) fn for_each_row(
        &self,
        batch: &RecordBatch,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let columns: Option<Vec<ColumnValues>> = self
            .kinds
            .iter()
            .zip(batch.columns())
            .map(|(kind, array)| ColumnValues::new(array, *kind))
            .collect();
        let columns = columns.filter(|columns| columns.len() == self.kinds.len());
        let columns = columns.ok_or_else(|| self.damaged("a batch with other columns"))?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            self.encode_row(&columns, row, &mut key, &mut value)?;
            each(&key, &value)?;
        }
        Ok(())
    }

    /// Returns the values of the key columns of an encoded key, as arrays of one value, in the order of the
    /// key. `None` if it is no key of the table.
    pub fn decode_key(&self, mut key: &[u8]) -> Option<Vec<ArrayRef>> {
        let mut values = Vec::with_capacity(self.definition.key.len());
        for &at in &self.definition.key {
            let (kind, mut value) = (self.kinds[at], Vec::new());
            key::decode(kind, &mut key, &mut value)?;
            let mut builder = ColumnBuilder::new(self.schema().field(at).data_type(), kind);
            builder.push(Some(&value))?;
            values.push(builder.finish().ok()?);
        }
        key.is_empty().then_some(values)
    }

    /// Encodes a row in place of what the buffers have.
    fn encode_row(
        &self,
        columns: &[ColumnValues],
        row: usize,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let number = row as u64 + 1;
        key.clear();
        value.clear();
        for &at in &self.definition.key {
            let of_column = columns[at].value(row).ok_or_else(|| KeyedError::NullKey {
                table: self.name().to_owned(),
                row: number,
                column: self.schema().field(at).name().clone(),
            })?;
            key::encode(self.kinds[at], of_column, key);
        }
        if key.len() > MAX_KEY {
            return Err(KeyedError::KeyTooLong {
                table: self.name().to_owned(),
                row: number,
                bytes: key.len(),
                most: MAX_KEY,
            });
        }
        let others = self
            .others
            .iter()
            .map(|at| (self.kinds[*at], columns[*at].value(row)));
        row::encode(others, value);
        if value.len() > MAX_VALUE {
            return Err(KeyedError::RowTooLong {
                table: self.name().to_owned(),
                row: number,
                bytes: value.len(),
                most: MAX_VALUE,
            });
        }
        Ok(())
    }

    /// Returns the ranges of keys that can satisfy all of some conditions on key columns, which are given by
    /// position. Conditions that do not narrow the ranges are ignored.
    ///
    /// # Errors
    /// A value is none of its column's type.
    pub fn ranges(&self, conditions: &[(usize, KeyCondition)]) -> Result<KeyRanges> {
        KeyRanges::for_conditions(self, conditions)
    }

    /// Scans ranges of keys, in the order of the key. `projection` has the positions of the columns to
    /// return; the position after the last column stands for the encoded key, as bytes.
    pub fn scan(self: &Arc<Self>, view: &KeyedView, ranges: KeyRanges, projection: &[usize]) -> KeyedScan {
        KeyedScan::new(self, view, ranges, projection)
    }

    /// Encodes a value of a key column as in a key; `None` if it is NULL.
    pub(crate) fn encode_value(
        &self,
        column: usize,
        array: &ArrayRef,
        row: usize,
    ) -> Result<Option<Vec<u8>>> {
        let kind = self.kinds[column];
        let values = ColumnValues::new(array, kind).ok_or_else(|| self.damaged("a value of another type"))?;
        Ok(values.value(row).map(|value| {
            let mut key = Vec::new();
            key::encode(kind, value, &mut key);
            key
        }))
    }

    pub(crate) fn damaged(&self, what: &str) -> KeyedError {
        KeyedError::Damaged {
            table: self.name().to_owned(),
            store: self.store.name().to_owned(),
            what: what.to_owned(),
        }
    }

    pub(crate) fn changed(&self) -> KeyedError {
        KeyedError::Changed {
            table: self.name().to_owned(),
        }
    }

    pub(crate) fn failed(&self, source: halocline_store::StoreError) -> KeyedError {
        KeyedError::Store {
            table: self.name().to_owned(),
            source,
        }
    }
}
