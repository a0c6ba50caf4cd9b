//! Scripts: statements and commands from the command line, a file or a pipe.
//!
//! An error names the file and the line of the statement, and says what the statements before it have
//! changed. From a pipe, each statement runs as soon as its semicolon arrives.

use std::fs;
use std::io;
use std::path::Path;

use halocline_terminal::CliError;
use halocline_terminal::size::counted;

use super::commands;
use super::shell::{Flow, Shell};
use super::statements::{PlacedItem, ScriptItem, ScriptReader, TransactionStep};

/// Scripts that may be read within each other.
const MAX_DEPTH: usize = 16;

/// The beginning of the place of an error in its statement, in errors of the SQL parser.
const PARSER_LINE: &str = " at Line: ";

/// Returns all items of a text.
pub(super) fn items(text: &str) -> Vec<PlacedItem> {
    let mut reader = ScriptReader::default();
    reader.push(text);
    let mut items: Vec<PlacedItem> = std::iter::from_fn(|| reader.next()).collect();
    items.extend(reader.finish());
    items
}

/// Reads a script from a file.
pub(super) fn read(file: &Path) -> Result<String, CliError> {
    fs::read_to_string(file)
        .map_err(|error| CliError::failed(format!("cannot read {}: {error}", file.display())))
}

/// An iterator over the items that arrive on stdin.
#[derive(Debug, Default)]
pub(super) struct StdinItems {
    reader: ScriptReader,
    has_ended: bool,
}

impl Iterator for StdinItems {
    type Item = io::Result<PlacedItem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.reader.next() {
                return Some(Ok(item));
            }
            if self.has_ended {
                return self.reader.finish().map(Ok);
            }
            let mut line = String::new();
            match io::stdin().read_line(&mut line) {
                Ok(0) => self.has_ended = true,
                Ok(_) => self.reader.push(&line),
                Err(error) => {
                    self.has_ended = true;
                    self.reader.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Runs the items of a script one after the other, to the first one that fails or ends it. Errors begin with
/// `name`, if there is one, and a line.
pub(super) fn run(
    shell: &mut Shell<'_>,
    name: Option<&str>,
    items: impl IntoIterator<Item = io::Result<PlacedItem>>,
) -> Result<Flow, CliError> {
    let mut progress = Progress::default();
    for placed in items {
        let PlacedItem { item, line } = placed?;
        let result = match &item {
            ScriptItem::Statement(text) => shell.run_statement(text).map(|()| {
                progress.note(text, shell.session.database.in_transaction());
                Flow::Continue
            }),
            ScriptItem::Command(text) => commands::run(shell, text),
        };
        match result {
            Ok(Flow::End) => return Ok(Flow::End),
            Ok(_) => {}
            Err(error) => {
                let outcome = match item {
                    ScriptItem::Statement(_) => progress.outcome(shell),
                    ScriptItem::Command(_) => None,
                };
                shell.failures.check(described(error, name, line, outcome))?;
            }
        }
    }
    Ok(Flow::Continue)
}

/// Runs the script in a file, for `\i`.
pub(super) fn include(shell: &mut Shell<'_>, file: &Path) -> Result<(), CliError> {
    if shell.depth == MAX_DEPTH {
        return Err(CliError::failed(format!(
            "cannot read {}: {MAX_DEPTH} scripts are being read within each other",
            file.display()
        )));
    }
    let text = read(file)?;
    shell.depth += 1;
    let name = file.display().to_string();
    let result = run(shell, Some(&name), items(&text).into_iter().map(Ok));
    shell.depth -= 1;
    result.map(|_| ())
}

/// Adds to an error where it happened, and what the statements before have changed.
fn described(error: CliError, name: Option<&str>, line: usize, outcome: Option<String>) -> CliError {
    let located = |message: String| match name {
        None => message,
        Some(name) => match relative_line(&message) {
            Some((message, relative)) => format!("{name}:{}: {message}", line + relative.saturating_sub(1)),
            None => format!("{name}:{line}: {message}"),
        },
    };
    match error {
        CliError::Failed { message, hint } => {
            let hints: Vec<String> = hint.into_iter().chain(outcome).collect();
            CliError::Failed {
                message: located(message),
                hint: (!hints.is_empty()).then(|| hints.join("; ")),
            }
        }
        CliError::Usage { message, hint } => CliError::Usage {
            message: located(message),
            hint,
        },
        other => other,
    }
}

/// Splits the place in the statement off the text of an error, and returns its line there.
fn relative_line(message: &str) -> Option<(&str, usize)> {
    let (text, place) = message.rsplit_once(PARSER_LINE)?;
    let (line, column) = place.split_once(", Column: ")?;
    column.parse::<u64>().ok()?;
    Some((text, line.parse().ok()?))
}

/// The statements of a script that have run so far.
#[derive(Debug, Default)]
struct Progress {
    committed: u64,
    /// Statements of the transaction that is open.
    open: u64,
}

impl Progress {
    /// Counts a statement that has run. Those that begin and end transactions do not count.
    fn note(&mut self, text: &str, in_transaction: bool) {
        match TransactionStep::of_statement(text) {
            Some(TransactionStep::Begin) => {}
            Some(TransactionStep::Commit) => self.committed += std::mem::take(&mut self.open),
            Some(TransactionStep::Rollback) => self.open = 0,
            None if in_transaction => self.open += 1,
            None => self.committed += 1,
        }
    }

    /// Says what holds of the statements before the one that failed.
    fn outcome(&self, shell: &Shell<'_>) -> Option<String> {
        if shell.failures.keep_going {
            return None;
        }
        if shell.is_atomic {
            return Some("nothing of the script is stored".to_owned());
        }
        let transaction = match (shell.session.database.in_transaction(), shell.is_interactive) {
            (false, _) => None,
            (true, true) => {
                Some("the transaction is still open, and ends with COMMIT or ROLLBACK".to_owned())
            }
            (true, false) => Some("nothing since BEGIN is stored".to_owned()),
        };
        let committed = match self.committed {
            0 => None,
            1 => Some("1 statement before it was committed".to_owned()),
            count => Some(format!(
                "{} before it were committed",
                counted(count, "statement")
            )),
        };
        let parts: Vec<String> = committed.into_iter().chain(transaction).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_line_of_the_script() {
        let text = |message: &str| {
            let error = CliError::failed(message);
            described(error, Some("a.sql"), 7, None).to_string()
        };
        assert_eq!(text("no column x"), "a.sql:7: no column x");
        assert_eq!(
            text("Expected: x, found: y at Line: 3, Column: 12"),
            "a.sql:9: Expected: x, found: y"
        );
        let outcome = Some("1 statement before it was committed".to_owned());
        let error = described(CliError::with_hint("no", "look"), None, 7, outcome);
        assert_eq!(
            error.report(),
            "error: no\nhint: look; 1 statement before it was committed\n"
        );
    }

    #[test]
    fn statements_count_when_they_are_committed() {
        let mut progress = Progress::default();
        for (text, in_transaction) in [
            ("INSERT", false),
            ("BEGIN", true),
            ("UPDATE", true),
            ("DELETE", true),
            ("COMMIT", false),
            ("BEGIN", true),
            ("UPDATE", true),
            ("ROLLBACK", false),
            ("BEGIN", true),
            ("UPDATE", true),
        ] {
            progress.note(text, in_transaction);
        }
        assert_eq!((progress.committed, progress.open), (3, 1));
    }
}
