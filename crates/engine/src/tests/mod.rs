//! Tests that need the inside of the crate: small sizes, crash images, injected faults.

mod access_paths;
mod advise;
mod advise_indexes;
mod background;
mod budgets;
mod cancel;
mod crash;
mod damage;
mod faults;
mod full_disk;
mod keyed_crash;
mod keyed_killed;
mod model;
mod placements;
mod steps;
mod unfolded;
mod volatile;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use halocline_catalog::tuning::{EngineFault, Tuning};
use halocline_explore::Tracked;
use halocline_media::Medium;
use halocline_pool::Pool;

use crate::{Compaction, Database, DatabaseOptions};

/// Returns small thresholds: few rows make a segment, and few records fill the log.
pub(crate) fn small(injected: Option<EngineFault>) -> Tuning {
    Tuning {
        changes_bytes: usize::MAX,
        small_rows: 8,
        log_bytes: 4096,
        quiet: Duration::ZERO,
        injected,
    }
}

fn options(compaction: Compaction) -> DatabaseOptions {
    DatabaseOptions::default()
        .with_threads(Some(1))
        .with_compaction(compaction)
}

/// Creates a database on a medium, with the given thresholds and injected faults.
pub(crate) fn create(medium: &Arc<Tracked>, compaction: Compaction, tuning: Tuning) -> Database {
    let medium = Medium::from(medium);
    Database::with_tuning(Pool::create_on(medium).unwrap(), &options(compaction), tuning)
}

/// Opens the database of a medium.
///
/// # Errors
/// It is not one, as text.
pub(crate) fn open(
    medium: &Arc<Tracked>,
    compaction: Compaction,
    tuning: Tuning,
) -> Result<Database, String> {
    let medium = Medium::from(medium);
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    Ok(Database::with_tuning(pool, &options(compaction), tuning))
}

/// Runs a statement and returns its rows.
///
/// # Errors
/// The error of the statement as text.
pub(crate) async fn rows(db: &Database, text: &str) -> Result<Vec<RecordBatch>, String> {
    let answer = db.sql(text).await.map_err(|error| format!("{text}: {error}"))?;
    answer.collect().await.map_err(|error| format!("{text}: {error}"))
}

/// Returns the rows as text, sorted.
pub(crate) fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for column in &columns {
                line += &column.value(row).to_string();
                line.push('|');
            }
            lines.push(line);
        }
    }
    lines.sort_unstable();
    lines
}

/// Returns the problems that `check` finds.
///
/// # Errors
/// There is something, as text.
pub(crate) fn check(db: &Database) -> Result<(), String> {
    match db.check(&mut |_| ()).map_err(|error| error.to_string())?.problems {
        problems if problems.is_empty() => Ok(()),
        problems => Err(format!("check: {}", problems.join("; "))),
    }
}
