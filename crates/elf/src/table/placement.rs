//! What of an index is to be in DRAM, kept with it.

use crate::Result;
use crate::place::{PlaceOptions, possible};
use crate::table::TableIndex;
use crate::table::meta::{IndexMeta, object_name};
use halocline_cache::{CacheError, Placement};
use halocline_pool::Txn;

impl IndexMeta {
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

    /// Whether only the definition is stored.
    pub(super) fn is_volatile(&self) -> bool {
        matches!(self.wanted(), Ok(wanted) if wanted.placement == Placement::Volatile)
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

    /// Whether nothing of it is stored but its definition: it has no [segments](Self::segments) then, but for those that
    /// [`KeptTrees`](crate::KeptTrees) have built.
    pub fn is_volatile(&self) -> bool {
        matches!(self.inner.wanted, Ok(wanted) if wanted.placement == Placement::Volatile)
    }
}

/// Stores what of index `name` is to be in DRAM. It stays so when the index is refreshed, and whatever the table's name.
///
/// An index that becomes [`Placement::Volatile`] loses its trees: only its definition is stored from then on, and
/// [`KeptTrees`](crate::KeptTrees) build them in DRAM. One that was volatile and becomes another is incomplete until
/// [`refresh_index`](crate::refresh_index) has built and stored its trees.
///
/// # Errors
/// [`Placement`](crate::ElfError::Placement) for a placement that the index's layout cannot have;
/// [`NoSuchIndex`](crate::ElfError::NoSuchIndex), [`DamagedMeta`](crate::ElfError::DamagedMeta),
/// [`NewerVersion`](crate::ElfError::NewerVersion), [`Pool`](crate::ElfError::Pool).
pub fn place_index(txn: &Txn, name: &str, options: &PlaceOptions) -> Result<()> {
    let PlaceOptions { placement, dram } = *options;
    let (object, mut meta) = IndexMeta::of_object(txn.get(&object_name(name)), name)?;
    let mut extents: Vec<_> = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    match placement {
        Placement::Volatile => {
            meta.segments.clear();
            extents.clear();
        }
        // What it stands for is picked when it is placed, by `TableIndex::advise`.
        Placement::Auto => {}
        _ => possible(meta.layout, placement)?,
    }
    meta.placement = (placement != Placement::SlowOnly).then(|| placement.to_string());
    meta.dram = dram;
    meta.put(txn, name, extents)
}
