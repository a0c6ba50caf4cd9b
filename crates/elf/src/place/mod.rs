//! Copies of an index in DRAM.
//!
//! A placed index is the same [`Elf`] with copies in DRAM, made from the durable bytes when it is placed and
//! dropped with it; answers do not depend on them. Placing does not change the index it starts from, so
//! searches that run meanwhile go on as they were.

pub(crate) mod caches;
mod copies;
pub(crate) mod dynamic;
pub(crate) mod hashed;
mod learn;
pub(crate) mod list_copier;
mod renewal;
pub(crate) mod strategy;

use crate::elf::Elf;
use crate::packed;
use crate::place::dynamic::Dynamic;
use crate::place::hashed::Hashed;
use crate::place::list_copier::{CopyControl, CopySelection, ImageParts, Uncontrolled};
use crate::published;
use crate::view::Image;
use crate::{ElfError, Layout, Result};
use halocline_cache::{AgedCounts, Links, Placement, PolicyKind, StaticLists};
use halocline_media::{Bytes, HugeVec, PAGE};
use rayon::prelude::*;
use std::sync::Arc;

pub(crate) use copies::IndexCopies;

/// Bytes that one thread copies at once.
const COPY_PART_BYTES: usize = 2 << 20;

/// The placement of an index and its budget.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceOptions {
    /// The copies to hold in DRAM.
    pub placement: Placement,
    /// Limit in bytes of DRAM; `None` for no limit.
    pub dram: Option<u64>,
}

impl PlaceOptions {
    /// Sets [`placement`](Self::placement).
    #[must_use]
    pub fn with_placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// Sets [`dram`](Self::dram).
    #[must_use]
    pub fn with_dram(self, dram: Option<u64>) -> Self {
        Self { dram, ..self }
    }
}

/// The placement of an index that is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementStatus {
    /// The placement in effect.
    pub placement: Placement,
    /// Bytes of DRAM that its copies take.
    pub dram_bytes: u64,
    /// The reason if it is not the requested placement.
    pub fallback: Option<String>,
}

/// Checks that an index of this layout can have this placement, whatever the budget.
///
/// # Errors
/// [`ElfError::Placement`] with the reason.
pub(crate) fn possible(layout: Layout, placement: Placement) -> Result<()> {
    let reason = match placement {
        Placement::Dynamic(policy, links) | Placement::StaticDynamic(policy, links) => match links {
            Links::Swizzled if policy != PolicyKind::Lla => {
                "swizzled links follow the queries by `lla`; for another policy write dynamic:hashed-POLICY"
            }
            Links::Hashed if layout == Layout::Packed => {
                "layout packed has no hash table of lists; write dynamic, or build the index with layout published"
            }
            _ => return Ok(()),
        },
        Placement::SlowOnly | Placement::Hybrid | Placement::Static(_) | Placement::DualAccess => {
            return Ok(());
        }
        _ => "an index cannot be placed so; use slow-only, hybrid, static, dynamic or dual-access",
    };
    Err(ElfError::Placement {
        placement,
        reason: reason.into(),
    })
}

impl<B: Bytes> Elf<B> {
    /// Returns the index with the requested copies in DRAM. If the budget has no room for the root list,
    /// nothing is copied, and [`PlacementStatus::fallback`] says so. O(bytes copied).
    ///
    /// # Errors
    /// [`ElfError::Placement`] if this layout has no such placement; [`ElfError::Memory`];
    /// [`ElfError::Damaged`] if the copying meets damage.
    pub fn place(&self, options: &PlaceOptions) -> Result<Self> {
        let PlaceOptions { placement, dram } = *options;
        possible(self.layout(), placement)?;
        // Copies take whole pages.
        let most = dram.map_or(u64::MAX, |dram| dram / PAGE * PAGE);
        let plain = self.slow_only();
        let lists_without_records = CopySelection {
            records: false,
            ..CopySelection::levels(usize::MAX)
        };
        let copies = match placement {
            Placement::SlowOnly => return Ok(plain),
            _ if self.rows() == 0 => None,
            Placement::Dynamic(..) | Placement::StaticDynamic(..) => return plain.dynamic(placement, dram),
            Placement::Hybrid => plain.whole(most)?,
            Placement::Static(StaticLists::Levels(levels)) => {
                plain.selected(CopySelection::levels(levels), most)?
            }
            Placement::Static(StaticLists::Probable) => plain.probable(None, most, &Uncontrolled)?,
            Placement::DualAccess => plain.selected(lists_without_records, most)?,
            // Rejected by `possible`.
            _ => None,
        };
        Ok(match copies {
            Some((image, header)) => {
                let placed = PlacementStatus {
                    placement,
                    dram_bytes: image.bytes.mapped_bytes() as u64,
                    fallback: None,
                };
                plain.with_copies(image, header, placed)
            }
            None => plain.fallen_back(format!(
                "{most} bytes of DRAM have no room for it: all is read from the slow tier"
            )),
        })
    }

    fn whole(&self, most: u64) -> Result<Option<ImageParts>> {
        let len = self.size();
        if len > most {
            return Ok(None);
        }
        let bytes = self.bytes();
        let mut copy = HugeVec::zeroed(len as usize)?;
        let parts = bytes.as_slice()[..len as usize].par_chunks(COPY_PART_BYTES);
        // In parallel, as the page faults of the copy take about as long as the copying.
        copy.par_chunks_mut(COPY_PART_BYTES)
            .zip(parts)
            .enumerate()
            .for_each(|(part, (to, from))| {
                if !bytes.verified_blocks().is_empty() {
                    bytes.verify(part * COPY_PART_BYTES, from.len());
                }
                bytes.touch(part * COPY_PART_BYTES, from.len());
                to.copy_from_slice(from);
            });
        let image = Image {
            from: 0,
            bytes: Arc::new(copy),
        };
        self.copied(Ok(Some((Arc::new(image), self.durable_header()))))
    }

    /// Discards copies of damaged bytes: reads in DRAM are not verified again.
    fn copied(&self, copies: Result<Option<ImageParts>>) -> Result<Option<ImageParts>> {
        self.sound()?;
        copies
    }

    fn selected(&self, selection: CopySelection<'_>, most: u64) -> Result<Option<ImageParts>> {
        let copies = match self.layout() {
            Layout::Packed => packed::image::make(self.tree(), selection, most, &Uncontrolled),
            Layout::Published => published::image::make(self.lists(), selection, most, &Uncontrolled),
        };
        self.copied(copies)
    }

    /// Copies the lists with the highest benefit by these counters.
    pub(crate) fn counted(
        &self,
        counts: &AgedCounts,
        most: u64,
        control: &dyn CopyControl,
    ) -> Result<Option<ImageParts>> {
        self.probable(Some(counts), most / PAGE * PAGE, control)
    }

    fn probable(
        &self,
        counts: Option<&AgedCounts>,
        most: u64,
        control: &dyn CopyControl,
    ) -> Result<Option<ImageParts>> {
        let copies = match self.layout() {
            Layout::Packed => packed::image::probable(self.tree(), counts, most, control),
            Layout::Published => published::image::probable(self.lists(), counts, most, control),
        };
        self.copied(copies)
    }

    /// Adds caches that follow the queries; for a static-dynamic placement, they start with the upper lists.
    fn dynamic(self, placement: Placement, dram: Option<u64>) -> Result<Self> {
        let (Placement::Dynamic(policy, links) | Placement::StaticDynamic(policy, links)) = placement else {
            return Ok(self);
        };
        let budget = dram.unwrap_or_else(|| self.size().max(1 << 20));
        let upper = matches!(placement, Placement::StaticDynamic(..));
        let placed = PlacementStatus {
            placement,
            ..PlacementStatus::default()
        };
        let too_small = |elf: Self| {
            elf.fallen_back(format!(
                "{budget} bytes of DRAM have no room for its caches: all is read from the slow tier"
            ))
        };
        match links {
            Links::Swizzled => match Dynamic::new(budget, &self.durable_header()) {
                Some(dynamic) => {
                    if upper {
                        dynamic.begin(|counts, most, control| self.counted(counts, most, control))?;
                    }
                    Ok(self.with_dynamic(dynamic, placed))
                }
                None => Ok(too_small(self)),
            },
            Links::Hashed => {
                let share = if upper { budget / 2 / PAGE * PAGE } else { 0 };
                let copies = if upper {
                    self.probable(None, share, &Uncontrolled)?
                } else {
                    None
                };
                let image_bytes = copies
                    .as_ref()
                    .map_or(0, |(image, _)| image.bytes.mapped_bytes() as u64);
                let Some(hashed) = Hashed::new(budget - image_bytes, policy, &self.durable_header())? else {
                    return Ok(too_small(self));
                };
                let placed = PlacementStatus {
                    dram_bytes: image_bytes + hashed.lists.bytes() as u64,
                    ..placed
                };
                let elf = match copies {
                    Some((image, header)) => self.with_copies(image, header, PlacementStatus::default()),
                    None => self,
                };
                Ok(elf.with_hashed(hashed, placed))
            }
        }
    }
}
