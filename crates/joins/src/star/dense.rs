//! Keys of a dimension as places: a bit vector, and an array of group numbers if they lie densely.
//!
//! If the bits do not fit the first cache beside the column that streams through it (16 KiB) and few are set,
//! several keys share a bit in a second, coarse vector that does fit. While all rows of a block are looked
//! up, they are looked up there first, and those that pass (an eighth at most) once more.

use halocline_columns::Bitset;

use super::sparse::Sparse;
use crate::{JoinError, Result};

/// Up to so many places per key are dense: a bit and a group number each.
pub(super) const SPARSE: u128 = 64;

/// Those of fewer places than this have an array of group numbers too.
const SMALL_GROUPS: u128 = 1 << 16;

/// Bits of at most so many bytes are quickly looked up, beside what streams through the first cache.
const QUICK: usize = 16 << 10;

/// Bits that places share help if not more than one of so many is set: rows that pass are looked up again.
const ROUGH: u32 = 8;

/// Keys from `low` on. A place behind the last is in no dimension, so that what is out of range has one.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    pub(super) low: i64,
    pub(super) present: Bitset,
    /// The same with fewer bits that places share, if looking these up first pays.
    pub(super) rough: Option<Bitset>,
    pub(super) group_of: GroupOf,
}

/// The groups of places whose bit is set.
#[derive(Debug, Clone)]
pub(super) enum GroupOf {
    /// There is one.
    One,
    Bytes(Vec<u8>),
    Words(Vec<u16>),
    Wide(Vec<u32>),
    /// By key less the least one.
    Hashed(Sparse),
}

impl Dense {
    /// Keys from `low` on, and how many there are.
    pub(super) fn of(
        rows: impl Iterator<Item = (i64, u32)> + Clone,
        (low, places): (i64, u32),
        (count, groups): (usize, u32),
        exists: bool,
    ) -> Result<(Dense, usize)> {
        let mut different = 0;
        let mut present = Bitset::new(places);
        let rows = rows.map(|(key, group)| (key.wrapping_sub(low) as u32, group));
        for (place, _) in rows.clone() {
            if !present.set(place) {
                different += 1;
            } else if !exists {
                let key = low.wrapping_add(place.into());
                return Err(JoinError::DuplicateKey { key });
            }
        }
        let is_array = u128::from(places) <= SMALL_GROUPS.max(SPARSE * count as u128);
        let group_of = match groups {
            0 | 1 => GroupOf::One,
            _ if !is_array => {
                let rows = rows.map(|(place, group)| (i64::from(place), group));
                GroupOf::Hashed(Sparse::of(rows, count, exists)?.0)
            }
            2..=0x100 => GroupOf::Bytes(by_place(rows, places, |group| group as u8)),
            0x101..=0x1_0000 => GroupOf::Words(by_place(rows, places, |group| group as u16)),
            _ => GroupOf::Wide(by_place(rows, places, |group| group)),
        };
        let dense = Dense {
            low,
            rough: rough(&present),
            present,
            group_of,
        };
        Ok((dense, different))
    }

    /// Bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        let rough = self.rough.as_ref().map_or(0, Bitset::bytes);
        self.present.bytes() + rough + self.group_of.bytes()
    }

    /// The group of a key, if it is there.
    pub(super) fn group(&self, key: i64) -> Option<u32> {
        let place = u32::try_from(i128::from(key) - i128::from(self.low)).ok()?;
        let mut group = [0];
        self.group_of.add(&[place], 1, &mut group);
        (self.present.has(place) == 1).then_some(group[0])
    }
}

/// Few bits that places share, if most rows can be told by them not to be there.
fn rough(present: &Bitset) -> Option<Bitset> {
    let shift = present.bytes().div_ceil(QUICK).next_power_of_two().ilog2();
    // As if no two of those that are set shared one.
    let most = u64::from(present.count()) << shift;
    let pays = shift > 0 && most <= u64::from(present.places() / ROUGH);
    pays.then(|| present.shared(shift))
}

/// Groups by place, as numbers of a type that holds them.
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
    /// Adds `stride` times the group of each of these places, which have one, to `groups`.
    pub(super) fn add(&self, places: &[u32], stride: u32, groups: &mut [u32]) {
        /// Of an array; of places without a group, some number.
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
                    *group += group_of.group(i64::from(*place)).unwrap_or(0) * stride;
                }
            }
        }
    }

    /// Bytes of DRAM.
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
