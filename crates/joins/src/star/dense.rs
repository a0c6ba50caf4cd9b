//! Keys of a dimension as slots: a bit vector, and an array of group numbers if they are dense.
//!
//! If the bits do not fit the first cache beside the column that streams through it (16 KiB) and few are set,
//! several keys share a bit in a second, coarse vector that does fit. While all rows of a block are looked
//! up, they are looked up there first, and those that pass (an eighth at most) once more.

use halocline_columns::Bitset;

use super::sparse::HashedKeys;
use crate::{JoinError, JoinResult};

/// Most slots per key of a dense dimension.
pub(super) const MAX_SLOTS_PER_KEY: u128 = 64;

/// Number of slots below which there is always an array of group numbers.
const SMALL_GROUPS: u128 = 1 << 16;

/// Size in bytes up to which bits stay in the first-level cache beside the streamed columns.
const CACHED_BYTES: usize = 16 << 10;

/// Shared bits pay if at most one in this many is set, because rows that pass are looked up again.
const SHARED_BITS_DIVISOR: u32 = 8;

/// Keys from `low` on. The slot after the last one is unset and stands for keys out of range.
#[derive(Debug, Clone)]
pub(super) struct DenseKeys {
    pub(super) low: i64,
    pub(super) present: Bitset,
    /// The same with fewer bits, which several slots share, if looking these up first pays.
    pub(super) rough: Option<Bitset>,
    pub(super) group_of: GroupOf,
}

/// The groups of slots whose bit is set.
#[derive(Debug, Clone)]
pub(super) enum GroupOf {
    /// All slots have the same group.
    One,
    Bytes(Vec<u8>),
    Words(Vec<u16>),
    Wide(Vec<u32>),
    /// Hashed by slot.
    Hashed(HashedKeys),
}

impl DenseKeys {
    /// Builds the slots of keys from `low` on, and returns the number of distinct keys with them.
    pub(super) fn build(
        rows: impl Iterator<Item = (i64, u32)> + Clone,
        (low, places): (i64, u32),
        (count, groups): (usize, u32),
        exists: bool,
    ) -> JoinResult<(DenseKeys, usize)> {
        let mut different = 0;
        let mut present = Bitset::new(places);
        // The distance from the first key is less than `places`, so it fits 32 bits.
        let rows = rows.map(|(key, group)| (key.wrapping_sub(low) as u32, group));
        for (place, _) in rows.clone() {
            if !present.set(place) {
                different += 1;
            } else if !exists {
                let key = low.wrapping_add(place.into());
                return Err(JoinError::DuplicateKey { key });
            }
        }
        let is_array = u128::from(places) <= SMALL_GROUPS.max(MAX_SLOTS_PER_KEY * count as u128);
        let group_of = match groups {
            0 | 1 => GroupOf::One,
            _ if !is_array => {
                let rows = rows.map(|(place, group)| (i64::from(place), group));
                GroupOf::Hashed(HashedKeys::build(rows, count, exists)?.0)
            }
            2..=0x100 => GroupOf::Bytes(by_place(rows, places, |group| group as u8)),
            0x101..=0x1_0000 => GroupOf::Words(by_place(rows, places, |group| group as u16)),
            _ => GroupOf::Wide(by_place(rows, places, |group| group)),
        };
        let dense = DenseKeys {
            low,
            rough: rough(&present),
            present,
            group_of,
        };
        Ok((dense, different))
    }

    /// Builds the slots of the keys from `low` on, `places` in number, that are not among `keys`.
    pub(super) fn absent(keys: &[i64], low: i64, places: u32) -> DenseKeys {
        let mut taken = Bitset::new(places);
        for key in keys {
            let place = u32::try_from(i128::from(*key) - i128::from(low));
            if let Some(place) = place.ok().filter(|place| *place < places) {
                taken.set(place);
            }
        }
        let mut present = Bitset::new(places);
        for place in (0..places).filter(|place| taken.has(*place) == 0) {
            present.set(place);
        }
        DenseKeys {
            low,
            rough: rough(&present),
            present,
            group_of: GroupOf::One,
        }
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        let rough = self.rough.as_ref().map_or(0, Bitset::bytes);
        self.present.bytes() + rough + self.group_of.bytes()
    }

    /// Returns the slot of a key that is in the dimension.
    pub(super) fn slot(&self, key: i64) -> Option<u32> {
        let place = u32::try_from(i128::from(key) - i128::from(self.low)).ok()?;
        (self.present.has(place) == 1).then_some(place)
    }
}

/// Returns bits that several slots share, if they rule out most rows.
fn rough(present: &Bitset) -> Option<Bitset> {
    let shift = present.bytes().div_ceil(CACHED_BYTES).next_power_of_two().ilog2();
    // As if no two of those that are set shared one.
    let most = u64::from(present.count()) << shift;
    let pays = shift > 0 && most <= u64::from(present.places() / SHARED_BITS_DIVISOR);
    pays.then(|| present.shared(shift))
}

/// Returns the groups by slot, as numbers of a type that holds them.
fn by_place<G: Copy + Default>(
    rows: impl Iterator<Item = (u32, u32)>,
    places: u32,
    narrow: impl Fn(u32) -> G,
) -> Vec<G> {
    let mut group_of = vec![G::default(); places as usize];
    rows.for_each(|(place, group)| group_of[place as usize] = narrow(group));
    group_of
}

impl GroupOf {
    /// Adds `stride` times the group of each of these slots, whose bits are set, to `groups`.
    pub(super) fn add(&self, places: &[u32], stride: u32, groups: &mut [u32]) {
        /// Looks up groups in an array; undefined for slots without a group.
        fn add<G: Copy + Into<u32>>(group_of: &[G], places: &[u32], stride: u32, groups: &mut [u32]) {
            for (place, group) in places.iter().zip(groups) {
                let of_place = group_of
                    .get(*place as usize)
                    .map_or(0, |of_place| (*of_place).into());
                *group += of_place * stride;
            }
        }
        match self {
            GroupOf::One => {}
            GroupOf::Bytes(group_of) => add(group_of, places, stride, groups),
            GroupOf::Words(group_of) => add(group_of, places, stride, groups),
            GroupOf::Wide(group_of) => add(group_of, places, stride, groups),
            GroupOf::Hashed(group_of) => {
                for (place, group) in places.iter().zip(groups) {
                    *group += group_of.number(i64::from(*place)).unwrap_or(0) * stride;
                }
            }
        }
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        match self {
            GroupOf::One => 0,
            GroupOf::Bytes(group_of) => size_of_val(&**group_of),
            GroupOf::Words(group_of) => size_of_val(&**group_of),
            GroupOf::Wide(group_of) => size_of_val(&**group_of),
            GroupOf::Hashed(sparse) => sparse.bytes(),
        }
    }
}
