//! How tables are written, and what writing gave.

use crate::format::BLOCK;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// How a table is written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableOptions {
    /// Rows per chunk at most, the unit of encoding and zone maps: a multiple of 1024, at most 2^24. Default
    /// 65,536.
    pub chunk_rows: usize,
    /// Bytes of DRAM to use, besides the batch that is written. If it is little, chunks get fewer rows,
    /// columns of many different strings no dictionary, and what waits goes to the pool; a MiB or two
    /// per column are the least. If the table has a clustering, half of it is for sorting. Default 128
    /// MiB.
    pub memory: usize,
    /// Rows per segment: at most 2^31, the default.
    pub segment_rows: u64,
    /// Distinct strings from which on a column is stored without a dictionary. Default 65,536.
    pub dictionary_limit: usize,
    /// Bytes of a part at most.
    pub(crate) part_limit: usize,
    /// The table's own.
    pub(crate) encoding: TableEncoding,
}

/// How the values of a table are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TableEncoding {
    /// Chunk by chunk in the encoding that takes the fewest bits, where quicker ones are allowed a few more.
    #[default]
    Chosen,
    /// Values of fixed size in as many bytes as their type has, in the order of the rows (the distance from
    /// the chunk's smallest value; with NULLs twice as many bytes where there is no room for them); of
    /// strings that have a dictionary four bytes. For comparisons: larger, and seldom quicker.
    Plain,
}

impl TableEncoding {
    /// Returns its name in SQL and in a table's description.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for TableEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TableEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Chosen, Self::Plain];
        let found = all
            .into_iter()
            .find(|encoding| encoding.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| format!("the encoding of a table is chosen or plain, not '{text}'"))
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            chunk_rows: 65_536,
            memory: 128 << 20,
            segment_rows: 1 << 31,
            dictionary_limit: 65_536,
            part_limit: 64 << 20,
            encoding: TableEncoding::Chosen,
        }
    }
}

impl TableOptions {
    /// Asserts that the options are within their limits.
    ///
    /// # Panics
    /// If the options break their limits.
    pub(crate) fn assert_valid(&self) {
        let chunk = self.chunk_rows;
        assert!(
            chunk > 0 && chunk.is_multiple_of(BLOCK) && chunk <= 1 << 24,
            "chunk_rows must be a multiple of {BLOCK} up to 2^24"
        );
        assert!(
            (1..=1 << 31).contains(&self.segment_rows),
            "segment_rows must be within 1..=2^31"
        );
        assert!(
            self.dictionary_limit < u32::MAX as usize,
            "dictionary_limit must be below 2^32 - 1"
        );
    }
}

/// Statistics of a write; of an append only the new segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Rows.
    pub rows: u64,
    /// Segments.
    pub segments: usize,
    /// Their ids.
    pub ids: Range<u64>,
    /// Their extents.
    pub extents: usize,
    /// Bytes in the pool.
    pub stored_bytes: u64,
    /// Bytes that sorting by the clustering columns spilled to the pool.
    pub spilled_bytes: u64,
    /// Bytes of each column in the pool (chunks and dictionary).
    pub column_bytes: Vec<u64>,
}
