//! The terminal that answers are fitted to.

use std::env;
use std::io::{self, IsTerminal};

use rustix::termios::tcgetwinsize;

/// A terminal that is narrower is taken for one that does not tell its width.
const MIN_WIDTH: usize = 20;

/// A terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Characters in a line.
    pub width: usize,
    /// True if parts of an answer may be set off by their weight or colour.
    pub has_colours: bool,
}

impl Screen {
    /// Returns the terminal that stdout is; `None` if stdout is none, or one that does not tell its width.
    #[must_use]
    pub fn of_stdout() -> Option<Self> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        let width = usize::from(tcgetwinsize(stdout).ok()?.ws_col);
        (width >= MIN_WIDTH).then(|| Self {
            width,
            has_colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        })
    }
}
