//! Range matches behind quartered shortcuts: reads the records of a few subranges of each list and not its
//! values.

use super::LevelTraversal;
use super::query::LevelQuery;
use crate::Result;
use crate::kernel::{CodeRange, Kernel, Records, low_bits};
use crate::packed::subranges::{SubrangeCounts, SubrangeRows, SubrangeScheme};
use crate::sink::MatchSink;
use crate::view::count_of;
use halocline_media::Bytes;

/// Lists whose records are in flight before the first of them is read.
const AHEAD: usize = 32;
/// Bytes of a line.
const LINE: usize = 64;

/// The rows of a short leaf list whose codes lie between two bounds. The bounds have only those bits of a
/// code that differ within a list: at most 8.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubrangeSlice {
    /// The list.
    pub(crate) at: usize,
    /// The row counts of its place.
    pub(crate) counts: u16,
    pub(crate) lo: u8,
    pub(crate) hi: u8,
}

impl SubrangeSlice {
    /// Returns the list's records, and which of them are in subranges that overlap the bounds.
    #[inline(always)]
    fn records(&self, quarters: &SubrangeScheme, len: usize) -> (Records, SubrangeRows) {
        let sums = SubrangeCounts::new(self.counts);
        let quarter = |code: u8| quarters.quarter(u64::from(code));
        let at = self.at + 1 + sums.rows();
        (Records { at, len }, sums.part(quarter(self.lo), quarter(self.hi)))
    }
}

impl<'p, B: Bytes, S: MatchSink> LevelTraversal<'_, 'p, B, S> {
    /// Emits the rows of these slices that pass the remaining tests.
    #[inline(always)]
    pub(super) fn slices<K: Kernel>(
        &mut self,
        slices: &[SubrangeSlice],
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let quarters = &self.tree.header.shortcuts.quarters;
        let len = query.level.record_len;
        for slice in &slices[..slices.len().min(AHEAD)] {
            self.ask_for(slice, quarters, len);
        }
        for (i, slice) in slices.iter().enumerate() {
            if let Some(ahead) = slices.get(i + AHEAD) {
                self.ask_for(ahead, quarters, len);
            }
            if let Some(counts) = self.counts {
                counts.count(count_of(slice.at, counts));
            }
            let (records, part) = slice.records(quarters, len);
            if part.first < part.end {
                let from = records.at + part.first * len;
                self.tree.view.touch(from, (part.end - part.first) * len);
                let mask = self.between::<K>(slice, records, part);
                if mask != 0 {
                    self.tested::<K>(records, mask, 0, query)?;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn ask_for(&self, slice: &SubrangeSlice, quarters: &SubrangeScheme, len: usize) {
        let (records, part) = slice.records(quarters, len);
        if part.first < part.end {
            let (from, end) = (records.at + part.first * len, records.at + part.end * len);
            for line in (from & !(LINE - 1)..end).step_by(LINE) {
                self.tree.view.prefetch(line);
            }
        }
    }

    /// Returns a mask of the records with a code of the slice: all records of inner subranges, and in the
    /// subrange of each bound those whose low bits are within it.
    #[inline(always)]
    fn between<K: Kernel>(&self, slice: &SubrangeSlice, records: Records, part: SubrangeRows) -> u64 {
        let quarters = &self.tree.header.shortcuts.quarters;
        let (lo, hi) = (u64::from(slice.lo), u64::from(slice.hi));
        let (first, last) = (quarters.quarter(lo), quarters.quarter(hi));
        let low = quarters.low.mask;
        let (from, to) = (lo & low, hi & low);
        let mask = low_bits(part.end) & !low_bits(part.first);
        if first == last {
            return self.edge::<K>(records, mask, part, from, to);
        }
        let sums = SubrangeCounts::new(slice.counts);
        let mask = self.edge::<K>(records, mask, sums.part(first, first), from, low);
        self.edge::<K>(records, mask, sums.part(last, last), 0, to)
    }

    /// Removes from the mask the rows of a subrange whose low bits are outside `from..=to`.
    #[inline(always)]
    fn edge<K: Kernel>(&self, records: Records, mask: u64, of: SubrangeRows, from: u64, to: u64) -> u64 {
        let low = self.tree.header.shortcuts.quarters.low;
        if to - from >= low.mask {
            return mask;
        }
        let rows = low_bits(of.end) & !low_bits(of.first);
        let wanted = CodeRange {
            lo: from,
            span: to - from,
        };
        mask & !rows | K::filter(self.tree.view, records, rows, low, wanted)
    }
}

#[cfg(test)]
mod tests {
    use crate::header::ElfHeader;
    use crate::packed::shortcuts::ShortcutForm;
    use crate::{BuildOptions, CodePredicate, Elf, Matches, Rows, Tid, build_vec};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    const DIMS: usize = 5;

    struct SubrangeTable {
        max: [u64; DIMS],
        rows: Vec<[u64; DIMS]>,
    }

    impl SubrangeTable {
        /// Creates random rows, one in eight of which is a copy of another one; those with first code 0 have
        /// the same third one as a rule, so their lists have many rows in a quarter.
        fn new(max: [u64; DIMS], rows: usize, rng: &mut StdRng) -> Self {
            let mut table = Self { max, rows: vec![] };
            for row in 0..rows {
                let mut codes = max.map(|max| rng.random_range(0..=max));
                if codes[0] == 0 && rng.random_range(0..10) > 0 {
                    codes[2] = 3;
                }
                if row > 0 && rng.random_range(0..8) == 0 {
                    codes = table.rows[rng.random_range(0..row)];
                }
                table.rows.push(codes);
            }
            table
        }

        fn matching(&self, wanted: impl Fn(&[u64; DIMS]) -> bool) -> Vec<Tid> {
            let rows = self.rows.iter().enumerate();
            rows.filter(|(_, row)| wanted(row))
                .map(|(tid, _)| tid as Tid)
                .collect()
        }
    }

    impl Rows for SubrangeTable {
        fn rows(&self) -> usize {
            self.rows.len()
        }

        fn dims(&self) -> usize {
            DIMS
        }

        fn max_code(&self, dim: usize) -> u64 {
            self.max[dim]
        }

        fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
            out.iter_mut()
                .zip(&self.rows[start..])
                .for_each(|(out, row)| *out = row[dim]);
        }
    }

    #[test]
    fn quarters_find_what_brute_force_finds() {
        let seed = 0x9a37;
        let mut rng = StdRng::seed_from_u64(seed);
        // Without and with buckets, and with quarters of one code.
        for (max, rows, buckets) in [
            ([11, 9, 31, 7, 77], 1500, false),
            ([11, 9, 99, 7, 7], 6000, true),
            ([11, 9, 3, 2, 2], 1100, false),
        ] {
            let table = SubrangeTable::new(max, rows, &mut rng);
            let bytes: Arc<[u8]> = build_vec(&table, &BuildOptions::default()).unwrap().into();
            let header = ElfHeader::read(&bytes).unwrap();
            let what = format!("seed {seed:#x}, {max:?}");
            assert_eq!(header.shortcuts.form, ShortcutForm::Quartered, "{what}");
            assert_eq!(header.geometry.buckets.is_some(), buckets, "{what}");
            let elf = Elf::open(bytes.clone()).unwrap();
            elf.check().unwrap();
            let mut points: Vec<[u64; DIMS]> = table.rows.clone();
            for _ in 0..500 {
                let mut point = table.rows[rng.random_range(0..rows)];
                let dim = rng.random_range(0..DIMS);
                point[dim] = rng.random_range(0..=max[dim] + 1);
                points.push(point);
            }
            let mut batch = Matches::new();
            elf.exact_batch(points.as_flattened(), &mut batch).unwrap();
            for (i, point) in points
                .iter()
                .enumerate()
                .filter(|(i, _)| i % 3 == 0 || *i >= rows)
            {
                let equal = table.matching(|row| row == point);
                assert_eq!(
                    elf.exact(point).unwrap().collect::<Vec<_>>(),
                    equal,
                    "{what} {point:?}"
                );
                assert_eq!(batch.get(i), equal, "{what} {point:?}");
            }
            for _ in 0..1500 {
                let bounds = max.map(|max| {
                    let (a, b) = (rng.random_range(0..=max), rng.random_range(0..=max + 3));
                    (a.min(b), a.max(b))
                });
                let open: [bool; DIMS] = std::array::from_fn(|dim| dim != 2 && rng.random_range(0..3) == 0);
                let predicates: Vec<CodePredicate> = (0..DIMS)
                    .map(|dim| match (open[dim], bounds[dim]) {
                        (true, _) => CodePredicate::Any,
                        (false, (lo, hi)) => CodePredicate::Range { lo, hi },
                    })
                    .collect();
                let holds =
                    |dim: usize, code: u64| open[dim] || (bounds[dim].0..=bounds[dim].1).contains(&code);
                let expected = table.matching(|row| (0..DIMS).all(|dim| holds(dim, row[dim])));
                let selection = elf.select(&predicates).unwrap();
                assert_eq!(
                    selection.count().unwrap(),
                    expected.len() as u64,
                    "{what} {bounds:?}"
                );
                let mut found = selection.tids().unwrap();
                found.sort_unstable();
                assert_eq!(found, expected, "{what} {bounds:?} {open:?}");
            }
        }
    }

    #[test]
    fn damaged_quarters_are_found() {
        let mut rng = StdRng::seed_from_u64(0x9a38);
        let table = SubrangeTable::new([11, 9, 31, 7, 77], 1500, &mut rng);
        let bytes = build_vec(&table, &BuildOptions::default()).unwrap();
        let header = ElfHeader::read(&bytes).unwrap();
        let at = header.shortcuts.offset(60);
        let view_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let line = at / 64 * 64;
        let base = u32::from_le_bytes(bytes[line..line + 4].try_into().unwrap()) as usize * 64;
        let list = base + usize::from(view_at(&bytes, at));
        let (rows, len) = (usize::from(bytes[list]), header.shortcuts.level.record_len);
        let last_byte = list + 1 + rows + len - 1;
        for (byte, bit) in [(at + 2, 0), (at, 1), (line, 0), (last_byte, 6)] {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1 << bit;
            let elf = Elf::open(Arc::<[u8]>::from(damaged)).unwrap();
            assert!(elf.check().is_err(), "byte {byte}, bit {bit}");
            // Wrong answers are what damage gives; neither search fails or reads what is not there.
            for row in &table.rows {
                elf.exact(row).unwrap().count();
            }
        }
    }
}
