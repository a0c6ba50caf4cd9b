//! Column types of text files from their values, and the values that decided them.
//!
//! A type is inferred only if no value is altered ([`super::canonical`]); else the column is text.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::canonical::{self, SlashedDate};
use super::dialect::Dialect;
use super::names::header_names;
use super::records::{FieldText, TextRecord};
use crate::error::{ImportError, ImportFault, SourceLocation};
use crate::input::fault;
use crate::report::DecidingValue;

/// A type that inference may give, with the form of its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeCandidate {
    Boolean,
    Integer,
    UnsignedInteger,
    WideInteger,
    /// Numbers with the same number of decimal places.
    Decimal,
    /// Numbers of which doubles lose nothing.
    Double,
    /// Other numbers of at most 38 digits.
    MixedDecimal,
    Date,
    Timestamp,
    TimestampUtc,
    SlashedDate(SlashedDate),
    SlashedTimestamp(SlashedDate),
}

/// All of them, the preferred one first.
const CANDIDATES: [TypeCandidate; 16] = [
    TypeCandidate::Boolean,
    TypeCandidate::Integer,
    TypeCandidate::UnsignedInteger,
    TypeCandidate::WideInteger,
    TypeCandidate::Decimal,
    TypeCandidate::Double,
    TypeCandidate::MixedDecimal,
    TypeCandidate::Date,
    TypeCandidate::Timestamp,
    TypeCandidate::TimestampUtc,
    TypeCandidate::SlashedDate(SlashedDate::Ymd),
    TypeCandidate::SlashedDate(SlashedDate::Dmy),
    TypeCandidate::SlashedDate(SlashedDate::Mdy),
    TypeCandidate::SlashedTimestamp(SlashedDate::Ymd),
    TypeCandidate::SlashedTimestamp(SlashedDate::Dmy),
    TypeCandidate::SlashedTimestamp(SlashedDate::Mdy),
];

/// Digits of a decimal whose values all fit 64 bits.
const NARROW_PRECISION: u8 = 18;
/// Digits of a decimal, at most.
const MAX_PRECISION: u8 = 38;
/// Characters of a deciding value that are kept.
const MAX_SHOWN_CHARS: usize = 60;

/// The types that the values of a column can all have.
#[derive(Debug, Clone)]
pub(crate) struct Inference {
    possible: Vec<TypeCandidate>,
    seen: bool,
    /// A value other than `NaN` and `inf` was seen, which alone are words rather than numbers.
    number: bool,
    scale: Option<u8>,
    precision: u8,
    /// Most digits before and after the point.
    digits: (u8, u8),
    quoted_empty: bool,
    null: bool,
    decided: Option<DecidingValue>,
}

impl Default for Inference {
    fn default() -> Self {
        Self {
            possible: CANDIDATES.to_vec(),
            seen: false,
            number: false,
            scale: None,
            precision: 0,
            digits: (0, 0),
            quoted_empty: false,
            null: false,
            decided: None,
        }
    }
}

impl Inference {
    /// Takes a value of the column; `place` names the file and the line.
    pub(crate) fn see(&mut self, field: FieldText<'_>, dialect: &Dialect, place: (&Path, u64)) {
        let before = (self.chosen(), self.seen);
        if self.seen && self.possible.is_empty() {
            return;
        }
        if dialect.is_null(field) {
            self.null = true;
        } else if field.quoted && field.bytes.is_empty() {
            self.quoted_empty = true;
        } else {
            self.seen = true;
            match std::str::from_utf8(field.bytes) {
                Ok(text) => self.narrow(text),
                Err(_) => self.possible.clear(),
            }
        }
        if self.quoted_empty && self.null {
            // Only text distinguishes a quoted empty value from a missing one.
            self.possible.clear();
        }
        if (self.chosen(), self.seen) != before {
            let text = String::from_utf8_lossy(field.bytes);
            let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
            self.decided = Some(DecidingValue {
                file: place.0.to_path_buf(),
                line: place.1,
                value: if shown.len() < text.len() {
                    shown + "…"
                } else {
                    shown
                },
            });
        }
    }

    fn narrow(&mut self, text: &str) {
        let any = |candidates: &[TypeCandidate]| self.possible.iter().any(|c| candidates.contains(c));
        let whole = any(&[
            TypeCandidate::Integer,
            TypeCandidate::UnsignedInteger,
            TypeCandidate::WideInteger,
            TypeCandidate::MixedDecimal,
        ])
        .then(|| canonical::integer(text))
        .flatten();
        let with_point = any(&[TypeCandidate::Decimal, TypeCandidate::MixedDecimal])
            .then(|| canonical::fixed(text))
            .flatten();
        let fixed = with_point.filter(|fixed| self.scale.is_none_or(|scale| scale == fixed.scale));
        if let Some(fixed) = fixed {
            self.scale = Some(fixed.scale);
            self.precision = self.precision.max(fixed.precision.max(fixed.scale));
        }
        let digits = with_point.map(|fixed| (fixed.precision.saturating_sub(fixed.scale), fixed.scale));
        let digits = digits.or_else(|| Some((digits_of(whole?), 0)));
        if let Some((before, behind)) = digits {
            self.digits = (self.digits.0.max(before), self.digits.1.max(behind));
        }
        let mixed = digits.is_some() && self.digits.0 + self.digits.1 <= MAX_PRECISION;
        self.possible.retain(|candidate| match candidate {
            TypeCandidate::Boolean => canonical::boolean(text).is_some(),
            TypeCandidate::Integer => whole.is_some_and(|value| i64::try_from(value).is_ok()),
            TypeCandidate::UnsignedInteger => whole.is_some_and(|value| u64::try_from(value).is_ok()),
            TypeCandidate::WideInteger => whole.is_some(),
            TypeCandidate::Decimal => fixed.is_some_and(|fixed| fixed.precision <= MAX_PRECISION),
            TypeCandidate::Double => canonical::number(text).is_some(),
            TypeCandidate::MixedDecimal => mixed,
            TypeCandidate::Date => canonical::date(text).is_some(),
            TypeCandidate::Timestamp => canonical::timestamp(text).is_some(),
            TypeCandidate::TimestampUtc => canonical::timestamp_utc(text).is_some(),
            TypeCandidate::SlashedDate(order) => order.date(text).is_some(),
            TypeCandidate::SlashedTimestamp(order) => order.timestamp(text).is_some(),
        });
        self.number |= text.bytes().any(|byte| byte.is_ascii_digit());
    }

    /// Returns the type of the column so far; `None` for text.
    pub(crate) fn chosen(&self) -> Option<TypeCandidate> {
        let first = *self.possible.first().filter(|_| self.seen)?;
        let certain = match first {
            TypeCandidate::Double => self.number,
            // Nothing tells days from months if every value could be read both ways.
            TypeCandidate::SlashedDate(SlashedDate::Dmy)
            | TypeCandidate::SlashedTimestamp(SlashedDate::Dmy) => self.possible.len() == 1,
            _ => true,
        };
        certain.then_some(first)
    }

    /// Returns true if the column has had a value.
    pub(crate) fn has_value(&self) -> bool {
        self.seen
    }

    /// Returns the type of the column so far; text if nothing is known.
    pub(crate) fn data_type(&self) -> DataType {
        match self.chosen() {
            None => DataType::Utf8View,
            Some(TypeCandidate::Boolean) => DataType::Boolean,
            Some(TypeCandidate::Integer) => DataType::Int64,
            Some(TypeCandidate::UnsignedInteger) => DataType::UInt64,
            Some(TypeCandidate::WideInteger) => DataType::Decimal128(MAX_PRECISION, 0),
            Some(TypeCandidate::Decimal) => {
                let narrow = self.precision <= NARROW_PRECISION;
                let precision = if narrow { NARROW_PRECISION } else { MAX_PRECISION };
                DataType::Decimal128(precision, self.scale.unwrap_or(0).cast_signed())
            }
            Some(TypeCandidate::Double) => DataType::Float64,
            Some(TypeCandidate::MixedDecimal) => {
                DataType::Decimal128(MAX_PRECISION, self.digits.1.cast_signed())
            }
            Some(TypeCandidate::Date | TypeCandidate::SlashedDate(_)) => DataType::Date32,
            Some(TypeCandidate::Timestamp | TypeCandidate::SlashedTimestamp(_)) => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            Some(TypeCandidate::TimestampUtc) => {
                DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))
            }
        }
    }

    /// Returns true if the column has another type than text.
    pub(crate) fn is_typed(&self) -> bool {
        self.chosen().is_some()
    }
}

/// Columns inferred from files, and what decided each type.
#[derive(Debug, Clone, Default)]
pub(crate) struct InferredColumns {
    /// Their names, in order.
    pub names: Vec<String>,
    columns: Vec<Inference>,
}

impl InferredColumns {
    /// Returns the columns as a schema; every one may be NULL.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self.names.iter().zip(&self.columns);
        let fields = fields.map(|(name, column)| Field::new(name, column.data_type(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Returns the form of the values of column `i`; `None` for text.
    pub(crate) fn form(&self, i: usize) -> Option<TypeCandidate> {
        self.columns[i].chosen()
    }

    /// Returns the value that decided the type of column `i`; `None` if the column has no value.
    pub(crate) fn decided(&self, i: usize) -> Option<&DecidingValue> {
        self.columns[i].decided.as_ref()
    }
}

/// Infers the columns of text files that share their names: names from the header line (`c1`, `c2`, … without
/// one), types from the first `sample` rows of each file (all if none).
///
/// # Errors
/// A file is empty, cannot be read, is malformed within the sample, or names other columns than the first
/// one.
pub(crate) fn infer(
    files: &[(&Path, &Dialect)],
    sample: Option<usize>,
) -> Result<InferredColumns, ImportError> {
    let mut inferred: Option<InferredColumns> = None;
    for (path, dialect) in files {
        let names = column_names(path, dialect)?;
        let known = inferred.get_or_insert_with(|| InferredColumns {
            columns: vec![Inference::default(); names.len()],
            names: names.clone(),
        });
        if known.names != names {
            let text = format!("{} instead of {}", names.join(", "), known.names.join(", "));
            return Err(fault(
                path,
                SourceLocation::File,
                ImportFault::SchemaMismatch(text),
            ));
        }
        let mut records = dialect.rows(path, crate::input::open(path)?, names.len())?;
        let mut record = TextRecord::default();
        let mut left = sample.unwrap_or(usize::MAX);
        while left > 0 && records.read(&mut record)? {
            left -= 1;
            // Lines of a wrong shape are found, with their place, when the file is decoded.
            for (field, column) in record.fields().zip(&mut known.columns) {
                column.see(field, dialect, (path, record.line()));
            }
        }
    }
    Ok(inferred.unwrap_or_default())
}

/// Returns the names of a file's columns.
pub(crate) fn column_names(path: &Path, dialect: &Dialect) -> Result<Vec<String>, ImportError> {
    let Some(record) = dialect.first_record(path)? else {
        let reason = "is empty: there is no line that tells its columns; give a schema".into();
        return Err(fault(path, SourceLocation::File, ImportFault::Other(reason)));
    };
    if !dialect.header {
        return Ok((1..=dialect.columns(&record)).map(|i| format!("c{i}")).collect());
    }
    header_names(&record, dialect.columns(&record)).ok_or_else(|| {
        fault(
            path,
            SourceLocation::Line(record.line()),
            ImportFault::InvalidUtf8,
        )
    })
}

/// Returns the number of digits of a whole number; none for zero.
fn digits_of(value: i128) -> u8 {
    value
        .unsigned_abs()
        .checked_ilog10()
        .map_or(0, |log| log as u8 + 1)
}
