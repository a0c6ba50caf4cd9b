//! Where statements end: at semicolons outside of quotes and comments.

use halocline_engine::{SqlPart, SqlParts, trim_sql};

/// Splits `text` into its finished statements (without their semicolons) and the rest after the last
/// semicolon. Empty statements are left out.
pub(crate) fn split(text: &str) -> (Vec<String>, String) {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut has_content = false;
    for part in SqlParts::new(text) {
        let SqlPart::Semicolon(at) = part else {
            has_content = true;
            continue;
        };
        if std::mem::take(&mut has_content) {
            statements.push(trim_sql(&text[start..at]).to_owned());
        }
        start = at + 1;
    }
    (statements, text[start..].to_owned())
}

/// Returns true if there is anything but blanks and comments in `text`.
pub(crate) fn has_content(text: &str) -> bool {
    SqlParts::new(text).any(|part| !matches!(part, SqlPart::Semicolon(_)))
}

/// Returns true for `CREATE TABLE` (also `CREATE OR REPLACE TABLE`), which may be the first statement of a
/// new pool.
pub(crate) fn creates_table(statement: &str) -> bool {
    let Some(SqlPart::Text(start)) = SqlParts::new(statement).next() else {
        return false;
    };
    let words: Vec<String> = statement[start..]
        .split_whitespace()
        .take(4)
        .map(str::to_ascii_uppercase)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["CREATE", "TABLE", ..] | ["CREATE", "OR", "REPLACE", "TABLE"]
    )
}

/// Converts a statement to one line for the history by replacing line breaks by spaces. A statement that
/// contains `--` is left unchanged, as a comment extends to the end of its line.
pub(crate) fn one_line(statement: &str) -> String {
    if statement.contains("--") {
        statement.to_owned()
    } else {
        statement.replace('\n', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_that_count() {
        let (statements, rest) = split(
            "SELECT ';', \"a;b\", 'it''s;'; -- no; \nSELECT /* ; /* ; */ ; */ 2;; \n /* only this */ ; SELECT 3",
        );
        assert_eq!(
            statements,
            [
                "SELECT ';', \"a;b\", 'it''s;'",
                "-- no; \nSELECT /* ; /* ; */ ; */ 2"
            ]
        );
        assert_eq!(rest, " SELECT 3");
    }

    #[test]
    fn unfinished_quotes_and_comments_keep_the_statement_open() {
        for open in [
            "SELECT 'a;",
            "SELECT \"a;",
            "SELECT /* ;",
            "SELECT -- ;",
            "SELECT $$;",
            "SELECT $a$;$$",
            "SELECT E'\\';",
        ] {
            assert_eq!(split(open), (vec![], open.to_owned()), "{open}");
        }
        assert!(has_content("/* not finished"));
    }

    #[test]
    fn byte_order_marks_and_other_quotes() {
        let (statements, rest) = split("\u{feff}SELECT $$a;b$$, E'\\';'; SELECT $x$;$x$;\n");
        assert_eq!(statements, ["SELECT $$a;b$$, E'\\';'", "SELECT $x$;$x$"]);
        assert!(!has_content(&rest));
    }

    #[test]
    fn history_lines() {
        assert_eq!(one_line("SELECT 1\nFROM t"), "SELECT 1 FROM t");
        assert_eq!(one_line("SELECT 1 -- one\nFROM t"), "SELECT 1 -- one\nFROM t");
    }

    #[test]
    fn content() {
        assert!(!has_content("  -- nothing\n /* at all */ \n"));
        assert!(has_content("-- one\n x"));
        assert!(has_content("'"));
        assert!(!has_content(";"));
    }

    #[test]
    fn statements_that_may_start_a_pool() {
        assert!(creates_table("-- first\ncreate table t as select 1"));
        assert!(creates_table("CREATE OR REPLACE TABLE t AS SELECT 1"));
        assert!(!creates_table(
            "CREATE EXTERNAL TABLE t STORED AS csv LOCATION 'x'"
        ));
        assert!(!creates_table("CREATE INDEX i ON t USING elf (a)"));
        assert!(!creates_table("SELECT 1"));
        assert!(!creates_table(""));
    }

    #[test]
    fn text_beyond_ascii_is_left_alone() {
        let (statements, rest) = split("SELECT 'größe; ✓' AS größe; SELECT '✓");
        assert_eq!(statements, ["SELECT 'größe; ✓' AS größe"]);
        assert_eq!(rest, " SELECT '✓");
    }
}
