//! `check`: every checksum of the pool, every invariant of every table and index.

use std::sync::mpsc::channel;

use halocline_catalog::context::EngineContext;
use halocline_sql::EngineError;

use crate::info::{
    DamagedKind, DamagedObject, DatabaseCheckProgress, DatabaseCheckReport, damaged_index, damaged_table,
    macro_infos, readable, view_infos,
};

/// Checks everything there is.
///
/// # Errors
/// The pool cannot be read at all.
pub(crate) fn check(
    engine: &EngineContext,
    progress: &mut dyn FnMut(DatabaseCheckProgress<'_>),
) -> Result<DatabaseCheckReport, EngineError> {
    let pool = check_pool(engine, progress)?;
    let mut problems: Vec<String> = pool.problems.iter().map(ToString::to_string).collect();
    problems.extend(pool.damaged_sums.iter().map(|(object, extent)| {
        format!(
            "the checksums of blocks of extent {extent} of '{object}' are damaged: as long as nothing else is said of it, its data is intact; \
             write it anew (VACUUM FULL for a table; drop an index and create it again)"
        )
    }));
    let (catalog, log) = readable(engine)?;
    let mut damaged: Vec<DamagedObject> = log.into_iter().collect();
    let (tables, indexes) = (catalog.table_names(), catalog.indexes());
    let total = (tables.len() + indexes.len()) as u64;
    let mut done = 0;
    let mut step = |part: String| {
        progress(DatabaseCheckProgress {
            part: &part,
            done,
            total,
        });
        done += 1;
    };
    for name in &tables {
        step(format!("table {name}"));
        match catalog.table(name) {
            Ok(open) => {
                let found: Vec<String> = open.table.check().iter().map(ToString::to_string).collect();
                if !found.is_empty() {
                    damaged.push(damaged_table(&catalog, name, found.join("; ")));
                }
                problems.extend(found.iter().map(|e| format!("table {name}: {e}")));
            }
            Err(error) => {
                damaged.push(damaged_table(&catalog, name, error.to_string()));
                problems.push(format!("table {name}: {error}"));
            }
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
                if let Err(error) = checked {
                    damaged.push(damaged_index(open, error.to_string()));
                    problems.push(format!("index {name}: {error}"));
                }
            }
            Err(reason) => {
                damaged.push(damaged_index(open, reason.clone()));
                problems.push(format!("index {name}: {reason}"));
            }
        }
    }
    for (name, definition) in macro_infos(&catalog) {
        problems.extend(definition.err().map(|reason| format!("macro {name}: {reason}")));
    }
    for (name, view) in view_infos(&catalog) {
        problems.extend(view.err().map(|reason| format!("view {name}: {reason}")));
    }
    step("done".to_string());
    for problem in &pool.problems {
        // What only the pool's own checksums notice.
        let halocline_pool::PoolProblem::Extent { object, .. } = problem else {
            continue;
        };
        let (name, kind) = match (object.strip_prefix("table/"), object.strip_prefix("index/")) {
            (Some(name), _) => (name, DamagedKind::Table),
            (_, Some(name)) => (name, DamagedKind::Index),
            _ => continue,
        };
        if damaged
            .iter()
            .any(|known| known.kind == kind && known.name == name)
        {
            continue;
        }
        match kind {
            DamagedKind::Table => damaged.push(damaged_table(&catalog, name, problem.to_string())),
            _ => {
                let index = indexes.iter().find(|index| index.name == name);
                damaged.extend(index.map(|index| damaged_index(index, problem.to_string())));
            }
        }
    }
    Ok(DatabaseCheckReport {
        bytes: pool.bytes,
        tables: tables.len(),
        indexes: indexes.len(),
        problems,
        damaged,
    })
}

/// Checks the pool. The pool reports progress from several threads; the caller's callback runs on its own.
fn check_pool(
    engine: &EngineContext,
    progress: &mut dyn FnMut(DatabaseCheckProgress<'_>),
) -> Result<halocline_pool::PoolCheckReport, EngineError> {
    let (sender, receiver) = channel::<(u64, u64)>();
    std::thread::scope(|scope| {
        let checking = scope.spawn(move || {
            let sender = std::sync::Mutex::new(sender);
            engine.pool.check(|at| {
                if let Ok(sender) = sender.lock() {
                    let _ = sender.send((at.done, at.total));
                }
            })
        });
        for (done, total) in receiver {
            progress(DatabaseCheckProgress {
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
