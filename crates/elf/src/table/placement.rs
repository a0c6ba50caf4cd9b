//! The requested placement of an index, which is stored with it.

use crate::Result;
use crate::place::{PlaceOptions, possible};
use crate::table::TableIndex;
use crate::table::meta::{IndexMeta, object_name};
use halocline_cache::{CacheError, Placement};
use halocline_pool::Txn;

impl IndexMeta {
    /// Returns the stored placement; an error if this program does not know it.
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

    /// Returns true if only the definition is stored.
    pub(super) fn is_volatile(&self) -> bool {
        matches!(self.wanted(), Ok(wanted) if wanted.placement == Placement::Volatile)
    }
}

impl TableIndex {
    /// Returns the placement stored by [`place_index`]; slow-only by default. Opening an index copies nothing
    /// to DRAM: [`place`](Self::place) does.
    ///
    /// # Errors
    /// [`CacheError`] if a newer program stored a placement that this one does not know.
    pub fn wanted(&self) -> std::result::Result<PlaceOptions, CacheError> {
        self.inner.wanted.clone()
    }

    /// Returns true if only its definition is stored: then its only [segments](Self::segments) are those
    /// built by [`KeptTrees`](crate::KeptTrees).
    pub fn is_volatile(&self) -> bool {
        matches!(self.inner.wanted, Ok(wanted) if wanted.placement == Placement::Volatile)
    }
}

/// Stores the placement of index `name`. It survives refreshes and renames of the table.
///
/// An index that becomes [`Placement::Volatile`] loses its trees: only its definition is stored from then on,
/// and [`KeptTrees`](crate::KeptTrees) build them in DRAM. One that was volatile and becomes another is
/// incomplete until [`refresh_index`](crate::refresh_index) has built and stored its trees.
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
        // `TableIndex::advise` picks a placement when the index is placed.
        Placement::Auto => {}
        _ => possible(meta.layout, placement)?,
    }
    meta.placement = (placement != Placement::SlowOnly).then(|| placement.to_string());
    meta.dram = dram;
    meta.put(txn, name, extents)
}
