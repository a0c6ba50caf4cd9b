//! What the statements and commands of one `sql` command share.

use std::io::{self, Write};

use halocline_engine::EngineError;
use halocline_terminal::CliError;
use tokio::runtime::Runtime;

use super::run::Session;
use super::statements::TransactionStep;

/// The session, and how it is used.
pub(crate) struct Shell<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) session: Session,
    /// Statements are read from a terminal.
    pub(super) is_interactive: bool,
    /// The whole script is one transaction.
    pub(super) is_atomic: bool,
    /// False in a session that is read-only.
    pub(super) may_write_files: bool,
    pub(super) failures: Failures,
    /// Scripts that are being read by `\i`, one within the other.
    pub(super) depth: usize,
    /// The statement that `\e` edits: the last one, or the one that is not finished.
    pub(super) draft: String,
}

/// The way that a script or the shell continues after an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    /// The script or the shell ends.
    End,
    /// A text takes the place of what was typed.
    Edited(String),
}

impl Shell<'_> {
    /// Runs a statement and prints its answer.
    pub(super) fn run_statement(&mut self, text: &str) -> Result<(), CliError> {
        if self.is_atomic && TransactionStep::of_statement(text).is_some() {
            return Err(CliError::with_hint(
                "the script is one transaction, and cannot begin or end another",
                "leave out BEGIN, COMMIT and ROLLBACK, or --atomic",
            ));
        }
        if self.is_interactive {
            text.clone_into(&mut self.draft);
        }
        self.runtime.block_on(self.session.run(text))
    }

    /// Runs a statement of the program's own, which prints nothing.
    pub(super) fn run_silently(&self, text: &str) -> Result<(), CliError> {
        self.runtime.block_on(self.session.database.sql(text))?;
        Ok(())
    }

    /// Ends a transaction that the statements have left open, which takes back what it did, and says so.
    pub(super) fn end(&self) -> Result<(), CliError> {
        match self.runtime.block_on(self.session.database.sql("ROLLBACK")) {
            Err(EngineError::NoTransaction { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(CliError::with_hint(
                "the transaction that BEGIN opened was not committed; nothing of it is stored",
                "end it with COMMIT, or with ROLLBACK if that is meant",
            )),
        }
    }
}

/// The statements that have failed, if the others are to be run all the same.
pub(super) struct Failures {
    pub(super) keep_going: bool,
    pub(super) count: u64,
}

impl Failures {
    /// Reports the failure of a statement if the next one is to be run.
    pub(super) fn check(&mut self, error: CliError) -> Result<(), CliError> {
        match error {
            CliError::Failed { .. } if self.keep_going => {
                self.count += 1;
                Ok(write!(io::stderr(), "{}", error.report())?)
            }
            error => Err(error),
        }
    }

    /// Fails if a statement has failed.
    pub(super) fn end(&self) -> Result<(), CliError> {
        match self.count {
            0 => Ok(()),
            1 => Err(CliError::failed("1 statement failed".to_owned())),
            count => Err(CliError::failed(format!("{count} statements failed"))),
        }
    }
}
