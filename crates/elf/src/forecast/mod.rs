//! Forecasts of an index that is not built: its size, and the estimates of selections through it.
//!
//! A forecast plans the tree of layout `packed` over a sample of the rows, by the rules of the build
//! ([`packed::write`](crate::packed::write)). If the sample is all rows, the lists are those of the build.
//! Otherwise a group of at least [`MIN_PLANNED_ROWS`] sampled rows stands for a subtree of as many times more
//! rows as the table has, and smaller groups below one list are taken together: their number is estimated
//! from the number of distinct prefixes in the sample, and their rows are assumed to spread evenly over them
//! ([`light`]).

mod light;
mod select;
mod tree;
mod tuples;

pub use select::DimensionTest;

use crate::geometry::{Buckets, MAX_DIMS, RecordGeometry};
use crate::header::{MAX_ROWS, header_len, padded_len};
use crate::packed::shortcuts::{LINE, NEAR, QUARTERED, Shortcuts};
use crate::packed::subranges::SubrangeScheme;
use tree::{PlannedTree, TreePlanner};
use tuples::SortedTuples;

/// Minimum number of sampled rows of a group that is planned on its own.
const MIN_PLANNED_ROWS: usize = 16;
/// Minimum number of sampled rows of groups that are modelled apart from smaller ones where sizes vary more
/// than by chance: nearly all such groups are seen.
const MIN_MODELLED_ROWS: usize = 4;
/// Most rows of a list whose place in a quartered array has counts.
const QUARTERED_ROWS: u64 = 32;

/// The codes of one column in rows of a segment that are sampled at random.
#[derive(Debug, Clone)]
pub struct SampledColumn {
    /// Largest code in the segment.
    pub(crate) max_code: u64,
    /// Estimated distinct codes in the segment.
    pub(crate) distinct: u64,
    /// The distinct codes of the sampled rows, ascending.
    pub(crate) codes: Vec<u64>,
    /// The position in `codes` of each sampled row, in the order of the rows.
    pub(crate) ranks: Vec<u32>,
}

impl SampledColumn {
    /// Creates a column from the codes of the sampled rows, in the order of the rows. O(n log n).
    #[must_use]
    pub fn new(max_code: u64, distinct: u64, codes_of_rows: &[u64]) -> Self {
        let mut codes = codes_of_rows.to_vec();
        codes.sort_unstable();
        codes.dedup();
        let rank = |code: &u64| codes.binary_search(code).unwrap_or_else(|at| at) as u32;
        Self {
            max_code: max_code.max(codes.last().copied().unwrap_or(0)),
            distinct: distinct.max(codes.len() as u64),
            ranks: codes_of_rows.iter().map(rank).collect(),
            codes,
        }
    }

    /// Returns the number of distinct codes in the sample.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.codes.len()
    }

    /// Returns the position of the code of each sampled row among the distinct codes of the sample.
    #[must_use]
    pub fn rank_of_rows(&self) -> &[u32] {
        &self.ranks
    }
}

/// The forecast of the index of one segment.
#[derive(Debug)]
pub struct Forecast {
    geometry: RecordGeometry,
    tuples: SortedTuples,
    tree: PlannedTree,
    bytes: u64,
}

impl Forecast {
    /// Plans the index of a segment of `rows` rows on these columns, dimension 0 first. All columns have the
    /// same sampled rows. Returns `None` if there are no columns or too many, or if the segment has too many
    /// rows. O(s log s) for s sampled rows.
    #[must_use]
    pub fn new(rows: u64, columns: &[&SampledColumn]) -> Option<Self> {
        let sampled = columns.first()?.ranks.len();
        let fits = columns.len() < MAX_DIMS && rows <= MAX_ROWS && sampled as u64 <= rows;
        if !fits || columns.iter().any(|column| column.ranks.len() != sampled) || (sampled == 0 && rows > 0) {
            return None;
        }
        let max_codes: Vec<u64> = columns.iter().map(|column| column.max_code).collect();
        let unbucketed = RecordGeometry::new(rows, max_codes.clone());
        let buckets = Buckets::worth(&unbucketed);
        let tuples = SortedTuples::new(columns, buckets)?;
        let lists = if tuples.is_in_row_order && sampled > 0 {
            RecordGeometry::clustered(rows, max_codes)
        } else {
            unbucketed.clone()
        };
        let bucketed = |geometry: RecordGeometry| match buckets {
            Some(buckets) => geometry.bucketed(buckets),
            None => geometry,
        };
        let geometry = bucketed(lists);
        let (tree, lists) = match sampled {
            0 => (PlannedTree::default(), 0.0),
            _ => TreePlanner::new(&geometry, &tuples, rows).plan(),
        };
        let nodes_end = header_len(columns.len()) as u64 + lists as u64;
        let depths = buckets.map_or_else(|| Shortcuts::worth(&unbucketed), |buckets| buckets.depth + 1);
        let shortcuts = match rows {
            0 => 0,
            _ => shortcut_bytes(&bucketed(unbucketed), &geometry, depths, lists),
        };
        Some(Self {
            bytes: padded_len(nodes_end + shortcuts),
            geometry,
            tuples,
            tree,
        })
    }

    /// Returns the predicted bytes of the index.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the lists are predicted to have no TIDs, as the rows are in the order of their tuples.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.geometry.is_clustered()
    }
}

/// Returns the bytes of the shortcuts of `depths` depths over lists of `bytes` bytes.
fn shortcut_bytes(geometry: &RecordGeometry, lists: &RecordGeometry, depths: usize, bytes: f64) -> u64 {
    if depths == 0 {
        return 0;
    }
    let places: u64 = geometry.max_codes[..depths].iter().map(|&max| max + 1).product();
    let is_quartered =
        SubrangeScheme::possible(lists, depths).is_some() && geometry.rows / places.max(1) <= QUARTERED_ROWS;
    let lines = |width: usize| places.div_ceil(width as u64) * LINE as u64;
    if is_quartered {
        lines(QUARTERED)
    } else if lists.buckets.is_some() || bytes / places as f64 * NEAR as f64 <= f64::from(u16::MAX) {
        lines(NEAR)
    } else {
        // An offset for each place.
        places * (64 - (bytes as u64).leading_zeros() as u64).div_ceil(8).max(1)
    }
}
