//! A script as its statements.

use crate::EngineError;

/// Splits at semicolons that stand outside of quotes and comments; drops what holds only spaces and comments.
///
/// # Errors
/// A quote or comment does not close.
pub(crate) fn split(script: &str) -> Result<Vec<String>, EngineError> {
    let statements = split_located(script)?;
    Ok(statements.into_iter().map(|(_, statement)| statement).collect())
}

/// Splits as [`split`] does; each statement comes with the line of its first word, from 1.
///
/// # Errors
/// A quote or comment does not close.
pub(crate) fn split_located(script: &str) -> Result<Vec<(usize, String)>, EngineError> {
    let bytes = script.as_bytes();
    let (mut statements, mut start, mut at, mut empty) = (Vec::new(), 0, 0, true);
    // The line of the first word, counted from the word of the statement before.
    let (mut line, mut counted) = (1, 0);
    let mut first_word = |at: usize| {
        line += script[counted..at].matches('\n').count();
        counted = at;
        line
    };
    let mut word = 1;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"' | b'`') => {
                let close = script[at + 1..]
                    .find(quote as char)
                    .ok_or_else(|| open(script, at, "quote"))?;
                if empty {
                    word = first_word(at);
                }
                at += close + 2;
                empty = false;
            }
            b'-' if script[at..].starts_with("--") => {
                at += script[at..].find('\n').unwrap_or(script.len() - at)
            }
            b'/' if script[at..].starts_with("/*") => {
                let close = script[at + 2..]
                    .find("*/")
                    .ok_or_else(|| open(script, at, "comment"))?;
                at += close + 4;
            }
            b';' => {
                if !empty {
                    statements.push((word, script[start..at].trim().to_string()));
                }
                at += 1;
                (start, empty) = (at, true);
            }
            byte => {
                if empty && !byte.is_ascii_whitespace() {
                    (word, empty) = (first_word(at), false);
                }
                at += 1;
            }
        }
    }
    if !empty {
        statements.push((word, script[start..].trim().to_string()));
    }
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
