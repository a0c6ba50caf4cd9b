//! The rules of a table as they are applied to rows on their way into it: [`RowRules`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, SchemaRef};
use halocline_columns::TableRule;
use halocline_sql::EngineError;

use super::condition::RowCondition;

/// Characters of a value that an error shows.
const SHOWN_CHARACTERS: usize = 40;

/// Columns of a row that an error shows.
const SHOWN_COLUMNS: usize = 16;

/// The rules of a table, planned for its columns.
#[derive(Debug)]
pub struct RowRules {
    checks: Vec<NamedCheck>,
    /// Columns, and most characters of each.
    lengths: Vec<(usize, u64)>,
}

#[derive(Debug)]
struct NamedCheck {
    name: String,
    text: String,
    condition: RowCondition,
}

impl RowRules {
    /// Plans the rules of a table with these columns.
    ///
    /// # Errors
    /// A condition is none, or the table lacks a column.
    pub fn plan(table: &str, schema: &SchemaRef, rules: &[TableRule]) -> Result<Self, EngineError> {
        let (mut checks, mut lengths) = (Vec::new(), Vec::new());
        for rule in rules {
            match rule {
                TableRule::Check { name, condition } => checks.push(NamedCheck {
                    name: name.clone(),
                    text: condition.clone(),
                    condition: RowCondition::plan(table, schema, condition)?,
                }),
                TableRule::Length { column, characters } => {
                    let at = schema.index_of(column);
                    let at = at.map_err(|_| EngineError::no_column(table, schema, column))?;
                    lengths.push((at, *characters));
                }
                // Kept by the store of the table.
                TableRule::Unique { .. } => {}
                other => {
                    return Err(EngineError::Query(format!(
                        "table {table} has the rule {other:?}, which this version does not know; update it"
                    )));
                }
            }
        }
        Ok(Self { checks, lengths })
    }

    /// Returns a batch with the columns of the table once its rows obey the rules: of texts that are too
    /// long, spaces at the end are cut off. `first` is the number of rows of the statement before the batch.
    ///
    /// # Errors
    /// [`EngineError::Value`] for a text that is too long, [`EngineError::Check`] for a row for which a
    /// condition is false.
    pub fn apply(&self, statement: &str, first: u64, batch: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut batch = batch;
        if !self.lengths.is_empty() {
            let (schema, mut columns) = (batch.schema(), batch.columns().to_vec());
            for (at, most) in &self.lengths {
                let limited = limited(&columns[*at], *most)?;
                columns[*at] = limited.map_err(|(row, reason)| EngineError::Value {
                    statement: statement.to_owned(),
                    row: first + row as u64 + 1,
                    column: schema.field(*at).name().clone(),
                    reason,
                })?;
            }
            batch = RecordBatch::try_new(schema, columns)?;
        }
        for check in &self.checks {
            if let Some(row) = check.condition.first_false(&batch)? {
                return Err(EngineError::Check {
                    statement: statement.to_owned(),
                    row: first + row as u64 + 1,
                    name: check.name.as_str().into(),
                    condition: check.text.as_str().into(),
                    values: values(&batch, row).into(),
                });
            }
        }
        Ok(batch)
    }
}

/// Returns texts of at most `most` characters; or the row of a longer one, with the reason why it is refused.
fn limited(array: &ArrayRef, most: u64) -> Result<Result<ArrayRef, (usize, String)>, EngineError> {
    let views = arrow_cast::cast(array, &DataType::Utf8View)?;
    let texts = views.as_string_view();
    if texts
        .iter()
        .flatten()
        .all(|text| length_to_keep(text, most) == Some(text.len()))
    {
        return Ok(Ok(Arc::clone(array)));
    }
    let mut kept = Vec::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        kept.push(match text.map(|text| (text, length_to_keep(text, most))) {
            None => None,
            Some((text, Some(length))) => Some(&text[..length]),
            Some((text, None)) => {
                let (found, shown) = (text.chars().count(), shortened(text));
                let reason = format!(
                    "'{shown}' has {found} characters, and the column takes at most {most}; shorten it, or give the column \
                     another type with ALTER TABLE"
                );
                return Ok(Err((row, reason)));
            }
        });
    }
    let kept: ArrayRef = Arc::new(StringViewArray::from_iter(kept));
    Ok(Ok(arrow_cast::cast(&kept, array.data_type())?))
}

/// Returns the bytes to keep of a text, all of them if it has at most `most` characters; `None` if there is
/// anything but spaces after these.
fn length_to_keep(text: &str, most: u64) -> Option<usize> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() <= most {
        return Some(text.len());
    }
    let Some((end, _)) = text.char_indices().nth(most) else {
        return Some(text.len());
    };
    text[end..].chars().all(|c| c == ' ').then_some(end)
}

/// Returns the values of a row as errors show them.
fn values(batch: &RecordBatch, row: usize) -> String {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).take(SHOWN_COLUMNS);
    let value = |array: &ArrayRef| {
        if array.slice(row, 1).logical_null_count() > 0 {
            return "NULL".to_owned();
        }
        let text = array_value_to_string(array, row).unwrap_or_else(|_| "?".to_owned());
        shortened(&text)
    };
    let mut shown: Vec<String> = columns
        .map(|(field, array)| format!("{} = {}", field.name(), value(array)))
        .collect();
    if schema.fields().len() > SHOWN_COLUMNS {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;
    use arrow_schema::{Field, Schema};

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8View, true),
        ]))
    }

    fn batch(a: Vec<Option<i32>>, b: Vec<Option<&str>>) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(a)), Arc::new(StringViewArray::from(b))];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn check(condition: &str) -> Result<RowRules, EngineError> {
        let rule = TableRule::Check {
            name: "n".into(),
            condition: condition.into(),
        };
        RowRules::plan("t", &schema(), &[rule])
    }

    #[test]
    fn null_passes_and_the_first_false_row_is_named() {
        let rules = check("a > 0 AND b <> ''").unwrap();
        let passes = batch(vec![Some(1), None, Some(2)], vec![Some("x"), Some("y"), None]);
        assert_eq!(rules.apply("INSERT INTO t", 0, passes.clone()).unwrap(), passes);
        let fails = batch(vec![Some(1), Some(-2)], vec![Some("x"), None]);
        let error = rules.apply("INSERT INTO t", 10, fails).unwrap_err();
        assert_eq!(
            error.to_string(),
            "INSERT INTO t, row 12: violates the constraint 'n', CHECK (a > 0 AND b <> ''); its values are a = -2, b = NULL"
        );
    }

    #[test]
    fn conditions_on_more_than_the_row_are_refused() {
        for (condition, part) in [
            ("a > (SELECT 1)", "subquery"),
            ("sum(a) > 1", "several rows"),
            ("random() > 0.5", "random"),
            ("a > $1", "parameter"),
            ("a + 1", "neither true nor false"),
            ("c > 1", "c"),
            ("b < now()", "now"),
        ] {
            let error = check(condition).unwrap_err().to_string();
            assert!(error.contains(part), "{condition}: {error}");
        }
    }

    #[test]
    fn long_texts_are_refused_unless_spaces_are_too_many() {
        let rule = TableRule::Length {
            column: "b".into(),
            characters: 2,
        };
        let rules = RowRules::plan("t", &schema(), &[rule]).unwrap();
        let given = batch(vec![None; 4], vec![Some("äö"), None, Some("a   "), Some("")]);
        let kept = rules.apply("s", 0, given).unwrap();
        assert_eq!(
            kept,
            batch(vec![None; 4], vec![Some("äö"), None, Some("a "), Some("")])
        );
        let long = batch(vec![None; 2], vec![Some("ab"), Some("abc")]);
        let error = rules.apply("s", 0, long).unwrap_err().to_string();
        assert!(
            error.starts_with("s, row 2, column b: 'abc' has 3 characters, and the column takes at most 2"),
            "{error}"
        );
    }
}
