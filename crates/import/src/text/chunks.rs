//! Parts of a text file that end where a record ends, so that they can be decoded at the same time.

use std::fs::File;
use std::io::{self, Read};

use memchr::{memchr, memchr2, memrchr};

use super::dialect::Dialect;
use super::records::{MAX_RECORD, Separators};

/// Bytes of the first part, which is enough for a query of a few rows.
const FIRST_CHUNK_BYTES: usize = 64 << 10;
/// Bytes of the other parts, unless a record is longer.
const CHUNK_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whole records of a text file.
#[derive(Debug)]
pub struct TextChunk {
    pub bytes: Vec<u8>,
    /// Place of the first byte in the file.
    pub offset: u64,
}

/// Reads the records of a file, without its header line, in parts.
#[derive(Debug)]
pub struct ChunkReader {
    file: File,
    separators: Separators,
    /// The header line has not been passed yet.
    header: bool,
    /// Blank lines are values.
    one_column: bool,
    /// Bytes that have been read and belong to the next part.
    rest: Vec<u8>,
    /// Place of these in the file.
    offset: u64,
    size: usize,
    ended: bool,
}

impl ChunkReader {
    pub fn new(file: File, dialect: &Dialect, columns: usize) -> Self {
        Self {
            file,
            separators: dialect.separators,
            header: dialect.header,
            one_column: columns == 1,
            rest: Vec::new(),
            offset: 0,
            size: FIRST_CHUNK_BYTES,
            ended: false,
        }
    }

    /// Returns the next part; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<TextChunk>> {
        while !self.ended || !self.rest.is_empty() {
            let mut bytes = std::mem::take(&mut self.rest);
            let end = self.fill(&mut bytes)?;
            self.rest = bytes.split_off(end);
            let (offset, length) = (self.offset, bytes.len());
            self.offset += length as u64;
            let start = if self.header {
                behind_header(&bytes, &self.separators, self.one_column)
            } else {
                0
            };
            self.header &= start == 0 && length > 0;
            bytes.drain(..start);
            if !bytes.is_empty() {
                let offset = offset + start as u64;
                return Ok(Some(TextChunk { bytes, offset }));
            }
        }
        Ok(None)
    }

    /// Reads on until there is a whole record, and returns where the last one ends.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            let size = std::mem::replace(&mut self.size, CHUNK_BYTES);
            let read = self.file.by_ref().take(size as u64).read_to_end(bytes)?;
            self.ended |= read < size;
            if self.offset == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
                self.offset = BYTE_ORDER_MARK.len() as u64;
            }
            // A longer record is refused when it is decoded.
            if self.ended || bytes.len() > MAX_RECORD + CHUNK_BYTES {
                return Ok(bytes.len());
            }
            if let Some(end) = last_end(bytes, &self.separators) {
                return Ok(end);
            }
        }
    }
}

/// Returns where the last whole record ends.
fn last_end(bytes: &[u8], separators: &Separators) -> Option<usize> {
    let has_quote = separators
        .quote
        .is_some_and(|quote| memchr(quote, bytes).is_some());
    if !has_quote {
        return Some(memrchr(separators.ending.byte(), bytes)? + 1);
    }
    let mut last = None;
    while let Some(end) = next_end(bytes, last.unwrap_or(0), separators) {
        last = Some(end);
    }
    last
}

/// Returns where the record that begins at `start` ends.
fn next_end(bytes: &[u8], start: usize, separators: &Separators) -> Option<usize> {
    let ending = separators.ending.byte();
    let Some(quote) = separators.quote else {
        return Some(start + memchr(ending, bytes.get(start..)?)? + 1);
    };
    let mut at = start;
    loop {
        at += memchr2(quote, ending, bytes.get(at..)?)?;
        if bytes[at] == ending {
            return Some(at + 1);
        }
        let opens = at == start || bytes[at - 1] == separators.delimiter;
        at += 1;
        if !opens {
            continue;
        }
        loop {
            at += memchr(quote, bytes.get(at..)?)? + 1;
            // Whether the quote is doubled is not known before the next byte is.
            if *bytes.get(at)? != quote {
                break;
            }
            at += 1;
        }
    }
}

/// Returns where the first record that is no blank line ends; the end of the bytes if it does not.
fn behind_header(bytes: &[u8], separators: &Separators, one_column: bool) -> usize {
    let mut start = 0;
    while let Some(end) = next_end(bytes, start, separators) {
        let blank = matches!(&bytes[start..end], [_] | [b'\r', b'\n']);
        if !blank || one_column {
            return end;
        }
        start = end;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::super::records::LineEnding;
    use super::*;

    #[test]
    fn records_end_outside_of_quotes() {
        let separators = Separators {
            delimiter: b',',
            quote: Some(b'"'),
            ending: LineEnding::Lf,
            trust_quote: false,
        };
        for (text, end) in [
            ("a,b\nc", Some(4)),
            ("a,\"b\nc\"\nd", Some(8)),
            ("a,\"b\n", None),
            ("a,5\" pipe\nb", Some(10)),
            ("\"a\"\"\n\"\nb", Some(7)),
            ("\"a\"", None),
            ("\"a\"\n\"b\"", Some(4)),
            ("", None),
        ] {
            assert_eq!(last_end(text.as_bytes(), &separators), end, "{text:?}");
        }
        assert_eq!(behind_header(b"\n\r\n\"a\nb\",c\n1,2\n", &separators, false), 11);
        assert_eq!(behind_header(b"a,b", &separators, false), 3);
    }
}
