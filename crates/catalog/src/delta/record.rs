//! Log records: small changes as bytes, and back. The bytes are described in `docs/format/tables.md`.
//!
//! A record holds the changes of one statement, or of one transaction of several, in order: a reader
//! sees all of them or none.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use halocline_columns::holds_wide_decimals;
use halocline_import::{check_batch_in, guarded};
use halocline_sql::EngineError;
use roaring::RoaringBitmap;

/// The newest version of records that this program reads: that of records with decimals of more than 64 bits,
/// which programs that know version 1 cannot fold into tables.
pub(super) const RECORD_VERSION: u32 = 2;
/// Version of all other records.
const PLAIN: u32 = 1;
/// Bytes of a record before its changes: version and number of changes.
pub(super) const RECORD_HEADER: usize = 8;
/// Bytes of a change before its payload: kind, reserved, table, length of the payload.
pub(super) const CHANGE_HEADER: usize = 24;
/// A change that adds rows.
pub(super) const KIND_INSERT: u32 = 1;
/// A change that deletes rows of a segment.
pub(super) const KIND_DELETE: u32 = 2;
/// A change that deletes rows of the delta.
pub(super) const KIND_DELETE_ADDED: u32 = 3;

/// A change of one table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange {
    /// Rows are added after all others; their columns are exactly the table's.
    Insert(RecordBatch),
    /// Rows of a segment, by its id, are deleted.
    Delete(u64, RoaringBitmap),
    /// Rows of the delta are deleted, numbered in the order of their arrival.
    DeleteAdded(RoaringBitmap),
}

/// Changes in order, each with the uid of its table.
pub type TableChanges = Vec<(u64, TableChange)>;

/// Returns the changes as a record.
///
/// # Errors
/// Arrow cannot encode a batch.
pub fn encode(changes: &[(u64, TableChange)]) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::with_capacity(512);
    let wide = |(_, change): &(u64, TableChange)| match change {
        TableChange::Insert(batch) => batch.columns().iter().any(|column| holds_wide_decimals(column)),
        TableChange::Delete(..) | TableChange::DeleteAdded(_) => false,
    };
    let version = if changes.iter().any(wide) {
        RECORD_VERSION
    } else {
        PLAIN
    };
    bytes.extend(version.to_le_bytes());
    bytes.extend((changes.len() as u32).to_le_bytes());
    debug_assert_eq!(bytes.len(), RECORD_HEADER);
    for (table, change) in changes {
        let start = bytes.len();
        bytes.resize(start + CHANGE_HEADER, 0);
        let kind = match change {
            TableChange::Insert(batch) => {
                put_batch(batch, &mut bytes).map_err(|error| unusable(&error.to_string()))?;
                KIND_INSERT
            }
            TableChange::Delete(segment, rows) => {
                bytes.extend(segment.to_le_bytes());
                put_bitmap(rows, &mut bytes);
                KIND_DELETE
            }
            TableChange::DeleteAdded(rows) => {
                put_bitmap(rows, &mut bytes);
                KIND_DELETE_ADDED
            }
        };
        let len = (bytes.len() - start - CHANGE_HEADER) as u64;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes[start..start + 4].copy_from_slice(&kind.to_le_bytes());
        bytes[start + 8..start + 16].copy_from_slice(&table.to_le_bytes());
        bytes[start + 16..start + 24].copy_from_slice(&len.to_le_bytes());
    }
    Ok(bytes)
}

/// Decodes the changes of a record; `schema_of` returns the columns of a table by its uid.
///
/// # Errors
/// The record is newer than this program or not well-formed, or names a table that is not there.
pub(super) fn decode(
    record: &[u8],
    mut schema_of: impl FnMut(u64) -> Result<SchemaRef, EngineError>,
) -> Result<TableChanges, EngineError> {
    let mut at = RecordCursor(record);
    let version = at.u32()?;
    if version > RECORD_VERSION {
        let text = format!(
            "it has version {version}, this program reads up to {RECORD_VERSION}; use a newer program"
        );
        return Err(unusable(&text));
    }
    let count = at.u32()?;
    let mut changes = Vec::new();
    for _ in 0..count {
        let kind = at.u32()?;
        at.u32()?;
        let (table, len) = (at.u64()?, at.u64()? as usize);
        let mut payload = RecordCursor(at.take(len)?);
        at.take(len.next_multiple_of(8) - len)?;
        let change = match kind {
            KIND_INSERT => TableChange::Insert(
                payload
                    .batch(schema_of(table)?)
                    .map_err(|error| unusable(&error.to_string()))?,
            ),
            KIND_DELETE => TableChange::Delete(payload.u64()?, payload.bitmap()?),
            KIND_DELETE_ADDED => TableChange::DeleteAdded(payload.bitmap()?),
            other => return Err(unusable(&format!("it has a change of unknown kind {other}"))),
        };
        changes.push((table, change));
    }
    Ok(changes)
}

/// Returns the approximate number of bytes of a change in a record.
pub fn size(change: &TableChange) -> usize {
    match change {
        TableChange::Insert(batch) => batch.get_array_memory_size(),
        TableChange::Delete(_, rows) | TableChange::DeleteAdded(rows) => rows.serialized_size(),
    }
}

/// Returns a batch that holds on to nothing but its own rows: views of text otherwise keep, and write, whole
/// buffers.
pub fn compact(batch: &RecordBatch) -> RecordBatch {
    let own = |column: &ArrayRef| -> ArrayRef {
        if let Some(text) = column.as_any().downcast_ref::<StringViewArray>() {
            return Arc::new(text.gc());
        }
        if let Some(bytes) = column.as_any().downcast_ref::<BinaryViewArray>() {
            return Arc::new(bytes.gc());
        }
        Arc::clone(column)
    };
    let columns = batch.columns().iter().map(own).collect();
    // Columns of the same types and lengths as before always make a batch.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}

fn put_batch(batch: &RecordBatch, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let mut tracker = DictionaryTracker::new(false);
    let generator = IpcDataGenerator::default();
    let (_, data) = generator.encode(&compact(batch), &mut tracker, &options, &mut Default::default())?;
    bytes.extend((data.ipc_message.len() as u32).to_le_bytes());
    bytes.extend((data.arrow_data.len() as u32).to_le_bytes());
    bytes.extend(&data.ipc_message);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(&data.arrow_data);
    Ok(())
}

fn put_bitmap(rows: &RoaringBitmap, bytes: &mut Vec<u8>) {
    // Writing to a vector does not fail.
    let _ = rows.serialize_into(bytes);
}

/// Returns the error for a record with an intact checksum and invalid content.
pub(super) fn unusable(reason: &str) -> EngineError {
    EngineError::Log {
        reason: reason.to_string(),
    }
}

/// The unread bytes of a record.
struct RecordCursor<'a>(&'a [u8]);

impl<'a> RecordCursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], EngineError> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| unusable("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, EngineError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, EngineError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn bitmap(&mut self) -> Result<RoaringBitmap, EngineError> {
        RoaringBitmap::deserialize_from(self.0).map_err(|error| unusable(&error.to_string()))
    }

    fn batch(&mut self, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        let wrong = |what: &str| ArrowError::IpcError(what.into());
        let mut read = || -> Result<_, EngineError> {
            let (message, body) = (self.u32()? as usize, self.u32()? as usize);
            let message_bytes = self.take(message)?;
            self.take((8 + message).next_multiple_of(8) - 8 - message)?;
            Ok((message_bytes, self.take(body)?))
        };
        let (message, body) = read().map_err(|error| wrong(&error.to_string()))?;
        let message = root_as_message(message).map_err(|error| wrong(&error.to_string()))?;
        let batch = message
            .header_as_record_batch()
            .ok_or_else(|| wrong("the rows are no record batch"))?;
        check_batch_in(&batch, body.len() as u64).map_err(|reason| wrong(&reason))?;
        let body = arrow_buffer::Buffer::from(body);
        // What the checks above leave, the decoder may still refuse by a panic.
        guarded(|| read_record_batch(&body, batch, schema, &HashMap::new(), None, &message.version()))
            .map_err(|reason| wrong(&reason))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Date32Array, Decimal128Array, Int32Array, cast::AsArray};

    fn batch() -> RecordBatch {
        let long = "a text that is too long to lie inside of its view";
        RecordBatch::try_from_iter_with_nullable([
            (
                "i",
                Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
                true,
            ),
            (
                "s",
                Arc::new(StringViewArray::from(vec![Some(long), Some("x"), None])),
                true,
            ),
            ("d", Arc::new(Date32Array::from(vec![1, 2, 3])), false),
            (
                "p",
                Arc::new(
                    Decimal128Array::from(vec![1, 2, -3])
                        .with_precision_and_scale(15, 2)
                        .unwrap(),
                ),
                false,
            ),
        ])
        .unwrap()
    }

    #[test]
    fn records_are_read_as_written() {
        let batch = batch();
        let changes = vec![
            (7, TableChange::Delete(5, RoaringBitmap::from([1, 70_000]))),
            (7, TableChange::Insert(batch.clone())),
            (u64::MAX, TableChange::DeleteAdded(RoaringBitmap::from([0]))),
            (7, TableChange::Insert(batch.slice(1, 1))),
            (7, TableChange::Insert(batch.slice(0, 0))),
        ];
        let bytes = encode(&changes).unwrap();
        assert_eq!(bytes.len() % 8, 0);
        let read = decode(&bytes, |_| Ok(batch.schema())).unwrap();
        assert_eq!(read, changes);
        for len in 0..bytes.len() {
            let cut = decode(&bytes[..len], |_| Ok(batch.schema()));
            assert!(cut.is_err() || len + 8 > bytes.len(), "cut off at {len}");
        }
    }

    #[test]
    fn only_wide_decimals_need_the_second_version() {
        let record = |value: i128| {
            let decimals = Decimal128Array::from(vec![value]).with_precision_and_scale(38, 0);
            let column = Arc::new(decimals.unwrap()) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
            let changes = vec![(7, TableChange::Insert(batch.clone()))];
            let bytes = encode(&changes).unwrap();
            assert_eq!(decode(&bytes, |_| Ok(batch.schema())).unwrap(), changes);
            bytes[0]
        };
        assert_eq!((record(i64::MAX.into()), record(i64::MIN.into())), (1, 1));
        assert_eq!(
            (record(i128::from(i64::MAX) + 1), record(-(10_i128.pow(38) - 1))),
            (2, 2)
        );
    }

    #[test]
    fn rows_keep_no_text_of_others() {
        let many: Vec<String> = (0..1000)
            .map(|i| format!("a text of many characters, number {i}"))
            .collect();
        let column = Arc::new(StringViewArray::from_iter_values(&many)) as ArrayRef;
        let one = RecordBatch::try_from_iter([("s", column)]).unwrap().slice(500, 1);
        assert_eq!(
            compact(&one).column(0).as_string_view().value(0),
            "a text of many characters, number 500"
        );
        assert!(encode(&[(1, TableChange::Insert(one))]).unwrap().len() < 600);
    }

    #[test]
    fn document_and_constants_agree() {
        let document = include_str!("../../../../docs/format/tables.md");
        for line in [
            format!("### Record ({RECORD_HEADER} bytes)"),
            format!(
                "| 0 | 4 | `version` | {PLAIN}, or {RECORD_VERSION} if it adds decimals of more than 64 bits |"
            ),
            format!("### Change ({CHANGE_HEADER} bytes)"),
            format!(
                "{KIND_INSERT} insert, {KIND_DELETE} delete rows of a segment, {KIND_DELETE_ADDED} delete added rows |"
            ),
        ] {
            assert!(document.contains(&line), "{line}");
        }
        let bytes = encode(&[(5, TableChange::DeleteAdded(RoaringBitmap::from([0])))]).unwrap();
        assert_eq!(bytes[..RECORD_HEADER], [1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(
            bytes[RECORD_HEADER..RECORD_HEADER + 16],
            [3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]
        );
        let payload = RoaringBitmap::from([0]).serialized_size();
        assert_eq!(
            bytes[RECORD_HEADER + 16..RECORD_HEADER + CHANGE_HEADER],
            payload.to_le_bytes()
        );
        assert_eq!(
            bytes.len(),
            RECORD_HEADER + CHANGE_HEADER + payload.next_multiple_of(8)
        );
    }

    #[test]
    fn newer_and_foreign_records_are_refused() {
        let mut bytes = encode(&[(1, TableChange::DeleteAdded(RoaringBitmap::from([0])))]).unwrap();
        bytes[0] = 9;
        let newer = decode(&bytes, |_| Ok(batch().schema())).unwrap_err().to_string();
        assert!(
            newer.contains("version 9") && newer.contains("newer program"),
            "{newer}"
        );
        bytes[0] = 1;
        bytes[8] = 9;
        let foreign = decode(&bytes, |_| Ok(batch().schema())).unwrap_err().to_string();
        assert!(foreign.contains("unknown kind 9"), "{foreign}");
    }
}
