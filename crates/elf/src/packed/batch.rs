//! Many exact matches in layout `packed`, interleaved.

use crate::kernel::{Between, Kernel, Search};
use crate::packed::exact::{Damage, IN_HEAD, Link, Run, is_dense};
use crate::packed::node::Tree;
use crate::tids::Matches;
use halocline_media::Bytes;

/// Points in flight: more than a core has line-fill buffers for gains nothing (measured: 32 is no faster than 16).
const IN_FLIGHT: usize = 16;

/// Looks for many points, a group at a time: all points of a group take one step, each asking for the line that its next
/// step reads, before the first of them takes that. Misses in flight are what limits the throughput, so nothing is asked
/// for that may not be needed.
pub(crate) struct ExactBatch<'a, 'p, B> {
    pub(crate) tree: Tree<'a, B>,
    /// Row-major.
    pub(crate) points: &'p [u64],
    pub(crate) out: &'p mut Matches,
}

/// One point of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Descent {
    /// The list to look at; the records to compare after the last step.
    at: usize,
    /// A link to follow instead, if its `len` is not 0.
    link: Link,
    /// The list's depth, also after the last step.
    depth: usize,
    /// Records to compare.
    mask: u64,
    run: Run,
}

impl<B: Bytes> ExactBatch<'_, '_, B> {
    /// Follows a link or looks at a list; `false` if that was the last step.
    #[inline(always)]
    fn step<K: Kernel>(&self, descent: &mut Descent, point: &[u64]) -> Result<bool, Damage> {
        let (tree, view) = (self.tree, self.tree.view);
        if descent.link.len > 0 {
            descent.at = tree.follow(descent.link);
            descent.link.len = 0;
            tree.fetch(descent.at);
            return Ok(descent.at != 0);
        }
        let (at, depth) = (descent.at, descent.depth);
        let (Some(head), Some(level)) = (view.head(at), tree.geometry().levels.get(depth)) else {
            return Err(Damage(at));
        };
        if is_dense(head[0]) && depth < point.len() {
            let link = tree.dense_link(head, at, level.value_mask, level.value_len, point[depth]);
            let next = link.map_or(0, |link| tree.follow(link));
            (descent.at, descent.depth) = (next, depth + 1);
            if let Some(link) = tree.forward_link(head, next, point.get(depth + 1)) {
                view.prefetch(link.at);
                (descent.link, descent.depth) = (link, depth + 2);
            } else {
                tree.fetch(next);
            }
            return Ok(next != 0);
        }
        if head[0] <= IN_HEAD && level.value_len == 1 && point[depth] <= 0xff {
            let rows = usize::from(head[0]);
            view.touch(at, 1 + rows);
            let mask = K::between_head(
                head,
                rows,
                Between {
                    lo: point[depth],
                    span: 0,
                },
            );
            let record = at + 1 + rows + (mask.trailing_zeros() & 63) as usize * level.record_len;
            view.prefetch(record);
            view.prefetch(record + level.record_len);
            (descent.at, descent.mask) = (at + 1 + rows, mask);
            return Ok(false);
        }
        let (next, run) = tree.any_list::<K>(at, depth, point)?;
        tree.fetch(next);
        (descent.at, descent.depth, descent.run) = (next, depth + 1, run);
        Ok(next != 0)
    }

    /// Takes a group down; `group` gets what is to be compared.
    #[inline(always)]
    fn descend<K: Kernel>(
        &self,
        points: &[u64],
        dims: usize,
        group: &mut [Descent; IN_FLIGHT],
    ) -> Result<(), Damage> {
        let mut live = (1_u32 << (points.len() / dims)) - 1;
        while live != 0 {
            let mut round = live;
            while round != 0 {
                let i = round.trailing_zeros() as usize % IN_FLIGHT;
                round &= round - 1;
                if !self.step::<K>(&mut group[i], &points[i * dims..(i + 1) * dims])? {
                    live &= !(1 << i);
                }
            }
        }
        Ok(())
    }
}

impl<B: Bytes> Search for ExactBatch<'_, '_, B> {
    type Output = Result<(), Damage>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let tree = self.tree;
        let dims = tree.geometry().dims();
        self.out.reserve(self.points.len() / dims);
        let start = Descent {
            at: tree.header.root as usize,
            ..Descent::default()
        };
        let mut groups = self.points.chunks(dims * IN_FLIGHT);
        // Records are compared one group later, when their lines are there.
        let mut before: (&[u64], [Descent; IN_FLIGHT]) = (&[], [start; IN_FLIGHT]);
        loop {
            let points = groups.next().unwrap_or_default();
            let mut group = [start; IN_FLIGHT];
            self.descend::<K>(points, dims, &mut group)?;
            for (descent, point) in before.1.iter().zip(before.0.chunks_exact(dims)) {
                let run = match descent.mask {
                    0 => descent.run,
                    mask => tree.equal::<K>(descent.at, mask, descent.depth, point),
                };
                if run.count == 1 {
                    self.out
                        .push_one(tree.view.u32(run.at) & tree.geometry().tid_mask);
                } else {
                    self.out.push(tree.tids(run));
                }
            }
            if points.is_empty() {
                return Ok(());
            }
            before = (points, group);
        }
    }
}
