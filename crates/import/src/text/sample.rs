//! Types of the columns of a large file from its head, middle and end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::dialect::Dialect;
use super::infer::Inference;
use super::records::{RecordReader, TextRecord};
use crate::error::ImportError;
use crate::input::{open, unreadable};

/// Bytes of a file all of whose values are looked at.
const MAX_WHOLE_BYTES: u64 = 4 << 20;
/// Bytes of each part of a larger file.
const PART_BYTES: u64 = 512 << 10;
/// Places where a record could begin that are tried.
const MAX_STARTS: usize = 64;
/// Records from a place that must have the right number of fields.
const PROOF_RECORDS: usize = 16;

/// Lets `columns` see values of a file, and returns true if these are all.
///
/// # Errors
/// The file cannot be read, or is small and malformed.
pub(crate) fn see_sample(
    path: &Path,
    dialect: &Dialect,
    columns: &mut [Inference],
) -> Result<bool, ImportError> {
    let mut file = open(path)?;
    let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    if length <= MAX_WHOLE_BYTES {
        see_all(path, dialect, columns)?;
        return Ok(true);
    }
    for start in [0, (length - PART_BYTES) / 2, length - PART_BYTES] {
        let bytes = part(&mut file, start).map_err(|error| unreadable(path, &error))?;
        let is_end = start + PART_BYTES >= length;
        let records = match start {
            0 => records(&bytes, dialect, dialect.header),
            _ => aligned(&bytes, dialect, columns.len()),
        };
        // The last one may be cut.
        let whole = records.len() - usize::from(!is_end && !records.is_empty());
        for record in &records[..whole] {
            see(record, path, dialect, columns);
        }
    }
    Ok(false)
}

/// Lets `columns` see all values of a file.
///
/// # Errors
/// The file cannot be read, or is malformed.
pub(crate) fn see_all(path: &Path, dialect: &Dialect, columns: &mut [Inference]) -> Result<(), ImportError> {
    let mut rows = dialect.rows(path, open(path)?, columns.len())?;
    let mut record = TextRecord::default();
    while rows.read(&mut record)? {
        see(&record, path, dialect, columns);
    }
    Ok(())
}

fn see(record: &TextRecord, path: &Path, dialect: &Dialect, columns: &mut [Inference]) {
    for (field, column) in record.fields().zip(columns) {
        column.see(field, dialect, (path, record.line()));
    }
}

fn part(file: &mut File, start: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.by_ref().take(PART_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the records of `bytes`, up to the first that is malformed.
fn records(bytes: &[u8], dialect: &Dialect, skip_first: bool) -> Vec<TextRecord> {
    let mut reader = RecordReader::new(bytes, dialect.separators);
    let mut records = Vec::new();
    let mut record = TextRecord::default();
    if skip_first && !matches!(reader.read(&mut record), Ok(true)) {
        return records;
    }
    while let Ok(true) = reader.read(&mut record) {
        records.push(record.clone());
    }
    records
}

/// Returns the records from the first place in `bytes` where records of the right shape begin; empty if there
/// is no such place.
fn aligned(bytes: &[u8], dialect: &Dialect, columns: usize) -> Vec<TextRecord> {
    let ending = dialect.separators.ending.byte();
    for end in memchr::memchr_iter(ending, bytes).take(MAX_STARTS) {
        let found = records(&bytes[end + 1..], dialect, false);
        let right = |record: &TextRecord| dialect.columns(record) == columns;
        // A start within quotes makes all that follows malformed or ragged.
        if found.len() > PROOF_RECORDS.min(columns) && found[..found.len() - 1].iter().all(right) {
            return found;
        }
    }
    Vec::new()
}
