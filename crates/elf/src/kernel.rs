//! The inner loops, once portable and once for AVX2; which one runs is decided when a search starts.
//!
//! Invariants: a mask has bit `k` set for value (or record) `k` of at most 64; bits at and above the count are zero.
//! Both implementations give the same masks (tested against each other), and both read through [`View`] only, so that
//! damaged offsets give zeros, never reads out of bounds.

use crate::geometry::{Field, Geometry};
use crate::view::{PAD, View};
use crate::{Tid, avx2};
use halocline_media::Bytes;

/// The codes `lo..=lo + span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Between {
    pub(crate) lo: u64,
    pub(crate) span: u64,
}

impl Between {
    #[inline(always)]
    pub(crate) fn holds(self, code: u64) -> bool {
        code.wrapping_sub(self.lo) <= self.span
    }

    #[inline(always)]
    pub(crate) fn hi(self) -> u64 {
        self.lo + self.span
    }
}

/// Records of `len` bytes from `at` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// A mask of the lowest `count` bits, `count <= 64`.
#[inline(always)]
pub(crate) fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Inner loops over up to 64 values or records.
pub(crate) trait Kernel: Copy + 'static {
    /// Which of `count` values of `len` bytes (1, 2, 4 or 8) at `at` lie in `wanted`, whose bounds fit `len` bytes.
    fn between<B: Bytes>(view: View<'_, B>, at: usize, len: usize, count: usize, wanted: Between) -> u64;

    /// Which of the first `count <= 32` one-byte values behind a list's first byte lie in `wanted`.
    fn between_head(head: &[u8; PAD], count: usize, wanted: Between) -> u64;

    /// Which of the records of `mask` have a `field` in `wanted`.
    fn filter<B: Bytes>(view: View<'_, B>, records: Records, mask: u64, field: Field, wanted: Between)
    -> u64;

    /// Whether the record at `at` has the codes of `point` in the dimensions from `from` on.
    fn equal<B: Bytes>(view: View<'_, B>, at: usize, geometry: &Geometry, from: usize, point: &[u64])
    -> bool;

    /// The codes of `point` from dimension `from` on, as they stand in a record above the TID, where they fit 64 bits.
    /// `None` if a code does not fit its field.
    fn tail(geometry: &Geometry, from: usize, point: &[u64]) -> Option<u64>;

    /// Appends the TIDs of `count` records.
    fn tids<B: Bytes>(view: View<'_, B>, records: Records, count: usize, tid_mask: u32, out: &mut Vec<Tid>);
}

/// Plain Rust.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn between<B: Bytes>(view: View<'_, B>, at: usize, len: usize, count: usize, wanted: Between) -> u64 {
        let mut mask = 0;
        for k in 0..count {
            mask |= u64::from(wanted.holds(view.uint(at + k * len, len))) << k;
        }
        mask
    }

    #[inline(always)]
    fn between_head(head: &[u8; PAD], count: usize, wanted: Between) -> u64 {
        let values = head[1..].iter().take(count).enumerate();
        values.fold(0, |mask, (k, &value)| {
            mask | u64::from(wanted.holds(u64::from(value))) << k
        })
    }

    #[inline(always)]
    fn filter<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        mut mask: u64,
        field: Field,
        wanted: Between,
    ) -> u64 {
        let mut kept = 0;
        while mask != 0 {
            let k = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let code = (view.u64(records.at + k * records.len + field.byte) >> field.shift) & field.mask;
            kept |= u64::from(wanted.holds(code)) << k;
        }
        kept
    }

    #[inline(always)]
    fn equal<B: Bytes>(
        view: View<'_, B>,
        at: usize,
        geometry: &Geometry,
        from: usize,
        point: &[u64],
    ) -> bool {
        let mut fields = geometry.fields.iter().zip(point).skip(from);
        fields.all(|(field, &code)| view.u64(at + field.byte) >> field.shift & field.mask == code)
    }

    #[inline(always)]
    fn tail(geometry: &Geometry, from: usize, point: &[u64]) -> Option<u64> {
        let (mut tail, mut beyond) = (0, 0);
        let parts = geometry.table.tail.iter().zip(&geometry.table.mask);
        for (&code, (&shift, &mask)) in point.iter().zip(parts).skip(from) {
            tail |= code << (shift & 63);
            beyond |= code & !mask;
        }
        (beyond == 0).then_some(tail)
    }

    #[inline(always)]
    fn tids<B: Bytes>(view: View<'_, B>, records: Records, count: usize, tid_mask: u32, out: &mut Vec<Tid>) {
        out.extend((0..count).map(|k| view.u32(records.at + k * records.len) & tid_mask));
    }
}

/// A search that can be compiled for either kernel.
pub(crate) trait Search {
    type Output;
    /// Must be `#[inline(always)]`, so that it is compiled for the caller's instruction set.
    fn run<K: Kernel>(self) -> Self::Output;
}

/// Runs a search with the best kernel this CPU has.
#[inline]
pub(crate) fn dispatch<S: Search>(search: S) -> S::Output {
    match avx2::run(search) {
        Ok(output) => output,
        Err(search) => search.run::<Portable>(),
    }
}
