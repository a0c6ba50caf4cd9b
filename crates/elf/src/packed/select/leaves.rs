//! Leaf lists: the mask of the records whose values match, and the tests of the dimensions beyond.

use super::LevelTraversal;
use super::query::LevelQuery;
use crate::Result;
use crate::kernel::{Kernel, Records, low_bits};
use crate::packed::node::LeafList;
use crate::plan::Test;
use crate::sink::MatchSink;
use crate::view::PAD;
use halocline_media::Bytes;

/// Maximum number of values that are compared within a list's first 64 bytes.
pub(super) const MAX_HEAD_VALUES: usize = 32;
/// Maximum number of hits of a leaf list for which testing the records is postponed until they are
/// prefetched.
const MAX_POSTPONED_HITS: u32 = 8;
/// Leaf lists whose records are in flight.
const CANDIDATES: usize = 16;

impl<'p, B: Bytes, S: MatchSink> LevelTraversal<'_, 'p, B, S> {
    /// Searches a leaf list of up to 32 one-byte values. If few of them match, their records are prefetched
    /// and tested later.
    #[inline(always)]
    pub(super) fn short_leaf<K: Kernel>(
        &mut self,
        at: usize,
        head: &[u8; PAD],
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let view = self.tree.view;
        let rows = usize::from(head[0]);
        let records = Records {
            at: at + 1 + rows,
            len: query.level.record_len,
        };
        let row = if K::TIDS { 0 } else { self.tree.base(at) };
        if query.any {
            return self.window::<K>(records, low_bits(rows), row, query);
        }
        let mut mask = K::between_head(head, rows, query.between);
        if let Some(set) = query.set {
            mask = keep(mask, |k| set.holds(u64::from(head[1 + k % MAX_HEAD_VALUES])));
        }
        if mask == 0 {
            return Ok(());
        }
        if mask.count_ones() > MAX_POSTPONED_HITS {
            return self.window::<K>(records, mask, row, query);
        }
        let first = records.at + mask.trailing_zeros() as usize * records.len;
        view.prefetch(first);
        view.prefetch(first + records.len);
        self.candidates.push((records.at, mask, row));
        if self.candidates.len() >= CANDIDATES {
            self.test_candidates::<K>(query)?;
        }
        Ok(())
    }

    /// Tests the candidate records of the current level, and empties their list.
    #[inline(always)]
    pub(super) fn test_candidates<K: Kernel>(&mut self, query: &LevelQuery<'p>) -> Result<()> {
        for i in 0..self.candidates.len() {
            let (at, mask, row) = self.candidates[i];
            let len = query.level.record_len;
            self.window::<K>(Records { at, len }, mask, row, query)?;
        }
        self.candidates.clear();
        Ok(())
    }

    /// Emits the matching rows of a leaf list of any size.
    #[inline(always)]
    pub(super) fn leaf<K: Kernel>(
        &mut self,
        leaf: &LeafList,
        at: usize,
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let view = self.tree.view;
        let (first, end) = if query.any {
            (0, leaf.rows)
        } else {
            leaf.interval::<B, K>(view, query.between)
        };
        let base = if K::TIDS { 0 } else { self.tree.base(at) };
        if (S::COUNTS || !K::TIDS) && query.rest.is_empty() && query.set.is_none() {
            return self.sink.rows(base + first as u64, (end - first) as u64);
        }
        for from in (first..end).step_by(64) {
            let mut mask = low_bits((end - from).min(64));
            if let Some(set) = query.set {
                let value = |k| view.uint(leaf.values + (from + k) * leaf.value_len, leaf.value_len);
                mask = keep(mask, |k| set.holds(value(k)));
            }
            self.window::<K>(leaf.records_from(from), mask, base + from as u64, query)?;
        }
        Ok(())
    }

    /// Emits those of up to 64 neighbouring records that pass the remaining tests; those of `mask` have
    /// passed the level's own test. In a clustered index `row` is the row of the first record.
    #[inline(always)]
    fn window<K: Kernel>(
        &mut self,
        records: Records,
        mask: u64,
        row: u64,
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let last = 63 - mask.leading_zeros().min(63) as usize;
        let first = mask.trailing_zeros() as usize;
        self.tree.view.touch(
            records.at + first * records.len,
            (last + 1).saturating_sub(first) * records.len,
        );
        self.tested::<K>(records, mask, row, query)
    }

    /// Implements [`window`](Self::window) for records that have been touched.
    #[inline(always)]
    pub(super) fn tested<K: Kernel>(
        &mut self,
        records: Records,
        mut mask: u64,
        row: u64,
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let view = self.tree.view;
        for dim in query.rest.iter().map(|&dim| usize::from(dim)) {
            let field = self.tree.geometry().fields[dim];
            mask = match &self.plan.tests[dim] {
                Test::Any => mask,
                Test::Range(between) => K::filter(view, records, mask, field, *between),
                Test::Set(set) => {
                    let bounded = K::filter(view, records, mask, field, set.bounds);
                    let code =
                        |k| (view.u64(records.at + k * records.len + field.byte) >> field.shift) & field.mask;
                    keep(bounded, |k| set.holds(code(k)))
                }
            };
            if mask == 0 {
                return Ok(());
            }
        }
        if S::COUNTS {
            self.sink.add(u64::from(mask.count_ones()));
            return Ok(());
        }
        if !K::TIDS {
            while mask != 0 {
                let first = mask.trailing_zeros();
                let count = (!(mask >> first)).trailing_zeros();
                self.sink.rows(row + u64::from(first), u64::from(count))?;
                mask &= !(low_bits(count as usize) << first);
            }
            return Ok(());
        }
        let tid_mask = self.tree.geometry().tid_mask;
        let buffer = self.sink.buffer();
        let (first, count) = (mask.trailing_zeros() as usize, mask.count_ones() as usize);
        if count > 4 && mask >> first == low_bits(count) {
            let records = Records {
                at: records.at + first * records.len,
                ..records
            };
            K::tids(view, records, count, tid_mask, buffer);
        } else {
            while mask != 0 {
                let k = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                buffer.push(view.u32(records.at + k * records.len) & tid_mask);
            }
        }
        self.sink.appended()
    }
}

/// Returns the bits of `mask` for which `wanted` holds.
#[inline(always)]
fn keep(mask: u64, wanted: impl Fn(usize) -> bool) -> u64 {
    let (mut left, mut kept) = (mask, 0);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        kept |= u64::from(wanted(k)) << k;
    }
    kept
}
