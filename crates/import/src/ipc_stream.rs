//! The batches of an Arrow IPC stream in a file.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;
use arrow_schema::{ArrowError, SchemaRef};

use super::input::BytesRead;
use super::ipc_blocks::BlockReader;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Decodes batch after batch.
pub(super) struct StreamBatches {
    reader: BlockReader,
    decoder: StreamDecoder,
    pub(super) schema: SchemaRef,
    /// Where the next message begins, if there is one.
    next: Option<u64>,
    /// Bytes that are not decoded yet.
    pending: VecDeque<Buffer>,
    bytes: BytesRead,
}

impl StreamBatches {
    /// Reads the schema of a stream whose [bounds](super::ipc_bounds) were checked.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub(super) fn new(reader: BlockReader, bytes: BytesRead) -> Result<Self, ArrowError> {
        let mut batches = Self {
            reader,
            decoder: StreamDecoder::new(),
            schema: SchemaRef::new(arrow_schema::Schema::empty()),
            next: Some(0),
            pending: VecDeque::new(),
            bytes,
        };
        batches.read_message()?;
        // The decoder looks at a message without a body when there are bytes after it.
        batches.read_message()?;
        while let Some(head) = batches.pending.front_mut()
            && batches.decoder.schema().is_none()
        {
            if batches.decoder.decode(head)?.is_some() {
                return Err(ArrowError::ParseError("a batch comes before the schema".into()));
            }
            if head.is_empty() {
                batches.pending.pop_front();
            }
        }
        let schema = batches.decoder.schema();
        batches.schema = schema.ok_or_else(|| ArrowError::ParseError("there is no schema".into()))?;
        Ok(batches)
    }

    /// Reads the next message, or the end of the stream.
    fn read_message(&mut self) -> Result<(), ArrowError> {
        let Some(at) = self.next.take() else {
            return Ok(());
        };
        let word: [u8; 4] = self.reader.word(at)?;
        let (prefix, length) = if word == CONTINUATION {
            (8, self.reader.word(at + 4)?)
        } else {
            (4, word)
        };
        let length = u64::from(u32::from_le_bytes(length));
        let head = self.reader.message(at, prefix + length, 0)?;
        let Some(message) = head.get(prefix as usize..).filter(|message| !message.is_empty()) else {
            self.pending.push_back(head);
            return Ok(());
        };
        let malformed = |error: &dyn std::fmt::Display| ArrowError::ParseError(error.to_string());
        let body = root_as_message(message).map_err(|e| malformed(&e))?.bodyLength();
        let body = u64::try_from(body).map_err(|e| malformed(&e))?;
        self.pending.push_back(head);
        let start = at + prefix + length;
        if body > 0 {
            self.pending.push_back(self.reader.message(start, 0, body)?);
        }
        self.bytes.add(prefix + length + body);
        self.next = Some(start + body);
        Ok(())
    }

    fn decoded(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            let Some(bytes) = self.pending.front_mut() else {
                if self.next.is_none() {
                    self.decoder.finish()?;
                    return Ok(None);
                }
                self.read_message()?;
                continue;
            };
            let batch = self.decoder.decode(bytes)?;
            if bytes.is_empty() {
                self.pending.pop_front();
            }
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }
}

impl Iterator for StreamBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decoded().transpose()
    }
}
