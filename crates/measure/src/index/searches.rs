//! Searches that are drawn from the rows of a table, so that each of them finds at least one row.

use std::path::Path;

use halocline_columns::Table;
use halocline_elf::{CodePredicate, Elf, Result, TableIndex};
use halocline_pool::{ExtentBytes, Pool, PoolOptions};
use halocline_workloads::SplitMix64;

/// Exact matches that are given to the index together.
pub const SEARCH_BATCH: usize = 4096;
/// The share of the values of each column that a range spans.
pub const RANGE_SHARE: f64 = 0.02;

/// Seed of the drawn rows.
const SEED: u64 = 6;

/// A kind of search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// Exact matches, one after the other.
    Exact,
    /// Exact matches, [`SEARCH_BATCH`] at a time.
    ExactBatch,
    /// Ranges of [`RANGE_SHARE`] of the values in each column.
    Range,
}

impl SearchKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Exact, Self::ExactBatch, Self::Range];
}

/// Searches of one kind.
#[derive(Debug, Clone)]
pub struct IndexSearches {
    pub(super) by_segment: Vec<SegmentSearches>,
    count: usize,
}

impl IndexSearches {
    /// Returns the number of searches.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Searches of the tree of one segment, in the codes of that segment.
#[derive(Debug, Clone)]
pub(super) enum SegmentSearches {
    /// Points to be searched one after the other, with one code for each dimension.
    Points(Vec<u64>),
    /// Points to be searched together.
    Batches(Vec<u64>),
    /// A condition on each dimension for each search.
    Ranges(Vec<Vec<CodePredicate>>),
}

/// The rows of an indexed table, from which searches are drawn.
#[derive(Debug)]
pub struct SearchSource {
    table: Table,
    index: TableIndex,
    random: SplitMix64,
}

impl SearchSource {
    /// Opens an index and its table. Their reads are charged to no device.
    ///
    /// # Errors
    /// The pool, the index or its table cannot be opened.
    pub fn open(pool: &Path, index: &str) -> Result<Self> {
        let pool = Pool::open(pool, &PoolOptions::default().with_read_only(true))?;
        let snapshot = pool.snapshot()?;
        let index = TableIndex::open(&snapshot, index)?;
        Ok(Self {
            table: Table::open(&snapshot, index.table())?,
            index,
            random: SplitMix64::new(SEED),
        })
    }

    /// Draws the next `count` searches, at least one for each segment that has rows. The segments get shares
    /// in proportion to their rows.
    ///
    /// # Errors
    /// A column cannot be read, or has no codes.
    pub fn draw(&mut self, kind: SearchKind, count: usize) -> Result<IndexSearches> {
        let all = self.table.rows().max(1);
        let mut drawn = IndexSearches {
            by_segment: vec![],
            count: 0,
        };
        for (segment, tree) in self.table.segments().iter().zip(self.index.segments()) {
            let rows = segment.rows() as u64;
            let share = (count as u64 * rows).div_ceil(all);
            let mut points = vec![];
            for _ in 0..share {
                let row = self.random.below(rows) as usize;
                for &column in self.index.columns() {
                    segment.column(column).read_codes(row..row + 1, &mut points)?;
                }
            }
            drawn.count += share as usize;
            drawn.by_segment.push(match kind {
                SearchKind::Exact => SegmentSearches::Points(points),
                SearchKind::ExactBatch => SegmentSearches::Batches(points),
                SearchKind::Range => {
                    let points = points.chunks_exact(tree.elf().dims());
                    SegmentSearches::Ranges(points.map(|point| ranges_from(point, tree.elf())).collect())
                }
            });
        }
        Ok(drawn)
    }
}

/// Returns, for each dimension, the range that begins at the point's code and spans [`RANGE_SHARE`] of the
/// codes.
fn ranges_from(point: &[u64], elf: &Elf<ExtentBytes>) -> Vec<CodePredicate> {
    let range = |(dim, &code): (usize, &u64)| {
        let max = elf.max_code(dim);
        let width = (max as f64 * RANGE_SHARE).round() as u64;
        CodePredicate::range(code, code.saturating_add(width).min(max))
    };
    point.iter().enumerate().map(range).collect()
}
