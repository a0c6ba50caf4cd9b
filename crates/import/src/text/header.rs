//! Decides whether the first line of a text file names its columns.
//!
//! A first line that is taken for names is lost as data; one that is taken for data costs names only. So it
//! is a header only if something says so: its fields differ in type or shape from the values below them, or
//! are a known schema's names.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::Path;

use arrow_schema::{DataType, Schema};

use super::canonical;
use super::dialect::Dialect;
use super::infer::Inference;
use super::names::header_names;
use super::records::{FieldText, TextRecord};
use crate::value::is_value;

/// Longest text that is taken for a column name.
const LONGEST_NAME: usize = 128;
/// Numbers that are years.
const YEARS: RangeInclusive<i64> = 1900..=2100;
/// Number of rows from which repeated values are significant.
const FEW_ROWS: usize = 4;
/// Words that name columns rather than being values.
const NAMES: [&str; 24] = [
    "id",
    "name",
    "date",
    "time",
    "timestamp",
    "key",
    "code",
    "type",
    "value",
    "description",
    "title",
    "city",
    "country",
    "state",
    "status",
    "email",
    "phone",
    "address",
    "category",
    "label",
    "text",
    "url",
    "year",
    "comment",
];

/// Decides whether `first` is a header for `rows`, and returns the reason. `schema` holds the known columns
/// of the table.
pub(super) fn is_header(
    first: &TextRecord,
    rows: &[TextRecord],
    schema: Option<&Schema>,
    dialect: &Dialect,
) -> (bool, String) {
    if let Some(schema) = schema {
        let names = header_names(first, first.len()).unwrap_or_default();
        let named = names.len() == schema.fields().len()
            && names
                .iter()
                .zip(schema.fields())
                .all(|(name, column)| name.eq_ignore_ascii_case(column.name()));
        if named {
            return (true, "it names the columns of the table".into());
        }
        if schema
            .fields()
            .iter()
            .any(|column| *column.data_type() != DataType::Utf8View)
        {
            let fits = first.fields().zip(schema.fields()).all(|(field, column)| {
                dialect.is_null(field)
                    || field.bytes.is_empty()
                    || std::str::from_utf8(field.bytes).is_ok_and(|text| is_value(text, column.data_type()))
            });
            return if fits {
                (false, "it holds values of the table's types".into())
            } else {
                (
                    !could_be_value(first, dialect),
                    "it holds no values of the table's types".into(),
                )
            };
        }
    }
    let kinds: Vec<NameKind> = first.fields().map(|field| name_kind(field, dialect)).collect();
    if let Some(i) = kinds.iter().position(|kind| *kind == NameKind::Value) {
        return (false, format!("field {} is no name", i + 1));
    }
    let is_word = |i: usize| kinds[i] == NameKind::Word;
    if !(0..kinds.len()).any(is_word) {
        return (false, "no field is a name".into());
    }
    let numbers: Vec<i64> = kinds.iter().filter_map(NameKind::number).collect();
    if !is_series(&numbers) {
        return (false, "its numbers are no series of names".into());
    }
    if rows.is_empty() {
        return (true, "there is no other line".into());
    }
    let columns: Vec<Vec<FieldText<'_>>> = (0..first.len())
        .map(|i| {
            rows.iter()
                .filter(|row| i < row.len())
                .map(|row| row.field(i))
                .collect()
        })
        .collect();
    if let Some(i) = columns
        .iter()
        .enumerate()
        .position(|(i, values)| is_word(i) && values.iter().any(|value| value.bytes == first.field(i).bytes))
    {
        return (
            false,
            format!("its field {} is a value of a later line too", i + 1),
        );
    }
    for (i, values) in columns.iter().enumerate().filter(|(i, _)| is_word(*i)) {
        if let Some(reason) = differs(first.field(i).bytes, values, dialect) {
            let name = String::from_utf8_lossy(first.field(i).bytes).into_owned();
            return (true, format!("'{name}' {reason}"));
        }
    }
    let among_years = |(i, values): (usize, &Vec<FieldText<'_>>)| {
        kinds[i].number().is_some() && values.iter().any(|value| year(value.bytes).is_some())
    };
    if numbers.len() > 1 && is_years(&numbers) && !columns.iter().enumerate().any(among_years) {
        return (true, "it holds years, unlike the values below it".into());
    }
    (false, "it looks like the other lines".into())
}

/// What a field of the first line could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    /// A text.
    Word,
    /// Nothing, which may be the name of a column of row numbers or of one after a trailing delimiter.
    Empty,
    /// A whole number, which is a name beside others of a series.
    Number(i64),
    /// Nothing but a value.
    Value,
}

impl NameKind {
    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Returns what a field of the first line could be.
fn name_kind(field: FieldText<'_>, dialect: &Dialect) -> NameKind {
    let Ok(text) = std::str::from_utf8(field.bytes).map(str::trim) else {
        return NameKind::Value;
    };
    if text.is_empty() {
        return NameKind::Empty;
    }
    if let Some(number) = canonical::long(text) {
        return NameKind::Number(number);
    }
    let number = text.parse::<f64>().is_ok()
        || text
            .trim_start_matches(['+', '-', '$'])
            .starts_with(|c: char| c.is_ascii_digit());
    let mut inference = Inference::default();
    inference.see(field, dialect, (Path::new(""), 1));
    if number || inference.is_typed() || text.len() > LONGEST_NAME {
        NameKind::Value
    } else {
        NameKind::Word
    }
}

/// Returns true if numbers of the first line could be names: years, or at least two with equal steps.
fn is_series(numbers: &[i64]) -> bool {
    let steps: HashSet<Option<i64>> = numbers
        .windows(2)
        .map(|pair| pair[1].checked_sub(pair[0]))
        .collect();
    let equal_steps = numbers.len() > 1 && steps.len() == 1 && !steps.contains(&Some(0));
    equal_steps || is_years(numbers)
}

/// Returns true if all numbers are different years.
fn is_years(numbers: &[i64]) -> bool {
    let distinct: HashSet<&i64> = numbers.iter().collect();
    distinct.len() == numbers.len() && numbers.iter().all(|number| YEARS.contains(number))
}

/// Returns the year that a value is; `None` if it is none.
fn year(bytes: &[u8]) -> Option<i64> {
    canonical::long(std::str::from_utf8(bytes).ok()?).filter(|number| YEARS.contains(number))
}

/// Returns true if a field of the first line is a value of another type than text.
fn could_be_value(first: &TextRecord, dialect: &Dialect) -> bool {
    first.fields().any(|field| {
        let mut inference = Inference::default();
        inference.see(field, dialect, (Path::new(""), 1));
        inference.is_typed()
    })
}

/// Returns the way in which a name differs from the values below it.
fn differs(name: &[u8], values: &[FieldText<'_>], dialect: &Dialect) -> Option<&'static str> {
    let mut inference = Inference::default();
    for value in values {
        inference.see(*value, dialect, (Path::new(""), 1));
    }
    if inference.is_typed() {
        return Some("has another type than the values below it");
    }
    let values: Vec<&[u8]> = values
        .iter()
        .filter(|value| !dialect.is_null(**value) && !value.bytes.is_empty())
        .map(|value| value.bytes)
        .collect();
    let breaks = |text: &[u8]| text.contains(&b'\n') || text.contains(&b'\r');
    if breaks(name) && !values.iter().any(|value| breaks(value)) {
        return Some("has several lines, unlike the values below it");
    }
    if values.is_empty() {
        return None;
    }
    let is_number = |value: &&&[u8]| {
        std::str::from_utf8(value)
            .is_ok_and(|text| text.trim().parse::<f64>().is_ok() || canonical::date(text).is_some())
    };
    if 2 * values.iter().filter(is_number).count() >= values.len() {
        return Some("is no number, unlike most values below it");
    }
    let has_digit = |text: &[u8]| text.iter().any(u8::is_ascii_digit);
    let digits = values.iter().filter(|value| has_digit(value)).count();
    if !has_digit(name) && 10 * digits >= 9 * values.len() {
        return Some("has no digits, unlike the values below it");
    }
    let name_text = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
    let last_word = name_text.rsplit(['_', ' ', '.', '-']).next().unwrap_or_default();
    if NAMES.contains(&name_text.as_str()) || (name_text.contains('_') && NAMES.contains(&last_word)) {
        return Some("is a usual name of a column");
    }
    if values.len() < FEW_ROWS {
        return None;
    }
    let distinct: HashSet<&[u8]> = values.iter().copied().collect();
    if 2 * distinct.len() <= values.len() {
        return Some("is not among the values below it, which repeat");
    }
    let length = values[0].len();
    if name.len() != length && values.iter().all(|value| value.len() == length) {
        return Some("has another length than the values below it");
    }
    None
}
