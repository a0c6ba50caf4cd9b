//! Many exact matches in layout `packed`, interleaved, where leaf lists have a dozen rows or more.
//!
//! As in batch_quick.rs, but with one stage more: a list is longer than a line or two, so only its values are asked for, and
//! when they are there the record that is wanted.

use crate::kernel::{Between, Kernel, Search};
use crate::packed::batch_quick::{Flight, GROUP, QuickBatch, RING};
use crate::packed::exact::{Damage, Exact, HEAD, Hits, IN_HEAD};
use crate::packed::node::SMALL_LEAF;
use halocline_media::Bytes;

/// Groups between a group's shortcuts and its lists, its values, and its records.
const LISTS: usize = 3;
const VALUES: usize = 6;
const RECORDS: usize = 9;
/// Rows for each place of the shortcuts from which on this is the way.
const LEAST_ROWS: u64 = 12;

const _: () = assert!(RING > RECORDS);

/// A batch in lists of a dozen rows or more.
pub(crate) struct MiddleBatch<'a, 'p, B>(pub(crate) QuickBatch<'a, 'p, B>);

/// Whether lists have so many rows, on average.
pub(crate) fn is_worth(header: &crate::header::Header) -> bool {
    header.geometry.rows / header.shortcuts.places().max(1) as u64 >= LEAST_ROWS
}

impl<B: Bytes> MiddleBatch<'_, '_, B> {
    /// Finds the records that may equal a group's points; `None` for those that are left to exact.rs.
    #[inline(always)]
    fn values<K: Kernel>(&self, points: &[u64], dims: usize, flight: &Flight) -> [Option<Hits>; GROUP] {
        let (tree, view) = (self.0.tree, self.0.tree.view);
        let shortcuts = &tree.header.shortcuts;
        let (depth, len) = (shortcuts.dims(), shortcuts.level.record_len);
        let mut found = [None; GROUP];
        for ((hits, &at), point) in found.iter_mut().zip(&flight.at).zip(points.chunks_exact(dims)) {
            view.touch(at, HEAD);
            let Some(head) = view.head(at) else { continue };
            let (rows, code) = (usize::from(head[0]), point[depth]);
            // At 0 is no list: its first byte would pass for one of 72 rows.
            if at == 0 || rows > SMALL_LEAF || code > 0xff {
                continue;
            }
            let (first, mask) = if rows <= usize::from(IN_HEAD) {
                (0, K::between_head(head, rows, Between { lo: code, span: 0 }))
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
        found
    }

    /// Compares the records of a group.
    #[inline(always)]
    fn records<K: Kernel>(
        &mut self,
        points: &[u64],
        dims: usize,
        flight: &Flight,
        hits: &[Option<Hits>; GROUP],
    ) -> Result<(), Damage> {
        let tree = self.0.tree;
        let level = &tree.header.shortcuts.level;
        let bits = level.tail_mask.unwrap_or_default();
        for (i, point) in points.chunks_exact(dims).enumerate().take(GROUP) {
            let run = match hits[i] {
                Some(hits) => {
                    let tail = flight.tails[i];
                    let run = tree
                        .equal_run::<K>(hits, level.record_len, |record| tree.has_tail(record, bits, tail));
                    tree.run_in::<K>(flight.at[i], hits.first, run)
                }
                None => Exact { tree, point }.run::<K>()?,
            };
            if K::TIDS && run.count == 1 {
                let tid = tree.view.u32(run.at) & tree.geometry().tid_mask;
                self.0.out.tids.push(tid);
                self.0.out.ends.push(self.0.out.tids.len());
            } else {
                self.0.out.push(tree.tids(run));
            }
        }
        Ok(())
    }
}

impl<B: Bytes> Search for MiddleBatch<'_, '_, B> {
    type Output = Result<(), Damage>;

    #[inline(always)]
    fn run<K: Kernel>(mut self) -> Self::Output {
        let dims = self.0.tree.geometry().dims();
        let words = GROUP * dims;
        let points = self.0.points;
        let groups = points.len() / words;
        self.0.out.reserve(points.len() / dims);
        let mut flights = [Flight::default(); RING];
        let mut hits = [[None; GROUP]; RING];
        let of = |group: usize| &points[group * words..][..words];
        for turn in 0..groups + RECORDS {
            if turn < groups {
                self.0.places::<K>(of(turn), dims, &mut flights[turn % RING]);
            }
            let group = turn.wrapping_sub(LISTS);
            if group < groups {
                self.0.lists(&mut flights[group % RING], [0, HEAD / 2]);
            }
            let group = turn.wrapping_sub(VALUES);
            if group < groups {
                hits[group % RING] = self.values::<K>(of(group), dims, &flights[group % RING]);
            }
            let group = turn.wrapping_sub(RECORDS);
            if group < groups {
                self.records::<K>(of(group), dims, &flights[group % RING], &hits[group % RING])?;
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
