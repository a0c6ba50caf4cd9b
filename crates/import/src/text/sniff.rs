//! Detects the delimiter, the quote and the header line of a CSV file from its first part.

use std::io::Read;
use std::path::Path;

use arrow_schema::Schema;

use super::dialect::{Dialect, TrailingDelimiter};
use super::header::is_header;
use super::infer::Inference;
use super::records::{RecordError, RecordReader, Separators, TextRecord, line_ending};
use crate::error::ImportError;
use crate::input::{open, unreadable};
use crate::options::{ImportOptions, QuoteOption};

/// Bytes of a file that are looked at.
const SAMPLE_BYTES: u64 = 256 << 10;
/// Delimiters that are tried.
const DELIMITERS: [u8; 7] = [b',', b';', b'\t', b'|', b'^', b'~', 0x1f];
/// Fields that begin with a quote they do not close, from which on quotes are part of the text.
const STRAY_QUOTES: usize = 2;

/// A sample split by one choice of separators.
struct DialectTrial {
    separators: Separators,
    records: Vec<TextRecord>,
    /// Fields that most records have.
    columns: usize,
    /// Number of records with that number of fields.
    agreeing: usize,
    malformed: bool,
}

impl DialectTrial {
    fn new(sample: &[u8], complete: bool, separators: Separators) -> Self {
        let mut reader = RecordReader::new(sample, separators);
        let (mut records, mut malformed) = (Vec::new(), false);
        loop {
            let mut record = TextRecord::default();
            match reader.read(&mut record) {
                Ok(true) => records.push(record),
                Ok(false) => break,
                Err(RecordError::Malformed { at_end, .. }) => {
                    malformed = complete || !at_end;
                    break;
                }
                Err(RecordError::Io(_)) => break,
            }
        }
        if !complete && !malformed && records.len() > 1 {
            records.pop(); // it may be cut
        }
        let mut counts = std::collections::HashMap::new();
        for record in &records {
            *counts.entry(record.len()).or_insert(0usize) += 1;
        }
        let most = counts.iter().max_by_key(|(columns, count)| (**count, **columns));
        let (columns, agreeing) = most.map_or((0, 0), |(columns, count)| (*columns, *count));
        Self {
            separators,
            records,
            columns,
            agreeing,
            malformed,
        }
    }

    /// Returns true if all records have the same number of fields, which is more than one.
    fn is_regular(&self) -> bool {
        !self.malformed && self.columns > 1 && self.agreeing == self.records.len()
    }

    /// Returns the share of columns whose values have another type than text, in thousandths.
    fn typed(&self, dialect: &Dialect) -> usize {
        let mut columns = vec![Inference::default(); self.columns];
        for record in self.records.iter().skip(1) {
            for (field, column) in record.fields().zip(&mut columns) {
                column.see(field, dialect, (Path::new(""), 1));
            }
        }
        1000 * columns.iter().filter(|column| column.is_typed()).count() / self.columns.max(1)
    }

    /// Counts fields that begin with `quote` and do not end with it.
    fn stray(&self, quote: u8) -> usize {
        let begins = |bytes: &[u8]| bytes.first() == Some(&quote);
        let ends = |bytes: &[u8]| bytes.len() > 1 && bytes.last() == Some(&quote);
        let fields = self.records.iter().flat_map(TextRecord::fields);
        fields
            .filter(|field| begins(field.bytes) && !ends(field.bytes))
            .count()
    }
}

/// Detects the dialect of a CSV file, as far as `options` leave it open. `schema` holds the columns of the
/// table if they are known.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn sniff(
    path: &Path,
    options: &ImportOptions,
    schema: Option<&Schema>,
) -> Result<Dialect, ImportError> {
    let mut sample = Vec::new();
    let read = open(path)?.take(SAMPLE_BYTES).read_to_end(&mut sample);
    let complete = (read.map_err(|e| unreadable(path, &e))? as u64) < SAMPLE_BYTES;
    let usual = match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("tsv") => b'\t',
        _ => b',',
    };
    let trials = DialectTrials {
        sample: &sample,
        complete,
        delimiters: options
            .delimiter
            .map_or_else(|| DELIMITERS.to_vec(), |delimiter| vec![delimiter]),
        usual: options.delimiter.unwrap_or(usual),
        template: Dialect {
            separators: Separators {
                delimiter: usual,
                quote: Some(b'"'),
                ending: line_ending(&sample),
                trust_quote: options.quote != QuoteOption::Detect,
            },
            header: false,
            header_reason: String::new(),
            trailing: TrailingDelimiter::Never,
            nulls: options.nulls(),
        },
    };
    let trial = match options.quote {
        QuoteOption::None => trials.best(None),
        QuoteOption::Char(quote) => trials.best(Some(quote)),
        QuoteOption::Detect => trials.detect_quote(),
    };
    let mut dialect = Dialect {
        separators: trial.separators,
        ..trials.template
    };
    (dialect.header, dialect.header_reason) = match (options.header, trial.records.split_first()) {
        (Some(header), _) => (header, "as given".into()),
        (None, None) => (true, "the file is empty".into()),
        (None, Some((first, rows))) => is_header(first, rows, schema, &dialect),
    };
    if dialect.header
        && let Some((first, rows)) = trial.records.split_first()
    {
        dialect.trailing = trailing_delimiter(first, rows);
    }
    Ok(dialect)
}

/// Returns how lines end where all lines below the header have one field more or less than it, and the last
/// field of the longer ones is empty.
fn trailing_delimiter(header: &TextRecord, rows: &[TextRecord]) -> TrailingDelimiter {
    let columns = rows.first().map_or(header.len(), TextRecord::len);
    let ends_empty = |record: &TextRecord| {
        let last = record.field(record.len() - 1);
        last.bytes.is_empty() && !last.quoted
    };
    let equal = rows.iter().all(|row| row.len() == columns);
    let below = columns == header.len() + 1 && rows.iter().all(ends_empty);
    let above = columns + 1 == header.len() && columns > 0 && ends_empty(header);
    if equal && (below || above) {
        TrailingDelimiter::After(columns.min(header.len()))
    } else {
        TrailingDelimiter::Never
    }
}

struct DialectTrials<'a> {
    sample: &'a [u8],
    complete: bool,
    delimiters: Vec<u8>,
    usual: u8,
    template: Dialect,
}

impl DialectTrials<'_> {
    /// Returns the best delimiter for a given quote.
    fn best(&self, quote: Option<u8>) -> DialectTrial {
        let split = |delimiter: &u8| {
            let separators = Separators {
                delimiter: *delimiter,
                quote,
                ..self.template.separators
            };
            DialectTrial::new(self.sample, self.complete, separators)
        };
        let rank = |trial: &DialectTrial| {
            let usual = trial.separators.delimiter == self.usual;
            let share = match trial.columns {
                0 | 1 => 0,
                _ => 1000 * trial.agreeing / trial.records.len().max(1),
            };
            // Ragged files are refused later, with the line; until then most lines decide.
            let typed = if trial.is_regular() {
                trial.typed(&self.template)
            } else {
                0
            };
            (trial.is_regular(), typed, share, usual, trial.columns)
        };
        let trials = self.delimiters.iter().map(split);
        trials.max_by_key(rank).unwrap_or_else(|| split(&self.usual))
    }

    fn detect_quote(&self) -> DialectTrial {
        let double = self.best(Some(b'"'));
        if double.is_regular() {
            return double;
        }
        let none = self.best(None);
        if none.is_regular() && none.stray(b'"') >= STRAY_QUOTES {
            return none;
        }
        if self.sample.contains(&b'\'') {
            let single = self.best(Some(b'\''));
            if single.is_regular() && !none.is_regular() {
                return single;
            }
        }
        double
    }
}
