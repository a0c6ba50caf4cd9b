//! Decides whether the first line of a text file names its columns.
//!
//! A first line that is taken for names is lost as data; one that is taken for data costs names only. So it
//! is a header only if something says so: its fields differ in type or shape from the values below them, or
//! are a known schema's names.

use std::collections::HashSet;
use std::path::Path;

use arrow_schema::{DataType, Schema};

use super::canonical;
use super::dialect::Dialect;
use super::infer::Inference;
use super::records::{FieldText, TextRecord};
use crate::import::value::is_value;

/// Longest text that is taken for a column name.
const LONGEST_NAME: usize = 128;
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
pub(crate) fn is_header(
    first: &TextRecord,
    rows: &[TextRecord],
    schema: Option<&Schema>,
    dialect: &Dialect,
) -> (bool, String) {
    if let Some(schema) = schema {
        let named = first.len() == schema.fields().len()
            && first.fields().zip(schema.fields()).all(|(field, column)| {
                let text = String::from_utf8_lossy(field.bytes);
                text.trim().eq_ignore_ascii_case(column.name())
            });
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
            return match fits {
                true => (false, "it holds values of the table's types".into()),
                false => (
                    !could_be_value(first, dialect),
                    "it holds no values of the table's types".into(),
                ),
            };
        }
    }
    if let Some(i) = (0..first.len()).find(|i| !is_name(first.field(*i), *i, dialect)) {
        return (false, format!("field {} is no name", i + 1));
    }
    let mut names = HashSet::new();
    if !first
        .fields()
        .all(|field| names.insert(field.bytes.to_ascii_lowercase()))
    {
        return (false, "its fields are not distinct".into());
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
    if let Some(i) = columns.iter().enumerate().position(|(i, values)| {
        values
            .iter()
            .any(|value| value.bytes == first.field(i).bytes && !value.bytes.is_empty())
    }) {
        return (
            false,
            format!("its field {} is a value of a later line too", i + 1),
        );
    }
    for (i, values) in columns.iter().enumerate() {
        if let Some(reason) = differs(first.field(i).bytes, values, dialect) {
            let name = String::from_utf8_lossy(first.field(i).bytes).into_owned();
            return (true, format!("'{name}' {reason}"));
        }
    }
    (false, "it looks like the other lines".into())
}

/// Returns true if a field of the first line is a value of another type than text.
fn could_be_value(first: &TextRecord, dialect: &Dialect) -> bool {
    first.fields().any(|field| {
        let mut inference = Inference::default();
        inference.see(field, dialect, (Path::new(""), 1));
        inference.is_typed()
    })
}

/// Returns true if field `i` can be a name. The first one may be empty, because a column of row numbers often
/// has no name.
fn is_name(field: FieldText<'_>, i: usize, dialect: &Dialect) -> bool {
    let Ok(text) = std::str::from_utf8(field.bytes) else {
        return false;
    };
    let text = text.trim();
    if text.is_empty() {
        return i == 0;
    }
    let number = text.parse::<f64>().is_ok()
        || text
            .trim_start_matches(['+', '-', '$'])
            .starts_with(|c: char| c.is_ascii_digit());
    let mut inference = Inference::default();
    inference.see(field, dialect, (Path::new(""), 1));
    !number && !inference.is_typed() && text.len() <= LONGEST_NAME && !text.contains(['\n', '\r'])
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
