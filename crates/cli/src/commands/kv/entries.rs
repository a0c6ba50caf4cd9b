//! Reading entries from text, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};
use indicatif::ProgressBar;

/// An entry as a JSON object.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryObject {
    key: u64,
    value: u64,
}

/// No line of an entry is longer; a file without lines is not read into memory as one.
const MAX_LINE_BYTES: u64 = 4096;

/// Entries between two looks at the progress.
const STRIDE: u64 = 4096;

/// The entries of some files, one after the other.
pub(super) struct EntryReader<'a> {
    /// Those that are still to be read, the next one last.
    files: Vec<PathBuf>,
    open: Option<Open>,
    bar: ProgressBar,
    cancel: &'a AtomicBool,
    bytes: u64,
    entries: u64,
    buffer: Vec<u8>,
}

struct Open {
    name: String,
    reader: Box<dyn BufRead>,
    line: u64,
}

impl<'a> EntryReader<'a> {
    pub(super) fn new(files: &[PathBuf], cancel: &'a AtomicBool) -> Result<Self, CliError> {
        let total = total_bytes(files)?;
        Ok(Self {
            files: files.iter().rev().cloned().collect(),
            open: None,
            bar: total.map_or_else(|| progress::spinner("loading"), progress::bytes),
            cancel,
            bytes: 0,
            entries: 0,
            buffer: vec![],
        })
    }

    /// Returns the next entry, or `None` at the end of the files.
    ///
    /// # Errors
    /// A file cannot be read; a line is not an entry; [`CliError::Interrupted`].
    pub(super) fn next(&mut self) -> Result<Option<(u64, u64)>, CliError> {
        self.next_line(
            entry,
            "an entry; write KEY,VALUE or KEY VALUE or a JSON object of both, two whole numbers",
        )
    }

    /// Returns the key of the next line, which is the whole line or the key of an entry, or `None` at the end
    /// of the files.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(super) fn next_key(&mut self) -> Result<Option<u64>, CliError> {
        let key = |text: &str| text.parse().ok().or_else(|| Some(entry(text)?.0));
        self.next_line(key, "a key; write one whole number on each line")
    }

    fn next_line<T>(
        &mut self,
        parse: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, CliError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(file) = self.files.pop() else {
                    return Ok(None);
                };
                self.open = Some(Open::new(&file)?);
                continue;
            };
            let read = open.read(&mut self.buffer)?;
            self.bytes += read;
            if read == 0 {
                self.open = None;
                continue;
            }
            if let Some(entry) = open.parse(&self.buffer, &parse, expected)? {
                self.entries += 1;
                if self.entries.is_multiple_of(STRIDE) {
                    self.show()?;
                }
                return Ok(Some(entry));
            }
        }
    }

    fn show(&self) -> Result<(), CliError> {
        self.bar.set_position(self.bytes);
        self.bar.set_message(format!("{} entries", grouped(self.entries)));
        if self.cancel.load(Ordering::Relaxed) {
            Err(CliError::Interrupted)
        } else {
            Ok(())
        }
    }
}

impl Drop for EntryReader<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Open {
    fn new(file: &Path) -> Result<Self, CliError> {
        let (name, reader): (_, Box<dyn BufRead>) = if is_stdin(file) {
            ("stdin".to_owned(), Box::new(BufReader::new(io::stdin())))
        } else {
            let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
            let reader = BufReader::with_capacity(1 << 16, opened);
            (file.display().to_string(), Box::new(reader))
        };
        Ok(Self {
            name,
            reader,
            line: 0,
        })
    }

    /// Reads one line and returns its length in bytes, 0 at the end of the file.
    fn read(&mut self, buffer: &mut Vec<u8>) -> Result<u64, CliError> {
        buffer.clear();
        let reader: &mut dyn BufRead = &mut self.reader;
        let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', buffer);
        self.line += 1;
        let read = read.map_err(|error| unreadable(Path::new(&self.name), &error))?;
        Ok(read as u64)
    }

    /// Parses a line with `parse`. Returns `None` if the line is blank or a header.
    fn parse<T>(
        &self,
        line: &[u8],
        parse: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, CliError> {
        let text = std::str::from_utf8(line).unwrap_or("\u{fffd}").trim();
        let is_header = || {
            ["key,value", "key"]
                .iter()
                .any(|header| text.eq_ignore_ascii_case(header))
        };
        if text.is_empty() || (self.line == 1 && is_header()) {
            return Ok(None);
        }
        match parse(text) {
            Some(entry) => Ok(Some(entry)),
            None => Err(CliError::failed(format!(
                "{}:{}: `{:.40}` is not {expected} from 0 to {}",
                self.name,
                self.line,
                String::from_utf8_lossy(line).trim(),
                u64::MAX
            ))),
        }
    }
}

/// Parses an entry of the form `5,7`, `5, 7`, `5 7` or `{"key":5,"value":7}`.
fn entry(text: &str) -> Option<(u64, u64)> {
    if text.starts_with('{') {
        let object: EntryObject = serde_json::from_str(text).ok()?;
        return Some((object.key, object.value));
    }
    let (key, value) = match text.split_once(',') {
        Some((key, value)) => (key.trim_end(), value.trim_start()),
        None => {
            let (key, value) = text.split_once(char::is_whitespace)?;
            (key, value.trim_start())
        }
    };
    Some((key.parse().ok()?, value.parse().ok()?))
}

/// Returns the total size of the files in bytes, or `None` if one is stdin. All files must exist,
/// so that a missing one is reported at the start and not after an hour.
pub(super) fn total_bytes(files: &[PathBuf]) -> Result<Option<u64>, CliError> {
    let mut total = 0;
    for file in files.iter().filter(|file| !is_stdin(file)) {
        let found = file.metadata().map_err(|error| unreadable(file, &error))?;
        if found.is_dir() {
            return Err(unreadable(file, &io::Error::other("it is a directory")));
        }
        total += found.len();
    }
    Ok((!files.iter().any(|file| is_stdin(file))).then_some(total))
}

pub(super) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

pub(super) fn unreadable(file: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("{} cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_two_numbers() {
        for text in ["5,7", "5, 7", "5 ,7", "5 7", "5\t 7", r#"{"key":5,"value":7}"#] {
            assert_eq!(entry(text), Some((5, 7)), "{text}");
        }
        for text in [
            "",
            "5",
            "5,",
            "5,7,9",
            "5 7 9",
            "-5 7",
            "5,x",
            "18446744073709551616,1",
            r#"{"key":5}"#,
            r#"{"key":5,"value":7.5}"#,
            r#"{"key":5,"value":7,"ttl":1}"#,
        ] {
            assert_eq!(entry(text), None, "{text}");
        }
    }
}
