//! `\copy`: a `COPY` statement whose file needs no quotes. Server and client are one process here, so that it
//! does what `COPY` does.

use halocline_engine::{SqlPart, SqlParts};
use halocline_terminal::CliError;

/// Returns the statement of `\copy`.
pub(super) fn statement(argument: &str) -> Result<String, CliError> {
    let argument = argument.trim().trim_end_matches(';').trim_end();
    let Some(direction) = direction(argument) else {
        return Err(wrong("there is neither FROM nor TO"));
    };
    let (before, rest) = argument.split_at(direction);
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim_start();
    if rest.starts_with('\'') {
        return Ok(format!("COPY {before}{word} {rest}"));
    }
    let (file, options) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match file.to_ascii_lowercase().as_str() {
        "" => Err(wrong("there is no file")),
        "stdin" | "stdout" | "pstdin" | "pstdout" | "program" => {
            Err(wrong("only files are read and written"))
        }
        _ => {
            let file = file.replace('\'', "''");
            Ok(format!("COPY {before}{word} '{file}' {options}")
                .trim_end()
                .to_owned())
        }
    }
}

fn wrong(message: &str) -> CliError {
    CliError::Usage {
        message: format!("\\copy: {message}"),
        hint: "write it as `\\copy TABLE FROM FILE`, or `\\copy (QUERY) TO FILE`".to_owned(),
    }
}

/// Returns where the first `FROM` or `TO` outside of parentheses and quotes begins.
fn direction(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for part in SqlParts::new(text) {
        let SqlPart::Text(at) = part else { continue };
        match text.as_bytes()[at] {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {
                let word = text[at..].split_whitespace().next().unwrap_or_default();
                let is_direction = word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("to");
                if depth == 0 && is_direction {
                    return Some(at);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_quotes() {
        for (argument, expected) in [
            ("t from data.csv", "COPY t from 'data.csv'"),
            (
                "t FROM 'my data.csv' (HEADER false);",
                "COPY t FROM 'my data.csv' (HEADER false)",
            ),
            ("t TO it's.csv", "COPY t TO 'it''s.csv'"),
            (
                "(SELECT a FROM t) TO a.csv (FORMAT csv);",
                "COPY (SELECT a FROM t) TO 'a.csv' (FORMAT csv)",
            ),
            ("\"from\" to x.parquet", "COPY \"from\" to 'x.parquet'"),
        ] {
            assert_eq!(statement(argument).unwrap(), expected);
        }
        for argument in ["", "t", "t FROM", "t TO stdout", "(SELECT a FROM t)"] {
            assert!(statement(argument).is_err(), "{argument}");
        }
    }
}
