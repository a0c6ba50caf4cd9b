//! How lines of a text file are cut into values.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{ImportError, ImportFault, Place};
use super::input::{fault, open, unreadable};
use super::options::{Format, ImportOptions};

/// The shape of a text file.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    /// Between values.
    pub(crate) delimiter: u8,
    /// Does `"` quote.
    pub(crate) quoting: bool,
    /// Does the first line name the columns.
    pub(crate) header: bool,
    /// Do lines end in a delimiter, as TPC's generators write them.
    pub(crate) trailing: bool,
    /// The text for NULL; the empty one by default.
    pub(crate) null: String,
}

impl Dialect {
    /// The dialect of a CSV or tbl file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of(path: &Path, format: Format, options: &ImportOptions) -> Result<Self, ImportError> {
        let null = options.null.clone().unwrap_or_default();
        if format == Format::Tbl {
            let delimiter = options.delimiter.unwrap_or(b'|');
            let trailing = first_line_ends_in(path, delimiter)?;
            return Ok(Self {
                delimiter,
                quoting: false,
                header: false,
                trailing,
                null,
            });
        }
        let tabs = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
        let delimiter = options.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
        Ok(Self {
            delimiter,
            quoting: true,
            header: options.has_header,
            trailing: false,
            null,
        })
    }

    /// A reader of the file's records, the header line among them.
    pub(crate) fn records<R: Read>(&self, reader: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .delimiter(self.delimiter)
            .quoting(self.quoting)
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 20)
            .from_reader(reader)
    }

    /// How many of a record's values belong to the table: a trailing delimiter is followed by none.
    pub(crate) fn columns(&self, record: &csv::ByteRecord) -> usize {
        match record.iter().next_back() {
            Some(b"") if self.trailing => record.len() - 1,
            _ => record.len(),
        }
    }

    /// The first record; none in an empty file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn first_record(&self, path: &Path) -> Result<Option<csv::ByteRecord>, ImportError> {
        let mut record = csv::ByteRecord::new();
        let found = self
            .records(open(path)?)
            .read_byte_record(&mut record)
            .map_err(|e| broken(path, &e))?;
        Ok(found.then_some(record))
    }
}

/// An error of the record reader.
pub(crate) fn broken(path: &Path, error: &csv::Error) -> ImportError {
    match error.kind() {
        csv::ErrorKind::Io(io) => unreadable(path, io),
        _ => fault(path, Place::File, ImportFault::Other(error.to_string())),
    }
}

fn first_line_ends_in(path: &Path, delimiter: u8) -> Result<bool, ImportError> {
    let mut file: File = open(path)?;
    let mut line = Vec::new();
    let mut chunk = [0u8; 4096];
    loop {
        let read = file.read(&mut chunk).map_err(|e| unreadable(path, &e))?;
        line.extend_from_slice(&chunk[..read]);
        if read == 0 || line.contains(&b'\n') {
            break;
        }
    }
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    // An empty file has no line without a delimiter at its end.
    Ok(line.last().is_none_or(|last| *last == delimiter))
}
