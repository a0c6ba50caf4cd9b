//! Arrow IPC: files (footer, random access) and streams.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReaderBuilder, StreamReader};
use arrow_schema::ArrowError;

use super::error::{ImportError, ImportFault, SourceLocation};
use super::files::BatchSize;
use super::guard::guarded;
use super::input::{BytesRead, CountingReader, Input, fault, open, unreadable};
use super::ipc_bounds::IpcBounds;
use crate::storable::{storable_schema, to_schema};

const FILE_MAGIC: &[u8] = b"ARROW1";
/// The end of a finished stream: the continuation marker and an empty message.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Opens an Arrow IPC file or stream.
pub(crate) fn read(path: &Path, batch: BatchSize, bytes: BytesRead) -> Result<Input, ImportError> {
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
        let reader = opened(|| FileReaderBuilder::new().build(file)).map_err(foreign)?;
        let length = super::input::length(path);
        let batches = reader.num_batches().max(1) as u64;
        let schema = reader.schema();
        let counted = reader.inspect(move |_| bytes.add(length / batches));
        return Ok(input(path, &schema, counted));
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
    file.seek(SeekFrom::Start(0)).map_err(|e| unreadable(path, &e))?;
    let bounds = IpcBounds::new(&file, limit).map_err(|e| unreadable(path, &e))?;
    let checked = guarded(|| bounds.check_stream()).and_then(|checked| checked);
    checked.map_err(foreign)?;
    let counted = BufReader::with_capacity(1 << 20, CountingReader::new(file, bytes));
    let reader = opened(|| StreamReader::try_new(counted, None)).map_err(foreign)?;
    let schema = reader.schema();
    Ok(input(path, &schema, reader))
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

fn input(
    path: &Path,
    schema: &arrow_schema::Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Input {
    let schema = storable_schema(schema);
    let to = schema.clone();
    let path: PathBuf = path.to_path_buf();
    let batches = PanicGuarded { inner: Some(batches) };
    let batches = batches.enumerate().map(move |(number, batch)| {
        let wrong = |e: ArrowError| {
            fault(
                &path,
                SourceLocation::Batch(number),
                ImportFault::Other(format!("cannot be decoded: {e}")),
            )
        };
        to_schema(&batch.map_err(wrong)?, &to).map_err(wrong)
    });
    Input {
        schema,
        batches: Box::new(batches),
    }
}
