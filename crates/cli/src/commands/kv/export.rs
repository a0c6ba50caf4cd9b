//! `kv export`: all entries of a tree or store as JSON Lines or CSV.
//!
//! Invariants: the entries are those of one commit; what is written is read back by `kv import` as the same
//! bytes. A file is complete or not there under its name: it is written under another name first.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_ordered::Range;
use halocline_store::StorePair;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};
use serde_json::{Map, Value};

use crate::args::{Encoding, EntryFormat, ExportArgs, KvArgs};

use super::open_store::OpenStore;
use super::open_tree::open_to_read;
use super::pairs::{millis, texts};

/// Entries between two looks at the progress.
const STRIDE: u64 = 1024;

pub(super) fn tree(args: &KvArgs, export: &ExportArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let (_, tree) = open_to_read(args)?;
    let mut out = Output::create(export, tree.len(), guard.requested())?;
    if out.format == EntryFormat::Csv {
        out.writer.write_all(b"key,value\n")?;
    }
    for entry in Range::new(&*tree, ..) {
        let (key, value) = entry?;
        match out.format {
            EntryFormat::Csv => writeln!(out.writer, "{key},{value}")?,
            EntryFormat::Jsonl => writeln!(out.writer, r#"{{"key":{key},"value":{value}}}"#)?,
        }
        out.count()?;
    }
    out.finish()
}

pub(super) fn store(args: &KvArgs, export: &ExportArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let open = OpenStore::to_read(args)?;
    let mut out = Output::create(export, open.store.len(), guard.requested())?;
    let encodings = [args.keys, args.values];
    if out.format == EntryFormat::Csv {
        let [key, value] = encodings.map(|encoding| encoding.unwrap_or(Encoding::Text).suffix());
        writeln!(out.writer, "key{key},value{value},expires")?;
    }
    for pair in open.store.scan::<&[u8]>(..).with_expiry() {
        let pair = pair?;
        match out.format {
            EntryFormat::Csv => write_csv(&mut out.writer, &pair, encodings)?,
            EntryFormat::Jsonl => writeln!(out.writer, "{}", object(&pair, encodings))?,
        }
        out.count()?;
    }
    out.finish()
}

/// Writes a pair as a line of CSV. All text is quoted, so that an empty one is told from none.
fn write_csv(
    out: &mut dyn Write,
    pair: &StorePair,
    encodings: [Option<Encoding>; 2],
) -> Result<(), CliError> {
    let encodings = encodings.map(|encoding| encoding.unwrap_or(Encoding::Text));
    let (key, value) = texts(pair, encodings)?;
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let expires = pair.expires.map(|time| millis(time).to_string());
    writeln!(
        out,
        "{},{},{}",
        quoted(&key),
        quoted(&value),
        expires.unwrap_or_default()
    )?;
    Ok(())
}

/// Returns a pair as a JSON object. Without an encoding, bytes are text if they are UTF-8, else base64.
fn object(pair: &StorePair, encodings: [Option<Encoding>; 2]) -> Value {
    let mut object = Map::new();
    let fields = [
        ("key", &pair.key, encodings[0]),
        ("value", &pair.value, encodings[1]),
    ];
    for (name, bytes, encoding) in fields {
        let encoding = encoding.unwrap_or(Encoding::Text);
        let (suffix, text) = match encoding.encode(bytes) {
            Some(text) => (encoding.suffix(), text),
            None => (
                Encoding::Base64.suffix(),
                Encoding::Base64.encode(bytes).unwrap_or_default(),
            ),
        };
        object.insert(format!("{name}{suffix}"), text.into());
    }
    if let Some(time) = pair.expires {
        object.insert("expires".to_owned(), millis(time).into());
    }
    Value::Object(object)
}

/// The file, or stdout.
struct Output<'a> {
    format: EntryFormat,
    writer: Box<dyn Write>,
    /// The name of the file, and the one that it has until it is complete.
    file: Option<(PathBuf, Unfinished)>,
    bar: indicatif::ProgressBar,
    cancel: &'a AtomicBool,
    entries: u64,
}

/// A file that is removed unless it is renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl<'a> Output<'a> {
    fn create(export: &ExportArgs, total: u64, cancel: &'a AtomicBool) -> Result<Self, CliError> {
        let is_csv = |path: &Path| {
            path.extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
        };
        let by_name = if export.file.as_deref().is_some_and(is_csv) {
            EntryFormat::Csv
        } else {
            EntryFormat::Jsonl
        };
        let (writer, file): (Box<dyn Write>, _) = match &export.file {
            None => (Box::new(BufWriter::new(io::stdout())), None),
            Some(path) => {
                let (file, unfinished) = create_beside(path)?;
                (Box::new(BufWriter::new(file)), Some((path.clone(), unfinished)))
            }
        };
        Ok(Self {
            format: export.format.unwrap_or(by_name),
            writer,
            file,
            bar: progress::steps(total),
            cancel,
            entries: 0,
        })
    }

    fn count(&mut self) -> Result<(), CliError> {
        self.entries += 1;
        if self.entries.is_multiple_of(STRIDE) {
            self.bar.set_position(self.entries);
            if self.cancel.load(Ordering::Relaxed) {
                return Err(CliError::Interrupted);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), CliError> {
        self.writer.flush()?;
        self.bar.finish_and_clear();
        let Some((path, unfinished)) = self.file.take() else {
            return Ok(());
        };
        let renamed = File::open(&unfinished.0)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::hard_link(&unfinished.0, &path));
        renamed.map_err(|error| unwritable(&path, &error))?;
        Ok(writeln!(
            io::stdout(),
            "{} entries in {}",
            grouped(self.entries),
            path.display()
        )?)
    }
}

/// Creates a file beside `path`, at which there must be none.
fn create_beside(path: &Path) -> Result<(File, Unfinished), CliError> {
    if path.exists() {
        return Err(CliError::with_hint(
            format!("{} exists", path.display()),
            "name another file, or remove it first",
        ));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let file = File::create_new(&part).map_err(|error| unwritable(path, &error))?;
    Ok((file, Unfinished(part)))
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("{} cannot be written: {error}", path.display()))
}
