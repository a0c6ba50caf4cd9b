//! Batches where leaf lists have a dozen rows or more.
//!
//! Such a list is longer than a line or two, so only its values are prefetched; one more stage compares them
//! and prefetches the candidate records.

use crate::header::ElfHeader;
use crate::kernel::{CodeRange, Kernel, WithKernel};
use crate::packed::batch::quick::LocatedGroup;
use crate::packed::batch::{Batch, BatchStages, GROUP, RING};
use crate::packed::exact::{DamagedList, Exact, HEAD, Hits, MAX_HEAD_VALUES};
use crate::packed::node::SMALL_LEAF;
use halocline_media::Bytes;

/// Minimum number of rows for each place of the shortcuts, on average, for these stages to be faster than the
/// usual ones.
const MIN_ROWS_PER_PLACE: u64 = 12;

/// The stages shortcut, list, values, records.
pub(crate) struct MiddleStages;

/// The points of a group and the records that may equal them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MiddleGroup {
    located: LocatedGroup,
    /// `None` for points that are searched one by one.
    hits: [Option<Hits>; GROUP],
}

/// Returns true if the lists behind the shortcuts are long enough, on average, for [`MiddleStages`].
pub(crate) fn has_middle_lists(header: &ElfHeader) -> bool {
    header.geometry.rows / header.shortcuts.places().max(1) as u64 >= MIN_ROWS_PER_PLACE
}

impl BatchStages for MiddleStages {
    const DELAYS: [usize; 3] = [3, 6, 9];
    type Group = MiddleGroup;
    type Ring = [MiddleGroup; RING];

    #[inline(always)]
    fn locate<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut MiddleGroup) {
        group.located.locate::<K, B>(batch, points);
    }

    #[inline(always)]
    fn follow<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, _points: &[u64], group: &mut MiddleGroup) {
        group.located.follow(batch, [0, HEAD / 2]);
    }

    #[inline(always)]
    fn narrow<K: Kernel, B: Bytes>(
        batch: &Batch<'_, '_, B>,
        points: &[u64],
        group: &mut MiddleGroup,
    ) -> Result<(), DamagedList> {
        let (tree, view) = (batch.tree, batch.tree.view);
        let shortcuts = &tree.header.shortcuts;
        let (depth, len) = (shortcuts.dims(), shortcuts.level.record_len);
        group.hits = [None; GROUP];
        for ((hits, &at), point) in group
            .hits
            .iter_mut()
            .zip(&group.located.at)
            .zip(points.chunks_exact(batch.dims))
        {
            view.touch(at, HEAD);
            let Some(head) = view.head(at) else { continue };
            let (rows, code) = (usize::from(head[0]), point[depth]);
            // At 0 is no list: its first byte would pass for one of 72 rows.
            if at == 0 || rows > SMALL_LEAF || code > 0xff {
                continue;
            }
            let (first, mask) = if rows <= usize::from(MAX_HEAD_VALUES) {
                (0, K::between_head(head, rows, CodeRange { lo: code, span: 0 }))
            } else {
                match tree.middle_values::<K>(at + 1, rows, code) {
                    Some(found) => found,
                    None => continue,
                }
            };
            let records = at + 1 + rows + first * len;
            if mask != 0 {
                let last = 63 - mask.leading_zeros() as usize;
                view.prefetch(records + mask.trailing_zeros() as usize * len);
                view.prefetch(records + (last + 1) * len - 1);
            }
            *hits = Some(Hits { records, first, mask });
        }
        Ok(())
    }

    #[inline(always)]
    fn compare<K: Kernel, B: Bytes>(
        batch: &mut Batch<'_, '_, B>,
        points: &[u64],
        group: &mut MiddleGroup,
    ) -> Result<(), DamagedList> {
        let tree = batch.tree;
        let level = &tree.header.shortcuts.level;
        let bits = level.tail_mask.unwrap_or_default();
        for (i, point) in points.chunks_exact(batch.dims).enumerate().take(GROUP) {
            let run = match group.hits[i] {
                Some(hits) => {
                    let tail = group.located.tails[i];
                    let run = tree
                        .equal_run::<K>(hits, level.record_len, |record| tree.has_tail(record, bits, tail));
                    tree.run_in::<K>(group.located.at[i], hits.first, run)
                }
                None => Exact { tree, point }.run::<K>()?,
            };
            if K::TIDS && run.count == 1 {
                let tid = tree.view.u32(run.at) & tree.geometry().tid_mask;
                batch.out.tids.push(tid);
                batch.out.ends.push(batch.out.tids.len());
            } else {
                batch.out.push(tree.tids(run));
            }
        }
        Ok(())
    }
}
