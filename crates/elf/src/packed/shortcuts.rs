//! Shortcuts into layout `packed`: the lists below the first dimensions, found in one array instead of list by list.
//!
//! Behind the lists stands one place for each combination of codes of the first `dims` dimensions, in the order of the
//! tuples. It holds the offset of the list of the next dimension, 0 if no row starts so, or 1 if those rows are in a leaf
//! list further up. Exact matches start here: one load that waits for no other instead of one for each level. The array is
//! so short ([`PLACES`]) that it stays in the CPU's caches, and small beside the lists ([`ROWS`]).

use crate::geometry::{Geometry, Level};
use crate::view::View;
use halocline_media::Bytes;

/// Most places.
const PLACES: u64 = 1 << 20;
/// Rows of the index for each place.
const ROWS: u64 = 8;
/// Instead of an offset: no row starts so.
pub(crate) const NOWHERE: u64 = 0;
/// Instead of an offset: the rows are in a leaf list further up.
pub(crate) const ABOVE: u64 = 1;

/// Number of the place of a tuple of whose codes the first ones are given, all of them valid.
pub(crate) fn place(geometry: &Geometry, codes: impl IntoIterator<Item = u64>) -> usize {
    let sizes = geometry.max_codes.iter().map(|&max| max as usize + 1);
    sizes
        .zip(codes)
        .fold(0, |place, (size, code)| place * size + code as usize)
}

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

/// The shape of the array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shortcuts {
    /// Offset of the array.
    pub(crate) at: usize,
    /// Codes of each dimension; no dimension: no array.
    sizes: Vec<u64>,
    /// What the lists look like to which it leads.
    pub(crate) level: Level,
    /// Bytes of a place.
    place_len: usize,
    /// All bits of a place.
    place_mask: u64,
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
    pub(crate) fn new(geometry: &Geometry, dims: usize, nodes_end: u64) -> Option<Self> {
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
        let place_len = (64 - nodes_end.leading_zeros() as usize).div_ceil(8).max(1);
        (places <= PLACES).then_some(Self {
            at: nodes_end.checked_next_multiple_of(64)? as usize,
            level: *geometry.levels.get(sizes.len())?,
            sizes,
            place_len,
            place_mask: u64::MAX >> (64 - 8 * place_len),
        })
    }

    /// First dimensions that the array stands for.
    #[inline(always)]
    pub(crate) fn dims(&self) -> usize {
        self.sizes.len()
    }

    /// Places of the array.
    fn places(&self) -> usize {
        match self.sizes.as_slice() {
            [] => 0,
            sizes => sizes.iter().product::<u64>() as usize,
        }
    }

    /// First byte after the array; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        (self.at + self.places() * self.place_len) as u64
    }

    /// Offset of the place of a tuple; `None` if a code is too large.
    #[inline(always)]
    pub(crate) fn place(&self, point: &[u64]) -> Option<usize> {
        let next = |place: u64, code: u64, size: u64| place.wrapping_mul(size).wrapping_add(code);
        let (place, beyond) = match (self.sizes.as_slice(), point) {
            // What most indexes have, without a loop.
            (&[a, b, c], &[x, y, z, ..]) => (next(next(x, y, b), z, c), (x >= a) | (y >= b) | (z >= c)),
            (&[a, b], &[x, y, ..]) => (next(x, y, b), (x >= a) | (y >= b)),
            (sizes, point) => (point.iter().zip(sizes))
                .fold((0, false), |(place, beyond), (&code, &size)| {
                    (next(place, code, size), beyond | (code >= size))
                }),
        };
        (!beyond).then_some(
            self.at
                .wrapping_add((place as usize).wrapping_mul(self.place_len)),
        )
    }

    /// What stands at `place`: an offset, or one of [`NOWHERE`] and [`ABOVE`], which are smaller.
    #[inline(always)]
    pub(crate) fn word<B: Bytes>(&self, view: View<'_, B>, place: usize) -> u64 {
        view.touch(place, self.place_len);
        view.u64(place) & self.place_mask
    }

    /// What the place at `place` says.
    #[inline(always)]
    pub(crate) fn start<B: Bytes>(&self, view: View<'_, B>, place: usize) -> Start {
        match self.word(view, place) {
            NOWHERE => Start::Nowhere,
            ABOVE => Start::Root,
            at => Start::List(at as usize),
        }
    }
}

/// An array being made.
#[derive(Debug)]
pub(crate) struct Places {
    /// Dimensions of the array.
    pub(crate) dims: usize,
    places: Vec<u64>,
}

impl Places {
    pub(crate) fn new(geometry: &Geometry, dims: usize) -> Self {
        let sizes = geometry.max_codes[..dims].iter().map(|&max| max as usize + 1);
        Self {
            dims,
            places: if dims == 0 {
                vec![]
            } else {
                vec![0; sizes.product()]
            },
        }
    }

    /// Notes the list of dimension `dims` at `at` (`None`: a leaf list further up) for a place.
    pub(crate) fn set(&mut self, place: usize, at: Option<u64>) {
        self.places[place] = at.unwrap_or(ABOVE);
    }

    /// The bytes of the array behind lists that end at `nodes_end`, with the zeros before it.
    pub(crate) fn to_bytes(&self, geometry: &Geometry, nodes_end: u64) -> Vec<u8> {
        let Some(shape) = Shortcuts::new(geometry, self.dims, nodes_end).filter(|shape| shape.dims() > 0)
        else {
            return vec![];
        };
        let mut bytes = vec![0; shape.at - nodes_end as usize];
        for place in &self.places {
            bytes.extend_from_slice(&place.to_le_bytes()[..shape.place_len]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;
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
                .map(|place| header.shortcuts.start(view, place))
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
