//! A script as its statements.

use super::lexer::{SqlPart, SqlParts, trim_sql};
use crate::EngineError;

/// Splits at semicolons that stand outside of quotes and comments; drops what holds only spaces and comments.
///
/// # Errors
/// A quote or comment does not close.
pub fn split(script: &str) -> Result<Vec<String>, EngineError> {
    let statements = split_located(script)?;
    Ok(statements.into_iter().map(|(_, statement)| statement).collect())
}

/// Splits as [`split`] does; each statement comes with the line of its first word, from 1.
///
/// # Errors
/// A quote or comment does not close.
pub fn split_located(script: &str) -> Result<Vec<(usize, String)>, EngineError> {
    let (mut statements, mut start) = (Vec::new(), 0);
    // The line of the first word, counted from the word of the statement before.
    let (mut line, mut counted) = (1, 0);
    let mut first_word = None;
    for part in SqlParts::new(script) {
        match part {
            SqlPart::Open { at, what } => return Err(open(script, at, what)),
            SqlPart::Text(at) => {
                if first_word.is_none() {
                    line += script[counted..at].matches('\n').count();
                    counted = at;
                    first_word = Some(line);
                }
            }
            SqlPart::Semicolon(at) => {
                statements.extend(
                    first_word
                        .take()
                        .map(|word| (word, trim_sql(&script[start..at]).to_owned())),
                );
                start = at + 1;
            }
        }
    }
    statements.extend(first_word.map(|word| (word, trim_sql(&script[start..]).to_owned())));
    Ok(statements)
}

fn open(script: &str, at: usize, what: &str) -> EngineError {
    let line = script[..at].matches('\n').count() + 1;
    EngineError::Query(format!("the {what} that opens in line {line} does not close"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_inside_do_not_split() {
        let script = "SELECT ';', \"a;b\" -- not; here\n FROM t; /* ; */ ;\n\nSELECT 'it''s; ü' ;-- end;\n";
        let parts = split(script).unwrap();
        assert_eq!(
            parts,
            ["SELECT ';', \"a;b\" -- not; here\n FROM t", "SELECT 'it''s; ü'"]
        );
        assert!(split(" -- only\n ;; ").unwrap().is_empty());
        let script = "\u{feff}SELECT $$a;b$$, E'\\';' /* /* ; */ ; */; \u{feff}SELECT $x$;$x$";
        assert_eq!(
            split(script).unwrap(),
            ["SELECT $$a;b$$, E'\\';' /* /* ; */ ; */", "SELECT $x$;$x$"]
        );
    }

    #[test]
    fn what_does_not_close_is_told() {
        assert!(
            split("SELECT 1;\nSELECT 'x")
                .unwrap_err()
                .to_string()
                .contains("quote that opens in line 2")
        );
        assert!(
            split("/* x")
                .unwrap_err()
                .to_string()
                .contains("comment that opens in line 1")
        );
    }
}
