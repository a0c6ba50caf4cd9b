//! Batches in any index of layout `packed`, list by list from the shortcut or the root on.

use crate::kernel::Kernel;
use crate::packed::batch::{Batch, BatchStages};
use crate::packed::exact::{DamagedList, EqualRun, HEAD, Hits, is_dense};
use crate::packed::node::PackedTree;
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use halocline_media::Bytes;

/// Points of a group: many, as the lists of a group are followed down to the leaves within one stage.
const GROUP: usize = 16;
/// Groups in flight, one for each stage.
const RING: usize = 4;

/// The stages shortcut, first list, descent, records.
pub(crate) struct GeneralStages;

/// The search for one point of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Descent {
    /// Offset of the shortcut; 0 if there is none.
    place: usize,
    /// Offset of the list to read next; 0 if there is none.
    at: usize,
    /// Depth of that list; after the last step, of the one below it.
    depth: usize,
    /// Records to compare.
    hits: Hits,
    run: EqualRun,
}

impl BatchStages for GeneralStages {
    const GROUP: usize = GROUP;
    const RING: usize = RING;
    const DELAYS: [usize; 3] = [1, 2, 3];
    const PARTIAL: bool = true;
    type Group = [Descent; GROUP];
    type Ring = [[Descent; GROUP]; RING];

    #[inline(always)]
    fn locate<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut Self::Group) {
        let shortcuts = &batch.tree.header.shortcuts;
        for (descent, point) in group.iter_mut().zip(points.chunks_exact(batch.dims)) {
            descent.place = shortcuts.place(point).map_or(0, |place| shortcuts.offset(place));
            batch.tree.view.prefetch(descent.place);
        }
    }

    #[inline(always)]
    fn follow<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut Self::Group) {
        let (tree, shortcuts) = (batch.tree, &batch.tree.header.shortcuts);
        for (descent, _) in group.iter_mut().zip(points.chunks_exact(batch.dims)) {
            let word = match descent.place {
                _ if shortcuts.dims() == 0 => ABOVE,
                0 => NOWHERE,
                place => shortcuts.word(tree.view, place),
            };
            let (at, depth) = match word {
                NOWHERE => (0, 0),
                ABOVE => (tree.header.root as usize, 0),
                at => (at as usize, shortcuts.dims()),
            };
            *descent = Descent {
                at,
                depth,
                ..Descent::default()
            };
            tree.fetch(at);
        }
    }

    #[inline(always)]
    fn narrow<K: Kernel, B: Bytes>(
        batch: &Batch<'_, '_, B>,
        points: &[u64],
        group: &mut Self::Group,
    ) -> Result<(), DamagedList> {
        let dims = batch.dims;
        let mut live = 0_u32;
        for (i, (descent, point)) in group.iter_mut().zip(points.chunks_exact(dims)).enumerate() {
            live |= u32::from(step::<K, B>(batch.tree, descent, point)?) << i;
        }
        while live != 0 {
            let mut round = live;
            while round != 0 {
                let i = round.trailing_zeros() as usize % GROUP;
                round &= round - 1;
                if !step::<K, B>(batch.tree, &mut group[i], &points[i * dims..(i + 1) * dims])? {
                    live &= !(1 << i);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn compare<K: Kernel, B: Bytes>(
        batch: &mut Batch<'_, '_, B>,
        points: &[u64],
        group: &mut Self::Group,
    ) -> Result<(), DamagedList> {
        let (tree, tid_mask) = (batch.tree, batch.tree.geometry().tid_mask);
        let (mut tids, mut count, mut single) = ([0; GROUP], 0, true);
        for (i, (descent, point)) in group.iter_mut().zip(points.chunks_exact(batch.dims)).enumerate() {
            if descent.hits.mask != 0 {
                let run = tree.equal::<K>(descent.hits, descent.depth, point);
                descent.run = tree.run_in::<K>(descent.at, descent.hits.first, run);
            }
            tids[i] = if K::TIDS {
                tree.view.u32(descent.run.at) & tid_mask
            } else {
                descent.run.at as u32
            };
            single &= descent.run.count == 1;
            count = i + 1;
        }
        if single {
            batch.out.push_each(&tids[..count]);
            return Ok(());
        }
        for descent in &group[..count] {
            batch.out.push(tree.tids(descent.run));
        }
        Ok(())
    }
}

/// Reads a list of the search for a point. Returns false if that was the last step.
#[inline(always)]
fn step<K: Kernel, B: Bytes>(
    tree: PackedTree<'_, B>,
    descent: &mut Descent,
    point: &[u64],
) -> Result<bool, DamagedList> {
    let view = tree.view;
    let (at, depth) = (descent.at, descent.depth);
    if at == 0 {
        return Ok(false);
    }
    view.touch(at, HEAD);
    let (Some(head), Some(level)) = (view.head(at), tree.geometry().levels.get(depth)) else {
        return Err(DamagedList(at));
    };
    if let Some(hits) = tree.short_leaf::<K>(head, at, depth, level, point) {
        let record = hits.records + (hits.mask.trailing_zeros() & 63) as usize * level.record_len;
        view.prefetch(record);
        view.prefetch(record + level.record_len);
        descent.hits = hits;
        return Ok(false);
    }
    if is_dense(head[0]) && depth < point.len() {
        descent.at = tree.dense_child(head, at, level, point[depth]);
    } else {
        (descent.at, descent.run) = tree.any_list::<K>(at, depth, point)?;
    }
    descent.depth = depth + 1;
    tree.fetch(descent.at);
    Ok(descent.at != 0)
}
