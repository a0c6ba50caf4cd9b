//! Verification of a leaf when it is first read: it is intact, and its keys are within the bounds that the
//! branches above give.
//!
//! A leaf has of each key the prefix and eight bytes after it, which nearly always tell on which side of a
//! bound the key is, so that no record is read. One record is read, whose key and store have to be those of
//! the place, of a leaf in which they tell it of no key, and of one of format 1, whose checksum does not
//! cover its place. That suffices, because ranges of leaves do not overlap.

use crate::fault::{StoreFault, injected};
use crate::leaf::{Leaf, MAX_PREFIX};
use crate::page_source::PageSource;
use crate::record::RecordRef;
use crate::segments::SegmentKind;
use crate::tree::{Damage, LeafRange, load_leaf};

/// Verifies the leaf of a range.
pub(crate) fn verify(pages: &PageSource<'_>, store: u32, range: &LeafRange) -> Result<(), Damage> {
    pages.check(range.leaf, SegmentKind::Leaves)?;
    let leaf = load_leaf(pages.medium(), range.place(store))?;
    if injected(StoreFault::IgnoreBounds) {
        return Ok(());
    }
    let (from, to) = (range.from.as_deref(), range.to.as_deref());
    let mut key = KnownKey::new(leaf.prefix());
    let mut is_outside = |slice: u64| key.is_below(slice, from) || key.is_not_below(slice, to);
    // Keys of a leaf have one prefix, so that the least and the greatest slice decide for all.
    let slices = leaf.entries().map(|(_, slice, _)| slice);
    let ends = slices.fold(None, |ends: Option<(u64, u64)>, slice| {
        let (least, greatest) = ends.unwrap_or((slice, slice));
        Some((least.min(slice), greatest.max(slice)))
    });
    if ends.is_some_and(|(least, greatest)| is_outside(least) || is_outside(greatest)) {
        for (_, _, record) in leaf.entries().filter(|(_, slice, _)| is_outside(*slice)) {
            let record = RecordRef::load(pages.medium(), record);
            if record.is_none_or(|record| !pages.is_newer(record.commit())) {
                return Err(Damage::bounds(range.leaf));
            }
        }
    }
    let mut is_inside = |slice: u64| {
        from.is_none_or(|from| key.is_not_below(slice, Some(from)))
            && to.is_none_or(|to| key.is_below(slice, Some(to)))
    };
    if leaf.is_placed() && leaf.entries().any(|(_, slice, _)| is_inside(slice)) {
        Ok(())
    } else {
        verify_by_record(pages, store, &leaf, range)
    }
}

/// Verifies by one of its records that a leaf is the one of its range.
fn verify_by_record(
    pages: &PageSource<'_>,
    store: u32,
    leaf: &Leaf,
    range: &LeafRange,
) -> Result<(), Damage> {
    for (slot, _, offset) in leaf.entries() {
        let record = RecordRef::load(pages.medium(), offset);
        let contents = record.and_then(|record| Some((record, record.contents(pages.medium())?)));
        // Whoever looks for its key reports a damaged record.
        let Some((record, contents)) = contents else {
            continue;
        };
        let key = contents.key();
        if record.head.store.get() != store {
            return Err(Damage::store(offset));
        }
        if !leaf.is_entry_of(slot, key) {
            return Err(Damage::entry(range.leaf));
        }
        if range.contains(key) {
            return Ok(());
        }
        if !pages.is_newer(record.commit()) {
            return Err(Damage::bounds(range.leaf));
        }
    }
    Ok(())
}

/// The part of a key that its leaf has: the prefix and eight bytes after it, padded with zeros.
struct KnownKey {
    bytes: [u8; MAX_PREFIX + 8],
    prefix: usize,
}

impl KnownKey {
    fn new(prefix: &[u8]) -> Self {
        let mut bytes = [0; MAX_PREFIX + 8];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Self {
            bytes,
            prefix: prefix.len(),
        }
    }

    /// Returns the prefix and a slice.
    fn with(&mut self, slice: u64) -> &[u8] {
        let end = self.prefix + 8;
        self.bytes[self.prefix..end].copy_from_slice(&slice.to_be_bytes());
        &self.bytes[..end]
    }

    /// Returns true if the key of a slice is certainly below a bound.
    fn is_below(&mut self, slice: u64, bound: Option<&[u8]>) -> bool {
        let known = self.with(slice);
        bound.is_some_and(|bound| known < bound && !bound.starts_with(known))
    }

    /// Returns true if the key of a slice is certainly not below a bound.
    fn is_not_below(&mut self, slice: u64, bound: Option<&[u8]>) -> bool {
        // The shortest key that it can be: zeros at the end may be padding.
        let padding = (slice.trailing_zeros() / 8).min(8) as usize;
        let known = self.with(slice);
        bound.is_some_and(|bound| &known[..known.len() - padding] >= bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::slice_of;

    /// Certain answers hold for each key, and those for short keys are certain.
    #[test]
    fn sides_of_bounds_are_as_those_of_keys() {
        let letters = [0, 1, b'a', 0xFF];
        let keys: Vec<Vec<u8>> = (0..4_usize.pow(5))
            .flat_map(|number| {
                let key: Vec<u8> = (0..5).map(|at| letters[number >> (2 * at) & 3]).collect();
                (0..=5).map(move |len| key[..len].to_vec())
            })
            .collect();
        let long = |key: &[u8]| [&[b'p'; 7], key].concat();
        for prefix in [0, 2] {
            for key in keys.iter().step_by(7).filter(|key| key.len() >= prefix) {
                let whole = long(key);
                let mut known = KnownKey::new(&whole[..prefix]);
                let slice = slice_of(&whole, prefix);
                for bound in keys.iter().step_by(11) {
                    let bound = long(bound);
                    let (below, not_below) = (
                        known.is_below(slice, Some(&bound)),
                        known.is_not_below(slice, Some(&bound)),
                    );
                    assert!(!below || whole < bound, "{whole:?} {bound:?}");
                    assert!(!not_below || whole >= bound, "{whole:?} {bound:?}");
                    let shared = whole.iter().zip(&bound).take_while(|(a, b)| a == b).count();
                    let differs = shared < whole.len().min(bound.len()) && shared < prefix + 8;
                    assert!(below || not_below || !differs, "{whole:?} {bound:?}");
                }
            }
        }
    }
}
