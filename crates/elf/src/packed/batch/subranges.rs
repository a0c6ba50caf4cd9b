//! Batches behind quartered shortcuts.
//!
//! The shortcut tells which few records may equal the point (subranges.rs): only their lines are prefetched,
//! and the values of the list are not read. Groups with something irregular (a list without counts or without
//! a shortcut, equal rows) are searched point by point.

use crate::kernel::{Kernel, Records};
use crate::packed::batch::quick::LocatedGroup;
use crate::packed::batch::{Batch, BatchStages, GROUP, RING};
use crate::packed::exact::DamagedList;
use crate::packed::point_batch::NO_TAIL;
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use crate::packed::subranges::{IRREGULAR, SubrangeCounts};
use halocline_media::Bytes;

/// Value in place of a number of records: the list has no usable counts.
const IRREGULAR_LIST: usize = usize::MAX;

/// The stages shortcut, records.
pub(crate) struct SubrangeStages;

/// The points of a group: `located.at` turns from shortcuts into first records, of which there are `counts`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SubrangeGroup {
    located: LocatedGroup,
    counts: [usize; GROUP],
}

impl BatchStages for SubrangeStages {
    const DELAYS: [usize; 3] = [4, 8, 8];
    type Group = SubrangeGroup;
    type Ring = [SubrangeGroup; RING];

    #[inline(always)]
    fn locate<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut SubrangeGroup) {
        group.located.locate::<K, B>(batch, points);
    }

    #[inline(always)]
    fn follow<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut SubrangeGroup) {
        let (view, shortcuts) = (batch.tree.view, &batch.tree.header.shortcuts);
        let (quarters, depth, len) = (&shortcuts.quarters, shortcuts.dims(), shortcuts.level.record_len);
        let places = group.located.at.iter_mut().zip(&mut group.counts);
        for ((at, count), point) in places.zip(points.chunks_exact(batch.dims)) {
            let (list, counts) = shortcuts.quartered(view, *at);
            if list <= ABOVE || counts == IRREGULAR {
                *count = if list == NOWHERE { 0 } else { IRREGULAR_LIST };
                continue;
            }
            let quarter = quarters.quarter(quarters.rest(point[depth]));
            let sums = SubrangeCounts::new(counts);
            let part = sums.part(quarter, quarter);
            *at = list as usize + 1 + sums.rows() + part.first * len;
            *count = part.end - part.first;
            if *count > 0 {
                view.prefetch(*at);
                view.prefetch(*at + *count * len - 1);
            }
        }
    }

    #[inline(always)]
    fn compare<K: Kernel, B: Bytes>(
        batch: &mut Batch<'_, '_, B>,
        points: &[u64],
        group: &mut SubrangeGroup,
    ) -> Result<(), DamagedList> {
        let (tree, view, geometry) = (batch.tree, batch.tree.view, batch.tree.geometry());
        let (quarters, len) = (
            &tree.header.shortcuts.quarters,
            tree.header.shortcuts.level.record_len,
        );
        let bits = quarters.tail_mask;
        let start = batch.out.tids.len();
        let (mut tids, mut ends, mut found) = ([0; GROUP], [0; GROUP], 0);
        let mut irregular = false;
        for (i, end) in ends.iter_mut().enumerate() {
            let (at, count, tail) = (group.located.at[i], group.counts[i], group.located.tails[i]);
            if count == IRREGULAR_LIST {
                irregular = true;
                continue;
            }
            // A tail that no record can have stays one.
            let tail = if tail == NO_TAIL { tail } else { tail & bits };
            let mut mask = 0;
            if count > 0 {
                view.touch(at, count * len);
                mask = K::tails(view, Records { at, len }, count, geometry.tail_at, bits, tail);
            }
            irregular |= mask & mask.wrapping_sub(1) != 0;
            let record = at + (mask.trailing_zeros() as usize & 63) * len;
            tids[found % GROUP] = view.u32(record) & geometry.tid_mask;
            found += usize::from(mask != 0);
            *end = start + found;
        }
        batch.emit::<K>(points, &tids, &ends, found, irregular)
    }
}
