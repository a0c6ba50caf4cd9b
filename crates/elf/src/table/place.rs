//! Placement of a table's index, and advice on it: each segment gets a share of the DRAM by its size.

use crate::advise::{IndexShare, advise};
use crate::place::{PlaceOptions, PlacementStatus};
use crate::table::{IndexSegment, TableIndex};
use crate::{Advice, AdviseOptions, Elf, ElfError, Query, Result};
use halocline_pool::ExtentBytes;

impl TableIndex {
    /// Returns the index with the requested copies in DRAM; the budget is shared among the segments by their
    /// size. The index itself does not change, so queries may run on it meanwhile. See [`Elf::place`].
    ///
    /// # Errors
    /// As [`Elf::place`].
    pub fn place(&self, options: &PlaceOptions) -> Result<Self> {
        let part = |elf: &Elf<ExtentBytes>| PlaceOptions {
            dram: options.dram.map(|dram| self.dram_share(dram, elf)),
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

    /// Predicts what each placement would cost for queries like these, and picks one. `sample` has the same
    /// queries for each of the [segments](Self::segments), in its codes; the DRAM is shared among them as
    /// [`place`](Self::place) does. See [`Elf::advise`](crate::Elf::advise).
    ///
    /// # Errors
    /// As [`Elf::advise`](crate::Elf::advise); [`ElfError::NoQueries`] also if a segment has none.
    pub fn advise(&self, sample: &[Vec<Query>], options: &AdviseOptions) -> Result<Advice> {
        let segments = self.segments();
        if sample.len() < segments.len() {
            return Err(ElfError::NoQueries);
        }
        let parts = segments.iter().zip(sample).map(|(segment, queries)| {
            let elf = segment.elf();
            IndexShare::new(elf, queries, self.dram_share(options.dram, elf))
        });
        // Dictionaries made for the index would also be in DRAM.
        let with_dictionaries = if self.is_volatile() {
            segments
                .iter()
                .map(|segment| segment.elf().placed().dram_bytes)
                .sum()
        } else {
            self.stored_bytes()
        };
        let beside = with_dictionaries.saturating_sub(self.segments_size());
        advise(parts.collect::<Result<_>>()?, beside, options)
    }

    /// Returns the size of the segments' indexes in bytes.
    fn segments_size(&self) -> u64 {
        self.segments().iter().map(|segment| segment.elf().size()).sum()
    }

    /// Returns the share of a segment in `dram` bytes.
    fn dram_share(&self, dram: u64, elf: &Elf<ExtentBytes>) -> u64 {
        let all = self.segments_size().max(1);
        (u128::from(dram) * u128::from(elf.size()) / u128::from(all)) as u64
    }
}
