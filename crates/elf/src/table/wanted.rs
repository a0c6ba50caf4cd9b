//! What of an index is to be in DRAM, kept with it.

use crate::place::PlaceOptions;
use crate::table::TableIndex;
use crate::table::meta::{Meta, object_name};
use crate::{ElfError, Result};
use halocline_cache::{CacheError, Placement};
use halocline_media::Medium;
use halocline_pool::Txn;

impl Meta {
    /// The choice that was stored; a placement that this program does not know is its error.
    pub(super) fn wanted(&self) -> std::result::Result<PlaceOptions, CacheError> {
        let placement = match &self.placement {
            Some(text) => text.parse()?,
            None => Placement::SlowOnly,
        };
        Ok(PlaceOptions {
            placement,
            dram: self.dram,
        })
    }
}

impl TableIndex {
    /// What of it is to be in DRAM, as [`place_index`] has stored it; nothing unless that was done. Opening an index puts
    /// nothing in DRAM: [`place`](Self::place) does.
    ///
    /// # Errors
    /// It was stored by a newer program, which knows other placements.
    pub fn wanted(&self) -> std::result::Result<PlaceOptions, CacheError> {
        self.inner.wanted.clone()
    }
}

/// Stores what of index `name` is to be in DRAM. It stays so when the index is refreshed, and whatever the table's name.
///
/// # Errors
/// [`ElfError::Placement`] for a placement that a durable index cannot have; [`ElfError::NoSuchIndex`],
/// [`ElfError::DamagedMeta`], [`ElfError::NewerVersion`], [`ElfError::Pool`].
pub fn place_index<M: Medium>(txn: &Txn<M>, name: &str, options: &PlaceOptions) -> Result<()> {
    let PlaceOptions { placement, dram } = *options;
    if placement == Placement::Volatile {
        return Err(ElfError::Placement {
            placement,
            reason: "it would end with the process, and this index is durable; use hybrid, which has all of it in \
                     DRAM too"
                .into(),
        });
    }
    let index = TableIndex::open_in(txn, name)?;
    // What `auto` stands for is picked when it is placed, by `TableIndex::advise`.
    if placement != Placement::Auto {
        for segment in index.segments() {
            segment.elf().can_be(placement)?;
        }
    }
    let (object, mut meta) = Meta::of_object(txn.get(&object_name(name)), name)?;
    meta.placement = (placement != Placement::SlowOnly).then(|| placement.to_string());
    meta.dram = dram;
    let extents = (0..object.extent_count()).map(|i| object.extent_ref(i));
    meta.put(txn, name, extents.collect())
}
