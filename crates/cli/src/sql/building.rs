//! The progress of volatile indexes, which the first query that can use them builds. Shown on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use halocline_engine::Database;
use halocline_terminal::progress;
use indicatif::ProgressBar;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often it is looked whether something is being built: what is quicker is not shown.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The indexes of a database that are being built, and what shows them.
pub(super) struct Building<'a> {
    database: &'a Database,
    ticks: Interval,
    shown: Option<(Vec<String>, ProgressBar)>,
}

impl<'a> Building<'a> {
    /// Shows nothing until [`watch`](Self::watch) is awaited.
    pub(super) fn new(database: &'a Database) -> Self {
        let mut ticks = interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            database,
            ticks,
            shown: None,
        }
    }

    /// Shows what is being built for as long as it is awaited, and never returns. May be dropped and called
    /// again.
    pub(super) async fn watch(&mut self) {
        if !io::stderr().is_terminal() {
            return std::future::pending().await;
        }
        loop {
            self.ticks.tick().await;
            self.show(self.database.building());
        }
    }

    fn show(&mut self, now: Vec<String>) {
        if self.shown.as_ref().is_some_and(|(names, _)| *names == now) {
            return;
        }
        self.clear();
        if !now.is_empty() {
            let spinner = progress::spinner(&format!("building {}", now.join(", ")));
            self.shown = Some((now, spinner));
        }
    }

    /// Takes away what is shown: something else is to be printed.
    pub(super) fn clear(&mut self) {
        if let Some((_, spinner)) = self.shown.take() {
            spinner.finish_and_clear();
        }
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
