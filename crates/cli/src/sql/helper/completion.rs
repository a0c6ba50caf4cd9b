//! Completion of commands, files, and the words of statements: keywords, and the names of tables, columns,
//! functions and settings.
//!
//! Names are read when they are first needed after a statement, in a session of their own, so that they have
//! no part in a transaction that is open.

use std::cell::RefCell;
use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::DataType;
use halocline_engine::ddl::quoted_name;
use halocline_engine::reference::KEYWORDS;
use halocline_engine::{Database, SqlPart, SqlParts};
use rustyline::completion::{FilenameCompleter, Pair};
use tokio::runtime::Handle;

use crate::sql::commands::COMMANDS;

/// Queries for names that statements write as they are.
const PLAIN_NAMES: [&str; 2] = [
    "SELECT DISTINCT routine_name FROM information_schema.routines",
    "SELECT name FROM information_schema.df_settings",
];

/// Queries for names that may need quotes.
const QUOTED_NAMES: [&str; 2] = [
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
    "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema = 'public'",
];

/// Commands whose argument is a file.
const FILE_COMMANDS: [&str; 7] = ["\\i", "\\include", ".read", "\\o", "\\out", ".output", "\\copy"];

/// The completions of a shell.
pub(super) struct Completion {
    runtime: Handle,
    database: Database,
    names: RefCell<Option<BTreeSet<String>>>,
}

impl Completion {
    pub(super) fn new(runtime: &Handle, database: &Database) -> Self {
        Self {
            runtime: runtime.clone(),
            database: database.clone(),
            names: RefCell::new(None),
        }
    }

    pub(super) fn forget_names(&mut self) {
        *self.names.get_mut() = None;
    }

    /// Returns what the word before `at` may be completed to, and where that word begins.
    pub(super) fn complete(&self, line: &str, at: usize) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let typed = before.trim_start();
        let is_command = typed.starts_with(['\\', '.']);
        if is_command && !typed.contains(char::is_whitespace) {
            let names = COMMANDS.iter().flat_map(|command| command.names);
            let found = names.filter(|name| name.starts_with(typed));
            return Ok((at - typed.len(), found.map(|name| (*name).to_owned()).collect()));
        }
        let command = typed.split_whitespace().next().unwrap_or_default();
        if FILE_COMMANDS.contains(&command) || ends_in_literal(before) {
            let (start, files) = FilenameCompleter::new().complete_path(line, at)?;
            let files = files.into_iter().map(|Pair { replacement, .. }| replacement);
            return Ok((start, files.collect()));
        }
        let mut names = self.names.borrow_mut();
        let names = names.get_or_insert_with(|| self.read_names());
        Ok(complete_word(before, names))
    }

    /// Returns the names there are. What cannot be read is left out: nothing can be said of it here.
    fn read_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for query in PLAIN_NAMES {
            names.extend(self.read(query));
        }
        for query in QUOTED_NAMES {
            names.extend(self.read(query).iter().map(|name| quoted_name(name)));
        }
        names
    }

    /// Returns the texts of the first column of a query.
    fn read(&self, query: &str) -> Vec<String> {
        let session = self.database.session();
        let batches = self.runtime.block_on(async {
            let rows = session.sql(query).await?;
            rows.collect().await
        });
        let mut names = Vec::new();
        for batch in batches.unwrap_or_default() {
            if let Ok(texts) = cast(batch.column(0), &DataType::Utf8) {
                names.extend(texts.as_string::<i32>().iter().flatten().map(str::to_owned));
            }
        }
        names
    }
}

/// Returns true if a text ends within a literal, which may be the name of a file.
fn ends_in_literal(text: &str) -> bool {
    let mut parts = SqlParts::new(text);
    parts.any(|part| matches!(part, SqlPart::Open { at, .. } if text[at..].starts_with('\'')))
}

/// Returns the keywords and names that begin with the last word of a text, and where that word begins.
fn complete_word(text: &str, names: &BTreeSet<String>) -> (usize, Vec<String>) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"');
    let start = text
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last()
        .map_or(text.len(), |(at, _)| at);
    let word = &text[start..];
    if word.is_empty() {
        return (start, Vec::new());
    }
    let found = matches(word, names);
    match word.rfind('.') {
        // A column behind the name of its table.
        Some(dot) if found.is_empty() => {
            let column = &word[dot + 1..];
            let columns = names.iter().filter(|name| has_prefix(name, column));
            (start + dot + 1, columns.cloned().collect())
        }
        _ => (start, found),
    }
}

fn matches(word: &str, names: &BTreeSet<String>) -> Vec<String> {
    let is_upper = word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase);
    let keywords = KEYWORDS.iter().filter(|keyword| has_prefix(keyword, word));
    let keywords = keywords.map(|keyword| {
        if is_upper {
            (*keyword).to_owned()
        } else {
            keyword.to_ascii_lowercase()
        }
    });
    let names = names.iter().filter(|name| has_prefix(name, word)).cloned();
    keywords
        .chain(names)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> (usize, Vec<String>) {
        let names = ["orders", "order_id", "\"Größe\"", "halocline.index", "sum"];
        complete_word(text, &names.map(str::to_owned).into_iter().collect())
    }

    #[test]
    fn words_are_completed_in_the_case_they_were_begun_in() {
        assert_eq!(completed("sel"), (0, vec!["select".to_owned()]));
        assert_eq!(completed("SELECT * FRO"), (9, vec!["FROM".to_owned()]));
        assert_eq!(completed("SELECT * FROM "), (14, vec![]));
        let (_, found) = completed("SELECT ord");
        assert_eq!(found, ["order", "order_id", "orders"]);
        assert_eq!(completed("SELECT \"Gr").1, ["\"Größe\""]);
    }

    #[test]
    fn settings_and_columns_may_have_dots() {
        assert_eq!(
            completed("SET halocline.i"),
            (4, vec!["halocline.index".to_owned()])
        );
        assert_eq!(completed("WHERE o.order_"), (8, vec!["order_id".to_owned()]));
        assert!(ends_in_literal("SELECT * FROM 'a") && !ends_in_literal("SELECT \"a"));
    }
}
