//! Kinds of statements, by their first words, and the names of tables in them.

use std::borrow::Cow;

/// A kind of statement, as far as it decides how a record is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Returns rows and changes nothing.
    Query,
    /// Changes tables, prepared statements or a transaction.
    Change,
    /// Creates a table or a view, which is created as a table.
    Create,
    /// `SET` and `RESET`.
    Setting,
    /// `EXPLAIN`.
    Explain,
    /// `SHOW` and `DESCRIBE`.
    Show,
    /// Reads or writes a file.
    File,
    /// Any other statement.
    Other,
}

/// A statement and its kind.
pub(super) struct Sql<'a> {
    /// The text, as it is recorded.
    pub(super) text: &'a str,
    /// Its kind.
    pub(super) kind: Kind,
    /// The name of the table that it creates.
    pub(super) created: Option<String>,
}

impl<'a> Sql<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text_of_words = without_comments(text);
        let words: Vec<&str> = text_of_words.split_whitespace().collect();
        let upper: Vec<String> = words
            .iter()
            .take(4)
            .map(|word| word.trim_start_matches('(').to_ascii_uppercase())
            .collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        let is_of_file = upper.contains(&"EXTERNAL");
        let is_of_table = upper.contains(&"TABLE") || upper.contains(&"VIEW");
        let kind = match upper.as_slice() {
            ["CREATE", ..] if is_of_file => Kind::File,
            ["CREATE", ..] if is_of_table => Kind::Create,
            ["DROP", "TABLE" | "VIEW", ..] => Kind::Change,
            ["COPY", ..] => Kind::File,
            ["SET" | "RESET", ..] => Kind::Setting,
            ["EXPLAIN", ..] => Kind::Explain,
            ["SHOW" | "DESCRIBE" | "DESC", ..] => Kind::Show,
            ["SELECT" | "WITH" | "VALUES" | "TABLE" | "FROM" | "", ..] => Kind::Query,
            [
                "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" | "PREPARE" | "EXECUTE" | "DEALLOCATE",
                ..,
            ] => Kind::Change,
            _ => Kind::Other,
        };
        let created = match kind {
            Kind::Create | Kind::File => name_after_table(&words),
            _ => None,
        };
        Self { text, kind, created }
    }

    /// Returns the name of the table that it creates or whose rows it changes.
    pub(super) fn changed_table(&self) -> Option<String> {
        if let Some(name) = &self.created {
            return Some(name.clone());
        }
        let mut words = without_comments(self.text).split_whitespace();
        let name = match words.next()?.to_ascii_uppercase().as_str() {
            "INSERT" | "DELETE" => words.nth(1),
            "UPDATE" => words.next(),
            "SELECT" => words.skip_while(|word| !word.eq_ignore_ascii_case("into")).nth(1),
            _ => None,
        };
        Some(unquoted(name?))
    }

    /// Returns the statement for Halocline: views become tables.
    pub(super) fn with_tables_for_views(&self) -> Cow<'a, str> {
        let is_view = |word: &str| word.eq_ignore_ascii_case("view");
        let names_view = without_comments(self.text)
            .split_whitespace()
            .take(4)
            .any(is_view);
        let (true, Some(at)) = (
            names_view && matches!(self.kind, Kind::Create | Kind::Change),
            self.text.to_ascii_lowercase().find("view"),
        ) else {
            return Cow::Borrowed(self.text);
        };
        Cow::Owned(format!("{}TABLE{}", &self.text[..at], &self.text[at + 4..]))
    }

    /// Returns `CREATE TABLE … (columns) AS query` as a statement that creates the table and one that fills
    /// it.
    pub(super) fn creation_and_insert(&self) -> Option<(String, String)> {
        let name = self.created.as_ref()?;
        let opening = self.text.find('(')?;
        let mut depth = 0;
        let closing = self.text[opening..].find(|c| {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        })?;
        let (creation, rest) = self.text.split_at(opening + closing + 1);
        let rest = rest.trim_start();
        let query = rest
            .get(..2)
            .filter(|word| word.eq_ignore_ascii_case("as"))
            .map(|_| &rest[2..])?;
        Some((
            creation.to_owned(),
            format!("INSERT INTO \"{name}\" {}", query.trim()),
        ))
    }

    /// Returns true if the text has this name as a word, in any case.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let mut words = self.text.split(|c| !is_of_name(c));
        if name.chars().all(is_of_name) {
            words.any(|word| word.eq_ignore_ascii_case(name))
        } else {
            self.text.contains(name)
        }
    }
}

/// Returns a text from its first word that is not part of a comment.
fn without_comments(text: &str) -> &str {
    let text = text.trim_start();
    let rest = match text.get(..2) {
        Some("--") => text.split_once('\n').map(|(_, rest)| rest),
        Some("/*") => text.split_once("*/").map(|(_, rest)| rest),
        _ => return text,
    };
    rest.map_or("", without_comments)
}

/// Returns the name after the word TABLE or VIEW.
fn name_after_table(words: &[&str]) -> Option<String> {
    let is = |word: &&&str, other: &[&str]| other.iter().any(|o| word.eq_ignore_ascii_case(o));
    let mut rest = words
        .iter()
        .skip_while(|word| !is(word, &["table", "view"]))
        .skip(1)
        .skip_while(|word| is(word, &["if", "not", "exists"]));
    rest.next().map(|word| unquoted(word))
}

/// Returns the name of a table that a word begins with, without its schema and quotes.
fn unquoted(word: &str) -> String {
    let name = word.split('(').next().unwrap_or(word).trim_end_matches(';');
    let name = name.rsplit('.').next().unwrap_or(name);
    match name.strip_prefix('"') {
        Some(quoted) => quoted.trim_end_matches('"').to_owned(),
        None => name.to_lowercase(),
    }
}

#[test]
fn statements_have_kinds_and_names() {
    for (text, kind, created) in [
        ("-- A comment.\n SELECT 1", Kind::Query, None),
        ("(SELECT 1) UNION SELECT 2", Kind::Query, None),
        ("create table T(a int)", Kind::Create, Some("t")),
        (
            "CREATE TABLE IF NOT EXISTS public.\"T\" (a int)",
            Kind::Create,
            Some("T"),
        ),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", Kind::Create, Some("v")),
        ("CREATE EXTERNAL TABLE e STORED AS CSV", Kind::File, Some("e")),
        ("DROP VIEW v", Kind::Change, None),
        ("explain select 1", Kind::Explain, None),
        ("MERGE INTO t", Kind::Other, None),
    ] {
        let sql = Sql::new(text);
        assert_eq!((sql.kind, sql.created.as_deref()), (kind, created), "{text}");
    }
    let view = Sql::new("CREATE VIEW v AS SELECT 1 AS viewed");
    assert_eq!(
        view.with_tables_for_views(),
        "CREATE TABLE v AS SELECT 1 AS viewed"
    );
    assert!(view.mentions("V") && !view.mentions("view_"));
    let filled = Sql::new("CREATE TABLE T (a int, b decimal(3, 1)) AS VALUES (1, 2)");
    assert_eq!(
        filled.creation_and_insert(),
        Some((
            "CREATE TABLE T (a int, b decimal(3, 1))".to_owned(),
            "INSERT INTO \"t\" VALUES (1, 2)".to_owned()
        ))
    );
}
