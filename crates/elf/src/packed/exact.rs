//! Exact match in layout `packed`.
//!
//! This is the general algorithm, for all kinds of lists; the fast path for the usual ones is in quick.rs.

use crate::geometry::LevelFormat;
use crate::kernel::{CodeRange, Kernel, WithKernel, low_bits};
use crate::packed::node::{DENSE, INNER, INNER_HEADER, LINK_LEN, ListNode, PackedTree, SMALL_LEAF};
use crate::packed::shortcuts::SearchStart;
use crate::tids::Tids;
use crate::view::PAD;
use crate::{ElfError, Result, Tid};
use halocline_media::Bytes;

/// Maximum number of values that are compared within a list's first 64 bytes.
pub(crate) const MAX_HEAD_VALUES: u8 = 32;
/// Bytes at the start of a list that are read before its kind is known.
pub(crate) const HEAD: usize = 1 + MAX_HEAD_VALUES as usize;
/// Maximum number of equal values of a middle-sized leaf list that are compared with one mask.
const MAX_MASKED_VALUES: u32 = 32;

/// Bytes of a short leaf list's values, its first byte included.
const SHORT_LEAF_BYTES: usize = 16;

/// Consecutive records that equal the point; there is none if `count` is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EqualRun {
    /// The first record's place; without TIDs its position in the list, and its row after
    /// [`PackedTree::run_in`].
    pub(crate) at: usize,
    pub(crate) len: u32,
    pub(crate) count: u32,
}

/// Offset of a list that is damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DamagedList(pub(crate) usize);

impl From<DamagedList> for ElfError {
    fn from(damage: DamagedList) -> Self {
        ElfError::damaged(damage.0, "a list reaches beyond the nodes")
    }
}

#[inline(always)]
pub(crate) fn is_dense(kind: u8) -> bool {
    kind & !LINK_LEN == INNER | DENSE
}

/// Records of a leaf list that may equal the point.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hits {
    /// The record that bit 0 stands for, and its position in the list.
    pub(crate) records: usize,
    pub(crate) first: usize,
    pub(crate) mask: u64,
}

impl<'a, B: Bytes> PackedTree<'a, B> {
    /// Returns the list at which the search for a point starts.
    #[inline(always)]
    pub(crate) fn start(&self, point: &[u64]) -> SearchStart {
        let shortcuts = &self.header.shortcuts;
        if shortcuts.dims() == 0 {
            return SearchStart::Root;
        }
        shortcuts.start(self.view, point)
    }

    /// Returns the child for `code` of the dense list with this head; 0 if there is none.
    #[inline(always)]
    pub(crate) fn dense_child(&self, head: &[u8; PAD], at: usize, level: &LevelFormat, code: u64) -> usize {
        let entries = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let min = self.view.u64(at + INNER_HEADER) & level.value_mask;
        let position = code.wrapping_sub(min);
        let len = usize::from(head[0] >> 2 & 7) + 1;
        if position >= u64::from(entries) {
            return 0;
        }
        let link = at + INNER_HEADER + level.value_len + position as usize * len;
        self.view.touch(link, len);
        let distance = self.view.uint(link, len) as usize;
        if distance == 0 || distance >= at {
            0
        } else {
            at - distance
        }
    }

    /// Returns the records with the point's code in a leaf list of up to 127 one-byte values; `None` if it is
    /// another list. The first [`HEAD`] bytes have been touched.
    #[inline(always)]
    pub(crate) fn short_leaf<K: Kernel>(
        &self,
        head: &[u8; PAD],
        at: usize,
        depth: usize,
        level: &LevelFormat,
        point: &[u64],
    ) -> Option<Hits> {
        if level.value_len != 1 || point[depth] > 0xff {
            return None;
        }
        let rows = usize::from(head[0]);
        if head[0] > MAX_HEAD_VALUES {
            return self.middle_leaf::<K>(at, rows, depth, point[depth]);
        }
        let wanted = CodeRange {
            lo: point[depth],
            span: 0,
        };
        Some(Hits {
            records: at + 1 + rows,
            first: 0,
            mask: K::between_head(head, rows, wanted),
        })
    }

    /// Implements [`short_leaf`](Self::short_leaf) for leaf lists of 33 to 127 one-byte values.
    #[inline(always)]
    fn middle_leaf<K: Kernel>(&self, at: usize, rows: usize, depth: usize, code: u64) -> Option<Hits> {
        if rows > SMALL_LEAF {
            return None;
        }
        let len = self.geometry().levels[depth].record_len;
        let (values, records) = (at + 1, at + 1 + rows);
        // The values ascend, so the record is likely near its proportional position: it is prefetched while
        // they are compared.
        let share = (rows as u64 * code / (self.geometry().max_codes[depth] + 1)) as usize;
        let guess = records + share.min(rows) * len;
        self.view.prefetch(guess);
        self.view.prefetch((guess + 64).min(records + rows * len));
        self.view.prefetch(guess.saturating_sub(64).max(records));
        let (first, mask) = self.middle_values::<K>(values, rows, code)?;
        Some(Hits {
            records: records + first * len,
            first,
            mask,
        })
    }

    /// Finds `code` among 33 to 127 values: returns the position of the first match and a mask from there on;
    /// `None` if there are too many.
    #[inline(always)]
    pub(crate) fn middle_values<K: Kernel>(
        &self,
        values: usize,
        rows: usize,
        code: u64,
    ) -> Option<(usize, u64)> {
        let wanted = CodeRange { lo: code, span: 0 };
        self.view.touch(values, rows);
        let low = K::between(self.view, values, 1, rows.min(64), wanted);
        let high = K::between(self.view, values + 64, 1, rows.saturating_sub(64), wanted);
        let equal = u128::from(low) | u128::from(high) << 64;
        if equal.count_ones() > MAX_MASKED_VALUES {
            return None;
        }
        let first = equal.trailing_zeros() as usize % 128;
        Some((first, (equal >> first) as u64))
    }

    /// Returns the run of equal records among the hits in a leaf list of dimension `depth`.
    #[inline(always)]
    pub(crate) fn equal<K: Kernel>(&self, hits: Hits, depth: usize, point: &[u64]) -> EqualRun {
        let geometry = self.geometry();
        let level = &geometry.levels[depth];
        let (mask, len) = (hits.mask, level.record_len);
        let more = mask & mask.wrapping_sub(1);
        let Some(bits) = level.tail_mask else {
            return self.equal_run::<K>(hits, len, |record| {
                K::equal(self.view, record, geometry, depth + 1, point)
            });
        };
        let Some(tail) = K::tail(geometry, depth + 1, point) else {
            return EqualRun::default();
        };
        if mask == 0 || more & more.wrapping_sub(1) != 0 {
            return self.equal_run::<K>(hits, len, |record| self.has_tail(record, bits, tail));
        }
        self.one_or_two::<K>(hits, len, bits, tail)
    }

    /// Returns true if the record has these bits above its TID.
    #[inline(always)]
    pub(crate) fn has_tail(&self, record: usize, bits: u64, tail: u64) -> bool {
        let (byte, shift) = self.geometry().tail_at;
        (self.view.u64(record + byte) >> shift) & bits == tail
    }

    /// Returns the run of equal records among one or two hits, without a branch: both are compared, a single
    /// one twice.
    #[inline(always)]
    pub(crate) fn one_or_two<K: Kernel>(&self, hits: Hits, len: usize, bits: u64, tail: u64) -> EqualRun {
        let Hits { records, mask, .. } = hits;
        let more = mask & mask.wrapping_sub(1);
        let first = records + mask.trailing_zeros() as usize * len;
        let second = if more == 0 {
            first
        } else {
            records + more.trailing_zeros() as usize * len
        };
        self.view.touch(first, second - first + len);
        let one = self.has_tail(first, bits, tail);
        let two = self.has_tail(second, bits, tail) & (more != 0);
        let position = if one { mask } else { more }.trailing_zeros() as usize;
        let place = if one { first } else { second };
        EqualRun {
            at: if K::TIDS { place } else { position },
            len: len as u32,
            count: u32::from(one) + u32::from(two),
        }
    }

    #[inline(always)]
    pub(crate) fn equal_run<K: Kernel>(
        &self,
        hits: Hits,
        len: usize,
        equal: impl Fn(usize) -> bool,
    ) -> EqualRun {
        let mut mask = hits.mask;
        let mut run = EqualRun {
            at: 0,
            len: len as u32,
            count: 0,
        };
        while mask != 0 {
            let position = mask.trailing_zeros() as usize;
            let record = hits.records + position * len;
            mask &= mask - 1;
            self.view.touch(record, len);
            if equal(record) {
                let place = if K::TIDS { record } else { position };
                run.at = if run.count == 0 { place } else { run.at };
                run.count += 1;
            } else if run.count > 0 {
                break;
            }
        }
        run
    }

    /// Translates a run that was found among the records from `first` on of the list at `at`: without TIDs,
    /// positions become rows.
    #[inline(always)]
    pub(crate) fn run_in<K: Kernel>(&self, at: usize, first: usize, run: EqualRun) -> EqualRun {
        if K::TIDS {
            return run;
        }
        let row = self.base(at) as usize + first + run.at;
        let within = row as u64 + u64::from(run.count) <= self.geometry().rows;
        EqualRun {
            at: row,
            count: if within { run.count } else { 0 },
            ..run
        }
    }

    /// Performs one step from any list: returns the next list (0 for none), and the run found if there is
    /// none.
    #[inline(always)]
    pub(crate) fn any_list<K: Kernel>(
        &self,
        at: usize,
        depth: usize,
        point: &[u64],
    ) -> Result<(usize, EqualRun), DamagedList> {
        if point
            .get(depth)
            .is_some_and(|&code| code > self.geometry().levels[depth].value_mask)
        {
            return Ok((0, EqualRun::default()));
        }
        let wanted = CodeRange {
            lo: point.get(depth).copied().unwrap_or(0),
            span: 0,
        };
        match self.node(at, depth).map_err(|_| DamagedList(at))? {
            ListNode::Inner(inner) => {
                let (first, end) = inner.interval::<B, K>(self.view, wanted);
                if first == end {
                    return Ok((0, EqualRun::default()));
                }
                self.view
                    .touch(inner.links + first * inner.link_len, inner.link_len);
                Ok((inner.child(self.view, first), EqualRun::default()))
            }
            ListNode::Leaf(leaf) => {
                let (first, end) = leaf.interval::<B, K>(self.view, wanted);
                if depth + 1 >= point.len() {
                    let place = leaf.records_from(first).at;
                    let run = EqualRun {
                        at: if K::TIDS { place } else { first },
                        len: leaf.records.len as u32,
                        count: (end - first) as u32,
                    };
                    return Ok((0, self.run_in::<K>(at, 0, run)));
                }
                // Equal values are usually few (write.rs), but a damaged list may have any number.
                let mut run = EqualRun::default();
                for from in (first..end).step_by(64) {
                    let hits = Hits {
                        records: leaf.records_from(from).at,
                        first: from,
                        mask: low_bits((end - from).min(64)),
                    };
                    let next = self.run_in::<K>(at, from, self.equal::<K>(hits, depth, point));
                    if next.count == 0 && run.count > 0 {
                        break;
                    }
                    run = if run.count == 0 {
                        next
                    } else {
                        EqualRun {
                            count: run.count + next.count,
                            ..run
                        }
                    };
                }
                Ok((0, run))
            }
        }
    }

    /// Prefetches the values of a list that has few.
    #[inline(always)]
    pub(crate) fn fetch(&self, at: usize) {
        self.view.prefetch(at);
        self.view.prefetch(at + SHORT_LEAF_BYTES);
    }

    pub(crate) fn tids(&self, run: EqualRun) -> Tids<'a> {
        if self.geometry().is_clustered() {
            return Tids::consecutive(run.at as Tid, run.count as usize);
        }
        Tids::new(
            self.view
                .rest(run.at, Tids::bytes(run.len as usize, run.count as usize)),
            run.len as usize,
            run.count as usize,
            self.geometry().tid_mask,
        )
    }
}

/// Looks for one point.
pub(crate) struct Exact<'a, 'p, B> {
    pub(crate) tree: PackedTree<'a, B>,
    pub(crate) point: &'p [u64],
}

impl<B: Bytes> WithKernel for Exact<'_, '_, B> {
    type Output = Result<EqualRun, DamagedList>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let Self { tree, point } = self;
        let (view, geometry) = (tree.view, tree.geometry());
        let (mut at, mut depth) = match tree.start(point) {
            SearchStart::List(at) => (at, tree.header.shortcuts.dims()),
            SearchStart::Root => (tree.header.root as usize, 0),
            SearchStart::Nowhere => return Ok(EqualRun::default()),
        };
        loop {
            view.touch(at, HEAD);
            let (Some(head), Some(level)) = (view.head(at), geometry.levels.get(depth)) else {
                return Err(DamagedList(at));
            };
            if let Some(hits) = tree.short_leaf::<K>(head, at, depth, level, point) {
                return Ok(tree.run_in::<K>(at, hits.first, tree.equal::<K>(hits, depth, point)));
            }
            if is_dense(head[0]) && depth < point.len() {
                at = tree.dense_child(head, at, level, point[depth]);
            } else {
                let (next, run) = tree.any_list::<K>(at, depth, point)?;
                if next == 0 {
                    return Ok(run);
                }
                at = next;
            }
            if at == 0 {
                return Ok(EqualRun::default());
            }
            depth += 1;
        }
    }
}
