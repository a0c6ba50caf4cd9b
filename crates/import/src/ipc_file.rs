//! The batches of an Arrow IPC file with a footer.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::{ArrowError, SchemaRef};

use super::input::BytesRead;
use super::ipc_blocks::BlockReader;

/// Bytes after the footer: its length and the magic.
const TAIL: u64 = 10;

/// Decodes batch after batch.
pub(super) struct FileBatches {
    reader: BlockReader,
    decoder: FileDecoder,
    pub(super) schema: SchemaRef,
    blocks: std::vec::IntoIter<Block>,
    bytes: BytesRead,
}

impl FileBatches {
    /// Reads the footer of a file of `length` bytes whose [bounds](super::ipc_bounds) were checked, and its
    /// dictionaries.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub(super) fn new(reader: BlockReader, length: u64, bytes: BytesRead) -> Result<Self, ArrowError> {
        let malformed = |what: &str| ArrowError::ParseError(what.to_owned());
        let end = length
            .checked_sub(TAIL)
            .ok_or_else(|| malformed("the footer is missing"))?;
        let footer = read_footer_length(reader.word(end)?)? as u64;
        let start = end
            .checked_sub(footer)
            .ok_or_else(|| malformed("the footer is longer than the file"))?;
        let footer = reader.message(start, footer, 0)?;
        let footer = root_as_footer(&footer).map_err(|error| ArrowError::ParseError(error.to_string()))?;
        let schema = footer
            .schema()
            .ok_or_else(|| malformed("the footer has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ArrowError::IpcError("its numbers are big-endian".into()));
        }
        let schema = Arc::new(fb_to_schema(schema));
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        for block in footer.dictionaries().into_iter().flatten() {
            decoder.read_dictionary(block, &message(&reader, block)?)?;
        }
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        Ok(Self {
            reader,
            decoder,
            schema,
            blocks: blocks.into_iter(),
            bytes,
        })
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let block = self.blocks.next()?;
            let batch = message(&self.reader, &block)
                .and_then(|bytes| self.decoder.read_record_batch(&block, &bytes));
            self.bytes.add(u64::try_from(block.bodyLength()).unwrap_or(0));
            if let Some(batch) = batch.transpose() {
                return Some(batch);
            }
        }
    }
}

fn message(reader: &BlockReader, block: &Block) -> Result<arrow_buffer::Buffer, ArrowError> {
    let [offset, head, body] = [
        block.offset(),
        i64::from(block.metaDataLength()),
        block.bodyLength(),
    ]
    .map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    Ok(reader.message(offset, head, body)?)
}
