//! Return of unused space to the file system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::LOOK_AT_CANCEL;
use halocline_pool::{PoolError, VacuumReport};
use halocline_sql::EngineError;

/// Least number of unused bytes that are returned automatically.
const MIN_RETURNED_BYTES: u64 = 16 << 20;
/// Divisor of the used space that may be unused after a statement that writes much more than it retains.
pub(crate) const AFTER_LARGE: u64 = 8;
/// The same divisor while nothing is written: later statements can reuse the space.
pub(crate) const WHEN_QUIET: u64 = 2;

/// Gives all unused space back to the file system and shortens the file; waits up to `wait` for another
/// writer.
///
/// # Errors
/// Another writer keeps the lock; the caller wants the end; the pool cannot be written.
pub(crate) fn vacuum_file(
    engine: &Arc<EngineContext>,
    wait: Duration,
    cancel: &AtomicBool,
) -> Result<VacuumReport, EngineError> {
    // A cached version would pin the space that merges have freed.
    engine.cache.forget();
    let _waiting = engine.background.announce_writer();
    let start = Instant::now();
    loop {
        let left = wait.saturating_sub(start.elapsed());
        match engine.pool.vacuum_wait(left.min(LOOK_AT_CANCEL), cancel) {
            Err(PoolError::Locked { .. }) if left > LOOK_AT_CANCEL => {}
            Err(error) => return Err(error.into()),
            Ok(report) => {
                if let Some((before, generation)) = report.moved {
                    let mut rewrites = engine.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
                    rewrites.add_moved(before, generation);
                }
                return Ok(report);
            }
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled);
        }
    }
}

/// Gives unused space back to the file system if it exceeds this part of the used space and no other writer
/// is active.
pub(crate) fn give_back(engine: &EngineContext, part: u64) {
    let unused = engine.pool.free_with_blocks();
    if unused < MIN_RETURNED_BYTES {
        return;
    }
    engine.cache.forget();
    let given = engine.pool.info().map(|info| info.used / part <= unused);
    let result = given.and_then(|worth| worth.then(|| engine.pool.give_back()).transpose());
    match result {
        Ok(_) | Err(PoolError::Locked { .. }) => {}
        // The failure does not affect stored data.
        Err(error) => tracing::warn!("unused space of the pool stays as it is: {error}"),
    }
}
