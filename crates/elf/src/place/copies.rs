//! Copies detached from the index they were made of. They keep none of its bytes alive, so the pool may free
//! those, and another handle on the same bytes can attach them.

use crate::Result;
use crate::elf::Elf;
use crate::header::ElfHeader;
use crate::place::dynamic::Dynamic;
use crate::place::hashed::Hashed;
use crate::place::{PlaceOptions, PlacementStatus};
use crate::view::Image;
use halocline_cache::{DramBudget, Placement, Reservation, StaticLists};
use halocline_media::{Bytes, PAGE};
use std::sync::Arc;

/// Everything of an index that is in DRAM.
#[derive(Debug, Clone)]
pub(crate) struct IndexCopies {
    pub(crate) header: Arc<ElfHeader>,
    pub(crate) image: Option<Arc<Image>>,
    pub(crate) dynamic: Option<Arc<Dynamic>>,
    pub(crate) hashed: Option<Arc<Hashed>>,
    pub(crate) placed: Arc<PlacementStatus>,
    pub(crate) held: Option<Arc<Reservation>>,
}

impl<B: Bytes> Elf<B> {
    /// Runs [`place`](Self::place) within the free part of a budget; the reservation is released with the
    /// last handle on the copies. The second value is true if the budget was too small for the placement;
    /// [`PlacementStatus::fallback`] then has the reason.
    ///
    /// # Errors
    /// As [`place`](Self::place).
    pub(crate) fn place_within(&self, options: &PlaceOptions, budget: &DramBudget) -> Result<(Self, bool)> {
        // No placement uses more than this.
        let use_for = 2 * self.size() + (1 << 20);
        let asked = options.dram.unwrap_or(u64::MAX).min(use_for) / PAGE * PAGE;
        let mut held = budget.reserve_up_to(asked);
        let granted = held.bytes();
        let elf = self.place(&PlaceOptions {
            dram: Some(granted),
            ..*options
        })?;
        let placed = elf.placed();
        let taken = placed.dram_bytes;
        // A static placement by probability uses any budget up to about the whole index.
        let all = match options.placement {
            Placement::Static(StaticLists::Probable) => self.size() + self.size() / 4,
            _ => 0,
        };
        let short = granted < asked && (placed.fallback.is_some() || granted < all);
        let mut copies = elf.copies();
        if short {
            let have = match taken {
                0 => "no room for it: all is read from the slow tier",
                _ => "room for only a part of it",
            };
            copies.placed = Arc::new(PlacementStatus {
                fallback: Some(format!(
                    "halocline.dram_budget leaves {granted} bytes of DRAM, {have}"
                )),
                ..(*copies.placed).clone()
            });
        }
        // Caches that fill while queries run keep their whole reservation.
        if options.placement.policy().is_none() || taken == 0 {
            held.shrink(taken);
        }
        copies.held = (held.bytes() > 0).then(|| Arc::new(held));
        Ok((elf.with_copies_of(&copies), short))
    }
}
