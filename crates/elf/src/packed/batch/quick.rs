//! The usual batch: shortcuts lead to short leaf lists.
//!
//! Whatever is irregular (a long list, a list without a shortcut, more than two candidates, equal rows) is
//! searched point by point.

use crate::Tid;
use crate::kernel::{CodeRange, Kernel};
use crate::packed::batch::{Batch, BatchStages, GROUP, RING};
use crate::packed::exact::{DamagedList, EqualRun, HEAD, Hits, MAX_HEAD_VALUES};
use crate::packed::shortcuts::{ABOVE, NOWHERE};
use crate::view::PAD;
use halocline_media::Bytes;

/// The stages shortcut, list, records.
pub(crate) struct QuickStages;

/// The points of a group whose shortcuts are known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LocatedGroup {
    /// Offsets of the shortcuts, then of the lists.
    pub(super) at: [usize; GROUP],
    pub(super) tails: [u64; GROUP],
}

impl LocatedGroup {
    /// Finds the shortcuts of a group.
    #[inline(always)]
    pub(super) fn locate<K: Kernel, B: Bytes>(&mut self, batch: &Batch<'_, '_, B>, points: &[u64]) {
        let quartet = K::point_batch(batch.coefficients, batch.dims, points);
        self.tails = quartet.tails;
        for (at, place) in self.at.iter_mut().zip(quartet.places) {
            *at = batch.tree.header.shortcuts.offset(place as usize);
            batch.tree.view.prefetch(*at);
        }
    }

    /// Replaces the offsets of the shortcuts by those of the lists, and prefetches the lines at these
    /// distances from each.
    #[inline(always)]
    pub(super) fn follow<B: Bytes, const N: usize>(&mut self, batch: &Batch<'_, '_, B>, ahead: [usize; N]) {
        let (header, view) = (batch.tree.header, batch.tree.view);
        let empty = header.len as usize - PAD;
        for at in &mut self.at {
            // The padding reads as an empty list, and offset 0 (the magic number) as a list that is not
            // regular.
            *at = match header.shortcuts.word(view, *at) {
                NOWHERE => empty,
                ABOVE => 0,
                list => list as usize,
            };
            for ahead in ahead {
                view.prefetch(*at + ahead);
            }
        }
    }
}

impl BatchStages for QuickStages {
    const DELAYS: [usize; 3] = [3, 6, 6];
    type Group = LocatedGroup;
    type Ring = [LocatedGroup; RING];

    #[inline(always)]
    fn locate<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut LocatedGroup) {
        group.locate::<K, B>(batch, points);
    }

    #[inline(always)]
    fn follow<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, _points: &[u64], group: &mut LocatedGroup) {
        group.follow(batch, [0, 64, 100]);
    }

    #[inline(always)]
    fn compare<K: Kernel, B: Bytes>(
        batch: &mut Batch<'_, '_, B>,
        points: &[u64],
        group: &mut LocatedGroup,
    ) -> Result<(), DamagedList> {
        let (tree, view, geometry) = (batch.tree, batch.tree.view, batch.tree.geometry());
        let shortcuts = &tree.header.shortcuts;
        let (depth, record_len) = (shortcuts.dims(), shortcuts.level.record_len);
        let bits = shortcuts.level.tail_mask.unwrap_or_default();
        let start = batch.out.tids.len();
        let (mut tids, mut ends, mut found) = ([0; GROUP], [0; GROUP], 0);
        let mut irregular = false;
        for (i, point) in points.chunks_exact(batch.dims).enumerate().take(GROUP) {
            let (at, tail) = (group.at[i], group.tails[i]);
            view.touch(at, HEAD);
            let Some(head) = view.head(at) else {
                return Err(DamagedList(at));
            };
            let rows = usize::from(head[0]);
            let wanted = CodeRange {
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
            let mut run = EqualRun {
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
            irregular |= (rows >= usize::from(MAX_HEAD_VALUES)) | (run.count > 1);
            tids[found % GROUP] = if K::TIDS {
                view.u32(run.at) & geometry.tid_mask
            } else {
                run.at as Tid
            };
            found += usize::from(run.count > 0);
            ends[i] = start + found;
        }
        batch.emit::<K>(points, &tids, &ends, found, irregular)
    }
}

#[cfg(test)]
mod tests {
    use crate::header::ElfHeader;
    use crate::{BuildOptions, Elf, Matches, Rows, Tid, build_vec};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashMap;
    use std::sync::Arc;

    const DIMS: usize = 6;
    /// Largest codes: 120 places, some of which have no row, some many.
    const MAX: [u64; DIMS] = [11, 9, 99, 1000, 2, 77];

    struct QuickTable(Vec<[u64; DIMS]>);

    impl Rows for QuickTable {
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

    /// Returns random rows. Their first codes have different numbers of rows, up to long lists; one row in
    /// ten equals an earlier one.
    fn table(rows: usize, rng: &mut StdRng) -> QuickTable {
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
        QuickTable(table)
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
            assert!(ElfHeader::read(&bytes).unwrap().coefficients.is_some());
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
