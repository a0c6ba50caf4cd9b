//! Where statements end: at semicolons outside of quotes and comments.

/// Splits `text` into its finished statements (without their semicolons) and the rest behind the last
/// semicolon. Empty statements are left out.
pub(crate) fn split(text: &str) -> (Vec<String>, String) {
    let mut statements = Vec::new();
    let mut start = 0;
    for token in Tokens::new(text) {
        if let Token::Semicolon(at) = token {
            let statement = &text[start..at];
            if has_content(statement) {
                statements.push(statement.trim().to_owned());
            }
            start = at + 1;
        }
    }
    (statements, text[start..].to_owned())
}

/// Returns true if there is anything but blanks and comments in `text`.
pub(crate) fn has_content(text: &str) -> bool {
    Tokens::new(text).any(|token| matches!(token, Token::Other(_)))
}

/// Returns true for `CREATE TABLE` (also `CREATE OR REPLACE TABLE`), which may be the first statement of a
/// new pool.
pub(crate) fn creates_table(statement: &str) -> bool {
    let Some(Token::Other(start)) = Tokens::new(statement).find(|token| matches!(token, Token::Other(_)))
    else {
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

/// The statement for a history of lines: line breaks become blanks, unless a comment to the end of a line
/// forbids it.
pub(crate) fn one_line(statement: &str) -> String {
    if statement.contains("--") {
        statement.to_owned()
    } else {
        statement.replace('\n', " ")
    }
}

enum Token {
    /// A semicolon, at this byte.
    Semicolon(usize),
    /// A character or a quoted text that belongs to a statement, from this byte.
    Other(usize),
}

/// The parts of a SQL text that matter here; blanks and comments are skipped, an unfinished quote or comment
/// lasts to the end.
struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
        }
    }

    /// Moves behind a quoted text; a doubled quote inside it is one quote and does not end it.
    fn skip_quoted(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.text.len() {
            let here = self.text[self.at];
            self.at += 1;
            if here == quote {
                if self.text.get(self.at) != Some(&quote) {
                    return;
                }
                self.at += 1;
            }
        }
    }

    fn skip_line_comment(&mut self) {
        while self.at < self.text.len() && self.text[self.at] != b'\n' {
            self.at += 1;
        }
    }

    /// Moves behind a comment in `/* … */`, which may hold others.
    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.text.len() {
            match &self.text[self.at..] {
                [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                _ => self.at += 1,
            }
            if depth == 0 {
                return;
            }
        }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let start = self.at;
            match self.text.get(start..)? {
                [] => return None,
                [b'-', b'-', ..] => self.skip_line_comment(),
                [b'/', b'*', ..] => self.skip_block_comment(),
                [quote @ (b'\'' | b'"' | b'`'), ..] => {
                    self.skip_quoted(*quote);
                    return Some(Token::Other(start));
                }
                [b';', ..] => {
                    self.at += 1;
                    return Some(Token::Semicolon(start));
                }
                [blank, ..] if blank.is_ascii_whitespace() => self.at += 1,
                _ => {
                    self.at += 1;
                    return Some(Token::Other(start));
                }
            }
        }
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
        for open in ["SELECT 'a;", "SELECT \"a;", "SELECT /* ;", "SELECT -- ;"] {
            assert_eq!(split(open), (vec![], open.to_owned()), "{open}");
        }
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
