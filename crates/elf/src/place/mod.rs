//! What of an index is in DRAM.
//!
//! A placed index is the same [`Elf`] with copies in DRAM, made from the durable bytes when it is placed and dropped with
//! it; answers do not depend on them. Placing does not change the index it starts from, so searches that run meanwhile
//! go on as they were.

mod copies;

use crate::elf::Elf;
use crate::packed;
use crate::published;
use crate::view::Image;
use crate::{ElfError, Layout, Result};
use halocline_cache::{Placement, Upper};
use halocline_media::{Bytes, HugeVec, PAGE};
use std::sync::Arc;

pub(crate) use copies::Copies;

/// How an index is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceOptions {
    /// What is to be in DRAM.
    pub placement: Placement,
    /// Bytes of DRAM at most; `None`: as many as the placement takes.
    pub dram: Option<u64>,
}

/// What of an index is in DRAM now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// The placement in effect.
    pub placement: Placement,
    /// Bytes of DRAM that its copies take.
    pub dram_bytes: u64,
    /// Why it is not the placement that was asked for.
    pub fallback: Option<String>,
}

/// Copies, and the header that leads into them.
type Parts = (Arc<Image>, Arc<crate::header::Header>);

impl<B: Bytes> Elf<B> {
    /// The same index with what is asked for in DRAM. A budget without room for the root list means that nothing is, and
    /// [`Placed::fallback`] says so. O(bytes copied).
    ///
    /// # Errors
    /// [`ElfError::Placement`] if this layout has no such placement; [`ElfError::Memory`]; [`ElfError::Damaged`] if the
    /// copying meets damage.
    pub fn place(&self, options: &PlaceOptions) -> Result<Self> {
        let PlaceOptions { placement, dram } = *options;
        // Copies take whole pages.
        let most = dram.map_or(u64::MAX, |dram| dram / PAGE * PAGE);
        let plain = self.slow_only();
        let copies = match placement {
            Placement::SlowOnly => return Ok(plain),
            _ if self.rows() == 0 => None,
            Placement::Hybrid => plain.whole(most)?,
            Placement::Static(Upper::Levels(levels)) => plain.levels(levels, most)?,
            Placement::Static(Upper::Probable) => plain.probable(most)?,
            Placement::DualAccess => plain.lists_without_records(most)?,
            _ => {
                return Err(ElfError::Placement {
                    placement,
                    reason: "an index cannot be placed so; use slow-only, hybrid, static or dual-access"
                        .into(),
                });
            }
        };
        Ok(match copies {
            Some((image, header)) => {
                let placed = Placed {
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

    fn whole(&self, most: u64) -> Result<Option<Parts>> {
        let len = self.size();
        if len > most {
            return Ok(None);
        }
        let bytes = self.bytes();
        bytes.touch(0, len as usize);
        let copy = HugeVec::copy_of(&bytes.as_slice()[..len as usize])?;
        let image = Image {
            from: 0,
            bytes: Arc::new(copy),
        };
        Ok(Some((Arc::new(image), self.durable_header())))
    }

    fn levels(&self, levels: usize, most: u64) -> Result<Option<Parts>> {
        match self.layout() {
            Layout::Packed => {
                let wanted = packed::image::Wanted {
                    levels,
                    least_rows: 0,
                    split: false,
                };
                packed::image::make(self.tree(), wanted, most)
            }
            Layout::Published => {
                let wanted = published::image::Wanted {
                    levels,
                    least: 0.0,
                    mono_lists: true,
                };
                published::image::make(self.lists(), wanted, most)
            }
        }
    }

    fn probable(&self, most: u64) -> Result<Option<Parts>> {
        match self.layout() {
            Layout::Packed => packed::image::probable(self.tree(), most),
            Layout::Published => published::image::probable(self.lists(), most),
        }
    }

    fn lists_without_records(&self, most: u64) -> Result<Option<Parts>> {
        match self.layout() {
            Layout::Packed => {
                let wanted = packed::image::Wanted {
                    levels: usize::MAX,
                    least_rows: 0,
                    split: true,
                };
                packed::image::make(self.tree(), wanted, most)
            }
            Layout::Published => {
                let wanted = published::image::Wanted {
                    levels: usize::MAX,
                    least: 0.0,
                    mono_lists: false,
                };
                published::image::make(self.lists(), wanted, most)
            }
        }
    }
}
