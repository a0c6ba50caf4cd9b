//! Reuse of copies in the next version of an index.
//!
//! Invariants: a copy is reused only for the same bytes (same segment, extent and checksum); all copies of an
//! index together never exceed its options and the budget; copies that are still read when they are replaced
//! count against the budget until the last reader is gone.

use crate::Result;
use crate::place::{IndexCopies, PlaceOptions};
use crate::table::{IndexSegment, IndexState, TableIndex};
use halocline_cache::DramBudget;
use halocline_pool::ExtentRef;
use std::sync::Arc;

/// The copies of the last version of an index that was placed. It does not keep the index itself: the pool
/// may free the bytes that the copies were made of.
#[derive(Debug, Default)]
pub struct KeptCopies {
    options: PlaceOptions,
    segments: Vec<SegmentCopies>,
}

#[derive(Debug)]
struct SegmentCopies {
    id: u64,
    extent: Option<ExtentRef>,
    copies: IndexCopies,
    /// True if the budget was too small for the placement.
    short: bool,
}

impl KeptCopies {
    /// Returns the index with the requested copies in DRAM; the limit is shared among its segments by their
    /// size. Existing copies are reused, so that a version with a few more segments costs copies of these
    /// only; copies that exceed their share by more than a quarter are made anew. `index` itself does not
    /// change, so queries may run on it meanwhile.
    ///
    /// # Errors
    /// As [`TableIndex::place`]; nothing is kept then.
    pub fn place(
        &mut self,
        index: &TableIndex,
        options: &PlaceOptions,
        budget: &DramBudget,
    ) -> Result<TableIndex> {
        if self.options != *options {
            self.segments.clear();
            self.options = *options;
        }
        let all: u64 = index.segments().iter().map(|segment| segment.elf.size()).sum();
        let share = |segment: &IndexSegment| {
            let part = u128::from(segment.elf.size());
            let of = |dram: u64| (u128::from(dram) * part / u128::from(all.max(1))) as u64;
            options.dram.map_or(u64::MAX, of)
        };
        let fits = |kept: &SegmentCopies, segment: &IndexSegment| {
            let share = share(segment);
            !kept.short && kept.copies.placed.dram_bytes <= share.saturating_add(share / 4)
        };
        let mut segments: Vec<Option<IndexSegment>> = vec![];
        let mut left = options.dram.unwrap_or(u64::MAX);
        let mut short_ones = vec![];
        for segment in index.segments() {
            let kept = self.copies_of(segment).filter(|kept| fits(kept, segment));
            segments.push(kept.map(|kept| {
                left = left.saturating_sub(kept.copies.placed.dram_bytes);
                segment.with_copies(&kept.copies)
            }));
        }
        // Copies that are not reused are freed before new ones are made, so that the budget has room.
        self.segments.clear();
        for (segment, placed) in index.segments().iter().zip(&mut segments) {
            if placed.is_none() {
                let own = PlaceOptions {
                    dram: options.dram.map(|_| share(segment).min(left)),
                    ..*options
                };
                let (elf, short) = segment.elf.place_within(&own, budget)?;
                left = left.saturating_sub(elf.placed().dram_bytes);
                short_ones.extend(short.then_some(segment.id));
                *placed = Some(IndexSegment {
                    elf,
                    ..segment.clone()
                });
            }
        }
        let segments: Vec<IndexSegment> = segments.into_iter().flatten().collect();
        self.segments = segments
            .iter()
            .map(|segment| SegmentCopies {
                id: segment.id,
                extent: segment.extent,
                copies: segment.elf.copies(),
                short: short_ones.contains(&segment.id),
            })
            .collect();
        Ok(index.with_segments(segments))
    }

    /// Returns the index with the existing copies; makes none.
    #[must_use]
    pub fn attach(&self, index: &TableIndex) -> TableIndex {
        let attach = |segment: &IndexSegment| match self.copies_of(segment) {
            Some(kept) => segment.with_copies(&kept.copies),
            None => segment.clone(),
        };
        index.with_segments(index.segments().iter().map(attach).collect())
    }

    /// Returns true if the budget was too small for the placement.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.segments.iter().any(|kept| kept.short)
    }

    fn copies_of(&self, segment: &IndexSegment) -> Option<&SegmentCopies> {
        self.segments
            .iter()
            .find(|kept| kept.id == segment.id && kept.extent == segment.extent)
    }
}

impl IndexSegment {
    fn with_copies(&self, copies: &IndexCopies) -> Self {
        Self {
            elf: self.elf.with_copies_of(copies),
            ..self.clone()
        }
    }
}

impl TableIndex {
    pub(super) fn with_segments(&self, segments: Vec<IndexSegment>) -> Self {
        Self {
            inner: Arc::new(IndexState {
                segments,
                ..(*self.inner).clone()
            }),
        }
    }
}
