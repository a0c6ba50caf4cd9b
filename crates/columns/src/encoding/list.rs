//! Positions in a sorted list of a chunk's values, for few values that lie far apart: dates as yyyymmdd, prices.
//!
//! Sections: the list, in lanes of the chunk's width, ascending; packed positions. Since the list is sorted, a range of
//! values is a range of positions.

use super::packed::{Packed, pack};
use super::sections::{SectionsReader, SectionsWriter, typed};
use crate::chunk::width_of;
use crate::format::{BLOCK, KeysHeader};
use crate::kernel::{Lane, with_lane};

/// A chunk with a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a> {
    values: &'a [u8],
    positions: Packed<'a>,
}

impl<'a> List<'a> {
    /// The sections of a chunk whose values have this width.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        let count = header.count as usize;
        if count == 0 || count > rows || header.width as usize != width_of(count as u64 - 1) {
            return None;
        }
        let lane = with_lane!(width, L => size_of::<L>());
        let values = sections.take(count.checked_mul(lane)?)?;
        let width = header.width as usize;
        let positions = sections.take_last(super::packed::packed_len(width, rows))?;
        let positions = Packed::new(width, rows, positions)?;
        Some(Self { values, positions })
    }

    /// The values in the list, in lanes of the chunk's width.
    pub(crate) fn values<L: Lane>(&self) -> &'a [L] {
        typed(self.values)
    }

    /// Their bytes.
    pub(crate) fn values_bytes(&self) -> &'a [u8] {
        self.values
    }

    /// The position of each row's value. Damaged ones lie beyond the list.
    pub(crate) fn positions(&self) -> &Packed<'a> {
        &self.positions
    }

    /// The values of a block.
    pub(crate) fn read<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        let values = self.values::<L>();
        with_lane!(self.positions.width(), P => {
            let mut positions = [P::default(); BLOCK];
            self.positions.unpack(block, &mut positions);
            for (out, position) in out.iter_mut().zip(positions) {
                *out = values[(position.widen() as usize).min(values.len() - 1)];
            }
        });
    }

    /// The value of a row.
    #[inline]
    pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
        let values = self.values::<L>();
        values[(self.positions.get(row) as usize).min(values.len() - 1)]
    }
}

/// The distinct values, ascending.
pub(crate) fn of(values: &[u64]) -> Vec<u64> {
    let mut list = values.to_vec();
    list.sort_unstable();
    list.dedup();
    list
}

/// The words of a chunk of `values`, whose distinct ones are `list`, ascending. `width` is that of the values.
pub(crate) fn encode(width: usize, values: &[u64], list: &[u64]) -> Vec<u64> {
    let position_width = width_of(list.len() as u64 - 1);
    let header = KeysHeader {
        count: list.len() as u32,
        width: position_width as u32,
        ..Default::default()
    };
    let mut sections = SectionsWriter::new(&header);
    with_lane!(width, L => sections.push_lanes::<L>(list.iter().copied()));
    let positions: Vec<u64> = values
        .iter()
        .map(|value| list.partition_point(|other| other < value) as u64)
        .collect();
    sections.finish(|words| pack(position_width, &positions, words))
}
