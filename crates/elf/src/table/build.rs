//! Building the index of a table in a transaction.

use crate::build::output::Output;
use crate::geometry::RecordGeometry;
use crate::table::cancel::CancellationToken;
use crate::table::extent::{ExtentOutput, PoolSpill};
use crate::table::meta::{DictionaryMeta, IndexMeta, IndexSegmentMeta};
use crate::table::rows::{DimensionSource, SegmentRows};
use crate::{BuildOptions, BuildStats, ElfError, Layout, Result, Rows, build};
use halocline_columns::{Segment, Table};
use halocline_media::trim_heap;
use halocline_pool::{ExtentRef, Txn};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// Order of the tree's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The order of the table's clustering, if it begins with these columns: clustered segments then need no
    /// TIDs. Otherwise by ascending number of distinct values in the first segment, so that most prefixes
    /// are shared.
    #[default]
    Auto,
    /// As the columns are listed.
    Given,
}

/// Options for indexing a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOptions {
    /// Layout of the lists.
    pub layout: Layout,
    /// Order of the dimensions.
    pub order: Order,
    /// Bytes of DRAM to build with; the rest is spilled to the pool. See [`BuildOptions::memory`].
    pub memory: usize,
    /// Threads to build with.
    pub threads: usize,
}

impl Default for IndexOptions {
    fn default() -> Self {
        let BuildOptions {
            layout,
            threads,
            memory,
            ..
        } = BuildOptions::default();
        Self {
            layout,
            order: Order::default(),
            memory,
            threads,
        }
    }
}

/// Statistics of an index that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStats {
    /// Rows of all segments.
    pub rows: u64,
    /// Segments.
    pub segments: usize,
    /// Bytes of the trees.
    pub index_bytes: u64,
    /// Bytes of the dictionaries made for plain string columns.
    pub dictionary_bytes: u64,
    /// The columns as positions in the schema, in the order of the tree's dimensions.
    pub columns: Vec<usize>,
    /// Sorted runs that were spilled.
    pub spilled_runs: usize,
}

impl IndexStats {
    /// Returns the bytes in the pool.
    pub fn bytes(&self) -> u64 {
        self.index_bytes + self.dictionary_bytes
    }
}

/// Indexes `columns` (positions in the schema) of a table of `txn`, and puts the index into the transaction:
/// it is published when that commits. An index of the same name is replaced. Setting `cancel` from any thread
/// ends the build. O(n log n).
///
/// # Errors
/// [`ElfError::TooLarge`] and [`ElfError::NotIndexable`] for columns that cannot be indexed,
/// [`ElfError::WrongDimensions`] for none; [`ElfError::Cancelled`], [`ElfError::Pool`],
/// [`ElfError::Columns`], [`ElfError::Write`]. The transaction may then hold extents, which go with it.
pub fn index_table(
    txn: &Txn,
    table: &Table,
    name: &str,
    columns: &[usize],
    options: &IndexOptions,
    cancel: &AtomicBool,
) -> Result<IndexStats> {
    check_columns(table, columns)?;
    let columns = columns.to_vec();
    let mut meta = IndexMeta::new(table.name(), table.uid(), columns, options.layout, options.order);
    let mut stats = IndexStats {
        rows: table.rows(),
        segments: table.segments().len(),
        index_bytes: 0,
        dictionary_bytes: 0,
        columns: vec![],
        spilled_runs: 0,
    };
    let mut extents = vec![];
    let cancel = CancellationToken::new(cancel);
    for segment in table.segments() {
        let choose_order = meta.segments.is_empty() && meta.order == Order::Auto;
        let built = index_segment(txn, table, segment, &mut meta, choose_order, options, &cancel)?;
        stats.spilled_runs += built.spilled_runs;
        stats.index_bytes += built.index_bytes;
        stats.dictionary_bytes += built.dictionary_bytes;
        extents.extend(built.extents);
    }
    stats.columns.clone_from(&meta.columns);
    meta.put(txn, name, extents)?;
    Ok(stats)
}

/// Rows from which on the heap is trimmed between the steps of a build.
const TRIM_ROWS: usize = 1 << 16;

/// The index of a segment in the transaction.
pub(super) struct SegmentBuild {
    /// The Elf and the dictionaries.
    pub(super) extents: Vec<ExtentRef>,
    pub(super) index_bytes: u64,
    pub(super) dictionary_bytes: u64,
    pub(super) spilled_runs: usize,
}

/// A tree that was written, and the dictionaries made for it.
pub(super) struct WrittenTree<O> {
    /// The output.
    pub(super) out: O,
    pub(super) stats: BuildStats,
    /// The dictionaries, whose extents are in the transaction.
    pub(super) dictionaries: Vec<(DictionaryMeta, ExtentRef)>,
    /// Spilled runs of tree and dictionaries.
    pub(super) spilled_runs: usize,
}

/// Indexes a segment and adds it to `meta`. With `choose_order`, which is allowed for the first segment only,
/// it decides the order of the dimensions.
pub(super) fn index_segment(
    txn: &Txn,
    table: &Table,
    segment: &Segment,
    meta: &mut IndexMeta,
    choose_order: bool,
    options: &IndexOptions,
    cancel: &CancellationToken<'_>,
) -> Result<SegmentBuild> {
    let out = |guess, _| ExtentOutput::new(txn, cancel, guess).map_err(ElfError::Write);
    let written = write_segment(txn, table, segment, meta, choose_order, options, cancel, out)?;
    let (dictionaries, of_dictionaries): (Vec<_>, Vec<_>) = written.dictionaries.into_iter().unzip();
    let dictionary_bytes = of_dictionaries.iter().map(|extent: &ExtentRef| extent.len).sum();
    let mut extents = vec![written.out.extent().map_err(ElfError::Write)?];
    extents.extend(of_dictionaries);
    meta.segments.push(IndexSegmentMeta {
        segment: segment.id(),
        rows: written.stats.rows,
        dictionaries,
    });
    Ok(SegmentBuild {
        extents,
        index_bytes: written.stats.len,
        dictionary_bytes,
        spilled_runs: written.spilled_runs,
    })
}

/// Writes the tree of a segment to an output created by `out`, which receives the estimated bytes of the tree
/// and the bytes of the dictionaries. Spills and dictionaries go to the transaction. Of `meta` only the order
/// changes, as for [`index_segment`].
#[allow(clippy::too_many_arguments, reason = "what a build takes, and where it goes")]
pub(super) fn write_segment<O: Output + Send>(
    txn: &Txn,
    table: &Table,
    segment: &Segment,
    meta: &mut IndexMeta,
    choose_order: bool,
    options: &IndexOptions,
    cancel: &CancellationToken<'_>,
    out: impl FnOnce(u64, u64) -> Result<O>,
) -> Result<WrittenTree<O>> {
    // An index of damaged rows would hide the damage: its answers would agree with its bytes.
    let segment = &segment.for_copying();
    // Trimmed twice: ranking strings and sorting records each need the memory that the step before has freed.
    let trim = || (segment.rows() > TRIM_ROWS).then(trim_heap);
    trim();
    let sources = meta
        .columns
        .iter()
        .map(|&column| DimensionSource::new(txn, segment.column(column), options.memory, cancel));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    trim();
    let mut order: Vec<usize> = (0..sources.len()).collect();
    if choose_order {
        match clustering(table, &meta.columns) {
            Some(clustering) => order = clustering,
            None => order.sort_by_key(|&i| (sources[i].distinct(), i)),
        }
        meta.columns = order.iter().map(|&i| meta.columns[i]).collect();
    }
    let ordered: Vec<&DimensionSource<'_>> = order.iter().map(|&i| &sources[i]).collect();
    let mut dictionaries = vec![];
    let mut spilled_runs = 0;
    for (dim, source) in ordered.iter().enumerate() {
        if let DimensionSource::Ranked(ranked) = source {
            spilled_runs += ranked.spilled_runs;
            let has_null = ranked.has_null;
            dictionaries.push((DictionaryMeta { dim, has_null }, ranked.dictionary));
        }
    }
    let rows = SegmentRows::new(segment.rows(), ordered, cancel);
    let build_options = BuildOptions {
        layout: meta.layout,
        threads: options.threads,
        memory: options.memory,
        ..BuildOptions::default()
    };
    let beside = dictionaries.iter().map(|(_, extent)| extent.len).sum();
    let max_codes = (0..rows.dims()).map(|dim| rows.max_code(dim)).collect();
    let mut out = out(guess(rows.rows(), max_codes, meta.layout), beside)?;
    let spill = PoolSpill { txn, cancel };
    let tree = build(&rows, &build_options, Some(&spill), &mut out);
    // The cause of an early end is reported before its consequences.
    cancel.check()?;
    rows.failed()?;
    let stats = tree?;
    Ok(WrittenTree {
        out,
        stats,
        dictionaries,
        spilled_runs: spilled_runs + stats.spilled_runs,
    })
}

/// Returns the columns in the order of the table's clustering, as positions in `columns`; `None` if it begins
/// with others.
fn clustering(table: &Table, columns: &[usize]) -> Option<Vec<usize>> {
    let names = table.cluster()?.get(..columns.len())?;
    let fields = table.schema().fields();
    let position = |name: &String| columns.iter().position(|&column| fields[column].name() == name);
    names.iter().map(position).collect()
}

pub(super) fn check_columns(table: &Table, columns: &[usize]) -> Result<()> {
    let fields = table.schema().fields();
    if columns.is_empty() {
        return Err(ElfError::WrongDimensions {
            expected: 1,
            found: 0,
        });
    }
    for (i, &column) in columns.iter().enumerate() {
        let reason = match fields.get(column) {
            None => "the table has no such column",
            Some(_) if columns[..i].contains(&column) => "it is listed twice",
            Some(_) => continue,
        };
        let column = fields
            .get(column)
            .map_or_else(|| column.to_string(), |field| field.name().clone());
        return Err(ElfError::NotIndexable { column, reason });
    }
    Ok(())
}

/// Estimates the bytes of the index; a longer one is written twice.
pub(super) fn guess(rows: usize, max_codes: Vec<u64>, layout: Layout) -> u64 {
    let geometry = RecordGeometry::new(rows as u64, max_codes);
    let dims = geometry.dims();
    let row = match layout {
        Layout::Packed => geometry.levels[0].record_len + 8 + 4,
        Layout::Published => 4 * dims + 28,
    };
    let root = match layout {
        Layout::Packed => 0,
        Layout::Published => geometry.max_codes[0]
            .min(geometry.rows.saturating_mul(4))
            .saturating_mul(8),
    };
    (rows * row + 1024 * (dims + 64)) as u64 + root
}
