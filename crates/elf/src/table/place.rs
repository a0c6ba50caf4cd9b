//! Placement of a table's index: each segment gets a share by its size.

use crate::place::{PlaceOptions, PlacementStatus};
use crate::table::{IndexSegment, TableIndex};
use crate::{Elf, Result};
use halocline_pool::ExtentBytes;

impl TableIndex {
    /// Returns the index with the requested copies in DRAM; the budget is shared among the segments by their
    /// size. The index itself does not change, so queries may run on it meanwhile. See [`Elf::place`].
    ///
    /// # Errors
    /// As [`Elf::place`].
    pub fn place(&self, options: &PlaceOptions) -> Result<Self> {
        let all: u64 = self.segments().iter().map(|segment| segment.elf().size()).sum();
        let part = |elf: &Elf<ExtentBytes>| PlaceOptions {
            dram: options
                .dram
                .map(|dram| (u128::from(dram) * u128::from(elf.size()) / u128::from(all.max(1))) as u64),
            ..*options
        };
        let place = |segment: &IndexSegment| -> Result<IndexSegment> {
            Ok(IndexSegment {
                elf: segment.elf().place(&part(segment.elf()))?,
                ..segment.clone()
            })
        };
        let segments = self.segments().iter().map(place).collect::<Result<_>>()?;
        Ok(self.with_segments(segments))
    }

    /// Returns the placement in effect: the sum over the segments, and the first reason why one is not placed
    /// as requested.
    pub fn placed(&self) -> PlacementStatus {
        let mut all = PlacementStatus::default();
        for placed in self.segments().iter().map(|segment| segment.elf().placed()) {
            if placed.fallback.is_none() || placed.dram_bytes > 0 {
                all.placement = placed.placement;
            }
            all.dram_bytes += placed.dram_bytes;
            all.fallback = all.fallback.or_else(|| placed.fallback.clone());
        }
        all
    }
}
