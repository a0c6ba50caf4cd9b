//! What the line editor of the shell asks while a line is typed: completions and colours.

mod colours;
mod completion;

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use halocline_engine::Database;
use tokio::runtime::Handle;

use completion::Completion;

/// The helper of the line editor.
pub(super) struct ShellHelper {
    completion: Completion,
}

impl ShellHelper {
    pub(super) fn new(runtime: &Handle, database: &Database) -> Self {
        Self {
            completion: Completion::new(runtime, database),
        }
    }

    /// Has the names of the pool be read again: a statement may have changed them.
    pub(super) fn forget_names(&mut self) {
        self.completion.forget_names();
    }
}

impl Completer for ShellHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        self.completion.complete(line, at)
    }
}

impl Highlighter for ShellHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(colours::coloured(line))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Hinter for ShellHelper {
    type Hint = String;
}

impl Validator for ShellHelper {}

impl Helper for ShellHelper {}
