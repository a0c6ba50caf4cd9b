//! Building an index: rows are packed into records (record.rs), sorted (sort.rs; merge.rs beyond the memory
//! budget), and written as lists (packed/write.rs, published/write.rs).
//!
//! Up to a quarter of the memory is for lists in progress; shortcuts take what they need. Sorted runs beyond
//! the rest spill and are merged, and so do entries of open lists beyond a sixteenth of the memory. The bytes
//! of an index do not depend on threads or memory. Where the rows already stand in the order of their tuples,
//! the build notices and writes a clustered index.

mod merge;
pub(crate) mod output;
pub(crate) mod record;
mod sort;

use crate::geometry::{Buckets, MAX_DIMS, RecordGeometry};
use crate::header::{ElfHeader, MAX_ROWS, Ranks, header_len, padded_len};
use crate::histogram::{Histogram, SAMPLE};
use crate::packed::entries::EntryStack;
use crate::packed::shortcut_builder::ShortcutBuilder;
use crate::packed::shortcuts::Shortcuts;
use crate::{ElfError, Layout, Result, Rows, packed, published};
use output::{Buffered, Output, Spill};
use record::{RecordEncoder, SortRecord, code};

/// Options of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// Layout of the index.
    pub layout: Layout,
    /// Threads to sort and write with.
    pub threads: usize,
    /// Keeps TIDs in lists even if layout `packed` could omit them, because the rows are in the order of
    /// their tuples.
    pub keep_tids: bool,
    /// Bytes of DRAM for the sort, the open lists, the lists being written and the shortcuts; data beyond
    /// that is spilled. A few MiB are always used, up to 40 for the shortcuts of many rows; in layout
    /// `published`, the open lists on one path of the tree and the ranks of codes beyond 31 bits come on
    /// top.
    pub memory: usize,
}

impl Default for BuildOptions {
    /// Returns options for layout `packed` without TIDs where they can be omitted, with all of the machine's
    /// threads and 1 GiB of memory.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            layout: Layout::Packed,
            keep_tids: false,
            threads,
            memory: 1 << 30,
        }
    }
}

/// Approximate bytes of a task that writes lists.
const TASK_BYTES: usize = 4 << 20;
/// Bytes of a build that are neither records nor lists nor shortcuts.
const OTHER_BYTES: usize = 2 << 20;

/// Statistics of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildStats {
    /// Rows in the index.
    pub rows: u64,
    /// Bytes of the index.
    pub len: u64,
    /// True if it is clustered: the rows are in the order of their tuples, and the lists have no TIDs.
    pub clustered: bool,
    /// Sorted runs that were spilled; 0 if all fitted the memory.
    pub spilled_runs: usize,
}

/// Builds an index of `rows` into `out`, which must be empty. Without a `spill` everything is sorted in
/// memory, whatever the budget. The same rows and layout give the same bytes for any number of threads and
/// any budget.
///
/// O(n log n) time; memory as [`BuildOptions::memory`] says.
///
/// # Errors
/// [`ElfError::TooLarge`], [`ElfError::CodeOutOfRange`], [`ElfError::Threads`], [`ElfError::Write`].
pub fn build(
    rows: &dyn Rows,
    options: &BuildOptions,
    spill: Option<&(dyn Spill + Sync)>,
    out: &mut (dyn Output + Send),
) -> Result<BuildStats> {
    let too_large = |what, found: usize, limit: u64| {
        if found as u64 > limit {
            Err(ElfError::TooLarge {
                what,
                found: found as u64,
                limit,
            })
        } else {
            Ok(())
        }
    };
    too_large("the number of rows", rows.rows(), MAX_ROWS)?;
    too_large("the number of dimensions", rows.dims(), MAX_DIMS as u64)?;
    if rows.dims() == 0 {
        return Err(ElfError::WrongDimensions {
            expected: 1,
            found: 0,
        });
    }
    let max_codes = (0..rows.dims()).map(|dim| rows.max_code(dim)).collect();
    let geometry = RecordGeometry::new(rows.rows() as u64, max_codes);
    let threads = options.threads.max(1);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| ElfError::Threads {
            threads,
            reason: error.to_string(),
        })?;
    pool.install(|| {
        let job = IndexBuild {
            rows,
            geometry,
            options,
            spill,
        };
        match job.geometry.words() {
            0 | 1 => job.run::<1>(out),
            2 => job.run::<2>(out),
            3 => job.run::<3>(out),
            4 => job.run::<4>(out),
            5..=8 => job.run::<8>(out),
            9..=16 => job.run::<16>(out),
            _ => job.run::<72>(out),
        }
    })
}

/// Builds an index into memory; see [`build`].
///
/// # Errors
/// As [`build`].
pub fn build_vec(rows: &dyn Rows, options: &BuildOptions) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    build(rows, options, None, &mut bytes)?;
    Ok(bytes)
}

struct IndexBuild<'a> {
    rows: &'a dyn Rows,
    geometry: RecordGeometry,
    options: &'a BuildOptions,
    spill: Option<&'a (dyn Spill + Sync)>,
}

impl IndexBuild<'_> {
    fn run<const W: usize>(self, out: &mut dyn Output) -> Result<BuildStats> {
        let encoder = RecordEncoder {
            rows: self.rows,
            geometry: &self.geometry,
        };
        let rows = self.geometry.rows as usize;
        let sort = self.sort_memory(rows);
        let run_rows = (sort / size_of::<SortRecord<W>>()).max(1024);
        match self.spill {
            Some(spill) if rows > run_rows => {
                let area = merge::sort_spilling::<_, W>(&encoder, run_rows, spill)?;
                let stats = self.write::<W>(merge::records(&*area)?, out)?;
                Ok(BuildStats {
                    spilled_runs: rows.div_ceil(run_rows),
                    ..stats
                })
            }
            _ => {
                let mut records = merge::memory(rows)?;
                sort::sort::<_, W>(&encoder, 0..rows, &mut records)?;
                self.write::<W>(&records, out)
            }
        }
    }

    /// Returns the number of tasks that write lists at the same time, each of up to [`TASK_BYTES`].
    fn tasks(&self) -> usize {
        (self.options.memory / 4 / TASK_BYTES).clamp(1, rayon::current_num_threads() * 4)
    }

    /// Returns the bytes for records of `rows` rows that are sorted in memory and stay there while the lists
    /// are written.
    fn sort_memory(&self, rows: usize) -> usize {
        let memory = self.options.memory;
        let shortcuts = ShortcutBuilder::memory(rows);
        let open = EntryStack::memory(memory, rows);
        memory
            .saturating_sub(self.tasks() * TASK_BYTES + shortcuts + open + OTHER_BYTES)
            .max(memory / 4)
    }

    fn write<const W: usize>(&self, records: &[SortRecord<W>], out: &mut dyn Output) -> Result<BuildStats> {
        loop {
            let stats = self.write_once(records, out)?;
            if out.complete(stats.len).map_err(ElfError::Write)? {
                return Ok(stats);
            }
        }
    }

    fn write_once<const W: usize>(
        &self,
        records: &[SortRecord<W>],
        out: &mut dyn Output,
    ) -> Result<BuildStats> {
        let unbucketed = &self.geometry;
        let clustered = self.is_clustered(records);
        let buckets = match self.options.layout {
            Layout::Packed => Buckets::worth(unbucketed),
            Layout::Published => None,
        };
        let bucketed = |geometry: RecordGeometry| match buckets {
            Some(buckets) => geometry.bucketed(buckets),
            None => geometry,
        };
        let geometry = &bucketed(unbucketed.clone());
        let lists = if clustered {
            bucketed(RecordGeometry::clustered(
                unbucketed.rows,
                unbucketed.max_codes.clone(),
            ))
        } else {
            geometry.clone()
        };
        let mut out = Buffered::new(out);
        let nodes_start = header_len(unbucketed.dims()) as u64;
        out.skip(nodes_start as usize).map_err(ElfError::Write)?;
        let mut places = ShortcutBuilder::new(geometry, 0, None);
        let (root, rank_codes) = match self.options.layout {
            _ if records.is_empty() => (nodes_start, vec![vec![]; unbucketed.dims()]),
            Layout::Packed => {
                let depths = buckets.map_or_else(|| Shortcuts::worth(geometry), |buckets| buckets.depth + 1);
                let quarters = packed::shortcut_form::quarters(geometry, &lists, records, depths);
                places = ShortcutBuilder::new(geometry, depths, quarters);
                let spill = self.spill.map(|spill| spill as &dyn Spill);
                let entries = EntryStack::new(spill, self.options.memory);
                let root = packed::write::write(
                    geometry,
                    &lists,
                    records,
                    self.tasks(),
                    entries,
                    &mut places,
                    &mut out,
                )?;
                (root, vec![vec![]; unbucketed.dims()])
            }
            Layout::Published => published::write::write(geometry, records, &mut out)?,
        };
        let nodes_end = out.position();
        let (shortcuts, bytes) = places.finish(&lists, nodes_end);
        out.append(&bytes).map_err(ElfError::Write)?;
        let mut ranks = Vec::with_capacity(unbucketed.dims());
        for codes in rank_codes {
            let table = Ranks {
                at: if codes.is_empty() { 0 } else { out.position() },
                len: codes.len() as u64,
            };
            for code in codes {
                out.append(&code.to_le_bytes()).map_err(ElfError::Write)?;
            }
            ranks.push(table);
        }
        let len = padded_len(out.position());
        out.skip((len - out.position()) as usize)
            .map_err(ElfError::Write)?;
        let header = ElfHeader {
            layout: self.options.layout,
            len,
            nodes_start,
            nodes_end,
            root,
            geometry: lists,
            ranks,
            shortcuts,
            unread: false,
            coefficients: None,
            histograms: histograms(geometry, records),
        };
        out.write_at(0, &header.to_bytes()).map_err(ElfError::Write)?;
        out.flush().map_err(ElfError::Write)?;
        Ok(BuildStats {
            rows: geometry.rows,
            len,
            clustered: header.geometry.is_clustered(),
            spilled_runs: 0,
        })
    }

    /// Returns true if the sorted records are in the order of their rows and TIDs can be omitted.
    fn is_clustered<const W: usize>(&self, records: &[SortRecord<W>]) -> bool {
        let row = |record: &SortRecord<W>| record[0] as u32 & self.geometry.tid_mask;
        self.options.layout == Layout::Packed
            && !self.options.keep_tids
            && !records.is_empty()
            && records.iter().map(row).eq(0..records.len() as u32)
    }
}

fn histograms<const W: usize>(geometry: &RecordGeometry, records: &[SortRecord<W>]) -> Vec<Histogram> {
    let count = records.len().min(SAMPLE);
    let sample: Vec<&SortRecord<W>> = (0..count).map(|i| &records[i * records.len() / count]).collect();
    let histogram = |(&field, &max_code)| {
        let mut codes: Vec<u64> = sample.iter().map(|record| code(record, field)).collect();
        Histogram::new(&mut codes, geometry.rows, max_code)
    };
    geometry
        .fields
        .iter()
        .zip(&geometry.max_codes)
        .map(histogram)
        .collect()
}
