//! Steps between values that ascend (or stay) within every block: keys in the order they were given, times of events.
//!
//! Sections: the first value of each block, in lanes of the chunk's width; packed steps, less the smallest of them,
//! which the header has. The first step of a block is 0 and means nothing.

use super::packed::{Packed, pack_block, packed_len};
use super::sections::{SectionsReader, SectionsWriter, typed};
use crate::chunk::width_of;
use crate::format::{BLOCK, KeysHeader};
use crate::kernel::{Lane, with_lane};

/// A chunk of steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps<'a> {
    firsts: &'a [u8],
    step: u64,
    steps: Packed<'a>,
}

impl<'a> Steps<'a> {
    /// The sections of a chunk whose values have this width.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        // Steps are narrower than values, so that they fit the lanes of those.
        let step_width = header.width as usize;
        if step_width > width {
            return None;
        }
        let lane = with_lane!(width, L => size_of::<L>());
        let firsts = sections.take(rows.div_ceil(BLOCK) * lane)?;
        let steps = sections.take_last(packed_len(step_width, rows))?;
        Some(Self {
            firsts,
            step: header.step,
            steps: Packed::new(step_width, rows, steps)?,
        })
    }

    /// The first value of a block, the smallest one.
    pub(crate) fn first<L: Lane>(&self, block: usize) -> L {
        typed::<L>(self.firsts)[block]
    }

    /// The bytes of the first values.
    pub(crate) fn firsts(&self) -> &'a [u8] {
        self.firsts
    }

    /// The packed steps.
    pub(crate) fn steps(&self) -> &Packed<'a> {
        &self.steps
    }

    /// The values of a block.
    pub(crate) fn read<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        let (first, step) = (self.first::<L>(block), L::truncate(self.step));
        with_lane!(self.steps.width(), S => {
            let mut steps = [S::default(); BLOCK];
            self.steps.unpack(block, &mut steps);
            sum_up(first, step, &steps, out);
        });
    }

    /// The value of a row.
    pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
        let (block, index) = (row / BLOCK, row % BLOCK);
        let sum = with_lane!(self.steps.width(), S => {
            let mut steps = [S::default(); BLOCK];
            self.steps.unpack(block, &mut steps);
            steps[..=index].iter().fold(0u64, |sum, step| sum.wrapping_add(step.widen()))
        });
        let steps = self.step.wrapping_mul(index as u64).wrapping_add(sum);
        self.first::<L>(block).plus(L::truncate(steps))
    }
}

/// Values from steps. Four parts of a block are summed up side by side, since each sum waits for the one before.
fn sum_up<L: Lane, S: Lane>(first: L, step: L, steps: &[S; BLOCK], out: &mut [L; BLOCK]) {
    const PART: usize = BLOCK / 4;
    let (a, rest) = out.split_at_mut(PART);
    let (b, rest) = rest.split_at_mut(PART);
    let (c, d) = rest.split_at_mut(PART);
    let mut sums = [first.minus(step), L::default(), L::default(), L::default()];
    for i in 0..PART {
        for (part, out) in [&mut *a, &mut *b, &mut *c, &mut *d].into_iter().enumerate() {
            sums[part] = sums[part]
                .plus(step)
                .plus(L::truncate(steps[part * PART + i].widen()));
            out[i] = sums[part];
        }
    }
    let mut before = sums[0];
    for (part, out) in [b, c, d].into_iter().enumerate() {
        out.iter_mut().for_each(|value| *value = value.plus(before));
        before = before.plus(sums[part + 1]);
    }
}

/// The words of a chunk of `values`, which ascend within each block by at least the first and at most the second of
/// `bounds`.
pub(crate) fn encode(width: usize, values: &[u64], bounds: (u64, u64)) -> Vec<u64> {
    let (smallest, step_width) = (bounds.0, width_of(bounds.1 - bounds.0));
    let header = KeysHeader {
        width: step_width as u32,
        step: smallest,
        ..Default::default()
    };
    let mut sections = SectionsWriter::new(&header);
    with_lane!(width, L => sections.push_lanes::<L>(values.chunks(BLOCK).map(|block| block[0])));
    sections.finish(|words| {
        let mut steps = Vec::with_capacity(BLOCK);
        for block in values.chunks(BLOCK) {
            steps.clear();
            steps.push(0);
            steps.extend(block.windows(2).map(|pair| pair[1] - pair[0] - smallest));
            pack_block(step_width, &steps, words);
        }
    })
}
