//! The fast path of an exact match in layout `packed`: a quartered shortcut to a few records, or a shortcut
//! to a leaf list of up to 127 one-byte values, of which one or two are equal.
//!
//! The CPU overlaps the cache misses of one search with those of the next only as far as its reorder buffer
//! reaches, and not beyond a branch that is mispredicted once its line has come. So the path has few
//! instructions and no branch whose outcome depends on the point, and the result is returned in registers: a
//! result written to memory in parts and read back whole would stall until the search retires. Everything
//! irregular falls back to exact.rs.

use crate::header::ElfHeader;
use crate::kernel::{Kernel, Records, WithKernel};
use crate::packed::exact::{EqualRun, HEAD};
use crate::packed::node::PackedTree;
use crate::packed::shortcuts::{ABOVE, ShortcutForm};
use crate::packed::subranges::{IRREGULAR, SubrangeCounts};
use crate::tids::Tids;
use crate::view::{Image, View};
use halocline_media::Bytes;

/// Looks for one point.
pub(crate) struct Quick<'a, 'p, B> {
    pub(crate) bytes: &'a B,
    pub(crate) image: Option<&'a Image>,
    pub(crate) header: &'a ElfHeader,
    pub(crate) point: &'p [u64],
}

/// A run and its first TID in two words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedRun(u64, u64);

/// Largest value of a shortcut that is not a list.
const NO_LIST: usize = ABOVE as usize;
/// Bits of an offset: more than any address has.
const OFFSET_BITS: u32 = 48;

impl PackedRun {
    /// Value in place of a run: the list is irregular and the general algorithm has to be used.
    const UNUSUAL: Self = Self(0, u64::MAX);
    const NONE: Self = Self(0, 0);

    #[inline(always)]
    fn new(run: EqualRun, first: u32) -> Self {
        Self(
            run.at as u64 | u64::from(run.len) << OFFSET_BITS,
            u64::from(first) | u64::from(run.count) << 32,
        )
    }

    /// Returns the rows found; `None` if the general algorithm has to be used.
    #[inline(always)]
    pub(crate) fn tids<'a, B: Bytes>(self, view: View<'a, B>, header: &ElfHeader) -> Option<Tids<'a>> {
        let Self(place, rows) = self;
        if rows == u64::MAX {
            return None;
        }
        let at = (place & ((1 << OFFSET_BITS) - 1)) as usize;
        let (step, count) = ((place >> OFFSET_BITS) as usize, (rows >> 32) as usize);
        let mask = header.geometry.tid_mask;
        let read = Tids::bytes(step, count);
        Some(Tids::from_first(
            rows as u32,
            view.rest(at, read),
            step,
            count,
            mask,
        ))
    }
}

// Implemented for the reference: it is passed in a register.
impl<B: Bytes> WithKernel for &Quick<'_, '_, B> {
    type Output = PackedRun;

    #[inline(always)]
    fn run<K: Kernel>(self) -> PackedRun {
        let view = View::new(self.bytes, self.image);
        let tree = PackedTree {
            view,
            header: self.header,
        };
        let shortcuts = &self.header.shortcuts;
        let Some(place) = shortcuts.place(self.point) else {
            return PackedRun::NONE;
        };
        let offset = shortcuts.offset(place);
        let (at, counts) = match shortcuts.form {
            ShortcutForm::Quartered => shortcuts.quartered(view, offset),
            ShortcutForm::Direct | ShortcutForm::Near => (shortcuts.word(view, offset), IRREGULAR),
        };
        if at <= ABOVE {
            return if at == ABOVE {
                PackedRun::UNUSUAL
            } else {
                PackedRun::NONE
            };
        }
        let at = at as usize;
        if counts != IRREGULAR {
            return quartered::<B, K>(tree, at, counts, self.point);
        }
        // Prefetched before the values are read: the record may be in any line of a short leaf list.
        view.prefetch(at + 64);
        view.prefetch(at + 128);
        let (level, depth) = (&shortcuts.level, shortcuts.dims());
        let (Some(bits), Some(head)) = (level.tail_mask, view.head(at)) else {
            return PackedRun::UNUSUAL;
        };
        view.touch(at, HEAD);
        let Some(hits) = tree.short_leaf::<K>(head, at, depth, level, self.point) else {
            return PackedRun::UNUSUAL;
        };
        let Some(tail) = K::tail(tree.geometry(), depth + 1, self.point) else {
            return PackedRun::NONE;
        };
        if hits.mask == 0 {
            return PackedRun::NONE;
        }
        let more = hits.mask & (hits.mask - 1);
        if more & more.wrapping_sub(1) != 0 {
            return PackedRun::UNUSUAL;
        }
        let run = tree.one_or_two::<K>(hits, level.record_len, bits, tail);
        let run = tree.run_in::<K>(at, hits.first, run);
        if K::TIDS {
            PackedRun::new(run, view.u32(run.at) & tree.geometry().tid_mask)
        } else {
            PackedRun::new(EqualRun { at: 0, ..run }, run.at as u32)
        }
    }
}

/// Prefetches the first line to be read of the slow tier, if its address follows from the shortcut.
#[inline(always)]
pub(crate) fn ask_for<B: Bytes>(tree: PackedTree<'_, B>, point: &[u64]) {
    let shortcuts = &tree.header.shortcuts;
    let Some(place) = shortcuts.place(point).filter(|_| shortcuts.dims() > 0) else {
        return;
    };
    let offset = shortcuts.offset(place);
    let (at, counts) = match shortcuts.form {
        ShortcutForm::Quartered => shortcuts.quartered(tree.view, offset),
        ShortcutForm::Direct | ShortcutForm::Near => (shortcuts.word(tree.view, offset), IRREGULAR),
    };
    match (at as usize, counts) {
        (..=NO_LIST, _) => {}
        (at, IRREGULAR) => tree.view.prefetch(at),
        (at, counts) => tree.view.prefetch(quarter(tree, at, counts, point).0),
    }
}

/// Returns the first record of the list at `at` in the subrange of the point's code, and the number of
/// records there.
#[inline(always)]
fn quarter<B: Bytes>(tree: PackedTree<'_, B>, at: usize, counts: u16, point: &[u64]) -> (usize, usize) {
    let shortcuts = &tree.header.shortcuts;
    let quarters = &shortcuts.quarters;
    let quarter = quarters.quarter(quarters.rest(point[shortcuts.dims()]));
    let sums = SubrangeCounts::new(counts);
    let part = sums.part(quarter, quarter);
    let first = at + 1 + sums.rows() + part.first * shortcuts.level.record_len;
    (first, part.end - part.first)
}

/// Searches for a point in that subrange of the list at `at` that has its code.
#[inline(always)]
fn quartered<B: Bytes, K: Kernel>(
    tree: PackedTree<'_, B>,
    at: usize,
    counts: u16,
    point: &[u64],
) -> PackedRun {
    let (view, geometry, shortcuts) = (tree.view, tree.geometry(), &tree.header.shortcuts);
    let (quarters, depth, len) = (&shortcuts.quarters, shortcuts.dims(), shortcuts.level.record_len);
    let (first, count) = quarter(tree, at, counts, point);
    // Both lines are prefetched before the first one is read.
    view.prefetch(first + count * len);
    let Some(tail) = K::tail(geometry, depth, point) else {
        return PackedRun::NONE;
    };
    if count == 0 {
        return PackedRun::NONE;
    }
    view.touch(first, count * len);
    let (bits, records) = (quarters.tail_mask, Records { at: first, len });
    let equal = K::tails(view, records, count, geometry.tail_at, bits, tail & bits);
    let run = EqualRun {
        at: first + (equal.trailing_zeros() as usize & 63) * len,
        len: len as u32,
        count: equal.count_ones(),
    };
    if run.count == 0 {
        return PackedRun::NONE;
    }
    PackedRun::new(run, view.u32(run.at) & geometry.tid_mask)
}
