//! Checks the lengths that an Arrow IPC file declares against its size before it is decoded, because the
//! decoder allocates what they say.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow_ipc::{Message, RecordBatch, root_as_footer, root_as_message};

const CONTINUATION: [u8; 4] = [0xff; 4];
/// Bytes before the first message of a file: the magic, padded.
const HEAD: u64 = 8;
/// Bytes after the footer of a file: its length and the magic.
const TAIL: u64 = 10;
/// Rows of a batch that need no bytes, as those of a column of NULLs alone.
const ROWS_WITHOUT_BYTES: u64 = 1 << 20;

/// Returns the offset and length of each buffer of a batch, all of them within its body.
///
/// # Errors
/// A buffer is not within the body; the text is the reason.
fn buffers(batch: &RecordBatch<'_>, body: u64) -> Result<Vec<(u64, u64)>, String> {
    let within = |buffer: &arrow_ipc::Buffer| {
        let (offset, length) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
        let (Ok(offset), Ok(length)) = (offset, length) else {
            return Err("a buffer has a negative length".to_owned());
        };
        match offset.checked_add(length) {
            Some(end) if end <= body => Ok((offset, length)),
            _ => Err("a buffer ends past its batch".to_owned()),
        }
    };
    batch.buffers().into_iter().flatten().map(within).collect()
}

/// Checks that a batch has no more rows than its bytes, once they are decompressed, can hold.
///
/// # Errors
/// It has more; the text is the reason.
fn check_rows(batch: &RecordBatch<'_>, decoded: u64) -> Result<(), String> {
    let most = decoded.saturating_mul(8).saturating_add(ROWS_WITHOUT_BYTES);
    let wrong = |count: i64| u64::try_from(count).map_or(true, |count| count > most);
    let nodes = batch.nodes();
    if wrong(batch.length())
        || nodes
            .into_iter()
            .flatten()
            .any(|node| wrong(node.length()) || wrong(node.null_count()))
    {
        return Err("a batch has more rows than its bytes can hold".into());
    }
    Ok(())
}

/// Checks a batch that is not compressed and whose body of `body` bytes is in DRAM.
///
/// # Errors
/// A length is wrong, or it is compressed; the text is the reason.
pub fn check_batch_in(batch: &RecordBatch<'_>, body: u64) -> Result<(), String> {
    if batch.compression().is_some() {
        return Err("the batch is compressed".into());
    }
    let lengths = buffers(batch, body)?;
    let decoded = lengths
        .iter()
        .fold(0u64, |sum, (_, length)| sum.saturating_add(*length));
    check_rows(batch, decoded)
}

/// An open file with its length.
pub(crate) struct IpcBounds<'a> {
    file: &'a File,
    length: u64,
    /// Bytes that a batch may have once it is decompressed.
    limit: u64,
}

impl<'a> IpcBounds<'a> {
    /// Checks for an open file.
    ///
    /// # Errors
    /// The length of the file is unknown.
    pub(crate) fn new(file: &'a File, limit: u64) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length, limit })
    }

    /// Checks a file with a footer.
    ///
    /// # Errors
    /// A length is wrong; the text is the reason.
    pub(crate) fn check_file(&self) -> Result<(), String> {
        let end = self.length.checked_sub(TAIL).ok_or("the footer is missing")?;
        let footer = self.bytes(end, 4)?;
        let footer = u64::from(u32::from_le_bytes([footer[0], footer[1], footer[2], footer[3]]));
        let start = end.checked_sub(footer).filter(|start| *start >= HEAD);
        let footer = self.bytes(start.ok_or("the footer is longer than the file")?, footer)?;
        let footer = root_as_footer(&footer).map_err(|e| format!("the footer is malformed: {e}"))?;
        let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches());
        for block in blocks.flatten() {
            let (offset, head, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
            let [offset, head, body] = [offset, i64::from(head), body].map(|n| u64::try_from(n).ok());
            let (Some(offset), Some(head), Some(body)) = (offset, head, body) else {
                return Err("a batch has a negative length".into());
            };
            let after = offset.checked_add(head).filter(|after| self.holds(*after, body));
            let after = after.ok_or("a batch ends past the end of the file")?;
            let bytes = self.bytes(offset, head)?;
            let message = match bytes.strip_prefix(&CONTINUATION) {
                Some(rest) => rest.get(4..),
                None => bytes.get(4..),
            };
            let message = root_as_message(message.ok_or("a batch has no head")?);
            let message = message.map_err(|e| format!("the head of a batch is malformed: {e}"))?;
            self.check_message(&message, after, body)?;
        }
        Ok(())
    }

    /// Checks a stream, message by message.
    ///
    /// # Errors
    /// A length is wrong; the text is the reason.
    pub(crate) fn check_stream(&self) -> Result<(), String> {
        let mut at = 0;
        while at + 4 <= self.length {
            let mut word = self.word(at)?;
            at += 4;
            if word == CONTINUATION {
                word = self.word(at)?;
                at += 4;
            }
            let head =
                u64::try_from(i32::from_le_bytes(word)).map_err(|_| "a message has a negative length")?;
            if head == 0 {
                break;
            }
            let bytes = self.bytes(at, head)?;
            let message = root_as_message(&bytes).map_err(|e| format!("a message is malformed: {e}"))?;
            at += head;
            let body = u64::try_from(message.bodyLength()).map_err(|_| "a message has a negative length")?;
            if !self.holds(at, body) {
                return Err("a message ends past the end of the file".into());
            }
            self.check_message(&message, at, body)?;
            at += body;
        }
        Ok(())
    }

    fn check_message(&self, message: &Message<'_>, at: u64, body: u64) -> Result<(), String> {
        if let Some(batch) = message.header_as_record_batch() {
            return self.check_batch(&batch, at, body);
        }
        let dictionary = message.header_as_dictionary_batch();
        match dictionary.and_then(|dictionary| dictionary.data()) {
            Some(batch) => self.check_batch(&batch, at, body),
            None => Ok(()),
        }
    }

    fn check_batch(&self, batch: &RecordBatch<'_>, at: u64, body: u64) -> Result<(), String> {
        let mut decoded = 0u64;
        for (offset, length) in buffers(batch, body)? {
            decoded = decoded.saturating_add(match batch.compression() {
                Some(_) if length >= 8 => self.decompressed(at + offset, length)?,
                _ => length,
            });
        }
        let compressed = batch.compression().is_some();
        if compressed && decoded > self.limit {
            return Err(format!(
                "a batch has {} MiB when decompressed, more than the {} MiB of memory for it: allow more memory, or write \
                 smaller batches",
                decoded >> 20,
                self.limit >> 20
            ));
        }
        check_rows(batch, decoded)
    }

    /// Returns the decompressed length of a compressed buffer.
    fn decompressed(&self, at: u64, length: u64) -> Result<u64, String> {
        let bytes = self.bytes(at, 8)?;
        let mut word = [0; 8];
        word.copy_from_slice(&bytes);
        match i64::from_le_bytes(word) {
            -1 => Ok(length - 8),
            decoded => u64::try_from(decoded).map_err(|_| "a compressed buffer has a negative length".into()),
        }
    }

    fn holds(&self, at: u64, length: u64) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.length)
    }

    fn word(&self, at: u64) -> Result<[u8; 4], String> {
        let bytes = self.bytes(at, 4)?;
        Ok([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, String> {
        if !self.holds(at, length) {
            return Err("a length reaches past the end of the file".into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|e| e.to_string())?];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|e| e.to_string())?;
        Ok(bytes)
    }
}
