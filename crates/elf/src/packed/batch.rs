//! Many exact matches in layout `packed`, interleaved.

use crate::kernel::{Kernel, Search};
use crate::packed::exact::{Damage, HEAD, Hits, Run, is_dense};
use crate::packed::node::Tree;
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use crate::tids::Matches;
use halocline_media::Bytes;

/// Points of a group.
const GROUP: usize = 16;
/// Groups in flight, each one stage behind the one after it.
const STAGES: usize = 4;

/// Looks for many points, a group at a time, in four stages: where the shortcut is, where the list is, which records may
/// be equal, which are. Each stage asks for the lines that the next one reads, and that comes only after the other stages of
/// other groups, when the lines are there.
pub(crate) struct ExactBatch<'a, 'p, B> {
    pub(crate) tree: Tree<'a, B>,
    /// Row-major.
    pub(crate) points: &'p [u64],
    pub(crate) out: &'p mut Matches,
}

/// One point of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Descent {
    /// The shortcut; at 0 if there is none.
    place: usize,
    /// The list to look at; 0 if there is none.
    at: usize,
    /// The list's depth, also after the last step.
    depth: usize,
    /// Records to compare.
    hits: Hits,
    run: Run,
}

impl<B: Bytes> ExactBatch<'_, '_, B> {
    /// Finds the shortcuts of a group.
    #[inline(always)]
    fn places(&self, points: &[u64], dims: usize, group: &mut [Descent; GROUP]) {
        let shortcuts = &self.tree.header.shortcuts;
        for (descent, point) in group.iter_mut().zip(points.chunks_exact(dims)) {
            descent.place = shortcuts.place(point).map_or(0, |place| shortcuts.offset(place));
            self.tree.view.prefetch(descent.place);
        }
    }

    /// Finds the first lists of a group.
    #[inline(always)]
    fn starts(&self, points: &[u64], dims: usize, group: &mut [Descent; GROUP]) {
        let (tree, shortcuts) = (self.tree, &self.tree.header.shortcuts);
        for (descent, _) in group.iter_mut().zip(points.chunks_exact(dims)) {
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

    /// Looks at a list; `false` if that was the last step.
    #[inline(always)]
    fn step<K: Kernel>(&self, descent: &mut Descent, point: &[u64]) -> Result<bool, Damage> {
        let (tree, view) = (self.tree, self.tree.view);
        let (at, depth) = (descent.at, descent.depth);
        if at == 0 {
            return Ok(false);
        }
        view.touch(at, HEAD);
        let (Some(head), Some(level)) = (view.head(at), tree.geometry().levels.get(depth)) else {
            return Err(Damage(at));
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

    /// Takes a group down; it then says what is to be compared.
    #[inline(always)]
    fn descend<K: Kernel>(
        &self,
        points: &[u64],
        dims: usize,
        group: &mut [Descent; GROUP],
    ) -> Result<(), Damage> {
        let mut live = 0_u32;
        for (i, (descent, point)) in group.iter_mut().zip(points.chunks_exact(dims)).enumerate() {
            live |= u32::from(self.step::<K>(descent, point)?) << i;
        }
        while live != 0 {
            let mut round = live;
            while round != 0 {
                let i = round.trailing_zeros() as usize % GROUP;
                round &= round - 1;
                if !self.step::<K>(&mut group[i], &points[i * dims..(i + 1) * dims])? {
                    live &= !(1 << i);
                }
            }
        }
        Ok(())
    }

    /// Compares the records of a group.
    #[inline(always)]
    fn compare<K: Kernel>(&mut self, points: &[u64], dims: usize, group: &mut [Descent; GROUP]) {
        let (tree, tid_mask) = (self.tree, self.tree.geometry().tid_mask);
        let (mut tids, mut count, mut single) = ([0; GROUP], 0, true);
        for (i, (descent, point)) in group.iter_mut().zip(points.chunks_exact(dims)).enumerate() {
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
            self.out.push_each(&tids[..count]);
            return;
        }
        for descent in &group[..count] {
            self.out.push(tree.tids(descent.run));
        }
    }
}

impl<B: Bytes> Search for ExactBatch<'_, '_, B> {
    type Output = Result<(), Damage>;

    #[inline(always)]
    fn run<K: Kernel>(mut self) -> Self::Output {
        let dims = self.tree.geometry().dims();
        let all = self.points;
        self.out.reserve(all.len() / dims);
        let points = |group: usize| {
            let rest = all.get(group * GROUP * dims..).unwrap_or_default();
            &rest[..rest.len().min(GROUP * dims)]
        };
        let groups = all.len().div_ceil(GROUP * dims);
        let mut flight = [[Descent::default(); GROUP]; STAGES];
        // Group `turn` is at its first stage, the one before it at its second, and so on.
        for turn in 0..groups + STAGES - 1 {
            self.places(points(turn), dims, &mut flight[turn % STAGES]);
            if let Some(group) = turn.checked_sub(1) {
                self.starts(points(group), dims, &mut flight[group % STAGES]);
            }
            if let Some(group) = turn.checked_sub(2) {
                self.descend::<K>(points(group), dims, &mut flight[group % STAGES])?;
            }
            if let Some(group) = turn.checked_sub(3) {
                self.compare::<K>(points(group), dims, &mut flight[group % STAGES]);
            }
        }
        Ok(())
    }
}
