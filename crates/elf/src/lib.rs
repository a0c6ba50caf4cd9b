//! The Elf multi-dimensional index.
//!
//! An [`Elf`] answers conjunctions of conditions on many columns at once: a prefix tree whose level `d` holds
//! the values of dimension `d`, in which the upper levels behave like a column store and the lower ones like
//! a row store. It is built in bulk from [`Rows`] ([`build`]), is immutable, and lives in one run of bytes
//! with relative links, so that it can be searched wherever those bytes are: in DRAM, or in an extent of a
//! pool ([`index_table`], [`TableIndex`]).
//!
//! There are two layouts with one interface. [`Layout::Published`] is the one of the ICDE'17 paper and the
//! baseline; [`Layout::Packed`] is searched with SIMD, level by level with prefetch, at about a quarter of
//! the size.
//!
//! Invariants: a search never panics and never reads out of bounds, whatever the bytes; only sound bytes give
//! right answers (`check` verifies them, every TID exactly once). TIDs are row numbers of one segment.

mod advise;
mod avx2;
mod build;
mod check;
mod elf;
mod error;
mod exact;
mod forecast;
mod geometry;
mod header;
mod histogram;
mod kernel;
mod packed;
mod parallel;
mod place;
mod plan;
mod published;
mod selection;
mod sink;
mod table;
mod tids;
mod view;
mod workers;

pub use advise::{Advice, AdviseOptions, Advised, Query};
pub use build::output::{Output, Spill, SpillArea, WriteError};
pub use build::{BuildOptions, BuildStats, build, build_vec};
pub use elf::Elf;
pub use error::{ElfError, Result};
pub use forecast::{DimensionTest, Forecast, SampledColumn};
pub use halocline_columns::CodePredicate;
pub use parallel::Threads;
pub use place::{PlaceOptions, PlacementStatus};
pub use selection::{Estimate, Selection};
pub use table::{
    IndexOptions, IndexSegment, IndexStats, KeptCopies, KeptTrees, Order, RefreshStats, TableIndex,
    VolatileTrees, define_index, index_table, indexed_table, place_index, rebuild_index, refresh_index,
    rename_index_table,
};
pub use tids::{Matches, Tids};
pub use workers::Workers;

/// A row of the indexed segment.
pub type Tid = halocline_columns::RowId;

/// Storage layout of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Values separate from links, bit-packed records in leaf lists, links as distances.
    #[default]
    Packed,
    /// The layout of the ICDE'17 paper: entries of value and link, scanned from the front.
    Published,
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packed => "packed",
            Self::Published => "published",
        })
    }
}

/// The data to index: `rows` tuples of `dims` codes, read by column.
pub trait Rows: Sync {
    /// Returns the number of rows, at most 2^31.
    fn rows(&self) -> usize;

    /// Returns the number of dimensions, 1 to 64; dimension 0 is the tree's first.
    fn dims(&self) -> usize;

    /// Returns an upper bound of the codes of a dimension; the tighter, the smaller the index.
    fn max_code(&self, dim: usize) -> u64;

    /// Reads the codes of rows `start..start + out.len()` in a dimension. Called from several threads.
    fn read(&self, dim: usize, start: usize, out: &mut [u64]);
}
