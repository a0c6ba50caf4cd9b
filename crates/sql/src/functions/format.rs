//! `format('{} {}', a, b)` and `printf('%d', a)`: values in a pattern, as in DuckDB.
//!
//! The fields of `format` are those of Python and of the library fmt, `{[number][:style]}`; those of `printf`
//! are those of C. The result is NULL if an argument is.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{by_columns, documentation, failed, is_text, refused, texts};
use super::format_pattern::{PatternPart, braces, percents};
use super::format_values::FieldColumn;

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Format {
    has_braces: bool,
    signature: Signature,
    documentation: Documentation,
}

impl Format {
    /// Creates `format`.
    pub(super) fn new() -> Self {
        Self::of(
            true,
            "Writes values into the fields of a pattern.",
            "format('{} {:.2f}', value, …)",
        )
    }

    /// Creates `printf`.
    pub(super) fn printf() -> Self {
        Self::of(
            false,
            "Writes values into the fields of a pattern of C.",
            "printf('%s %.2f', value, …)",
        )
    }

    fn of(has_braces: bool, description: &str, syntax: &str) -> Self {
        Self {
            has_braces,
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(description, syntax),
        }
    }

    /// Writes the values of all rows.
    fn write(&self, patterns: &StringArray, columns: &[FieldColumn]) -> Result<StringArray> {
        let parse: fn(&str) -> Result<Vec<PatternPart>, String> =
            if self.has_braces { braces } else { percents };
        let mut last: Option<(&str, Vec<PatternPart>)> = None;
        let write = |row: usize| {
            if patterns.is_null(row) || columns.iter().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let pattern = patterns.value(row);
            let parts = match last.take() {
                Some((known, parts)) if known == pattern => parts,
                _ => match parse(pattern) {
                    Ok(parts) => parts,
                    Err(reason) => return failed(format!("{}: '{pattern}': {reason}", self.name())),
                },
            };
            let written = written(&parts, columns, row);
            last = Some((pattern, parts));
            match written {
                Ok(text) => Ok(Some(text)),
                Err(reason) => failed(format!("{}: '{pattern}': {reason}", self.name())),
            }
        };
        (0..patterns.len()).map(write).collect()
    }
}

/// Returns the text of a row.
fn written(parts: &[PatternPart], columns: &[FieldColumn], row: usize) -> Result<String, String> {
    let mut text = String::new();
    for part in parts {
        match part {
            PatternPart::Text(part) => text.push_str(part),
            PatternPart::Field { number, style } => {
                let column = columns.get(*number).ok_or_else(|| {
                    format!(
                        "there is no value for field {}; {} are given",
                        number + 1,
                        columns.len()
                    )
                })?;
                text.push_str(&style.write(&column.value(row)?)?);
            }
        }
    }
    Ok(text)
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &str {
        if self.has_braces { "format" } else { "printf" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.first().is_some_and(is_text) {
            Ok(DataType::Utf8)
        } else {
            refused(format!(
                "{} needs a pattern; write {}",
                self.name(),
                self.documentation.syntax_example
            ))
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let values = columns[1..].iter().map(FieldColumn::read);
            let values = values.collect::<Result<Vec<_>>>()?;
            let written = self.write(&texts(&columns[0])?, &values)?;
            Ok(Arc::new(written) as ArrayRef)
        })
    }
}
