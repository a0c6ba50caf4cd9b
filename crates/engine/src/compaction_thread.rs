//! The thread of the background compaction: merges segments when nobody has published for a moment, and
//! returns unused space to the file system when there is nothing to merge.
//!
//! Invariants:
//! - each group of segments is merged in a transaction of its own of at most [`MAX_ROWS`] rows, which bounds
//!   the time that the writer's lock is held;
//! - a writer of this database that waits for the lock ends the merge, which leaves nothing behind and is
//!   tried again later; after [`MAX_ENDED_MERGES`] merges that were ended in a row, the next one is let
//!   through;
//! - a table in which a merge meets damage is reported and left alone as long as it has the same segments: no
//!   merge hides the damage, and none is repeated without end;
//! - the thread ends, within a batch of rows, before the last handle of the database is gone.

use std::sync::Arc;

use halocline_catalog::context::EngineContext;
use halocline_catalog::settings::Compaction;
use halocline_columns::compact::CompactionPolicy;
use halocline_pool::PoolError;
use halocline_sql::EngineError;

use crate::statement::{CompactOptions, WHEN_QUIET, compact_group, give_back};

/// Most live rows in a merged segment, unless they must be sorted: merging 16 columns of them takes less than
/// a second.
const MAX_ROWS: u64 = 1 << 20;
/// Write bandwidth of merges in bytes per second.
const BANDWIDTH: u64 = 128 << 20;
/// Most bytes of DRAM that merges use.
const MEMORY: usize = 64 << 20;
/// Number of merges in a row that writers may end; the next one is not ended.
const MAX_ENDED_MERGES: u32 = 3;

/// Outcome of an attempt to merge.
enum MergeOutcome {
    /// A group was merged; there may be more.
    Merged,
    /// Nothing is worth merging.
    Nothing,
    /// A writer has, or wanted, the lock.
    MadeWay,
}

/// Switches the compaction on or off. Switching it off ends a merge that is under way.
pub(crate) fn set_compaction(engine: &Arc<EngineContext>, mode: Compaction) {
    engine.background.set_mode(mode);
    engine.published();
}

/// Merges until the database is closed.
pub(crate) fn run(engine: &Arc<EngineContext>) {
    let background = &engine.background;
    while background.wait(engine.tuning.quiet) {
        let mut made_way = 0;
        loop {
            match merge_next(engine, made_way < MAX_ENDED_MERGES) {
                Ok(MergeOutcome::Merged) => made_way = 0,
                Ok(MergeOutcome::Nothing) => {
                    give_back(engine, WHEN_QUIET);
                    break;
                }
                Ok(MergeOutcome::MadeWay) => {
                    made_way += 1;
                    if !background.pause() {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!("compaction in the background: {error}");
                    break;
                }
            }
        }
    }
}

/// Merges the first group of segments that is worth merging.
fn merge_next(engine: &Arc<EngineContext>, yields: bool) -> Result<MergeOutcome, EngineError> {
    let policy = CompactionPolicy {
        max_rows: MAX_ROWS,
        ..CompactionPolicy::default()
    };
    let options = CompactOptions {
        memory: Some(engine.options.memory.map_or(MEMORY, |all| (all / 4).min(MEMORY))),
        bandwidth: Some(BANDWIDTH),
        full: false,
    };
    let background = &engine.background;
    if !background.enter(yields) {
        return Ok(MergeOutcome::MadeWay);
    }
    let merged = compact_group(engine, &policy, &options, background.cancel());
    background.leave();
    match merged {
        Ok(true) => Ok(MergeOutcome::Merged),
        Ok(false) => Ok(MergeOutcome::Nothing),
        Err(EngineError::Cancelled | EngineError::Pool(PoolError::Locked { .. })) => {
            Ok(MergeOutcome::MadeWay)
        }
        Err(error) => Err(error),
    }
}
