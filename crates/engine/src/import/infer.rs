//! Column types of a CSV file from its values.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::dialect::{Dialect, broken};
use super::error::{ImportError, ImportFault, Place};
use super::input::{fault, open};
use super::value::{is_date, is_value};

/// Types that inference may give, the narrowest first; text is always possible.
const CANDIDATES: [DataType; 5] = [
    DataType::Boolean,
    DataType::Int64,
    DataType::Float64,
    DataType::Date32,
    DataType::Timestamp(TimeUnit::Nanosecond, None),
];

/// What the values of a column can all be.
#[derive(Debug, Clone, Copy)]
struct Guess {
    possible: [bool; CANDIDATES.len()],
    seen: bool,
}

impl Guess {
    fn see(&mut self, text: &str) {
        self.seen = true;
        for (possible, candidate) in self.possible.iter_mut().zip(&CANDIDATES) {
            *possible = *possible
                && match candidate {
                    DataType::Date32 => is_date(text),
                    other => is_value(text, other),
                };
        }
    }

    fn data_type(self) -> DataType {
        let first = self
            .possible
            .iter()
            .position(|possible| *possible)
            .filter(|_| self.seen);
        first.map_or(DataType::Utf8View, |i| CANDIDATES[i].clone())
    }
}

/// The columns of CSV files that share their names: names from the header line (`c1`, `c2`, … without one), types from
/// the first `sample` rows of each file (all if none). Every column may be NULL.
///
/// # Errors
/// A file is empty, cannot be read, is not UTF-8, or has a line of another number of columns among the sample.
pub(crate) fn infer(files: &[(&Path, Dialect)], sample: Option<usize>) -> Result<SchemaRef, ImportError> {
    let mut names: Option<Vec<String>> = None;
    let mut guesses = Vec::new();
    for (path, dialect) in files {
        let own = column_names(path, dialect)?;
        match &names {
            None => {
                guesses = vec![
                    Guess {
                        possible: [true; CANDIDATES.len()],
                        seen: false
                    };
                    own.len()
                ];
                names = Some(own);
            }
            Some(first) if *first != own => {
                let text = format!("{} instead of {}", own.join(", "), first.join(", "));
                return Err(fault(path, Place::File, ImportFault::SchemaMismatch(text)));
            }
            Some(_) => {}
        }
        see_values(path, dialect, sample, &mut guesses)?;
    }
    let fields = names
        .unwrap_or_default()
        .into_iter()
        .zip(&guesses)
        .map(|(n, g)| Field::new(n, g.data_type(), true));
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The names of a file's columns.
pub(crate) fn column_names(path: &Path, dialect: &Dialect) -> Result<Vec<String>, ImportError> {
    let Some(record) = dialect.first_record(path)? else {
        let reason = "is empty: there is no line that tells its columns; give a schema".into();
        return Err(fault(path, Place::File, ImportFault::Other(reason)));
    };
    if !dialect.header {
        return Ok((1..=dialect.columns(&record)).map(|i| format!("c{i}")).collect());
    }
    record
        .iter()
        .map(|name| std::str::from_utf8(name).map(|name| name.trim().to_string()))
        .collect::<Result<_, _>>()
        .map_err(|_| fault(path, Place::Line(1), ImportFault::InvalidUtf8))
}

fn see_values(
    path: &Path,
    dialect: &Dialect,
    sample: Option<usize>,
    guesses: &mut [Guess],
) -> Result<(), ImportError> {
    let mut reader = dialect.records(open(path)?);
    let mut record = csv::ByteRecord::new();
    let mut left = sample.unwrap_or(usize::MAX);
    let mut header = dialect.header;
    while left > 0
        && reader
            .read_byte_record(&mut record)
            .map_err(|e| broken(path, &e))?
    {
        if std::mem::take(&mut header) {
            continue;
        }
        left -= 1;
        // Lines of a wrong shape are found, with their place, when the file is decoded.
        for (value, guess) in record.iter().zip(guesses.iter_mut()) {
            if value != dialect.null.as_bytes() {
                match std::str::from_utf8(value) {
                    Ok(text) => guess.see(text),
                    Err(_) => guess.possible = [false; CANDIDATES.len()],
                }
            }
        }
    }
    Ok(())
}
