//! Pairs of a store on stdout.

use std::borrow::Cow;
use std::io::{self, BufWriter, Stdout};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use halocline_store::StorePair;
use halocline_terminal::CliError;
use halocline_terminal::output::{Sink, Style};

use crate::args::{Encoding, KvArgs};

/// Pairs that are printed together, unless they are long.
const BATCH: usize = 8192;
/// Bytes of text that are printed together.
const BATCH_BYTES: usize = 4 << 20;

/// Prints pairs as they come, with a column of times of expiry.
pub(super) struct PairPrinter {
    sink: Sink<BufWriter<Stdout>>,
    schema: SchemaRef,
    encodings: [Encoding; 2],
    keys: StringBuilder,
    values: StringBuilder,
    expires: Vec<Option<i64>>,
    bytes: usize,
}

impl PairPrinter {
    pub(super) fn new(args: &KvArgs, style: Style) -> Self {
        let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let schema = Arc::new(Schema::new(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, false),
            Field::new("expires", time, true),
        ]));
        Self {
            sink: Sink::new(style, Arc::clone(&schema), BufWriter::new(io::stdout())),
            schema,
            encodings: [args.keys, args.values].map(|encoding| encoding.unwrap_or(Encoding::Text)),
            keys: StringBuilder::new(),
            values: StringBuilder::new(),
            expires: vec![],
            bytes: 0,
        }
    }

    /// Adds a pair to the batch, and prints the batch if it is full.
    ///
    /// # Errors
    /// The key or value is not UTF-8 and is to be printed as text; stdout cannot be written.
    pub(super) fn push(&mut self, pair: StorePair) -> Result<(), CliError> {
        let (key, value) = texts(&pair, self.encodings)?;
        self.keys.append_value(&key);
        self.values.append_value(&value);
        self.expires.push(pair.expires.map(millis));
        self.bytes += key.len() + value.len();
        if self.expires.len() < BATCH && self.bytes < BATCH_BYTES {
            Ok(())
        } else {
            self.print()
        }
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        if !self.expires.is_empty() {
            self.print()?;
        }
        self.sink.finish()
    }

    fn print(&mut self) -> Result<(), CliError> {
        let expires = TimestampMillisecondArray::from(std::mem::take(&mut self.expires)).with_timezone("UTC");
        self.bytes = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.keys.finish()),
            Arc::new(self.values.finish()),
            Arc::new(expires),
        ];
        self.sink
            .write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Returns key and value as text.
///
/// # Errors
/// One of them is not UTF-8, and its encoding is that for text.
pub(super) fn texts(
    pair: &StorePair,
    [key, value]: [Encoding; 2],
) -> Result<(Cow<'_, str>, Cow<'_, str>), CliError> {
    let key = key
        .encode(&pair.key)
        .ok_or_else(|| not_text("a key", "--keys", &pair.key))?;
    let value = value
        .encode(&pair.value)
        .ok_or_else(|| not_text("the value", "--values", &pair.key))?;
    Ok((key, value))
}

/// Returns the error for bytes that cannot be written as text.
fn not_text(what: &str, option: &str, key: &[u8]) -> CliError {
    let key = match str::from_utf8(key) {
        Ok(text) if what != "a key" => format!("of key `{text:.60}`"),
        _ => format!("(key {:.60} in hexadecimal)", hex::encode(key)),
    };
    CliError::with_hint(
        format!("{what} is not UTF-8 {key}"),
        format!("{option} hex or {option} base64 writes any bytes"),
    )
}

/// Converts a time to milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
