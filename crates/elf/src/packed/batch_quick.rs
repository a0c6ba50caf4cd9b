//! Many exact matches in layout `packed`, interleaved: the usual kind, as in quick.rs.
//!
//! What is not usual (a long list, a list without a shortcut, more than two candidates, equal rows) is left to exact.rs,
//! point by point.

use crate::Tid;
use crate::kernel::{Between, Kernel, Search};
use crate::packed::exact::{Damage, Exact, HEAD, Hits, IN_HEAD, Run};
use crate::packed::node::Tree;
use crate::packed::quartet::Weights;
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use crate::tids::Matches;
use crate::view::PAD;
use halocline_media::Bytes;

/// Points of a group.
pub(super) const GROUP: usize = 4;
/// Groups between a group's shortcuts and its lists.
const LISTS: usize = 3;
/// Groups between a group's shortcuts and its rows.
const ROWS: usize = 6;
/// Groups of which something is known.
pub(super) const RING: usize = 16;

const _: () = assert!(RING > ROWS && RING.is_power_of_two());

/// Looks for whole groups of points in three stages: where the shortcut is, where the list is, which of its records
/// are equal. Each stage asks for the lines that the next one reads, and that comes only after the other stages of other
/// groups, when the lines are there.
pub(crate) struct QuickBatch<'a, 'p, B> {
    pub(crate) tree: Tree<'a, B>,
    pub(crate) weights: &'a [Weights],
    /// Row-major.
    pub(crate) points: &'p [u64],
    pub(crate) out: &'p mut Matches,
}

/// What is known of the points of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flight {
    /// Offsets of the shortcuts, then of the lists.
    pub(super) at: [usize; GROUP],
    pub(super) tails: [u64; GROUP],
}

impl<B: Bytes> QuickBatch<'_, '_, B> {
    /// Finds the shortcuts of a group.
    #[inline(always)]
    pub(super) fn places<K: Kernel>(&self, points: &[u64], dims: usize, flight: &mut Flight) {
        let quartet = K::quartet(self.weights, dims, points);
        flight.tails = quartet.tails;
        for (at, place) in flight.at.iter_mut().zip(quartet.places) {
            *at = self.tree.header.shortcuts.offset(place as usize);
            self.tree.view.prefetch(*at);
        }
    }

    /// Finds the lists of a group, and asks for these bytes of each.
    #[inline(always)]
    pub(super) fn lists<const N: usize>(&self, flight: &mut Flight, ask_for: [usize; N]) {
        let (header, view) = (self.tree.header, self.tree.view);
        let empty = header.len as usize - PAD;
        for at in &mut flight.at {
            // Zeros are an empty list, and the index starts with what is no list.
            *at = match header.shortcuts.word(view, *at) {
                NOWHERE => empty,
                ABOVE => 0,
                list => list as usize,
            };
            for ahead in ask_for {
                view.prefetch(*at + ahead);
            }
        }
    }

    /// Compares the records of a group.
    #[inline(always)]
    fn compare<K: Kernel>(&mut self, points: &[u64], dims: usize, flight: &Flight) -> Result<(), Damage> {
        let (tree, view, geometry) = (self.tree, self.tree.view, self.tree.geometry());
        let shortcuts = &tree.header.shortcuts;
        let (depth, record_len) = (shortcuts.dims(), shortcuts.level.record_len);
        let bits = shortcuts.level.tail_mask.unwrap_or_default();
        let start = self.out.tids.len();
        let (mut tids, mut ends, mut found) = ([0; GROUP], [0; GROUP], 0);
        let mut unusual = false;
        for (i, point) in points.chunks_exact(dims).enumerate().take(GROUP) {
            let (at, tail) = (flight.at[i], flight.tails[i]);
            view.touch(at, HEAD);
            let Some(head) = view.head(at) else {
                return Err(Damage(at));
            };
            let rows = usize::from(head[0]);
            let wanted = Between {
                lo: point[depth] & 0xff,
                span: 0,
            };
            let mask = K::between_head(head, rows & 31, wanted);
            let records = at + 1 + rows;
            let position = mask.trailing_zeros() as usize & 63;
            let record = records + position * record_len;
            if mask != 0 {
                view.touch(record, record_len);
            }
            let equal = (mask != 0) & tree.has_tail(record, bits, tail);
            let mut run = Run {
                at: if K::TIDS { record } else { position },
                len: record_len as u32,
                count: u32::from(equal),
            };
            let more = mask & mask.wrapping_sub(1);
            if more != 0 {
                let first = 0;
                let hits = Hits { records, first, mask };
                run = tree.equal_run::<K>(hits, record_len, |record| tree.has_tail(record, bits, tail));
            }
            let run = tree.run_in::<K>(at, 0, run);
            unusual |= (rows >= usize::from(IN_HEAD)) | (run.count > 1);
            tids[found % GROUP] = if K::TIDS {
                view.u32(run.at) & geometry.tid_mask
            } else {
                run.at as Tid
            };
            found += usize::from(run.count > 0);
            ends[i] = start + found;
        }
        if !unusual {
            self.out.tids.extend_from_slice(&tids);
            self.out.tids.truncate(start + found);
            self.out.ends.extend_from_slice(&ends);
            return Ok(());
        }
        for point in points.chunks_exact(dims) {
            let run = Exact { tree, point }.run::<K>()?;
            self.out.push(tree.tids(run));
        }
        Ok(())
    }
}

impl<B: Bytes> Search for QuickBatch<'_, '_, B> {
    type Output = Result<(), Damage>;

    #[inline(always)]
    fn run<K: Kernel>(mut self) -> Self::Output {
        let dims = self.tree.geometry().dims();
        let words = GROUP * dims;
        let points = self.points;
        let groups = points.len() / words;
        self.out.reserve(points.len() / dims);
        let mut flights = [Flight::default(); RING];
        for turn in 0..groups + ROWS {
            if turn < groups {
                self.places::<K>(&points[turn * words..][..words], dims, &mut flights[turn % RING]);
            }
            let group = turn.wrapping_sub(LISTS);
            if group < groups {
                self.lists(&mut flights[group % RING], [0, 64, 100]);
            }
            let group = turn.wrapping_sub(ROWS);
            if group < groups {
                self.compare::<K>(&points[group * words..][..words], dims, &flights[group % RING])?;
            }
        }
        for point in points[groups * words..].chunks_exact(dims) {
            let tree = self.tree;
            let run = Exact { tree, point }.run::<K>()?;
            self.out.push(tree.tids(run));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::header::Header;
    use crate::{BuildOptions, Elf, Matches, Rows, Tid, build_vec};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashMap;
    use std::sync::Arc;

    const DIMS: usize = 6;
    /// Largest codes: 120 places, some of which have no row, some many.
    const MAX: [u64; DIMS] = [11, 9, 99, 1000, 2, 77];

    struct Table(Vec<[u64; DIMS]>);

    impl Rows for Table {
        fn rows(&self) -> usize {
            self.0.len()
        }

        fn dims(&self) -> usize {
            DIMS
        }

        fn max_code(&self, dim: usize) -> u64 {
            MAX[dim]
        }

        fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
            out.iter_mut()
                .zip(&self.0[start..])
                .for_each(|(out, row)| *out = row[dim]);
        }
    }

    /// Rows for the first codes differ in number, up to long lists; one in ten equals an earlier one.
    fn table(rows: usize, rng: &mut StdRng) -> Table {
        let mut table: Vec<[u64; DIMS]> = vec![];
        for row in 0..rows {
            if row > 0 && rng.random_ratio(1, 10) {
                table.push(table[rng.random_range(0..row)]);
                continue;
            }
            let mut tuple = MAX.map(|max| rng.random_range(0..=max));
            if rng.random_ratio(1, 8) {
                (tuple[0], tuple[1]) = (3, 3);
            }
            tuple[0] -= u64::from(tuple[0] == 7);
            table.push(tuple);
        }
        Table(table)
    }

    #[test]
    fn batches_find_what_is_there() {
        for seed in 0..8 {
            let mut rng = StdRng::seed_from_u64(seed);
            // Short lists, and those of some dozens of rows.
            let mut table = table(if seed % 4 < 2 { 2500 } else { 9000 }, &mut rng);
            if seed % 2 == 1 {
                table.0.sort_unstable();
            }
            let bytes: Arc<[u8]> = build_vec(&table, &BuildOptions::default()).unwrap().into();
            assert!(Header::read(&bytes).unwrap().weights.is_some());
            let elf = Elf::open(bytes).unwrap();
            assert_eq!(elf.is_clustered(), seed % 2 == 1);
            let mut rows: HashMap<[u64; DIMS], Vec<Tid>> = HashMap::new();
            for (row, tuple) in table.0.iter().enumerate() {
                rows.entry(*tuple).or_default().push(row as Tid);
            }
            // Also numbers of points that are no multiple of four.
            for count in [0, 1, 3, 4, 7, 40, 1201] {
                let points: Vec<[u64; DIMS]> = (0..count)
                    .map(|_| {
                        let mut point = table.0[rng.random_range(0..table.0.len())];
                        if rng.random_ratio(1, 3) {
                            let dim = rng.random_range(0..DIMS);
                            point[dim] = rng.random::<u64>() >> rng.random_range(0..64);
                        }
                        point
                    })
                    .collect();
                let mut found = Matches::new();
                elf.exact_batch(points.as_flattened(), &mut found).unwrap();
                assert_eq!(found.len(), count);
                for (i, point) in points.iter().enumerate() {
                    let there = rows.get(point).map_or(&[][..], Vec::as_slice);
                    assert_eq!(found.get(i), there, "seed {seed}, {point:?}");
                }
            }
        }
    }
}
