//! Compaction and `VACUUM`.
//!
//! Each group of segments is merged in a transaction of its own, so that other writers get their turn in
//! between; readers are not affected. What was merged before an error or a cancellation stays merged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halocline_catalog::OpenTable;
use halocline_catalog::context::EngineContext;
use halocline_catalog::memory::MemoryBudget;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::tuning::EngineFault;
use halocline_columns::compact::{CompactionPolicy, MergeOptions, MergeProgress, merge, plan};
use halocline_columns::{ColumnsError, Table};
use halocline_sql::EngineError;
use halocline_store::StoreError;

use super::space::vacuum_file;
use super::table_kind::{KINDS, OnTableError};

/// Approximate factor by which sorting the rows slows down a merge.
const SORTING_FACTOR: u64 = 4;

/// Options of a compaction.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactOptions {
    /// DRAM it may use, in bytes; by default what the database may use.
    pub memory: Option<usize>,
    /// Bytes it may write per second on average, to leave the medium to others; by default as fast as it
    /// can.
    pub bandwidth: Option<u64>,
    /// Write all segments anew, also those that are good as they are: sorts the rows of a table after
    /// `CLUSTER BY`.
    pub full: bool,
}

impl CompactOptions {
    /// Sets [`memory`](Self::memory).
    #[must_use]
    pub fn with_memory(self, memory: Option<usize>) -> Self {
        Self { memory, ..self }
    }

    /// Sets [`bandwidth`](Self::bandwidth).
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: Option<u64>) -> Self {
        Self { bandwidth, ..self }
    }

    /// Sets [`full`](Self::full).
    #[must_use]
    pub fn with_full(self, full: bool) -> Self {
        Self { full, ..self }
    }
}

/// Progress of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactProgress {
    /// The table.
    pub table: String,
    /// Rows of the segments that are being merged and that have been read.
    pub done: u64,
    /// Rows of these segments.
    pub total: u64,
}

/// Result of a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Segments that were merged.
    pub merged: usize,
    /// Segments that took their place.
    pub segments: usize,
    /// Rows in these.
    pub rows: u64,
    /// Deleted rows that are gone.
    pub dropped: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Tables that were skipped because they are damaged, with the reason; empty if one table was named,
    /// whose damage is an error.
    pub skipped: Vec<String>,
}

/// The callback for progress, shared by threads.
type ProgressCallback<'a> = Mutex<&'a mut (dyn FnMut(&CompactProgress) + Send)>;

/// Compacts a table, or all; waits up to `wait` for each other writer.
///
/// # Errors
/// No such table, the pool cannot be written, or the caller wants the end.
pub(crate) fn compact(
    engine: &Arc<EngineContext>,
    table: Option<&str>,
    options: &CompactOptions,
    progress: &mut (dyn FnMut(&CompactProgress) + Send),
    wait: Duration,
    cancel: &AtomicBool,
) -> Result<CompactReport, EngineError> {
    compact_tables(
        engine,
        table,
        options,
        progress,
        (wait, cancel),
        &mut |_, error| Err(error),
    )
}

/// Does the same as [`compact`]. `failed` decides whether to go on with the next table after an error other
/// than damage.
fn compact_tables(
    engine: &Arc<EngineContext>,
    table: Option<&str>,
    options: &CompactOptions,
    progress: &mut (dyn FnMut(&CompactProgress) + Send),
    (wait, cancel): (Duration, &AtomicBool),
    failed: &mut OnTableError<'_>,
) -> Result<CompactReport, EngineError> {
    if let Some(name) = table {
        for kind in KINDS {
            if kind.reclaim(engine, name, (wait, cancel), failed)? {
                return Ok(CompactReport::default());
            }
        }
    }
    let tables = match table {
        Some(table) => vec![table.to_string()],
        None => engine.catalog()?.table_names(),
    };
    let progress = Mutex::new(progress);
    let policy = CompactionPolicy::default();
    let mut report = CompactReport::default();
    for name in &tables {
        // What VACUUM FULL writes anew once is good.
        let mut full = options.full;
        loop {
            let transaction = Transaction::begin(engine, "compaction", wait, cancel)?;
            let group = match next_group(transaction, name, full, table.is_none(), &policy, cancel) {
                Ok(Some(group)) => group,
                Ok(None) => break,
                // The other tables are none the worse for it.
                Err(error) if table.is_none() && error.is_damage() => {
                    report.skipped.push(format!("table {name}: {error}"));
                    break;
                }
                Err(error) => {
                    failed(name, error)?;
                    break;
                }
            };
            let merged = merge_group(group, options, &progress, cancel, &mut report);
            match merged {
                Err(error) if table.is_none() && error.is_damage() => {
                    report.skipped.push(format!("table {name}: {error}"));
                    break;
                }
                Err(error) => {
                    failed(name, error)?;
                    break;
                }
                Ok(()) => {}
            }
            full = false;
        }
    }
    Ok(report)
}

/// Merges the first group of segments of any table that is worth it; false if there is none. Does not wait
/// for writers.
///
/// # Errors
/// A writer has the lock; the pool cannot be written, or the caller wants the end.
pub(crate) fn compact_group(
    engine: &Arc<EngineContext>,
    policy: &CompactionPolicy,
    options: &CompactOptions,
    cancel: &AtomicBool,
) -> Result<bool, EngineError> {
    let mut ignored = |_: &CompactProgress| ();
    let progress: ProgressCallback<'_> = Mutex::new(&mut ignored);
    for name in engine.catalog()?.table_names() {
        let catalog = engine.catalog()?;
        if !catalog.has_table(&name) {
            continue;
        }
        let open = match catalog.table(&name) {
            Ok(open) => open,
            Err(error) => {
                // The other tables can be merged all the same.
                engine
                    .damage
                    .add(format!("compaction in the background: {error}"));
                continue;
            }
        };
        if engine.background.is_damaged(&open.table) {
            continue;
        }
        let sorts = if open.table.cluster().is_some() {
            SORTING_FACTOR
        } else {
            1
        };
        let policy = CompactionPolicy {
            max_rows: policy.max_rows / sorts,
            ..policy.clone()
        };
        // Most often there is nothing to do: the lock is not taken to see that.
        if group_of(&open.table, &policy).is_none() {
            continue;
        }
        drop((open, catalog));
        let transaction = Transaction::begin_quietly(engine, "compaction", Duration::ZERO)?;
        if let Some(group) = next_group(transaction, &name, false, true, &policy, cancel)? {
            let table = group.open.table.clone();
            match merge_group(group, options, &progress, cancel, &mut CompactReport::default()) {
                Err(error) if error.is_damage() => {
                    engine
                        .damage
                        .add(format!("compaction in the background: {error}"));
                    engine.background.note_damaged(&table);
                    continue;
                }
                merged => merged?,
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the first segments that are worth merging and are not too many rows.
fn group_of(table: &Table, policy: &CompactionPolicy) -> Option<Vec<u64>> {
    let rows_of = |id: &u64| {
        let segments = table.segments().iter();
        let of_id = segments.filter(|segment| segment.id() == *id);
        of_id.map(|segment| segment.live_rows()).sum::<u64>()
    };
    let fits = |group: &Vec<u64>| group.iter().map(rows_of).sum::<u64>() <= policy.max_rows;
    plan(table, policy).into_iter().find(fits)
}

/// Segments of a table that are worth merging, and a transaction to do it in.
struct SegmentGroup {
    open: Arc<OpenTable>,
    ids: Vec<u64>,
    transaction: Transaction,
}

/// Returns the next segments of a table that are worth merging; `None` if there are none.
fn next_group(
    mut transaction: Transaction,
    name: &str,
    full: bool,
    may_be_gone: bool,
    policy: &CompactionPolicy,
    cancel: &AtomicBool,
) -> Result<Option<SegmentGroup>, EngineError> {
    let worth = |open: &OpenTable| {
        if full {
            Some(open.table.segments().iter().map(|segment| segment.id()).collect())
        } else {
            group_of(&open.table, policy)
        }
    };
    let catalog = transaction.catalog();
    if may_be_gone && !catalog.has_table(name) {
        return Ok(None);
    }
    let open = catalog.table(name)?;
    if worth(&open).is_none_or(|group: Vec<u64>| group.is_empty() && open.delta.is_none()) {
        return Ok(None);
    }
    // Folding the delta into segments changes which segments are worth merging.
    let stored = catalog.objects().table(name)?;
    if transaction
        .engine()
        .tuning
        .injected(EngineFault::CompactWithoutLog)
    {
        transaction.forget(stored.table.uid())
    } else {
        transaction.fold(&stored)?
    }
    let open = transaction.catalog().objects().table(name)?;
    match worth(&open) {
        Some(ids) if !ids.is_empty() => Ok(Some(SegmentGroup {
            open,
            ids,
            transaction,
        })),
        _ => {
            drop(open);
            transaction.commit_rewritten(cancel)?;
            Ok(None)
        }
    }
}

/// Merges a group and publishes that.
fn merge_group(
    mut group: SegmentGroup,
    options: &CompactOptions,
    progress: &ProgressCallback<'_>,
    cancel: &AtomicBool,
    report: &mut CompactReport,
) -> Result<(), EngineError> {
    if cancel.load(Ordering::Relaxed) {
        return Err(EngineError::Cancelled);
    }
    let (name, transaction) = (group.open.table.name(), &group.transaction);
    let tell = |at: MergeProgress| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress(&CompactProgress {
            table: name.to_string(),
            done: at.done,
            total: at.total,
        });
    };
    let mut merging = MergeOptions::default();
    merging.bandwidth = options.bandwidth;
    merging.cancel = cancel;
    merging.progress = Some(&tell);
    let budget = transaction.engine().budget();
    merging.memory = options
        .memory
        .map_or(budget, |bytes| MemoryBudget::new(Some(bytes)))
        .work();
    let stats = match merge(transaction.txn(), name, &group.ids, &merging) {
        Err(ColumnsError::Cancelled { .. }) => return Err(EngineError::Cancelled),
        merged => merged?,
    };
    group.transaction.changed([group.open.table.uid()]);
    drop(group.open);
    group.transaction.commit_rewritten(cancel)?;
    report.merged += stats.merged;
    report.segments += (stats.ids.end - stats.ids.start) as usize;
    report.rows += stats.rows;
    report.dropped += stats.dropped;
    report.bytes += stats.bytes;
    Ok(())
}

/// Runs `VACUUM`: compacts a table, or all, and returns space to the file system. Returns a message.
///
/// # Errors
/// Those of [`compact`], and of giving space back.
pub(crate) fn vacuum(
    engine: &Arc<EngineContext>,
    table: Option<&str>,
    full: bool,
    wait: Duration,
    cancel: &AtomicBool,
) -> Result<String, EngineError> {
    let options = CompactOptions {
        full,
        ..CompactOptions::default()
    };
    let mut no_room = Vec::new();
    let mut failed = |name: &str, error: EngineError| {
        if error.is_full() {
            no_room.push(format!("table {name}: {error}"));
            Ok(())
        } else {
            Err(error)
        }
    };
    let progress = &mut |_: &CompactProgress| ();
    let mut report = compact_tables(engine, table, &options, progress, (wait, cancel), &mut failed)?;
    match engine.stores.give_back(wait) {
        // Tables are none the worse for it, and a single one is all that was asked for.
        Err(EngineError::Store(error @ StoreError::Damaged { .. })) => {
            if table.is_none() {
                report.skipped.push(format!("the stores: {error}"));
            } else {
                tracing::debug!(%error, "the stores keep unused space");
            }
        }
        // The disk is full, or another writer is active: the file gives back what it can.
        Err(EngineError::Store(StoreError::Pool(error))) => {
            tracing::debug!(%error, "the stores keep unused space");
        }
        given => given?,
    }
    let space = vacuum_file(engine, wait, cancel)?;
    let length = if space.shared {
        "; the file keeps its length, as another process or handle has it open"
    } else {
        ""
    };
    let mut done = format!(
        "merged {} segments into {}, dropped {} deleted rows, gave {} bytes back to the file system{length}",
        report.merged, report.segments, report.dropped, space.punched
    );
    if !no_room.is_empty() {
        done.push_str(&format!(
            "; segments are left that could not be merged: {}",
            no_room.join("; ")
        ));
    }
    match report.skipped.as_slice() {
        [] => {}
        skipped if full => {
            return Err(EngineError::LeftDamaged {
                done,
                skipped: skipped.join("; "),
            });
        }
        skipped => done.push_str(&format!("; left as they are: {}", skipped.join("; "))),
    }
    Ok(done)
}
