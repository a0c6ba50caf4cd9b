//! How much of an index is in memory.

use super::{IndexSegment, TableIndex};
use halocline_media::{Residency, sample_residency};

impl TableIndex {
    /// Estimates how much of the stored trees is in memory, by a sample of at most 64 pages; see
    /// [`sample_residency`]. O(segments).
    #[must_use]
    pub fn residency(&self) -> Residency {
        let ranges: Vec<&[u8]> = self.stored().map(|segment| &**segment.elf.bytes()).collect();
        sample_residency(&ranges)
    }

    /// Returns the share of the index that has copies in DRAM: their size, compared with that of the trees. A
    /// volatile index is in DRAM as a whole. O(segments).
    #[must_use]
    pub fn copied_share(&self) -> f64 {
        let bytes: u64 = self.stored().map(|segment| segment.elf.size()).sum();
        let copied: u64 = self.stored().map(|segment| segment.elf.placed().dram_bytes).sum();
        match bytes {
            0 => 1.0,
            bytes => (copied as f64 / bytes as f64).min(1.0),
        }
    }

    /// Returns the segments whose trees are in the pool.
    fn stored(&self) -> impl Iterator<Item = &IndexSegment> {
        self.segments().iter().filter(|segment| segment.extent.is_some())
    }
}
