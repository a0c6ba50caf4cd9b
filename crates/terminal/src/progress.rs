//! Progress bars: on a terminal only, on stderr.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a progress bar over bytes, hidden if stderr is not a terminal.
#[must_use]
pub fn bytes(total: u64) -> ProgressBar {
    bar(total, "{msg:32!} {wide_bar} {bytes}/{total_bytes} {elapsed}")
}

/// Creates a progress bar over steps, hidden if stderr is not a terminal.
#[must_use]
pub fn steps(total: u64) -> ProgressBar {
    bar(total, "{msg:32!} {wide_bar} {pos}/{len} {elapsed}")
}

/// Creates a spinner for work of unknown length, hidden if stderr is not a terminal.
#[must_use]
pub fn spinner(message: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(message.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

fn bar(total: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
