//! Scans: rows of ranges of keys as batches.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::column_builder::ColumnBuilder;
use crate::column_values::ColumnValues;
use crate::error::Result;
use crate::key;
use crate::kind::ColumnKind;
use crate::ranges::{KeyBounds, KeyRanges};
use crate::row::{RowColumn, RowReader};
use crate::table::KeyedTable;
use crate::view::{KeyedView, ViewScan};

/// A scan of a table. Returns batches of rows in the order of the key.
pub struct KeyedScan {
    decoder: RowDecoder,
    view: KeyedView,
    ranges: std::vec::IntoIter<KeyBounds>,
    current: Option<ViewScan>,
}

/// The columns of a row, and where they go.
struct RowDecoder {
    /// Kept whole for its errors.
    table: Arc<KeyedTable>,
    schema: SchemaRef,
    outputs: Vec<Output>,
    /// Of each key column, its output.
    key: Vec<(ColumnKind, Option<usize>)>,
    /// Of each column of the value up to the last one that is wanted.
    others: Vec<OtherColumn>,
    /// Output of the encoded key.
    address: Option<usize>,
    scratch: Vec<u8>,
}

/// A column besides the key.
struct OtherColumn {
    kind: ColumnKind,
    output: Option<usize>,
    /// The value in rows that do not have the column.
    initial: Option<Vec<u8>>,
}

struct Output {
    builder: ColumnBuilder,
    /// Position of an earlier output with the same column.
    same_as: Option<usize>,
}

impl KeyedScan {
    pub(crate) fn new(
        table: &Arc<KeyedTable>,
        view: &KeyedView,
        ranges: KeyRanges,
        projection: &[usize],
    ) -> Self {
        Self {
            decoder: RowDecoder::new(table, projection),
            view: view.clone(),
            ranges: ranges.into_vec().into_iter(),
            current: None,
        }
    }

    /// Returns the columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.decoder.schema
    }

    /// Returns the next batch, of at most `rows` rows; `None` at the end.
    ///
    /// # Errors
    /// [`KeyedError::Store`](crate::KeyedError::Store), [`KeyedError::Damaged`](crate::KeyedError::Damaged).
    pub fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        let mut count = 0;
        while count < rows {
            let Some(pair) = self.next_pair() else {
                break;
            };
            let table = &self.decoder.table;
            let (key, value) = pair.map_err(|error| table.failed(error))?;
            if self.decoder.push(&key, &value).is_none() {
                let row = format!("the row with the key '{}'", key.escape_ascii());
                return Err(self.decoder.table.damaged(&row));
            }
            count += 1;
        }
        match count {
            0 => Ok(None),
            count => self.decoder.finish(count).map(Some),
        }
    }

    fn next_pair(&mut self) -> Option<halocline_store::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            if let Some(pair) = self.current.as_mut().and_then(Iterator::next) {
                return Some(pair);
            }
            let range = self.ranges.next()?;
            let store = &self.decoder.table.store;
            if let (Bound::Included(from), Bound::Included(to)) = &range
                && from == to
            {
                match self.view.get(store, from) {
                    Ok(Some(value)) => return Some(Ok((from.clone(), value))),
                    Ok(None) => continue,
                    Err(error) => return Some(Err(error)),
                }
            }
            self.current = Some(self.view.scan(store, &range));
        }
    }
}

impl RowDecoder {
    fn new(table: &Arc<KeyedTable>, projection: &[usize]) -> Self {
        let columns = table.kinds.len();
        let (mut outputs, mut fields) = (Vec::<Output>::new(), Vec::new());
        for (at, &column) in projection.iter().enumerate() {
            let (field, kind) = if column < columns {
                (table.schema().field(column).clone(), table.kinds[column])
            } else {
                (Field::new("key", DataType::BinaryView, false), ColumnKind::Bytes)
            };
            outputs.push(Output {
                builder: ColumnBuilder::new(field.data_type(), kind),
                same_as: projection[..at].iter().position(|earlier| *earlier == column),
            });
            fields.push(field);
        }
        let output_of = |column: usize| projection.iter().position(|at| *at == column);
        let mut others: Vec<OtherColumn> = table
            .others
            .iter()
            .map(|&column| OtherColumn {
                kind: table.kinds[column],
                output: output_of(column),
                initial: initial_of(table, column),
            })
            .collect();
        let wanted = others.iter().rposition(|column| column.output.is_some());
        others.truncate(wanted.map_or(0, |last| last + 1));
        let key = &table.definition.key;
        Self {
            schema: Arc::new(Schema::new(fields)),
            outputs,
            key: key.iter().map(|&at| (table.kinds[at], output_of(at))).collect(),
            others,
            address: projection.iter().position(|at| *at >= columns),
            scratch: Vec::new(),
            table: Arc::clone(table),
        }
    }

    /// Appends a row. `None` if it is none of the table.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let mut rest = key;
        for (kind, output) in &self.key {
            self.scratch.clear();
            key::decode(*kind, &mut rest, &mut self.scratch)?;
            if let Some(output) = output {
                self.outputs[*output].builder.push(Some(&self.scratch))?;
            }
        }
        if !rest.is_empty() {
            return None;
        }
        let mut reader = RowReader::new(value)?;
        for column in &self.others {
            let read = reader.next(column.kind)?;
            let Some(output) = column.output else {
                continue;
            };
            self.outputs[output].builder.push(match read {
                RowColumn::Value(value) => Some(value),
                RowColumn::Null => None,
                RowColumn::Missing => column.initial.as_deref(),
            })?;
        }
        if let Some(address) = self.address {
            self.outputs[address].builder.push(Some(key))?;
        }
        Some(())
    }

    fn finish(&mut self, rows: usize) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.outputs.len());
        for output in &mut self.outputs {
            let column = match output.same_as {
                Some(earlier) => Arc::clone(&columns[earlier]),
                None => output.builder.finish()?,
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

/// Returns the value of a column in rows that were written before it was added.
fn initial_of(table: &KeyedTable, column: usize) -> Option<Vec<u8>> {
    let array = table.definition.initial[column].as_ref()?;
    let values = ColumnValues::new(array, table.kinds[column])?;
    values.value(0).map(<[u8]>::to_vec)
}
