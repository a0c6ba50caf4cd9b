//! Many exact matches in layout `packed`, interleaved, behind quartered shortcuts.
//!
//! As in batch_quick.rs, but the shortcut tells which few records may equal the point (quarters.rs): only their lines are
//! asked for, and the list's values are not read. What is not usual (a list without counts or without a shortcut, equal rows) is
//! left to exact.rs, group by group.

use crate::kernel::{Kernel, Records, Search};
use crate::packed::batch_quick::{Flight, GROUP, QuickBatch};
use crate::packed::exact::{Damage, Exact};
use crate::packed::quarters::{IRREGULAR, Sums};
use crate::packed::quartet::NO_TAIL;
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use halocline_media::Bytes;

/// Groups between a group's shortcuts and its records, and between these and their comparison.
const RECORDS: usize = 4;
const ROWS: usize = 8;
/// Groups of which something is known.
const RING: usize = 16;
/// Instead of a number of records: the list is not of the usual kind.
const UNUSUAL: usize = usize::MAX;

const _: () = assert!(RING > ROWS && RING.is_power_of_two());

/// A batch behind quartered shortcuts.
pub(crate) struct QuarterBatch<'a, 'p, B>(pub(crate) QuickBatch<'a, 'p, B>);

/// What is known of the points of a group: `flight.at` turns from shortcuts to records, of which there are `counts`.
#[derive(Debug, Clone, Copy, Default)]
struct Quartered {
    flight: Flight,
    counts: [usize; GROUP],
}

impl<B: Bytes> QuarterBatch<'_, '_, B> {
    /// Finds the records that may equal a group's points, and asks for them.
    #[inline(always)]
    fn records(&self, points: &[u64], dims: usize, group: &mut Quartered) {
        let (view, shortcuts) = (self.0.tree.view, &self.0.tree.header.shortcuts);
        let (quarters, depth, len) = (&shortcuts.quarters, shortcuts.dims(), shortcuts.level.record_len);
        let places = group.flight.at.iter_mut().zip(&mut group.counts);
        for ((at, count), point) in places.zip(points.chunks_exact(dims)) {
            let (list, counts) = shortcuts.quartered(view, *at);
            if list <= ABOVE || counts == IRREGULAR {
                *count = if list == NOWHERE { 0 } else { UNUSUAL };
                continue;
            }
            let quarter = quarters.quarter(quarters.rest(point[depth]));
            let sums = Sums::new(counts);
            let part = sums.part(quarter, quarter);
            *at = list as usize + 1 + sums.rows() + part.first * len;
            *count = part.end - part.first;
            if *count > 0 {
                view.prefetch(*at);
                view.prefetch(*at + *count * len - 1);
            }
        }
    }

    /// Compares the records of a group.
    #[inline(always)]
    fn compare<K: Kernel>(&mut self, points: &[u64], dims: usize, group: &Quartered) -> Result<(), Damage> {
        let (tree, view, geometry) = (self.0.tree, self.0.tree.view, self.0.tree.geometry());
        let (quarters, len) = (
            &tree.header.shortcuts.quarters,
            tree.header.shortcuts.level.record_len,
        );
        let bits = quarters.tail_mask;
        let start = self.0.out.tids.len();
        let (mut tids, mut ends, mut found) = ([0; GROUP], [0; GROUP], 0);
        let mut unusual = false;
        for (i, end) in ends.iter_mut().enumerate() {
            let (at, count, tail) = (group.flight.at[i], group.counts[i], group.flight.tails[i]);
            if count == UNUSUAL {
                unusual = true;
                continue;
            }
            // A tail that no record can have stays one.
            let tail = if tail == NO_TAIL { tail } else { tail & bits };
            let mut mask = 0;
            if count > 0 {
                view.touch(at, count * len);
                mask = K::tails(view, Records { at, len }, count, geometry.tail_at, bits, tail);
            }
            unusual |= mask & mask.wrapping_sub(1) != 0;
            let record = at + (mask.trailing_zeros() as usize & 63) * len;
            tids[found % GROUP] = view.u32(record) & geometry.tid_mask;
            found += usize::from(mask != 0);
            *end = start + found;
        }
        if !unusual {
            self.0.out.tids.extend_from_slice(&tids);
            self.0.out.tids.truncate(start + found);
            self.0.out.ends.extend_from_slice(&ends);
            return Ok(());
        }
        for point in points.chunks_exact(dims) {
            let run = Exact { tree, point }.run::<K>()?;
            self.0.out.push(tree.tids(run));
        }
        Ok(())
    }
}

impl<B: Bytes> Search for QuarterBatch<'_, '_, B> {
    type Output = Result<(), Damage>;

    #[inline(always)]
    fn run<K: Kernel>(mut self) -> Self::Output {
        let dims = self.0.tree.geometry().dims();
        let words = GROUP * dims;
        let points = self.0.points;
        let groups = points.len() / words;
        self.0.out.reserve(points.len() / dims);
        let mut ring = [Quartered::default(); RING];
        for turn in 0..groups + ROWS {
            if turn < groups {
                let flight = &mut ring[turn % RING].flight;
                self.0.places::<K>(&points[turn * words..][..words], dims, flight);
            }
            let group = turn.wrapping_sub(RECORDS);
            if group < groups {
                self.records(&points[group * words..][..words], dims, &mut ring[group % RING]);
            }
            let group = turn.wrapping_sub(ROWS);
            if group < groups {
                self.compare::<K>(&points[group * words..][..words], dims, &ring[group % RING])?;
            }
        }
        for point in points[groups * words..].chunks_exact(dims) {
            let tree = self.0.tree;
            let run = Exact { tree, point }.run::<K>()?;
            self.0.out.push(tree.tids(run));
        }
        Ok(())
    }
}
