//! Shortcuts into layout `packed`: the lists below the first dimensions, found in one array instead of list
//! by list.
//!
//! After the lists is an array with one slot, a *place*, for each combination of codes of the first `dims`
//! dimensions, in the order of the tuples. It holds the location of the list of the next dimension, or says
//! that no row has these codes, or that their rows are in a leaf list on a level above. Exact matches start
//! here: one load instead of a chain of dependent loads, one for each level. The array is so short
//! ([`MAX_PLACES`]) that it stays in the CPU's caches, and small beside the lists ([`MIN_ROWS_PER_PLACE`]).
//!
//! It has one of three forms. *Direct*: a place holds an offset. *Near*: where lists are short, those of
//! neighbouring places are near each other; a line of [`NEAR`] places holds the offset of the nearest to the
//! start, and each place two bytes to add to it. Half of the bytes, and still two loads from one line.
//! *Quartered*: a line has [`QUARTERED`] such places, each followed by two bytes of row counts, which locate
//! a code in the list (subranges.rs).

use crate::geometry::{LevelFormat, RecordGeometry};
use crate::packed::subranges::SubrangeScheme;
use crate::view::View;
use halocline_media::Bytes;

/// Maximum number of places.
pub(crate) const MAX_PLACES: u64 = 1 << 20;
/// Maximum number of places of an array whose last depth is that of buckets.
pub(crate) const MAX_BUCKET_PLACES: u64 = 1 << 23;
/// Minimum number of rows of the index per place.
pub(crate) const MIN_ROWS_PER_PLACE: u64 = 8;
/// Places of a line of form near.
pub(crate) const NEAR: usize = 28;
/// Bytes of a line before its places: the offset to which they are added.
pub(crate) const BASE: usize = 8;
/// Bytes of a line.
pub(crate) const LINE: usize = BASE + 2 * NEAR;
/// Places of a line of form quartered.
pub(crate) const QUARTERED: usize = 15;
/// Bytes of such a line before its places: the offset to which they are added, in units of [`LINE`] bytes.
pub(crate) const QUARTERED_BASE: usize = 4;
/// A near or quartered place without a list: no row has its codes.
pub(crate) const NEAR_NOWHERE: u16 = u16::MAX;
/// A near or quartered place whose rows are in a leaf list on a level above, or in a list that is too far
/// away.
pub(crate) const NEAR_ABOVE: u16 = u16::MAX - 1;
/// Value in place of an offset: no row has these codes.
pub(crate) const NOWHERE: u64 = 0;
/// Value in place of an offset: the rows are in a leaf list on a level above, or in a list that the place
/// cannot encode.
pub(crate) const ABOVE: u64 = 1;

const _: () = assert!(LINE == 64 && QUARTERED_BASE + 4 * QUARTERED == LINE);

/// The list at which the search for one tuple starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchStart {
    /// No row has its first codes.
    Nowhere,
    /// At the root.
    Root,
    /// At this list, whose dimension follows those of the shortcuts.
    List(usize),
}

/// Encoding of the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ShortcutForm {
    /// As offsets.
    #[default]
    Direct,
    /// As distances from the offset of their line.
    Near,
    /// As distances and counts of rows.
    Quartered,
}

impl ShortcutForm {
    /// Bits of the header's field with the number of dimensions.
    const NEAR: u16 = 1 << 15;
    const QUARTERED: u16 = 1 << 14;

    pub(crate) fn bit(self) -> u16 {
        match self {
            Self::Direct => 0,
            Self::Near => Self::NEAR,
            Self::Quartered => Self::QUARTERED,
        }
    }

    /// Decodes the number of dimensions and the form from the header's field.
    pub(crate) fn split(stored: u16) -> (usize, Self) {
        let form = match stored & (Self::NEAR | Self::QUARTERED) {
            0 => Self::Direct,
            Self::QUARTERED => Self::Quartered,
            _ => Self::Near,
        };
        (usize::from(stored & !form.bit()), form)
    }
}

/// The shape of the array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shortcuts {
    /// Offset of the array.
    pub(crate) at: usize,
    pub(crate) form: ShortcutForm,
    /// The subranges of form quartered.
    pub(crate) quarters: SubrangeScheme,
    /// Number of codes of each dimension; empty if there is no array.
    sizes: Vec<u64>,
    /// Format of the lists to which the array leads.
    pub(crate) level: LevelFormat,
    /// Bytes of a direct place.
    pub(crate) unit: usize,
    /// All bits of a direct place.
    place_mask: u64,
}

impl Shortcuts {
    /// Returns the number of dimensions that the array of a new index covers.
    pub(crate) fn worth(geometry: &RecordGeometry) -> usize {
        let limit = MAX_PLACES.min(geometry.rows / MIN_ROWS_PER_PLACE);
        let mut places = 1_u64;
        let within = |&&max: &&u64| {
            places = places.saturating_mul(max.saturating_add(1));
            places <= limit
        };
        geometry.max_codes.iter().take_while(within).count()
    }

    /// Returns the shape of the array of `dims` dimensions after lists that end at `nodes_end`; `None` if it
    /// is impossible.
    pub(crate) fn new(
        geometry: &RecordGeometry,
        dims: usize,
        form: ShortcutForm,
        nodes_end: u64,
    ) -> Option<Self> {
        if dims == 0 {
            return Some(Self::default());
        }
        let sizes: Vec<u64> = geometry
            .max_codes
            .get(..dims)?
            .iter()
            .map(|&max| max.checked_add(1))
            .collect::<Option<_>>()?;
        let places = sizes
            .iter()
            .try_fold(1_u64, |places, &size| places.checked_mul(size))?;
        let bucketed = geometry.buckets.is_some_and(|buckets| buckets.depth + 1 == dims);
        let most = if bucketed { MAX_BUCKET_PLACES } else { MAX_PLACES };
        let unit = (64 - nodes_end.leading_zeros() as usize).div_ceil(8).max(1);
        let quarters = match form {
            ShortcutForm::Quartered if nodes_end >> 32 < LINE as u64 => {
                SubrangeScheme::possible(geometry, dims)?
            }
            ShortcutForm::Quartered => return None,
            ShortcutForm::Direct | ShortcutForm::Near => SubrangeScheme::default(),
        };
        (places <= most).then_some(Self {
            quarters,
            at: nodes_end.checked_next_multiple_of(64)? as usize,
            form,
            level: *geometry.levels.get(sizes.len())?,
            sizes,
            unit,
            place_mask: u64::MAX >> (64 - 8 * unit.min(8)),
        })
    }

    /// Returns the number of dimensions that the array covers.
    #[inline(always)]
    pub(crate) fn dims(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the distance in the array of two tuples whose codes of dimension `dim` differ by one.
    pub(crate) fn stride(&self, dim: usize) -> u64 {
        self.sizes
            .get(dim + 1..)
            .map_or(0, |sizes| sizes.iter().product())
    }

    /// Returns the number of places; 1 if there is no array.
    pub(crate) fn places(&self) -> usize {
        self.sizes.iter().product::<u64>() as usize
    }

    /// Returns the offset of the first byte after the array; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        if self.sizes.is_empty() {
            return 0;
        }
        let places = self.places();
        let len = match self.form {
            ShortcutForm::Direct => places * self.unit,
            ShortcutForm::Near => places.div_ceil(NEAR) * LINE,
            ShortcutForm::Quartered => places.div_ceil(QUARTERED) * LINE,
        };
        (self.at + len) as u64
    }

    /// Returns the slot index of a tuple; `None` if a code is too large.
    #[inline(always)]
    pub(crate) fn place(&self, point: &[u64]) -> Option<usize> {
        let next = |place: u64, code: u64, size: u64| place.wrapping_mul(size).wrapping_add(code);
        let (place, beyond) = match (self.sizes.as_slice(), point) {
            // The usual numbers of dimensions, without a loop.
            (&[a, b, c], &[x, y, z, ..]) => (next(next(x, y, b), z, c), (x >= a) | (y >= b) | (z >= c)),
            (&[a, b, c, d], &[x, y, z, u, ..]) => (
                next(next(next(x, y, b), z, c), u, d),
                (x >= a) | (y >= b) | (z >= c) | (u >= d),
            ),
            (&[a, b], &[x, y, ..]) => (next(x, y, b), (x >= a) | (y >= b)),
            (sizes, point) => {
                let codes = point.iter().zip(sizes);
                codes.fold(
                    (0, point.len() < sizes.len()),
                    |(place, beyond), (&code, &size)| (next(place, code, size), beyond | (code >= size)),
                )
            }
        };
        (!beyond).then_some(place as usize)
    }

    /// Returns the offset of a place: of its two bytes in form near, of its four in form quartered.
    #[inline(always)]
    pub(crate) fn offset(&self, place: usize) -> usize {
        self.at.wrapping_add(match self.form {
            ShortcutForm::Direct => place.wrapping_mul(self.unit),
            ShortcutForm::Near => place / NEAR * LINE + BASE + place % NEAR * 2,
            ShortcutForm::Quartered => place / QUARTERED * LINE + QUARTERED_BASE + place % QUARTERED * 4,
        })
    }

    /// Decodes the place at an offset: returns the offset of its list, or one of [`NOWHERE`] and [`ABOVE`],
    /// which are smaller than any offset.
    #[inline(always)]
    pub(crate) fn word<B: Bytes>(&self, view: View<'_, B>, at: usize) -> u64 {
        if self.form == ShortcutForm::Quartered {
            return self.quartered(view, at).0;
        }
        if self.form == ShortcutForm::Direct {
            view.touch(at, self.unit);
            return view.u64(at) & self.place_mask;
        }
        // The array starts at a line.
        let line = at & !(LINE - 1);
        view.touch(line, LINE);
        let base = view.u64(line);
        match view.u32(at) as u16 {
            NEAR_NOWHERE => NOWHERE,
            NEAR_ABOVE => ABOVE,
            distance => base.wrapping_add(u64::from(distance)),
        }
    }

    /// Decodes the place at an offset in form quartered: as [`word`](Self::word), with the row counts if it
    /// has a list.
    #[inline(always)]
    pub(crate) fn quartered<B: Bytes>(&self, view: View<'_, B>, at: usize) -> (u64, u16) {
        let line = at & !(LINE - 1);
        view.touch(line, LINE);
        let base = u64::from(view.u32(line)) * LINE as u64;
        let place = view.u32(at);
        let list = match place as u16 {
            NEAR_NOWHERE => NOWHERE,
            NEAR_ABOVE => ABOVE,
            distance => base + u64::from(distance),
        };
        (list, (place >> 16) as u16)
    }

    /// Returns the position at which the search for a tuple starts.
    #[inline(always)]
    pub(crate) fn start<B: Bytes>(&self, view: View<'_, B>, point: &[u64]) -> SearchStart {
        let Some(place) = self.place(point) else {
            return SearchStart::Nowhere;
        };
        match self.word(view, self.offset(place)) {
            NOWHERE => SearchStart::Nowhere,
            ABOVE => SearchStart::Root,
            at => SearchStart::List(at as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::ElfHeader;
    use crate::{BuildOptions, Elf, Rows, build_vec};
    use std::sync::Arc;

    /// Half of the rows start with 0, and none with 2; the few that start with 3 are one leaf list.
    struct Skewed;

    const ROWS: usize = 4000;

    fn row(row: usize) -> [u64; 4] {
        let first = if row.is_multiple_of(2) {
            0
        } else {
            1 + 3 * (row as u64 % 5 / 4)
        };
        let first = if row > 20 && first == 4 { 1 } else { first };
        [first, row as u64 % 7, row as u64 % 97, row as u64 % 11]
    }

    impl Rows for Skewed {
        fn rows(&self) -> usize {
            ROWS
        }

        fn dims(&self) -> usize {
            4
        }

        fn max_code(&self, dim: usize) -> u64 {
            [4, 6, 96, 10][dim]
        }

        fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
            out.iter_mut()
                .enumerate()
                .for_each(|(i, out)| *out = row(start + i)[dim]);
        }
    }

    #[test]
    fn shortcuts_lead_to_lists_nowhere_and_to_the_root() {
        let bytes: Arc<[u8]> = build_vec(&Skewed, &BuildOptions::default()).unwrap().into();
        let header = ElfHeader::read(&bytes).unwrap();
        // Two dimensions and the buckets of the third.
        assert_eq!(header.shortcuts.dims(), 3);
        let bucket = header.geometry.buckets.unwrap();
        let view = View::new(&bytes, None);
        let start = |point: &[u64; 4]| {
            let mut room = [0; 5];
            header
                .shortcuts
                .start(view, bucket.point(point, &mut room).unwrap())
        };
        assert!(matches!(start(&[0, 3, 0, 0]), SearchStart::List(_)));
        assert_eq!(start(&[2, 3, 0, 0]), SearchStart::Nowhere);
        assert_eq!(start(&row(9)), SearchStart::Root);
        assert_eq!(start(&[5, 0, 0, 0]), SearchStart::Nowhere);
        assert_eq!(start(&[0, 7, 0, 0]), SearchStart::Nowhere);
        let elf = Elf::open(bytes.clone()).unwrap();
        elf.check().unwrap();
        for (tid, tuple) in (0..ROWS).map(row).enumerate() {
            assert!(elf.exact(&tuple).unwrap().any(|found| found as usize == tid));
        }
        let mut damaged = bytes.to_vec();
        damaged[header.shortcuts.at] ^= 1;
        assert!(Elf::open(Arc::<[u8]>::from(damaged)).unwrap().check().is_err());
    }

    /// Some ten rows for each pair of first codes; more second codes than a line has places; some pairs
    /// without a row.
    struct Even;

    fn even(row: usize) -> [u64; 3] {
        let mixed = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        [mixed % 20, mixed / 20 % 101, mixed / 4096 % 100]
    }

    impl Rows for Even {
        fn rows(&self) -> usize {
            20_000
        }

        fn dims(&self) -> usize {
            3
        }

        fn max_code(&self, dim: usize) -> u64 {
            [19, 101, 99][dim]
        }

        fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
            out.iter_mut()
                .enumerate()
                .for_each(|(i, out)| *out = even(start + i)[dim]);
        }
    }

    #[test]
    fn short_lists_are_near() {
        let bytes: Arc<[u8]> = build_vec(&Even, &BuildOptions::default()).unwrap().into();
        let header = ElfHeader::read(&bytes).unwrap();
        let shortcuts = &header.shortcuts;
        assert_eq!((shortcuts.dims(), shortcuts.form), (2, ShortcutForm::Near));
        let elf = Elf::open(bytes.clone()).unwrap();
        elf.check().unwrap();
        let mut points = vec![];
        for (tid, tuple) in (0..Even.rows()).map(even).enumerate() {
            assert!(elf.exact(&tuple).unwrap().any(|found| found as usize == tid));
            points.extend(tuple);
        }
        let mut found = crate::Matches::new();
        elf.exact_batch(&points, &mut found).unwrap();
        assert!((0..Even.rows()).all(|row| found.get(row).contains(&(row as u32))));
        assert!(elf.exact(&[3, 101, 5]).unwrap().is_empty());
        for byte in [0, BASE + 5, LINE + BASE] {
            let mut damaged = bytes.to_vec();
            damaged[shortcuts.at + byte] ^= 1;
            assert!(Elf::open(Arc::<[u8]>::from(damaged)).unwrap().check().is_err());
        }
    }

    #[test]
    fn as_many_dimensions_as_leave_eight_rows_for_each_place() {
        let worth = |rows, max: &[u64]| Shortcuts::worth(&RecordGeometry::new(rows, max.to_vec()));
        assert_eq!(worth(10_000_000, &[99; 10]), 3);
        assert_eq!(worth(7_999_999, &[99; 10]), 2);
        assert_eq!(worth(1 << 31, &[1; 40]), 20);
        assert_eq!(worth(1000, &[0, 0]), 2);
        assert_eq!(worth(100, &[u64::MAX, 1]), 0);
        assert_eq!(worth(0, &[0]), 0);
    }
}
