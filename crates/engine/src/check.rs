//! `check`: every checksum of the pool, every invariant of every table and index.

use std::sync::mpsc::channel;

use crate::EngineError;
use crate::database::Shared;
use crate::info::{CheckProgress, CheckReport};

/// Checks everything there is.
///
/// # Errors
/// The pool cannot be read at all.
pub(crate) fn check(
    shared: &Shared,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<CheckReport, EngineError> {
    let pool = check_pool(shared, progress)?;
    let mut problems: Vec<String> = pool.problems.iter().map(ToString::to_string).collect();
    let catalog = shared.catalog()?;
    let (tables, indexes) = (catalog.table_names(), catalog.indexes());
    let total = (tables.len() + indexes.len()) as u64;
    let mut done = 0;
    let mut step = |part: String| {
        progress(CheckProgress {
            part: &part,
            done,
            total,
        });
        done += 1;
    };
    for name in &tables {
        step(format!("table {name}"));
        match catalog.table(name) {
            Ok(open) => problems.extend(open.table.check().iter().map(|e| format!("table {name}: {e}"))),
            Err(error) => problems.push(format!("table {name}: {error}")),
        }
    }
    for open in indexes {
        let name = &open.name;
        step(format!("index {name}"));
        match &open.index {
            Ok(index) => {
                // Of a volatile one there is nothing but what is in DRAM.
                let built = open.now().filter(|_| open.is_volatile());
                let checked = built.as_ref().unwrap_or(index).check();
                problems.extend(checked.err().map(|e| format!("index {name}: {e}")));
            }
            Err(reason) => problems.push(format!("index {name}: {reason}")),
        }
    }
    step("done".to_string());
    Ok(CheckReport {
        bytes: pool.bytes,
        tables: tables.len(),
        indexes: indexes.len(),
        problems,
    })
}

/// The pool reports from several threads; the caller's callback runs on its own.
fn check_pool(
    shared: &Shared,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<halocline_pool::CheckReport, EngineError> {
    let (sender, receiver) = channel::<(u64, u64)>();
    std::thread::scope(|scope| {
        let checking = scope.spawn(move || {
            let told = std::sync::Mutex::new(sender);
            shared.pool.check(|at| {
                if let Ok(told) = told.lock() {
                    let _ = told.send((at.done, at.total));
                }
            })
        });
        for (done, total) in receiver {
            progress(CheckProgress {
                part: "pool",
                done,
                total,
            });
        }
        match checking.join() {
            Ok(report) => Ok(report?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
