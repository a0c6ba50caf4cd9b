//! Splits text into records and fields.
//!
//! Unlike a lenient CSV reader it changes nothing silently: text after a closing quote, a quote that never
//! closes, and (while the quote was detected rather than given) a quoted field that swallows whole records
//! are faults with a line number. A field records whether it was quoted, which distinguishes an empty text
//! from a missing value.

use std::io::Read;

use memchr::{memchr, memchr2};

use crate::error::ImportFault;

/// Bytes read from a file at a time.
const BUFFER: usize = 64 << 10;
/// Longest record in bytes.
pub(super) const MAX_RECORD: usize = 64 << 20;
/// Most fields of a record; a table of more columns cannot be imported.
const MAX_COLUMNS: usize = 10_000;
/// Line breaks that a quoted field may hold unless the user named the quote.
const MAX_BREAKS: usize = 1_000;
/// Delimiters within a quoted field from which on its lines are compared with records.
const SUSPICIOUS_DELIMITERS: usize = 3;
/// Line breaks from which on a field is refused if half of its lines look like records.
const SUSPICIOUS_BREAKS: usize = 20;

/// Byte that ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnding {
    /// `\n`; a `\r` before it belongs to the line ending, any other `\r` to the field.
    Lf,
    /// `\r` alone, for files that hold no `\n`.
    Cr,
}

impl LineEnding {
    pub fn byte(self) -> u8 {
        match self {
            Self::Lf => b'\n',
            Self::Cr => b'\r',
        }
    }
}

/// Bytes that separate and quote fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Separators {
    /// Ends a field.
    pub delimiter: u8,
    /// Quotes a field.
    pub quote: Option<u8>,
    /// Ends a record.
    pub ending: LineEnding,
    /// The user named the quote: fields of many lines are taken as they are.
    pub trust_quote: bool,
}

/// One field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldText<'a> {
    /// Its bytes, without quotes.
    pub bytes: &'a [u8],
    /// It was quoted.
    pub quoted: bool,
}

/// The fields of one record; reused from record to record.
#[derive(Debug, Clone, Default)]
pub struct TextRecord {
    bytes: Vec<u8>,
    /// End of each field in `bytes`, and whether it was quoted.
    ends: Vec<(usize, bool)>,
    line: u64,
}

impl TextRecord {
    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes of all fields.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the line of the file on which the record begins, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns field `i`.
    pub fn field(&self, i: usize) -> FieldText<'_> {
        let start = if i == 0 { 0 } else { self.ends[i - 1].0 };
        let (end, quoted) = self.ends[i];
        FieldText {
            bytes: &self.bytes[start..end],
            quoted,
        }
    }

    /// Returns all fields.
    pub fn fields(&self) -> impl Iterator<Item = FieldText<'_>> {
        (0..self.len()).map(|i| self.field(i))
    }

    fn is_blank(&self) -> bool {
        self.len() == 1 && self.bytes.is_empty() && !self.ends[0].1
    }
}

/// An error in the record structure of a file.
#[derive(Debug)]
pub(super) enum RecordError {
    /// The file cannot be read.
    Io(std::io::Error),
    /// It is malformed.
    Malformed {
        /// The line, from 1.
        line: u64,
        /// The reason.
        fault: ImportFault,
        /// The text ended within quotes, as that of a sample may.
        at_end: bool,
    },
}

/// Reads records one after the other.
pub(super) struct RecordReader<R> {
    input: R,
    separators: Separators,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    started: bool,
    ended: bool,
    line: u64,
    /// Fields of the first record.
    columns: usize,
}

/// Counts the lines of a quoted field that look like records.
#[derive(Default)]
struct SwallowedLines {
    breaks: usize,
    delimiters: usize,
    in_line: usize,
    first: usize,
    whole: usize,
}

impl SwallowedLines {
    fn see(&mut self, bytes: &[u8], separators: &Separators, columns: usize) {
        let ending = separators.ending.byte();
        let mut rest = bytes;
        while let Some(i) = memchr2(separators.delimiter, ending, rest) {
            if rest[i] == separators.delimiter {
                self.delimiters += 1;
                self.in_line += 1;
            } else {
                match self.breaks {
                    0 => self.first = self.in_line,
                    _ => self.whole += usize::from(self.in_line + 1 == columns),
                }
                self.breaks += 1;
                self.in_line = 0;
            }
            rest = &rest[i + 1..];
        }
    }

    /// Returns true if the lines look like records that a stray quote swallowed: the first one completes the
    /// record that holds field `i`, the last one begins another up to its field `i`, those between are whole.
    fn are_records(&self, i: usize, separators: &Separators, columns: usize) -> bool {
        if self.breaks == 0 || columns < 2 {
            return false;
        }
        let exact = self.first + i + 1 == columns && self.in_line == i && self.whole + 1 == self.breaks;
        let enough = self.delimiters >= SUSPICIOUS_DELIMITERS || separators.delimiter == b'\t';
        (exact && enough) || (self.breaks >= SUSPICIOUS_BREAKS && 2 * self.whole >= self.breaks)
    }
}

impl<R: Read> RecordReader<R> {
    pub(super) fn new(input: R, separators: Separators) -> Self {
        Self {
            input,
            separators,
            buffer: Vec::new(),
            at: 0,
            filled: 0,
            started: false,
            ended: false,
            line: 1,
            columns: 0,
        }
    }

    /// Reads from within a file, where no byte order mark can be.
    pub(super) fn within(input: R, separators: Separators) -> Self {
        Self {
            started: true,
            ..Self::new(input, separators)
        }
    }

    /// Sets the number of columns of the table, instead of the fields of the first record.
    pub(super) fn expect_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Reads the next record; false at the end of the text. Blank lines are skipped, except in a table of one
    /// column, where they are values.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed; nothing more is read then.
    pub(super) fn read(&mut self, record: &mut TextRecord) -> Result<bool, RecordError> {
        loop {
            record.bytes.clear();
            record.ends.clear();
            record.line = self.line;
            if !self.has_more()? {
                return Ok(false);
            }
            while !self.read_field(record)? {}
            if record.is_blank() && self.columns != 1 {
                continue;
            }
            if self.columns == 0 {
                self.columns = record.len();
                self.check_first(record)?;
            }
            return Ok(true);
        }
    }

    /// Checks the quoted fields of the first record, which were read before the number of columns was known.
    fn check_first(&mut self, record: &TextRecord) -> Result<(), RecordError> {
        if self.separators.trust_quote {
            return Ok(());
        }
        for (i, field) in record.fields().enumerate().filter(|(_, field)| field.quoted) {
            let mut swallowed = SwallowedLines::default();
            swallowed.see(field.bytes, &self.separators, self.columns);
            if swallowed.are_records(i, &self.separators, self.columns) {
                let lines = swallowed.breaks;
                return Err(self.malformed(record.line, ImportFault::LongQuote { lines }));
            }
        }
        Ok(())
    }

    /// Reads one field; true if it is the last one of its record.
    fn read_field(&mut self, record: &mut TextRecord) -> Result<bool, RecordError> {
        if record.len() >= MAX_COLUMNS {
            return Err(self.malformed(record.line, ImportFault::TooManyColumns { most: MAX_COLUMNS }));
        }
        let first = if self.has_more()? {
            Some(self.buffer[self.at])
        } else {
            None
        };
        if first.is_some() && first == self.separators.quote {
            self.at += 1;
            return self.read_quoted(record);
        }
        let ending = self.separators.ending.byte();
        loop {
            if !self.has_more()? {
                record.ends.push((record.bytes.len(), false));
                return Ok(true);
            }
            let rest = &self.buffer[self.at..self.filled];
            let found = memchr2(self.separators.delimiter, ending, rest);
            let end = found.unwrap_or(rest.len());
            record.bytes.extend_from_slice(&rest[..end]);
            self.check_length(record)?;
            self.at += end;
            let Some(_) = found else { continue };
            let byte = self.buffer[self.at];
            self.at += 1;
            if byte == self.separators.delimiter {
                record.ends.push((record.bytes.len(), false));
                return Ok(false);
            }
            self.line += 1;
            let start = record.ends.last().map_or(0, |(end, _)| *end);
            if ending == b'\n' && record.bytes[start..].ends_with(b"\r") {
                record.bytes.pop();
            }
            record.ends.push((record.bytes.len(), false));
            return Ok(true);
        }
    }

    /// Reads the rest of a field after its opening quote.
    fn read_quoted(&mut self, record: &mut TextRecord) -> Result<bool, RecordError> {
        let (opened, quote) = (self.line, self.separators.quote.unwrap_or(b'"'));
        let mut swallowed = SwallowedLines::default();
        loop {
            if !self.has_more()? {
                self.ended = true;
                return Err(RecordError::Malformed {
                    line: opened,
                    fault: ImportFault::OpenQuote,
                    at_end: true,
                });
            }
            let rest = &self.buffer[self.at..self.filled];
            let found = memchr(quote, rest);
            let end = found.unwrap_or(rest.len());
            swallowed.see(&rest[..end], &self.separators, self.columns);
            let ending = self.separators.ending.byte();
            self.line += memchr::memchr_iter(ending, &rest[..end]).count() as u64;
            record.bytes.extend_from_slice(&rest[..end]);
            self.at += end + usize::from(found.is_some());
            self.check_length(record)?;
            if !self.separators.trust_quote && swallowed.breaks > MAX_BREAKS {
                let lines = swallowed.breaks;
                return Err(self.malformed(opened, ImportFault::LongQuote { lines }));
            }
            if found.is_none() {
                continue;
            }
            if self.has_more()? && self.buffer[self.at] == quote {
                record.bytes.push(quote);
                self.at += 1;
                continue;
            }
            break;
        }
        let field = record.len();
        record.ends.push((record.bytes.len(), true));
        if !self.separators.trust_quote && swallowed.are_records(field, &self.separators, self.columns) {
            let lines = swallowed.breaks;
            return Err(self.malformed(opened, ImportFault::LongQuote { lines }));
        }
        self.after_quote(opened)
    }

    /// Reads what ends a quoted field; true if it ends the record.
    fn after_quote(&mut self, opened: u64) -> Result<bool, RecordError> {
        if !self.has_more()? {
            return Ok(true);
        }
        let ending = self.separators.ending.byte();
        let byte = self.buffer[self.at];
        self.at += 1;
        if byte == self.separators.delimiter {
            return Ok(false);
        }
        let byte = match byte {
            b'\r' if ending == b'\n' && self.has_more()? => {
                self.at += 1;
                self.buffer[self.at - 1]
            }
            byte => byte,
        };
        if byte == ending || (byte == b'\r' && !self.has_more()?) {
            self.line += 1;
            return Ok(true);
        }
        Err(self.malformed(opened, ImportFault::StrayQuote))
    }

    fn check_length(&mut self, record: &TextRecord) -> Result<(), RecordError> {
        match record.bytes.len() {
            ..=MAX_RECORD => Ok(()),
            _ => Err(self.malformed(record.line, ImportFault::TooLong { most: MAX_RECORD })),
        }
    }

    fn malformed(&mut self, line: u64, fault: ImportFault) -> RecordError {
        self.ended = true;
        RecordError::Malformed {
            line,
            fault,
            at_end: false,
        }
    }

    /// Returns true if there is a byte at `at`; refills the buffer if it is exhausted.
    #[inline]
    fn has_more(&mut self) -> Result<bool, RecordError> {
        if self.at < self.filled {
            return Ok(!self.ended);
        }
        self.fill()
    }

    fn fill(&mut self) -> Result<bool, RecordError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.resize(BUFFER, 0);
        (self.at, self.filled) = (0, 0);
        // The first bytes at once, for the byte order mark.
        let least = if self.started { 1 } else { 3 };
        while self.filled < least {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(RecordError::Io(error));
                }
            }
        }
        if !std::mem::replace(&mut self.started, true)
            && self.buffer[..self.filled].starts_with(b"\xef\xbb\xbf")
        {
            self.at = 3;
        }
        self.ended = self.filled == 0;
        if self.at == self.filled && !self.ended {
            return self.fill();
        }
        Ok(!self.ended)
    }
}

/// Returns the line ending of a text by its first lines.
pub(super) fn line_ending(sample: &[u8]) -> LineEnding {
    match memchr(b'\r', sample) {
        Some(_) if memchr(b'\n', sample).is_none() => LineEnding::Cr,
        _ => LineEnding::Lf,
    }
}
