//! The items of a script: statements, which end at semicolons outside of quotes and comments, and commands of
//! the shell, which end with their line.
//!
//! Each part of a script is read once, however long it is: a line without a semicolon does not end a
//! statement that is open.

use halocline_engine::{SqlPart, SqlParts, trim_sql};

/// Words that are commands if they stand alone in a line, with or without a semicolon.
const WORDS: [&str; 3] = ["exit", "quit", "help"];

/// A part of a script that is run by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptItem {
    /// A statement without its semicolon, from its first word on.
    Statement(String),
    /// A command with its arguments, as `\d t`, `.tables` or `quit`.
    Command(String),
}

/// An item and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedItem {
    pub(crate) item: ScriptItem,
    /// The line of its first word, from 1.
    pub(crate) line: usize,
}

/// A reader of a script that arrives line by line, or at once.
#[derive(Debug)]
pub(crate) struct ScriptReader {
    text: String,
    /// The place in the text up to which items were taken.
    at: usize,
    /// The line of that place.
    line: usize,
    /// The statement at that place has begun, and no semicolon has arrived since.
    waits: bool,
}

impl Default for ScriptReader {
    fn default() -> Self {
        Self {
            text: String::new(),
            at: 0,
            line: 1,
            waits: false,
        }
    }
}

impl ScriptReader {
    /// Adds whole lines.
    pub(crate) fn push(&mut self, lines: &str) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.push_str(lines);
        self.waits &= !lines.contains(';');
    }

    /// Takes the next item that is complete.
    pub(crate) fn next(&mut self) -> Option<PlacedItem> {
        if self.waits {
            return None;
        }
        let rest = self.rest();
        let Some((item, start, end)) = first_item(rest) else {
            self.waits = has_content(rest);
            return None;
        };
        let line = self.line + lines(&rest[..start]);
        self.line += lines(&rest[..end]);
        self.at += end;
        Some(PlacedItem { item, line })
    }

    /// Takes what is left at the end of the script, a statement without a semicolon.
    pub(crate) fn finish(&mut self) -> Option<PlacedItem> {
        let rest = self.rest();
        let start = SqlParts::new(rest).find_map(|part| match part {
            SqlPart::Text(at) | SqlPart::Open { at, .. } => Some(at),
            SqlPart::Semicolon(_) => None,
        })?;
        let placed = PlacedItem {
            item: ScriptItem::Statement(trim_sql(&rest[start..]).to_owned()),
            line: self.line + lines(&rest[..start]),
        };
        self.clear();
        Some(placed)
    }

    /// Forgets the text that is not finished.
    pub(crate) fn clear(&mut self) {
        self.line += lines(self.rest());
        self.at = self.text.len();
        self.waits = false;
    }

    /// Returns the text of the statement that is not finished.
    pub(crate) fn rest(&self) -> &str {
        &self.text[self.at..]
    }
}

/// Returns the first item of a text that is complete, where its first word begins, and where it ends.
fn first_item(text: &str) -> Option<(ScriptItem, usize, usize)> {
    let mut start = None;
    for part in SqlParts::new(text) {
        match (part, start) {
            (SqlPart::Semicolon(at), Some(start)) => {
                let statement = trim_sql(&text[start..at]).to_owned();
                return Some((ScriptItem::Statement(statement), start, at + 1));
            }
            (SqlPart::Semicolon(_), None) => {}
            (SqlPart::Text(at) | SqlPart::Open { at, .. }, None) => {
                let line = text[at..].lines().next().unwrap_or_default();
                if is_command(line) {
                    let command = line.trim().to_owned();
                    return Some((ScriptItem::Command(command), at, at + line.len()));
                }
                start = Some(at);
            }
            (SqlPart::Text(_) | SqlPart::Open { .. }, Some(_)) => {}
        }
    }
    None
}

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Returns true if a line, where a statement could begin, is a command of the shell.
pub(crate) fn is_command(line: &str) -> bool {
    let line = line.trim();
    let mut characters = line.chars();
    match characters.next() {
        Some('\\') => true,
        Some('.') => characters.next().is_some_and(|c| c.is_ascii_alphabetic()),
        _ => {
            let word = line.trim_end_matches(';').trim_end();
            WORDS.iter().any(|command| command.eq_ignore_ascii_case(word))
        }
    }
}

/// Returns true if there is anything but blanks and comments in `text`.
pub(crate) fn has_content(text: &str) -> bool {
    SqlParts::new(text).any(|part| !matches!(part, SqlPart::Semicolon(_)))
}

/// Returns true if `text` ends within quotes or a comment.
pub(crate) fn ends_quoted(text: &str) -> bool {
    SqlParts::new(text).any(|part| matches!(part, SqlPart::Open { .. }))
}

/// Returns the first words of a statement in upper case.
fn first_words(statement: &str) -> impl Iterator<Item = String> {
    let start = SqlParts::new(statement).find_map(|part| match part {
        SqlPart::Text(at) => Some(at),
        _ => None,
    });
    let words = start.map_or("", |start| &statement[start..]).split_whitespace();
    words.map(str::to_ascii_uppercase)
}

/// Returns true for `CREATE TABLE` (also `CREATE OR REPLACE TABLE`), which may be the first statement of a
/// new pool.
pub(crate) fn creates_table(statement: &str) -> bool {
    let words: Vec<String> = first_words(statement).take(4).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["CREATE", "TABLE", ..] | ["CREATE", "OR", "REPLACE", "TABLE"]
    )
}

/// Returns true for `EXPLAIN`.
pub(crate) fn explains(statement: &str) -> bool {
    first_words(statement)
        .next()
        .is_some_and(|word| word == "EXPLAIN")
}

/// The effect of a statement on the transaction that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionStep {
    Begin,
    Commit,
    Rollback,
}

impl TransactionStep {
    /// Returns the step of a statement that begins or ends a transaction.
    pub(crate) fn of_statement(statement: &str) -> Option<Self> {
        match first_words(statement).next()?.as_str() {
            "BEGIN" | "START" => Some(Self::Begin),
            "COMMIT" | "END" => Some(Self::Commit),
            "ROLLBACK" | "ABORT" => Some(Self::Rollback),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a script at once: its items with their lines, and what is left.
    fn read(text: &str) -> (Vec<(ScriptItem, usize)>, String) {
        let mut reader = ScriptReader::default();
        reader.push(text);
        let items = std::iter::from_fn(|| reader.next()).map(|placed| (placed.item, placed.line));
        let items = items.collect();
        (items, reader.rest().to_owned())
    }

    fn statement(text: &str) -> ScriptItem {
        ScriptItem::Statement(text.to_owned())
    }

    fn command(text: &str) -> ScriptItem {
        ScriptItem::Command(text.to_owned())
    }

    #[test]
    fn statements_end_at_semicolons_that_count() {
        let (items, rest) = read(
            "SELECT ';', \"a;b\", 'it''s;'; -- no; \nSELECT /* ; /* ; */ ; */ 2;; \n /* only this */ ; SELECT 3",
        );
        assert_eq!(
            items,
            [
                (statement("SELECT ';', \"a;b\", 'it''s;'"), 1),
                (statement("SELECT /* ; /* ; */ ; */ 2"), 2)
            ]
        );
        assert_eq!(rest, "; \n /* only this */ ; SELECT 3");
    }

    #[test]
    fn commands_end_with_their_line() {
        let (items, rest) =
            read("\\d t; SELECT 1\n-- a comment\n  .tables\nSELECT\n  2; quit;\nHELP\nSELECT\nquit");
        assert_eq!(
            items,
            [
                (command("\\d t; SELECT 1"), 1),
                (command(".tables"), 3),
                (statement("SELECT\n  2"), 4),
                (command("quit;"), 5),
                (command("HELP"), 6),
            ]
        );
        assert_eq!(rest, "\nSELECT\nquit");
        assert!(!is_command(".5") && !is_command("quit it") && !is_command(""));
    }

    #[test]
    fn lines_are_counted_over_all_pieces() {
        let mut reader = ScriptReader::default();
        let mut found = Vec::new();
        for line in [
            "SELECT 'a;\n",
            "b'\n",
            ";\n",
            "\n",
            "\\echo x\n",
            "SELECT 1; SELECT\n",
            "2",
        ] {
            reader.push(line);
            found.extend(std::iter::from_fn(|| reader.next()));
        }
        found.extend(reader.finish());
        let found: Vec<_> = found
            .into_iter()
            .map(|placed| (placed.item, placed.line))
            .collect();
        assert_eq!(
            found,
            [
                (statement("SELECT 'a;\nb'"), 1),
                (command("\\echo x"), 5),
                (statement("SELECT 1"), 6),
                (statement("SELECT\n2"), 6),
            ]
        );
        assert_eq!(reader.finish(), None);
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
            assert_eq!(read(open), (vec![], open.to_owned()), "{open}");
            assert_eq!(ends_quoted(open), !open.contains("--"), "{open}");
        }
        assert!(has_content("/* not finished"));
    }

    #[test]
    fn byte_order_marks_and_other_quotes() {
        let (items, rest) = read("\u{feff}SELECT $$a;b$$, E'\\';'; SELECT $x$;$x$;\n");
        assert_eq!(
            items,
            [
                (statement("SELECT $$a;b$$, E'\\';'"), 1),
                (statement("SELECT $x$;$x$"), 1)
            ]
        );
        assert!(!has_content(&rest));
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
    fn statements_of_transactions() {
        assert_eq!(
            TransactionStep::of_statement("begin"),
            Some(TransactionStep::Begin)
        );
        assert_eq!(
            TransactionStep::of_statement("END"),
            Some(TransactionStep::Commit)
        );
        assert_eq!(TransactionStep::of_statement("SELECT 1"), None);
        assert!(explains("-- why\nexplain analyze SELECT 1") && !explains("SELECT 'EXPLAIN'"));
    }

    #[test]
    fn text_beyond_ascii_is_left_alone() {
        let (items, rest) = read("SELECT 'größe; ✓' AS größe; SELECT '✓");
        assert_eq!(items, [(statement("SELECT 'größe; ✓' AS größe"), 1)]);
        assert_eq!(rest, " SELECT '✓");
    }
}
