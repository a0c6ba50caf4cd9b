//! The inner loops of searches, in a portable and an AVX2 implementation, one of which is selected when a
//! search starts.
//!
//! Invariants: a mask has bit `k` set for value (or record) `k` of at most 64; bits at and above the count
//! are zero. Both implementations return the same masks (tested against each other), and both read through
//! [`View`] only, so that damaged offsets read as zeros, never out of bounds.

use crate::geometry::{Field, RecordGeometry};
use crate::packed::point_batch::{FieldCoefficients, NO_TAIL, PointBatch4};
use crate::view::{PAD, View};
use crate::{Tid, avx2};
use halocline_media::Bytes;

/// The codes `lo..=lo + span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeRange {
    pub(crate) lo: u64,
    pub(crate) span: u64,
}

impl CodeRange {
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

/// Returns a mask of the lowest `count` bits, `count <= 64`.
#[inline(always)]
pub(crate) fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Inner loops over up to 64 values or records.
pub(crate) trait Kernel: Copy + 'static {
    /// True if records have TIDs; see [`Clustered`].
    const TIDS: bool = true;

    /// Returns the mask of those of `count` values of `len` bytes (1, 2, 4 or 8) at `at` that lie in
    /// `wanted`, whose bounds fit `len` bytes.
    fn between<B: Bytes>(view: View<'_, B>, at: usize, len: usize, count: usize, wanted: CodeRange) -> u64;

    /// Returns the mask of those of the first `count <= 32` one-byte values after a list's first byte that
    /// lie in `wanted`.
    fn between_head(head: &[u8; PAD], count: usize, wanted: CodeRange) -> u64;

    /// Returns the mask of those records of `mask` whose `field` lies in `wanted`.
    fn filter<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        mask: u64,
        field: Field,
        wanted: CodeRange,
    ) -> u64;

    /// Returns true if the record at `at` has the codes of `point` in the dimensions from `from` on.
    fn equal<B: Bytes>(
        view: View<'_, B>,
        at: usize,
        geometry: &RecordGeometry,
        from: usize,
        point: &[u64],
    ) -> bool;

    /// Returns the codes of `point` from dimension `from` on, encoded as in a record above the TID, if they
    /// fit 64 bits; `None` if a code does not fit its field.
    fn tail(geometry: &RecordGeometry, from: usize, point: &[u64]) -> Option<u64>;

    /// Returns the mask of those of the first `count <= 64` records whose bits above the TID, from `at` (byte
    /// and shift) on, equal `tail` under the mask `bits`.
    fn tails<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        count: usize,
        at: (usize, u32),
        bits: u64,
        tail: u64,
    ) -> u64;

    /// Computes the slot indexes and tails of four points of `dims` codes each, row-major in `points`.
    fn point_batch(coefficients: &[FieldCoefficients], dims: usize, points: &[u64]) -> PointBatch4;

    /// Appends the TIDs of `count` records.
    fn tids<B: Bytes>(view: View<'_, B>, records: Records, count: usize, tid_mask: u32, out: &mut Vec<Tid>);
}

/// Plain Rust.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn between<B: Bytes>(view: View<'_, B>, at: usize, len: usize, count: usize, wanted: CodeRange) -> u64 {
        let mut mask = 0;
        for k in 0..count {
            mask |= u64::from(wanted.holds(view.uint(at + k * len, len))) << k;
        }
        mask
    }

    #[inline(always)]
    fn between_head(head: &[u8; PAD], count: usize, wanted: CodeRange) -> u64 {
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
        wanted: CodeRange,
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
        geometry: &RecordGeometry,
        from: usize,
        point: &[u64],
    ) -> bool {
        let mut fields = geometry.fields.iter().zip(point).skip(from);
        fields.all(|(field, &code)| view.u64(at + field.byte) >> field.shift & field.mask == code)
    }

    #[inline(always)]
    fn tail(geometry: &RecordGeometry, from: usize, point: &[u64]) -> Option<u64> {
        let (mut tail, mut beyond) = (0, 0);
        let parts = geometry.table.tail.iter().zip(&geometry.table.mask);
        for (&code, (&shift, &mask)) in point.iter().zip(parts).skip(from) {
            tail |= code << (shift & 63);
            beyond |= code & !mask;
        }
        (beyond == 0).then_some(tail)
    }

    #[inline(always)]
    fn tails<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        count: usize,
        (byte, shift): (usize, u32),
        bits: u64,
        tail: u64,
    ) -> u64 {
        let equal = |k: usize| (view.u64(records.at + k * records.len + byte) >> shift) & bits == tail;
        (0..count).fold(0, |mask, k| mask | u64::from(equal(k)) << k)
    }

    #[inline(always)]
    fn point_batch(coefficients: &[FieldCoefficients], dims: usize, points: &[u64]) -> PointBatch4 {
        let mut quartet = PointBatch4::default();
        for (k, point) in points.chunks_exact(dims).take(4).enumerate() {
            let (mut place, mut tail, mut beyond) = (0_u64, 0, false);
            for four in coefficients {
                for (&code, weight) in point.iter().skip(four.from).zip(&four.coefficients) {
                    place = place.wrapping_add(code.wrapping_mul(weight.stride));
                    tail |= code.checked_shl(weight.shift as u32).unwrap_or(0);
                    beyond |= code > weight.max;
                }
            }
            quartet.places[k] = if beyond { 0 } else { place };
            quartet.tails[k] = if beyond { NO_TAIL } else { tail };
        }
        quartet
    }

    #[inline(always)]
    fn tids<B: Bytes>(view: View<'_, B>, records: Records, count: usize, tid_mask: u32, out: &mut Vec<Tid>) {
        out.extend((0..count).map(|k| view.u32(records.at + k * records.len) & tid_mask));
    }
}

/// A kernel for the lists of a clustered index.
#[derive(Debug, Clone, Copy)]
struct WithoutTids<K>(K);

impl<K: Kernel> Kernel for WithoutTids<K> {
    const TIDS: bool = false;

    #[inline(always)]
    fn between<B: Bytes>(view: View<'_, B>, at: usize, len: usize, count: usize, wanted: CodeRange) -> u64 {
        K::between(view, at, len, count, wanted)
    }

    #[inline(always)]
    fn between_head(head: &[u8; PAD], count: usize, wanted: CodeRange) -> u64 {
        K::between_head(head, count, wanted)
    }

    #[inline(always)]
    fn tails<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        count: usize,
        at: (usize, u32),
        bits: u64,
        tail: u64,
    ) -> u64 {
        K::tails(view, records, count, at, bits, tail)
    }

    #[inline(always)]
    fn point_batch(coefficients: &[FieldCoefficients], dims: usize, points: &[u64]) -> PointBatch4 {
        K::point_batch(coefficients, dims, points)
    }

    #[inline(always)]
    fn filter<B: Bytes>(
        view: View<'_, B>,
        records: Records,
        mask: u64,
        field: Field,
        wanted: CodeRange,
    ) -> u64 {
        K::filter(view, records, mask, field, wanted)
    }

    #[inline(always)]
    fn equal<B: Bytes>(
        view: View<'_, B>,
        at: usize,
        geometry: &RecordGeometry,
        from: usize,
        point: &[u64],
    ) -> bool {
        K::equal(view, at, geometry, from, point)
    }

    #[inline(always)]
    fn tail(geometry: &RecordGeometry, from: usize, point: &[u64]) -> Option<u64> {
        K::tail(geometry, from, point)
    }

    #[inline(always)]
    fn tids<B: Bytes>(view: View<'_, B>, records: Records, count: usize, tid_mask: u32, out: &mut Vec<Tid>) {
        K::tids(view, records, count, tid_mask, out);
    }
}

/// A search in a clustered index. It is compiled a second time for records without TIDs, so that no search
/// pays for the other kind of index.
pub(crate) struct Clustered<S>(pub(crate) S);

impl<S: WithKernel> WithKernel for Clustered<S> {
    type Output = S::Output;

    #[inline(always)]
    fn run<K: Kernel>(self) -> S::Output {
        self.0.run::<WithoutTids<K>>()
    }
}

/// A computation that is generic over the kernel.
pub(crate) trait WithKernel {
    type Output;
    /// Runs with kernel `K`. Must be `#[inline(always)]`, so that it is compiled for the caller's instruction
    /// set.
    fn run<K: Kernel>(self) -> Self::Output;
}

/// Runs a search with the best kernel this CPU has.
#[inline]
pub(crate) fn dispatch<S: WithKernel>(search: S) -> S::Output {
    match avx2::run(search) {
        Ok(output) => output,
        Err(search) => search.run::<Portable>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MAX_DIMS;
    use crate::packed::batch::{Batch, BatchPipeline, GeneralStages};
    use crate::packed::exact::Exact;
    use crate::packed::node::PackedTree;
    use crate::packed::select::Select;
    use crate::packed::shortcuts::{ShortcutForm, Shortcuts};
    use crate::plan::Plan;
    use crate::sink::CollectSink;
    use crate::{BuildOptions, CodePredicate, Matches, Rows, build_vec, header::ElfHeader};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    /// Every inner loop on random bytes, at random places below `end`.
    struct All<'a> {
        end: usize,
        bytes: &'a Arc<[u8]>,
        geometry: &'a RecordGeometry,
        seed: u64,
    }

    impl WithKernel for All<'_> {
        type Output = Vec<u64>;

        #[inline(always)]
        fn run<K: Kernel>(self) -> Vec<u64> {
            let view = View::new(self.bytes, None);
            let mut rng = StdRng::seed_from_u64(self.seed);
            let mut answers = vec![];
            let dims = self.geometry.dims();
            let shortcuts = (1..dims)
                .filter_map(|depth| Shortcuts::new(self.geometry, depth, ShortcutForm::Near, 1 << 20))
                .filter_map(|shortcuts| FieldCoefficients::all(self.geometry, &shortcuts));
            for coefficients in shortcuts {
                for _ in 0..200 {
                    let mut points: Vec<u64> = (0..4 * dims)
                        .map(|i| rng.random_range(0..=self.geometry.max_codes[i % dims]))
                        .collect();
                    if rng.random() {
                        let code = rng.random_range(0..points.len());
                        points[code] = rng.random::<u64>() >> rng.random_range(0..64);
                    }
                    let PointBatch4 { places, tails } = K::point_batch(&coefficients, dims, &points);
                    answers.extend(places.into_iter().chain(tails));
                }
            }
            for _ in 0..2000 {
                let at = rng.random_range(0..self.end);
                let len = 1 << rng.random_range(0..4);
                let max = u64::MAX >> (64 - 8 * len);
                let (a, b) = (rng.random::<u64>() & max, rng.random::<u64>() & max);
                let wanted = CodeRange {
                    lo: a.min(b),
                    span: a.max(b) - a.min(b),
                };
                answers.push(K::between(view, at, len, rng.random_range(0..=64), wanted));
                if let Some(head) = view.head(at) {
                    let wanted = CodeRange {
                        lo: a & 0x7f,
                        span: b & 0x7f,
                    };
                    answers.push(K::between_head(head, rng.random_range(0..=32), wanted));
                }
                let depth = rng.random_range(0..self.geometry.dims());
                let records = Records {
                    at,
                    len: self.geometry.levels[depth].record_len,
                };
                let field = self.geometry.fields[rng.random_range(0..self.geometry.dims())];
                let (a, b) = (a & field.mask, b & field.mask);
                let wanted = CodeRange {
                    lo: a.min(b),
                    span: a.max(b) - a.min(b),
                };
                let mask = rng.random::<u64>() >> rng.random_range(0..64);
                answers.push(K::filter(view, records, mask, field, wanted));
                let (tail_at, bits) = (self.geometry.tail_at, u64::MAX >> rng.random_range(4..64));
                let wanted = at + rng.random_range(0..64) * records.len + tail_at.0;
                let tail = view.u64(wanted) >> tail_at.1 & bits;
                let count = rng.random_range(0..=64);
                answers.push(K::tails(view, records, count, tail_at, bits, tail));
                let mut tids = vec![];
                K::tids(
                    view,
                    records,
                    rng.random_range(0..64),
                    self.geometry.tid_mask,
                    &mut tids,
                );
                answers.extend(tids.into_iter().map(u64::from));
                let code = |f: &Field| view.u64(at + f.byte) >> f.shift & f.mask;
                let mut point: Vec<u64> = self.geometry.fields.iter().map(code).collect();
                if rng.random() {
                    let dim = rng.random_range(0..point.len());
                    point[dim] ^= 1 << rng.random_range(0..64);
                }
                answers.push(K::equal(view, at, self.geometry, depth, &point).into());
                if let Some(bits) = self.geometry.levels[depth].tail_mask {
                    answers
                        .push(K::tail(self.geometry, depth + 1, &point).map_or(u64::MAX, |tail| tail & bits));
                }
            }
            answers
        }
    }

    #[test]
    fn both_kernels_give_the_same() {
        let mut rng = StdRng::seed_from_u64(11);
        for (dims, most) in [1, 2, 3, 4, 5, 10, MAX_DIMS]
            .into_iter()
            .flat_map(|dims| [(dims, 0), (dims, 57)])
        {
            // Up to 64 bits, or up to 7.
            let max_codes = (0..dims)
                .map(|_| u64::MAX >> rng.random_range(most..64))
                .collect();
            let geometry = RecordGeometry::new(1 << rng.random_range(1..31), max_codes);
            let bytes: Arc<[u8]> = (0..50_000).map(|_| rng.random::<u8>()).collect();
            let all = |end| All {
                end,
                bytes: &bytes,
                geometry: &geometry,
                seed: dims as u64,
            };
            // All records and what a vector reads past them are within the bytes.
            let end = bytes.len() - 64 * 520 - PAD;
            assert!(
                dispatch(all(end)) == all(end).run::<Portable>(),
                "{dims} dimensions"
            );
            // Beyond the end they may differ, but neither fails.
            dispatch(all(bytes.len() + 100));
            all(bytes.len() + 100).run::<Portable>();
        }
    }

    struct RandomTable(Vec<[u64; 5]>);

    impl Rows for RandomTable {
        fn rows(&self) -> usize {
            self.0.len()
        }

        fn dims(&self) -> usize {
            5
        }

        fn max_code(&self, dim: usize) -> u64 {
            [9, 99, 20, 300, 5][dim]
        }

        fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
            out.iter_mut()
                .zip(&self.0[start..])
                .for_each(|(out, row)| *out = row[dim]);
        }
    }

    #[test]
    fn both_kernels_find_the_same() {
        let mut rng = StdRng::seed_from_u64(12);
        let row = |rng: &mut StdRng| [9, 99, 20, 300, 5].map(|max| rng.random_range(0..=max));
        let table = RandomTable((0..30_000).map(|_| row(&mut rng)).collect());
        let bytes: Arc<[u8]> = build_vec(&table, &BuildOptions::default()).unwrap().into();
        let header = ElfHeader::read(&bytes).unwrap();
        let tree = PackedTree {
            view: View::new(&bytes, None),
            header: &header,
        };
        let tuples: Vec<u64> = table.0.iter().take(500).flatten().copied().collect();
        let (buckets, mut points) = (header.geometry.buckets.unwrap(), vec![]);
        buckets.points(&tuples, 5, &mut points);
        let [mut a, mut b] = [Matches::new(), Matches::new()];
        let batch = |out| Batch {
            tree,
            dims: header.geometry.dims(),
            coefficients: &[],
            points: &points,
            out,
        };
        dispatch(BatchPipeline(batch(&mut a), GeneralStages)).unwrap();
        BatchPipeline(batch(&mut b), GeneralStages)
            .run::<Portable>()
            .unwrap();
        assert_eq!(a.tids(), b.tids());
        for (point, tuple) in points.chunks(6).zip(tuples.chunks(5)) {
            let found: Vec<Tid> = tree.tids(dispatch(Exact { tree, point }).unwrap()).collect();
            assert!(found.iter().all(|&tid| table.0[tid as usize] == tuple) && !found.is_empty());
            assert!(
                tree.tids(Exact { tree, point }.run::<Portable>().unwrap())
                    .eq(found)
            );
            let range = |&lo: &u64| CodePredicate::Range { lo, hi: lo + 5 };
            let mut predicates: Vec<CodePredicate> = tuple.iter().map(range).collect();
            predicates[rng.random_range(0..5)] = CodePredicate::Any;
            let predicates = buckets.predicates(&predicates);
            let plan = Plan::new(&predicates, &header.geometry).unwrap().unwrap();
            let [mut a, mut b] = [vec![], vec![]];
            dispatch(Select {
                tree,
                plan: &plan,
                sink: &mut CollectSink::new(&mut a, 30_000),
                counts: None,
                from: &[header.root as usize],
                depth: 0,
                reads_ahead: true,
            })
            .unwrap();
            Select {
                tree,
                plan: &plan,
                sink: &mut CollectSink::new(&mut b, 30_000),
                counts: None,
                from: &[header.root as usize],
                depth: 0,
                reads_ahead: false,
            }
            .run::<Portable>()
            .unwrap();
            assert_eq!(a, b);
        }
    }
}
