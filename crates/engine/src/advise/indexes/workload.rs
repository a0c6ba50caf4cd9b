//! The queries of a workload, as read from a script.

use halocline_sql::EngineError;
use halocline_sql::split::split_located;

/// Begins a comment that says how often a query runs.
const WEIGHT: &str = "weight:";

/// A query of a workload.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WorkloadQuery {
    /// Its SQL.
    pub text: String,
    /// How often it runs, relative to the others; positive.
    pub weight: f64,
    /// Its name in messages: file and line.
    pub label: String,
}

impl WorkloadQuery {
    /// Creates a query of weight 1.
    #[must_use]
    pub fn new(text: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            weight: 1.0,
            label: label.into(),
        }
    }

    /// Reads the queries of a script, separated by semicolons. A comment `-- weight: 10` before a query says
    /// that it runs ten times as often as one without. `name` is that of the file.
    ///
    /// # Errors
    /// A quote or comment does not close; a weight is not a positive number. Names file and line.
    pub fn read_script(script: &str, name: &str) -> Result<Vec<Self>, EngineError> {
        let statements = split_located(script).map_err(|error| named(name, &error))?;
        let read = |(line, text): (usize, String)| {
            let label = format!("{name}:{line}");
            let weight = weight(&text).map_err(|error| named(&label, &error))?;
            Ok(Self { text, weight, label })
        };
        statements.into_iter().map(read).collect()
    }
}

/// Returns an error that says where it is.
pub(super) fn named(label: &str, error: &EngineError) -> EngineError {
    EngineError::Query(format!("{label}: {error}"))
}

/// Returns the weight in the comments before a statement.
fn weight(text: &str) -> Result<f64, EngineError> {
    let mut weight = 1.0;
    for line in text.lines().map(str::trim) {
        let Some(comment) = line.strip_prefix("--") else {
            if line.is_empty() { continue } else { break }
        };
        let comment = comment.trim().to_ascii_lowercase();
        let Some(number) = comment.strip_prefix(WEIGHT).map(str::trim) else {
            continue;
        };
        weight = match number.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => number,
            _ => {
                return Err(EngineError::Query(format!(
                    "'{number}' is not a weight; write a positive number, as in -- weight: 10"
                )));
            }
        };
    }
    Ok(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_lines_are_read() {
        let script = "-- a file\n\n-- weight: 2.5\n-- of the day\nSELECT 1;\nSELECT ';' -- weight: 9\n;\n/* x\n */ SELECT 2";
        let queries = WorkloadQuery::read_script(script, "q.sql").unwrap();
        let read: Vec<(f64, &str)> = queries
            .iter()
            .map(|query| (query.weight, query.label.as_str()))
            .collect();
        assert_eq!(read, [(2.5, "q.sql:5"), (1.0, "q.sql:6"), (1.0, "q.sql:9")]);
        assert!(
            WorkloadQuery::read_script("-- nothing\n;;", "q.sql")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (script, said) in [
            (
                "SELECT 1;\n-- weight: much\nSELECT 2",
                "q.sql:3: 'much' is not a weight",
            ),
            ("-- weight: -1\nSELECT 2", "q.sql:2: '-1' is not a weight"),
            ("-- weight: inf\nSELECT 2", "q.sql:2: 'inf' is not a weight"),
            ("SELECT 1;\nSELECT 'x", "q.sql: the quote that opens in line 2"),
        ] {
            let error = WorkloadQuery::read_script(script, "q.sql")
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
