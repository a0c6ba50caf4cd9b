//! Arrow IPC: files (footer, random access) and streams.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use halocline_values::sliced_size;
use halocline_values::storable::{storable_schema, to_schema};

use super::error::{ImportError, ImportFault, SourceLocation};
use super::files::BatchSize;
use super::guard::guarded;
use super::input::{BytesRead, Input, fault, open, unreadable};
use super::ipc_blocks::BlockReader;
use super::ipc_bounds::IpcBounds;
use super::ipc_file::FileBatches;
use super::ipc_stream::StreamBatches;
use super::temporary_files::TemporaryFiles;

const FILE_MAGIC: &[u8] = b"ARROW1";
/// The end of a finished stream: the continuation marker and an empty message.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Opens an Arrow IPC file or stream. Batches that are too large for DRAM are copied to `files`; without
/// files they are read all the same.
pub(crate) fn read(
    path: &Path,
    batch: BatchSize,
    bytes: BytesRead,
    files: Option<&Arc<dyn TemporaryFiles>>,
) -> Result<Input, ImportError> {
    let mut file = open(path)?;
    let foreign = |reason: String| {
        fault(
            path,
            SourceLocation::File,
            ImportFault::Foreign {
                format: "a readable Arrow IPC file",
                reason,
            },
        )
    };
    let limit = batch.part_bytes();
    if begins_with(&mut file, FILE_MAGIC).map_err(|e| unreadable(path, &e))? {
        if tail(&mut file, FILE_MAGIC.len()).map_err(|e| unreadable(path, &e))? != FILE_MAGIC {
            return Err(fault(
                path,
                SourceLocation::File,
                ImportFault::Truncated("the footer is missing".into()),
            ));
        }
        let bounds = IpcBounds::new(&file, limit).map_err(|e| unreadable(path, &e))?;
        let checked = guarded(|| bounds.check_file()).and_then(|checked| checked);
        checked.map_err(foreign)?;
        let length = file.metadata().map_err(|e| unreadable(path, &e))?.len();
        let reader = BlockReader::new(file, limit, files.cloned());
        let batches = opened(|| FileBatches::new(reader, length, bytes)).map_err(foreign)?;
        let schema = Arc::clone(&batches.schema);
        return Ok(input(path, &schema, batches, batch));
    }
    if tail(&mut file, END_OF_STREAM.len()).map_err(|e| unreadable(path, &e))? != END_OF_STREAM {
        if !begins_with(&mut file, &END_OF_STREAM[..4]).map_err(|e| unreadable(path, &e))? {
            let reason = "it begins neither like a file nor like a stream".into();
            return Err(fault(
                path,
                SourceLocation::File,
                ImportFault::Foreign {
                    format: "Arrow IPC",
                    reason,
                },
            ));
        }
        return Err(fault(
            path,
            SourceLocation::File,
            ImportFault::Truncated("the end of the stream is missing".into()),
        ));
    }
    let bounds = IpcBounds::new(&file, limit).map_err(|e| unreadable(path, &e))?;
    let checked = guarded(|| bounds.check_stream()).and_then(|checked| checked);
    checked.map_err(foreign)?;
    let reader = BlockReader::new(file, limit, files.cloned());
    let batches = opened(|| StreamBatches::new(reader, bytes)).map_err(foreign)?;
    let schema = Arc::clone(&batches.schema);
    Ok(input(path, &schema, batches, batch))
}

fn opened<T>(open: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, String> {
    guarded(open).and_then(|opened| opened.map_err(|e| e.to_string()))
}

/// Batches of a decoder, up to its first error or panic.
struct PanicGuarded<I> {
    inner: Option<I>,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> Iterator for PanicGuarded<I> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let inner = self.inner.as_mut()?;
        let next = guarded(|| inner.next()).unwrap_or_else(|reason| Some(Err(ArrowError::IpcError(reason))));
        if !matches!(next, Some(Ok(_))) {
            self.inner = None;
        }
        next
    }
}

fn begins_with(file: &mut File, magic: &[u8]) -> std::io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::with_capacity(magic.len());
    file.by_ref().take(magic.len() as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(head == magic)
}

/// Returns the last `count` bytes, fewer if the file is shorter.
fn tail(file: &mut File, count: usize) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(count as u64)))?;
    let mut tail = Vec::with_capacity(count);
    file.read_to_end(&mut tail)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(tail)
}

/// Returns the parts of a batch that are no larger than `size`.
fn parts(batch: RecordBatch, size: BatchSize) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let bytes = sliced_size::of_batch(&batch).unwrap_or_else(|_| batch.get_array_memory_size());
    let step = size.rows(bytes.div_ceil(rows.max(1)) as u64);
    (0..rows)
        .step_by(step)
        .map(move |at| batch.slice(at, step.min(rows - at)))
}

fn input(
    path: &Path,
    schema: &arrow_schema::Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    size: BatchSize,
) -> Input {
    let schema = storable_schema(schema);
    let to = schema.clone();
    let path: PathBuf = path.to_path_buf();
    let batches = PanicGuarded { inner: Some(batches) };
    let batches = batches.enumerate().flat_map(move |(number, batch)| {
        let (error, batch) = match batch {
            Ok(batch) => (None, Some(batch)),
            Err(error) => (Some(error), None),
        };
        let parts = batch
            .into_iter()
            .flat_map(move |batch| parts(batch, size).map(Ok));
        let (path, to) = (path.clone(), to.clone());
        error.into_iter().map(Err).chain(parts).map(move |part| {
            let wrong = |e: ArrowError| {
                fault(
                    &path,
                    SourceLocation::Batch(number),
                    ImportFault::Other(format!("cannot be decoded: {e}")),
                )
            };
            to_schema(&part.map_err(wrong)?, &to).map_err(wrong)
        })
    });
    Input {
        schema,
        batches: Box::new(batches),
    }
}
