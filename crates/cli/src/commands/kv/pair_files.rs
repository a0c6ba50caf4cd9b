//! Reading pairs of stores from JSON Lines and CSV.
//!
//! Invariants: every byte of a field is kept, or the line is refused with its number; no more than
//! [`MAX_LINE_BYTES`] bytes of a file are in memory.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use halocline_store::{MAX_KEY, MAX_VALUE};
use halocline_terminal::CliError;
use serde_json::Value;

use crate::args::{Encoding, EntryFormat, KvArgs};

use super::encoding::of_field;
use super::entries::{is_stdin, unreadable};

/// A key, a value, and the time of expiry in ms since 1970.
pub(super) type ReadPair = (Vec<u8>, Vec<u8>, Option<u64>);

/// Most bytes of a line: those of the longest pair, each written as six characters, and names of fields.
const MAX_LINE_BYTES: u64 = 6 * (MAX_KEY + MAX_VALUE) as u64 + 1024;

/// The pairs of one file.
pub(super) struct PairReader {
    name: String,
    /// Encodings of fields that do not name theirs.
    encodings: [Encoding; 2],
    rest: Rest,
    left: Rc<Cell<u64>>,
    read: Rc<Cell<u64>>,
}

enum Rest {
    Jsonl {
        reader: BufReader<Limited>,
        line: u64,
    },
    Csv {
        reader: Box<csv::Reader<Limited>>,
        record: csv::ByteRecord,
        /// False until the first record was read.
        begun: bool,
        columns: usize,
    },
}

impl PairReader {
    pub(super) fn open(path: &Path, format: Option<EntryFormat>, args: &KvArgs) -> Result<Self, CliError> {
        let (name, source): (_, Box<dyn Read>) = if is_stdin(path) {
            ("stdin".to_owned(), Box::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            (path.display().to_string(), Box::new(file))
        };
        let (left, read) = (Rc::new(Cell::new(MAX_LINE_BYTES)), Rc::new(Cell::new(0)));
        let source = Limited {
            source,
            left: Rc::clone(&left),
            read: Rc::clone(&read),
        };
        let rest = match format.unwrap_or_else(|| format_of(path)) {
            EntryFormat::Jsonl => Rest::Jsonl {
                reader: BufReader::with_capacity(1 << 16, source),
                line: 0,
            },
            EntryFormat::Csv => Rest::Csv {
                reader: Box::new(
                    csv::ReaderBuilder::new()
                        .has_headers(false)
                        .flexible(true)
                        .from_reader(source),
                ),
                record: csv::ByteRecord::new(),
                begun: false,
                columns: 2,
            },
        };
        Ok(Self {
            name,
            encodings: [args.keys, args.values].map(|encoding| encoding.unwrap_or(Encoding::Text)),
            rest,
            left,
            read,
        })
    }

    /// Returns the number of bytes that were read from the file.
    pub(super) fn bytes(&self) -> u64 {
        self.read.get()
    }

    /// Returns the next pair, or `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read; the next line is not a pair. The message has the number of the line.
    pub(super) fn next(&mut self) -> Result<Option<ReadPair>, CliError> {
        loop {
            self.left.set(MAX_LINE_BYTES);
            let (line, parsed) = match &mut self.rest {
                Rest::Jsonl { reader, line } => {
                    let mut text = Vec::new();
                    let read = reader.read_until(b'\n', &mut text);
                    *line += 1;
                    match read {
                        Ok(0) => return Ok(None),
                        Ok(_) if text.trim_ascii().is_empty() => continue,
                        Ok(_) => (*line, from_json(&text, self.encodings)),
                        Err(error) => (*line, Err(error.to_string())),
                    }
                }
                Rest::Csv {
                    reader,
                    record,
                    begun,
                    columns,
                } => match reader.read_byte_record(record) {
                    Ok(false) => return Ok(None),
                    Ok(true) => {
                        let line = record.position().map_or(0, csv::Position::line);
                        if !std::mem::replace(begun, true)
                            && let Some(header) = header(record)
                        {
                            *columns = record.len();
                            for (encoding, named) in self.encodings.iter_mut().zip(header) {
                                if named != Encoding::Text {
                                    *encoding = named;
                                }
                            }
                            continue;
                        }
                        (line, from_csv(record, *columns, self.encodings))
                    }
                    Err(error) => (reader.position().line(), Err(error.to_string())),
                },
            };
            return match parsed {
                Ok(pair) => Ok(Some(pair)),
                Err(reason) => Err(CliError::failed(format!("{}:{line}: {reason}", self.name))),
            };
        }
    }
}

/// Returns the form of a file by its name.
pub(super) fn format_of(path: &Path) -> EntryFormat {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" | "json" => EntryFormat::Jsonl,
        _ => EntryFormat::Csv,
    }
}

fn from_json(line: &[u8], encodings: [Encoding; 2]) -> Result<ReadPair, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
    let Value::Object(fields) = value else {
        return Err("not a JSON object".to_owned());
    };
    let (mut key, mut value, mut expires) = (None, None, None);
    for (name, field) in &fields {
        let place = [("key", &mut key), ("value", &mut value)]
            .into_iter()
            .zip(encodings)
            .find_map(|((base, place), default)| Some((place, of_field(name, base)?, default)));
        match (place, field) {
            (Some((place, encoding, default)), Value::String(text)) => {
                let encoding = if encoding == Encoding::Text {
                    default
                } else {
                    encoding
                };
                if place.replace(encoding.decode(text)?).is_some() {
                    return Err(format!("`{name}` is there twice"));
                }
            }
            (Some(_), _) => return Err(format!("`{name}` must be a string")),
            (None, Value::Null) if name == "expires" => {}
            (None, field) if name == "expires" => {
                expires = Some(
                    field
                        .as_u64()
                        .ok_or("`expires` must be a number of milliseconds")?,
                );
            }
            (None, _) => return Err(format!("unknown field `{name:.40}`")),
        }
    }
    Ok((
        key.ok_or("no field `key`, `key_hex` or `key_base64`")?,
        value.ok_or("no field `value`, `value_hex` or `value_base64`")?,
        expires,
    ))
}

/// Returns the encodings that a header names, if a record is one.
fn header(record: &csv::ByteRecord) -> Option<[Encoding; 2]> {
    let field = |index: usize| str::from_utf8(record.get(index)?).ok();
    let is_known = record.len() == 2 || record.len() == 3 && field(2) == Some("expires");
    is_known.then_some([of_field(field(0)?, "key")?, of_field(field(1)?, "value")?])
}

fn from_csv(record: &csv::ByteRecord, columns: usize, encodings: [Encoding; 2]) -> Result<ReadPair, String> {
    if record.len() != columns {
        return Err(format!(
            "{} columns instead of {columns}: key and value{}",
            record.len(),
            if columns == 3 { ", expires" } else { "" }
        ));
    }
    let decode = |index: usize, encoding: Encoding| {
        let field = record.get(index).unwrap_or_default();
        match (encoding, str::from_utf8(field)) {
            // The bytes of the file are kept, whatever they are.
            (Encoding::Text, _) => Ok(field.to_vec()),
            (encoding, Ok(text)) => encoding.decode(text),
            (_, Err(_)) => Err("not UTF-8".to_owned()),
        }
    };
    let expires = match record.get(2) {
        None | Some(b"") => None,
        Some(text) => Some(
            str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or("`expires` must be a number of milliseconds")?,
        ),
    };
    Ok((decode(0, encodings[0])?, decode(1, encodings[1])?, expires))
}

/// A source of which no more than `left` bytes are read until that is set anew.
struct Limited {
    source: Box<dyn Read>,
    left: Rc<Cell<u64>>,
    read: Rc<Cell<u64>>,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            return Err(io::Error::other(
                "it is longer than any pair; is a quote missing?",
            ));
        }
        let read = self.source.read(buffer)?;
        self.left.set(self.left.get().saturating_sub(read as u64));
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: [Encoding; 2] = [Encoding::Text; 2];

    #[test]
    fn json_objects_are_pairs() {
        let pair = |text: &str| from_json(text.as_bytes(), TEXT);
        let expected = (b"a".to_vec(), vec![0xFF], Some(5));
        assert_eq!(
            pair(r#"{"value_hex":"ff","key":"a","expires":5}"#).unwrap(),
            expected
        );
        let no_expiry = (vec![0], vec![], None);
        assert_eq!(
            pair(r#"{"key_base64":"AA==","value":"","expires":null}"#).unwrap(),
            no_expiry
        );
        for (text, reason) in [
            ("[1]", "not a JSON object"),
            (r#"{"key":1,"value":""}"#, "must be a string"),
            (r#"{"key":"a"}"#, "no field `value`"),
            (r#"{"key":"a","key_hex":"00","value":""}"#, "twice"),
            (r#"{"key":"a","value":"","ttl":1}"#, "unknown field `ttl`"),
            (r#"{"key":"a","value":"","expires":-1}"#, "`expires`"),
            (r#"{"key":"a","value_hex":"0"}"#, "hexadecimal"),
        ] {
            let error = pair(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
