//! Shortcuts into layout `packed`: the lists below the first dimensions, found in one array instead of list by list.
//!
//! Behind the lists stands one *place* for each combination of codes of the first `dims` dimensions, in the order of the
//! tuples. It tells where the list of the next dimension is, or that no row starts so, or that those rows are in a leaf
//! list further up. Exact matches start here: one load that waits for no other instead of one for each level. The array is
//! so short ([`PLACES`]) that it stays in the CPU's caches, and small beside the lists ([`ROWS`]).
//!
//! It has one of two forms. *Direct*: a place holds an offset. *Counted*: where nearly all lists are short leaf lists, which
//! stand one behind the other and whose lengths follow from their rows, a place is their number in one byte, and a block of
//! up to [`COUNTS`] places holds the offset of its first list; an offset is that one plus the lengths of the lists between.
//! A third of the bytes, which lets the array stay in a cache nearer to the core.

use crate::geometry::{Geometry, Level};
use crate::kernel::Kernel;
use crate::view::View;
use halocline_media::Bytes;

/// Most places.
const PLACES: u64 = 1 << 20;
/// Rows of the index for each place.
const ROWS: u64 = 8;
/// Most places of a block of counts.
pub(crate) const COUNTS: usize = 56;
/// Bytes of a block before its counts: the offset of its first list.
pub(crate) const BASE: usize = 8;
/// Instead of that offset: all searches in the block start at the root.
pub(crate) const IRREGULAR: u64 = u64::MAX;
/// Instead of an offset: no row starts so.
pub(crate) const NOWHERE: u64 = 0;
/// Instead of an offset: the rows are in a leaf list further up, or the place cannot tell.
pub(crate) const ABOVE: u64 = 1;

/// Where a search for one tuple starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// No row has its first codes.
    Nowhere,
    /// At the root.
    Root,
    /// At this list, of the dimension behind the shortcuts'.
    List(usize),
}

/// A place: where its word or block is, and its number in the block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) at: usize,
    number: usize,
}

/// How places are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// As offsets.
    #[default]
    Direct,
    /// As numbers of rows.
    Counted,
}

impl Form {
    /// Beside the number of dimensions in the header.
    const COUNTED: u16 = 1 << 15;

    pub(crate) fn bit(self) -> u16 {
        match self {
            Self::Direct => 0,
            Self::Counted => Self::COUNTED,
        }
    }

    /// Dimensions and form as the header has them.
    pub(crate) fn split(stored: u16) -> (usize, Self) {
        let form = if stored & Self::COUNTED == 0 {
            Self::Direct
        } else {
            Self::Counted
        };
        (usize::from(stored & !Self::COUNTED), form)
    }
}

/// The shape of the array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shortcuts {
    /// Offset of the array.
    pub(crate) at: usize,
    pub(crate) form: Form,
    /// Codes of each dimension; no dimension: no array.
    sizes: Vec<u64>,
    /// What the lists look like to which it leads.
    pub(crate) level: Level,
    /// Bytes of a short leaf list beside its rows.
    pub(crate) list_len: u64,
    /// Bytes of a place (direct) or of a block (counted).
    pub(crate) unit: usize,
    /// All bits of a direct place.
    place_mask: u64,
    /// Blocks for each combination of codes of all dimensions but the last (counted).
    pub(crate) blocks: usize,
}

impl Shortcuts {
    /// How many dimensions the array of a new index has.
    pub(crate) fn worth(geometry: &Geometry) -> usize {
        let limit = PLACES.min(geometry.rows / ROWS);
        let mut places = 1_u64;
        let within = |&&max: &&u64| {
            places = places.saturating_mul(max.saturating_add(1));
            places <= limit
        };
        geometry.max_codes.iter().take_while(within).count()
    }

    /// The array of `dims` dimensions behind lists that end at `nodes_end`; `None` if it cannot be.
    pub(crate) fn new(geometry: &Geometry, dims: usize, form: Form, nodes_end: u64) -> Option<Self> {
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
        let last = *sizes.last()? as usize;
        let unit = match form {
            Form::Direct => (64 - nodes_end.leading_zeros() as usize).div_ceil(8).max(1),
            Form::Counted => (BASE + last.min(COUNTS)).next_multiple_of(8),
        };
        (places <= PLACES).then_some(Self {
            at: nodes_end.checked_next_multiple_of(64)? as usize,
            form,
            level: *geometry.levels.get(sizes.len())?,
            list_len: 1 + geometry.base_len as u64,
            sizes,
            unit,
            place_mask: u64::MAX >> (64 - 8 * unit.min(8)),
            blocks: last.div_ceil(COUNTS),
        })
    }

    /// First dimensions that the array stands for.
    #[inline(always)]
    pub(crate) fn dims(&self) -> usize {
        self.sizes.len()
    }

    /// Codes of the last dimension.
    pub(crate) fn last_size(&self) -> usize {
        self.sizes.last().map_or(0, |&size| size as usize)
    }

    /// First byte after the array; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        let Some((&last, upper)) = self.sizes.split_last() else {
            return 0;
        };
        let units = match self.form {
            Form::Direct => last as usize,
            Form::Counted => self.blocks,
        };
        (self.at + upper.iter().product::<u64>() as usize * units * self.unit) as u64
    }

    /// The place of a tuple; `None` if a code is too large.
    #[inline(always)]
    pub(crate) fn place(&self, point: &[u64]) -> Option<Place> {
        let next = |place: u64, code: u64, size: u64| place.wrapping_mul(size).wrapping_add(code);
        // The combination of all codes but the last, the last, and whether one is too large.
        let (upper, last, beyond) = match (self.sizes.as_slice(), point) {
            // What most indexes have, without a loop.
            (&[a, b, c], &[x, y, z, ..]) => (next(x, y, b), z, (x >= a) | (y >= b) | (z >= c)),
            (&[a, b], &[x, y, ..]) => (x, y, (x >= a) | (y >= b)),
            (sizes, point) => {
                let (&size, upper) = sizes.split_last()?;
                let &last = point.get(upper.len())?;
                let codes = point.iter().zip(upper);
                let (place, beyond) = codes.fold((0, last >= size), |(place, beyond), (&code, &size)| {
                    (next(place, code, size), beyond | (code >= size))
                });
                (place, last, beyond)
            }
        };
        let (upper, last) = (upper as usize, last as usize);
        let (unit, number) = match self.form {
            Form::Direct => (upper.wrapping_mul(self.last_size()).wrapping_add(last), 0),
            Form::Counted => (
                upper.wrapping_mul(self.blocks).wrapping_add(last / COUNTS),
                last % COUNTS,
            ),
        };
        let at = self.at.wrapping_add(unit.wrapping_mul(self.unit));
        (!beyond).then_some(Place { at, number })
    }

    /// What a place says: an offset, or one of [`NOWHERE`] and [`ABOVE`], which are smaller.
    #[inline(always)]
    pub(crate) fn word<B: Bytes, K: Kernel>(&self, view: View<'_, B>, place: Place) -> u64 {
        view.touch(place.at, self.unit);
        if self.form == Form::Direct {
            return view.u64(place.at) & self.place_mask;
        }
        let Some(block) = view.head(place.at) else {
            return ABOVE;
        };
        let base = view.u64(place.at);
        let rows = block[BASE + place.number % COUNTS];
        let (lists_before, rows_before) = K::counts_before(block, place.number % COUNTS);
        let row_len = (self.level.value_len + self.level.record_len) as u64;
        let at = base
            .wrapping_add(lists_before * self.list_len)
            .wrapping_add(rows_before * row_len);
        match rows {
            _ if base == IRREGULAR => ABOVE,
            0 => NOWHERE,
            _ => at,
        }
    }

    /// Where a search that has this place starts.
    #[inline(always)]
    pub(crate) fn start<B: Bytes, K: Kernel>(&self, view: View<'_, B>, place: Place) -> Start {
        match self.word::<B, K>(view, place) {
            NOWHERE => Start::Nowhere,
            ABOVE => Start::Root,
            at => Start::List(at as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;
    use crate::kernel::Portable;
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
        let header = Header::read(&bytes).unwrap();
        assert_eq!(header.shortcuts.dims(), 2);
        let view = View::new(&bytes);
        let start = |point: &[u64]| {
            header
                .shortcuts
                .place(point)
                .map(|place| header.shortcuts.start::<_, Portable>(view, place))
        };
        assert!(matches!(start(&[0, 3, 0, 0]), Some(Start::List(_))));
        assert_eq!(start(&[2, 3, 0, 0]), Some(Start::Nowhere));
        assert_eq!(start(&[4, row(9)[1], 0, 0]), Some(Start::Root));
        assert_eq!((start(&[5, 0, 0, 0]), start(&[0, 7, 0, 0])), (None, None));
        let elf = Elf::open(bytes.clone()).unwrap();
        elf.check().unwrap();
        for (tid, tuple) in (0..ROWS).map(row).enumerate() {
            assert!(elf.exact(&tuple).unwrap().any(|found| found as usize == tid));
        }
        let mut damaged = bytes.to_vec();
        damaged[header.shortcuts.at] ^= 1;
        assert!(Elf::open(Arc::<[u8]>::from(damaged)).unwrap().check().is_err());
    }

    /// Some ten rows for each pair of first codes; more second codes than a block has places; some pairs without a row.
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
    fn short_lists_are_counted() {
        let bytes: Arc<[u8]> = build_vec(&Even, &BuildOptions::default()).unwrap().into();
        let header = Header::read(&bytes).unwrap();
        let shortcuts = &header.shortcuts;
        assert_eq!(
            (shortcuts.dims(), shortcuts.form, shortcuts.blocks),
            (2, Form::Counted, 2)
        );
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
        for byte in [0, BASE + 5, shortcuts.unit + BASE] {
            let mut damaged = bytes.to_vec();
            damaged[shortcuts.at + byte] ^= 1;
            assert!(Elf::open(Arc::<[u8]>::from(damaged)).unwrap().check().is_err());
        }
    }

    #[test]
    fn as_many_dimensions_as_leave_eight_rows_for_each_place() {
        let worth = |rows, max: &[u64]| Shortcuts::worth(&Geometry::new(rows, max.to_vec()));
        assert_eq!(worth(10_000_000, &[99; 10]), 3);
        assert_eq!(worth(7_999_999, &[99; 10]), 2);
        assert_eq!(worth(1 << 31, &[1; 40]), 20);
        assert_eq!(worth(1000, &[0, 0]), 2);
        assert_eq!(worth(100, &[u64::MAX, 1]), 0);
        assert_eq!(worth(0, &[0]), 0);
    }
}
