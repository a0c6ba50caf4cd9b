//! Refresh of an index after changes of its table.
//!
//! A refresh builds what the index lacks, forgets segments that are gone, and keeps the other extents as they
//! are. Until then the index answers for the segments it has. Deletions do not touch an index: its TIDs count
//! deleted rows. A build can be cancelled whenever rows are read or bytes written, but not within the sort of
//! a run.

use crate::table::build::index_segment;
use crate::table::cancel::CancellationToken;
use crate::table::meta::{IndexMeta, object_name};
use crate::{IndexOptions, Order, Result};
use halocline_columns::Table;
use halocline_pool::{Object, Txn};
use std::sync::atomic::AtomicBool;

/// Statistics of a refresh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshStats {
    /// Segments that were indexed.
    pub built: usize,
    /// Their rows.
    pub rows: u64,
    /// Segments whose index was kept.
    pub kept: usize,
    /// Segments that the table no longer has.
    pub dropped: usize,
    /// Bytes written: trees and dictionaries.
    pub bytes: u64,
    /// Sorted runs that were spilled.
    pub spilled_runs: usize,
}

/// Completes index `name`: indexes the segments of its table that it lacks, and removes those that the table
/// no longer has. A volatile index stores no trees, so none are built. `table` is the table as the
/// transaction sees it; layout and order are the index's own, not those of `options`. Deletions change no
/// index. Setting `cancel` from any thread ends the refresh and leaves the index unchanged. O(n log n) in the
/// rows of the new segments, whatever the others have.
///
/// # Errors
/// [`ElfError::NoSuchIndex`](crate::ElfError::NoSuchIndex),
/// [`ElfError::DamagedMeta`](crate::ElfError::DamagedMeta),
/// [`ElfError::NewerVersion`](crate::ElfError::NewerVersion); [`ElfError::Stale`](crate::ElfError::Stale) if
/// `table` is another one than the index was made for; else as [`index_table`](crate::index_table).
pub fn refresh_index(
    txn: &Txn,
    table: &Table,
    name: &str,
    options: &IndexOptions,
    cancel: &AtomicBool,
) -> Result<RefreshStats> {
    let (object, mut meta) = IndexMeta::of_object(txn.get(&object_name(name)), name)?;
    meta.check_table(name, table)?;
    if meta.is_volatile() {
        return refresh_definition(txn, table, name, meta);
    }
    let ranges = meta.extent_ranges(name, object.extent_count())?;
    let before = std::mem::take(&mut meta.segments);
    let mut stats = RefreshStats::default();
    let cancel = CancellationToken::new(cancel);
    let mut extents = vec![];
    let kept = |id: u64| before.iter().position(|segment| segment.segment == id);
    // If no segment is kept, the first one decides the order again.
    let none_kept = !table
        .segments()
        .iter()
        .any(|segment| kept(segment.id()).is_some());
    for segment in table.segments() {
        match kept(segment.id()) {
            Some(position) => {
                extents.extend(ranges[position].clone().map(|i| object.extent_ref(i)));
                meta.segments.push(before[position].clone());
                stats.kept += 1;
            }
            None => {
                let choose_order = none_kept && stats.built == 0 && meta.order == Order::Auto;
                let built = index_segment(txn, table, segment, &mut meta, choose_order, options, &cancel)?;
                stats.built += 1;
                stats.rows += segment.rows() as u64;
                stats.bytes += built.index_bytes + built.dictionary_bytes;
                stats.spilled_runs += built.spilled_runs;
                extents.extend(built.extents);
            }
        }
    }
    stats.dropped = before.len() - stats.kept;
    if stats.built > 0 || stats.dropped > 0 || meta.table != table.name() {
        meta.table = table.name().into();
        meta.put(txn, name, extents)?;
    }
    Ok(stats)
}

/// Rebuilds the whole index `name` from its definition, without reading its trees, which may be damaged.
/// `table` is the table as the transaction sees it. O(n log n) in its rows.
///
/// # Errors
/// As [`refresh_index`].
pub fn rebuild_index(
    txn: &Txn,
    table: &Table,
    name: &str,
    options: &IndexOptions,
    cancel: &AtomicBool,
) -> Result<RefreshStats> {
    let (_, mut meta) = IndexMeta::of_object(txn.get(&object_name(name)), name)?;
    meta.segments = vec![];
    meta.put(txn, name, vec![])?;
    refresh_index(txn, table, name, options, cancel)
}

/// Returns the name of an index's table, read from the metadata of the index's object alone, so that it is
/// available even if extents of the index, or its table, are damaged.
///
/// # Errors
/// [`ElfError::NoSuchIndex`](crate::ElfError::NoSuchIndex) if there is no object or it is something else,
/// [`ElfError::NewerVersion`](crate::ElfError::NewerVersion),
/// [`ElfError::DamagedMeta`](crate::ElfError::DamagedMeta).
pub fn indexed_table(object: Option<Object>, name: &str) -> Result<String> {
    IndexMeta::of_object(object, name).map(|(_, meta)| meta.table)
}

/// Refreshes a volatile index, whose definition alone is stored.
fn refresh_definition(txn: &Txn, table: &Table, name: &str, mut meta: IndexMeta) -> Result<RefreshStats> {
    // Segments can only have been stored by a program that does not know volatile indexes.
    let dropped = std::mem::take(&mut meta.segments).len();
    if dropped > 0 || meta.table != table.name() {
        meta.table = table.name().into();
        meta.put(txn, name, vec![])?;
    }
    Ok(RefreshStats {
        dropped,
        ..RefreshStats::default()
    })
}

/// Changes the table name in index `name` after a rename of its table.
///
/// # Errors
/// [`ElfError::NoSuchIndex`](crate::ElfError::NoSuchIndex),
/// [`ElfError::DamagedMeta`](crate::ElfError::DamagedMeta),
/// [`ElfError::NewerVersion`](crate::ElfError::NewerVersion), [`ElfError::Pool`](crate::ElfError::Pool).
pub fn rename_index_table(txn: &Txn, name: &str, table: &str) -> Result<()> {
    let (object, mut meta) = IndexMeta::of_object(txn.get(&object_name(name)), name)?;
    meta.table = table.into();
    let extents = (0..object.extent_count()).map(|i| object.extent_ref(i));
    meta.put(txn, name, extents.collect())
}
