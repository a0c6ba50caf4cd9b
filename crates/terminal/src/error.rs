//! Errors as the person at the keyboard sees them: `error: …`, then, where there is something to do, `hint:
//! …`.

use std::io;

use halocline_engine::EngineError;
use halocline_ordered::TreeError;
use halocline_store::StoreError;

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The reader of our output has gone; nothing to say.
    #[error("broken pipe")]
    BrokenPipe,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The command line was understood by the parser but makes no sense.
    #[error("{message}")]
    Usage {
        /// The fault.
        message: String,
        /// The text to write instead.
        hint: String,
    },
    /// A tree has no entries with these keys.
    #[error("no entry with key {}", .0.join(", "))]
    NoSuchKey(Vec<String>),
    /// Anything else.
    #[error("{message}")]
    Failed {
        /// The failure.
        message: String,
        /// A hint on what to do next, if there is one.
        hint: Option<String>,
    },
}

impl CliError {
    /// Creates an error without a hint.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            hint: None,
        }
    }

    /// Creates an error with a hint on what to do next.
    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Formats the error and its hint, if there is one, as lines for stderr.
    #[must_use]
    pub fn report(&self) -> String {
        let hint = match self {
            Self::Usage { hint, .. } => Some(hint),
            Self::Failed { hint, .. } => hint.as_ref(),
            Self::BrokenPipe | Self::Interrupted | Self::NoSuchKey(_) => None,
        };
        match hint {
            Some(hint) => format!("error: {self}\nhint: {hint}\n"),
            None => format!("error: {self}\n"),
        }
    }

    /// Returns the exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Failed { .. } => 1,
            Self::Usage { .. } => 2,
            Self::NoSuchKey(_) => 3,
            Self::Interrupted => 130,
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::failed(error.to_string())
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let hint = match &error {
            EngineError::Cancelled => return Self::Interrupted,
            EngineError::Import(_) => Some("nothing was imported; the pool is as it was"),
            EngineError::NoTable { .. } | EngineError::NoIndex { .. } => {
                Some("`halocline info POOL` lists the tables and indexes of a pool")
            }
            _ => None,
        };
        Self::Failed {
            message: error.to_string(),
            hint: hint.map(str::to_owned),
        }
    }
}

impl From<TreeError> for CliError {
    fn from(error: TreeError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Arrow's writers report a closed pipe inside their own error.
impl From<arrow_schema::ArrowError> for CliError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        match error {
            arrow_schema::ArrowError::IoError(_, error) => error.into(),
            arrow_schema::ArrowError::CsvError(text) if text.contains("Broken pipe") => Self::BrokenPipe,
            other => Self::failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_exit_codes() {
        let error = CliError::with_hint("no pool", "make one");
        assert_eq!(error.report(), "error: no pool\nhint: make one\n");
        assert_eq!(error.exit_code(), 1);
        assert_eq!(CliError::Interrupted.exit_code(), 130);
        let missing = CliError::NoSuchKey(vec!["5".to_owned(), "7".to_owned()]);
        assert_eq!(missing.report(), "error: no entry with key 5, 7\n");
        assert_eq!(missing.exit_code(), 3);
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(CliError::from(pipe).exit_code(), 0);
    }
}
