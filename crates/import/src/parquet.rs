//! Parquet files, one row group after the other.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};
use halocline_values::storable::{storable_schema, to_schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescriptor;

use super::error::{ImportError, ImportFault, SourceLocation};
use super::files::{BatchSize, fixed_bytes};
use super::guard::guarded;
use super::input::{BytesRead, Input, fault, open, unreadable};
use super::parquet_metadata::sound_metadata;
use super::parquet_pages::check_row_group;

/// Opens a Parquet file.
pub(crate) fn read(path: &Path, batch: BatchSize, bytes: BytesRead) -> Result<Input, ImportError> {
    let mut file = open(path)?;
    check_ends(path, &mut file)?;
    let foreign = |reason: String| {
        fault(
            path,
            SourceLocation::File,
            ImportFault::Foreign {
                format: "a readable Parquet file",
                reason,
            },
        )
    };
    let length = file.metadata().map_err(|e| unreadable(path, &e))?.len();
    let metadata = guarded(|| load(&file))
        .and_then(|loaded| loaded)
        .map_err(foreign)?;
    let schema = storable_schema(metadata.schema());
    let groups = RowGroupReader {
        path: path.to_path_buf(),
        file,
        length,
        metadata,
        batch,
        bytes,
        group: 0,
        reader: None,
    };
    let to = schema.clone();
    let path = path.to_path_buf();
    let batches = groups.map(move |item| {
        let (group, batch) = item?;
        to_schema(&batch, &to).map_err(|e| {
            fault(
                &path,
                SourceLocation::RowGroup(group),
                ImportFault::Other(e.to_string()),
            )
        })
    });
    Ok(Input {
        schema,
        batches: Box::new(batches),
    })
}

/// Reads the footer. Texts are decoded as views, which share the bytes of a dictionary however often it is
/// used, and timestamps of 96 bits as microseconds, as nanoseconds end in the year 2262.
fn load(file: &File) -> Result<ArrowReaderMetadata, String> {
    let loaded = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(|e| e.to_string())?;
    let metadata = sound_metadata(Arc::clone(loaded.metadata()));
    let wide: HashSet<usize> = int96_columns(metadata.file_metadata().schema_descr()).collect();
    let read_as = |(i, field): (usize, &FieldRef)| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => with_type(field, DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => with_type(field, DataType::BinaryView),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if wide.contains(&i) => {
            with_type(field, DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = loaded.schema().fields().iter().enumerate().map(read_as).collect();
    let schema = Arc::new(Schema::new_with_metadata(
        fields,
        loaded.schema().metadata().clone(),
    ));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let read = ArrowReaderMetadata::try_new(Arc::clone(&metadata), options);
    match read {
        Err(error) if !wide.is_empty() => Err(error.to_string()),
        Err(_) => {
            ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()).map_err(|e| e.to_string())
        }
        Ok(read) => Ok(read),
    }
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Returns the columns that hold timestamps of 96 bits.
fn int96_columns(schema: &SchemaDescriptor) -> impl Iterator<Item = usize> {
    (0..schema.num_columns())
        .filter(|leaf| schema.column(*leaf).physical_type() == Type::INT96)
        .map(|leaf| schema.get_column_root_idx(leaf))
}

/// Checks the file for truncation: a Parquet file begins and ends with `PAR1`; one that only begins so was
/// cut off.
fn check_ends(path: &Path, file: &mut File) -> Result<(), ImportError> {
    let length = file.metadata().map_err(|e| unreadable(path, &e))?.len();
    let mut word = [0u8; 4];
    let mut word_at = |position: u64| -> std::io::Result<[u8; 4]> {
        file.seek(SeekFrom::Start(position))?;
        file.read_exact(&mut word)?;
        Ok(word)
    };
    let magic = *b"PAR1";
    let foreign = |reason: &str| {
        Err(fault(
            path,
            SourceLocation::File,
            ImportFault::Foreign {
                format: "a Parquet file",
                reason: reason.into(),
            },
        ))
    };
    if length < 12 {
        return if length >= 4 && word_at(0).is_ok_and(|head| head == magic) {
            Err(fault(
                path,
                SourceLocation::File,
                ImportFault::Truncated("the footer is missing".into()),
            ))
        } else {
            foreign("it does not begin with PAR1")
        };
    }
    if word_at(0).map_err(|e| unreadable(path, &e))? != magic {
        return foreign("it does not begin with PAR1");
    }
    if word_at(length - 4).map_err(|e| unreadable(path, &e))? != magic {
        return Err(fault(
            path,
            SourceLocation::File,
            ImportFault::Truncated("the footer is missing".into()),
        ));
    }
    Ok(())
}

/// Batches with the number of their row group.
struct RowGroupReader {
    path: PathBuf,
    file: File,
    length: u64,
    metadata: ArrowReaderMetadata,
    batch: BatchSize,
    bytes: BytesRead,
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
}

impl RowGroupReader {
    fn open_group(&self) -> Result<ParquetRecordBatchReader, String> {
        let group = self.metadata.metadata().row_group(self.group);
        check_row_group(&self.file, self.length, group, self.batch.part_bytes())?;
        let file = self.file.try_clone().map_err(|e| e.to_string())?;
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_batch_size(self.batch.rows(self.row_bytes()))
            .build()
            .map_err(|e| e.to_string())
    }

    /// Returns the approximate number of bytes of a row of the group.
    fn row_bytes(&self) -> u64 {
        let group = self.metadata.metadata().row_group(self.group);
        let strings = group
            .columns()
            .iter()
            .filter(|c| c.column_type() == Type::BYTE_ARRAY);
        let bytes = strings.map(|column| {
            column
                .unencoded_byte_array_data_bytes()
                .unwrap_or_else(|| column.uncompressed_size())
        });
        let strings = bytes.sum::<i64>().max(0) / group.num_rows().max(1);
        fixed_bytes(self.metadata.schema()) + strings.unsigned_abs()
    }

    fn fail(&mut self, reason: String) -> ImportError {
        let group = std::mem::replace(&mut self.group, usize::MAX);
        fault(
            &self.path,
            SourceLocation::RowGroup(group),
            ImportFault::Other(format!("cannot be decoded: {reason}")),
        )
    }
}

impl Iterator for RowGroupReader {
    type Item = Result<(usize, RecordBatch), ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.group < self.metadata.metadata().num_row_groups() {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => match guarded(|| self.open_group()).and_then(|opened| opened) {
                    Ok(reader) => reader,
                    Err(reason) => return Some(Err(self.fail(reason))),
                },
            };
            let next = match guarded(|| reader.next()) {
                Ok(next) => next,
                Err(reason) => return Some(Err(self.fail(reason))),
            };
            match next {
                Some(Ok(batch)) => {
                    self.reader = Some(reader);
                    return Some(Ok((self.group, batch)));
                }
                Some(Err(error)) => return Some(Err(self.fail(error.to_string()))),
                None => {
                    let size = self.metadata.metadata().row_group(self.group).compressed_size();
                    self.bytes.add(size.max(0) as u64);
                    self.group += 1;
                }
            }
        }
        None
    }
}
