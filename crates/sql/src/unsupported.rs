//! Statements that are understood but not offered, and what to do instead.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::EngineError;
use crate::syntax::SqlDialect;

/// Statements by their first words, and what to do instead.
const STATEMENTS: [(&str, &str); 37] = [
    ("ANALYZE", "statistics are kept with every table"),
    ("ASSERT", "add a CHECK constraint to the table"),
    (
        "ATTACH",
        "read tables of another pool from files that COPY … TO has written there",
    ),
    ("CALL", "there are no procedures; send the statements one by one"),
    (
        "CHECKPOINT",
        "COMMIT makes changes durable, and VACUUM gives space back",
    ),
    ("CLOSE", CURSORS),
    ("CLUSTER", "write ALTER TABLE t CLUSTER BY (a, b)"),
    ("COMMENT", "comments are not stored; leave it out"),
    (
        "CREATE DATABASE",
        "make a pool by opening a file that is not there",
    ),
    ("CREATE DOMAIN", CHECKED),
    ("CREATE EXTENSION", EXTENSIONS),
    ("CREATE POLICY", USERS),
    ("CREATE PROCEDURE", "send the statements within BEGIN and COMMIT"),
    ("CREATE ROLE", USERS),
    ("CREATE SCHEMA", "a pool has one schema, halocline.public"),
    (
        "CREATE SEQUENCE",
        "number rows when they are inserted: SELECT row_number() OVER (), …",
    ),
    ("CREATE TRIGGER", "send the statements within BEGIN and COMMIT"),
    ("CREATE TYPE", CHECKED),
    ("CREATE USER", USERS),
    ("DECLARE", CURSORS),
    ("DENY", USERS),
    ("DESCRIBE", "name a table or a view: CREATE TEMP VIEW v AS query"),
    ("DETACH", "a program has one pool open"),
    ("FETCH", CURSORS),
    ("GRANT", USERS),
    ("INSTALL", EXTENSIONS),
    (
        "LISTEN",
        "there are no messages between sessions; ask for the rows again",
    ),
    ("LOAD", EXTENSIONS),
    (
        "LOCK",
        "leave it out: a transaction that has written holds the only writer's lock until it ends",
    ),
    ("MERGE", "use UPDATE, INSERT and DELETE, within BEGIN and COMMIT"),
    (
        "NOTIFY",
        "there are no messages between sessions; ask for the rows again",
    ),
    (
        "PIVOT",
        "write an aggregate for each column: sum(x) FILTER (WHERE a = 'b')",
    ),
    ("REINDEX", "indexes are kept with their tables; leave it out"),
    ("REVOKE", USERS),
    (
        "SUMMARIZE",
        "select count(*), and min, max, avg and approx_distinct of the columns",
    ),
    ("UNPIVOT", "write UNION ALL of a SELECT for each column"),
    ("USE", "a program has one pool open; name its tables alone"),
];

const CURSORS: &str = "there are no cursors; the rows of a SELECT are read as they come";
const CHECKED: &str = "give the column a CHECK constraint: c text CHECK (c IN ('a', 'b'))";
const EXTENSIONS: &str = "there are no extensions; leave it out";
const USERS: &str = "there are no users; the permissions of the pool's file say who may use it";

/// Clauses of queries that the parser does not know, and what to write instead.
const CLAUSES: [(&str, &str, &str); 2] = [
    ("ASOF", "JOIN", LATEST),
    (
        "USING",
        "SAMPLE",
        "write TABLESAMPLE (n ROWS) or TABLESAMPLE (n PERCENT) after the table",
    ),
];

/// The alternative to `ASOF JOIN`.
pub(crate) const LATEST: &str = "write CROSS JOIN LATERAL (SELECT … WHERE … ORDER BY … DESC LIMIT 1)";

/// Returns the error for a statement that is not offered.
pub fn unsupported(statement: &Statement) -> EngineError {
    if let Statement::CreateView(_) = statement {
        return error(
            "this form of CREATE VIEW",
            "write CREATE [OR REPLACE] [TEMP] VIEW [IF NOT EXISTS] name [(columns)] AS query",
        );
    }
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    if let Some((what, instead)) = find(&words) {
        return error(what, instead);
    }
    let is_keyword = |word: &&&str| word.chars().all(|c| c.is_ascii_uppercase());
    let what = words.first().filter(is_keyword).copied();
    error(
        what.unwrap_or("this statement"),
        "see the manual for the statements there are",
    )
}

/// Returns the error for a text that cannot be parsed because it is such a statement, or has a clause that is
/// not offered; `None` for any other text.
pub(crate) fn unsupported_text(text: &str) -> Option<EngineError> {
    let tokens = Tokenizer::new(&SqlDialect, text).tokenize().ok()?;
    let words: Vec<String> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            Token::Whitespace(_) => None,
            _ => Some(String::new()),
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some((what, instead)) = find(words.get(..words.len().min(2))?) {
        return Some(error(what, instead));
    }
    let clause = |(first, second, _): &&(&str, &str, &str)| {
        words
            .windows(2)
            .any(|pair| pair[0] == *first && pair[1] == *second)
    };
    let (first, second, instead) = CLAUSES.iter().find(clause)?;
    Some(error(&format!("{first} {second}"), instead))
}

/// Returns the statement that begins with these words.
fn find(words: &[&str]) -> Option<(&'static str, &'static str)> {
    let both = words.join(" ");
    let begins = |(name, _): &&(&str, &str)| *name == both || words.first() == Some(name);
    STATEMENTS.iter().find(begins).copied()
}

fn error(what: &str, instead: &str) -> EngineError {
    EngineError::Unsupported {
        what: what.to_owned(),
        instead: instead.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_sorted_by_their_words() {
        assert!(STATEMENTS.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn texts_are_recognised_by_their_words() {
        for (text, expected) in [
            ("listen x", Some("LISTEN is not supported")),
            ("-- a\nSummarize t", Some("SUMMARIZE is not supported")),
            (
                "SELECT 1 FROM a ASOF JOIN b ON a.t >= b.t",
                Some("ASOF JOIN is not supported"),
            ),
            (
                "SELECT 1 FROM a USING SAMPLE 5",
                Some("USING SAMPLE is not supported"),
            ),
            ("SELECT 'listen'", None),
            ("\"listen\" x", None),
            ("", None),
        ] {
            let found = unsupported_text(text).map(|error| error.to_string());
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, expected) => assert_eq!(found.as_deref(), expected, "{text}"),
            }
        }
    }
}
