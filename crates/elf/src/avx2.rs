//! The inner loops in AVX2.
//!
//! Invariant: the functions of [`Avx2`] execute only below [`run`], which has asked the CPU for every feature
//! they use; [`Avx2`] cannot be named as a kernel anywhere else.
#![allow(
    unsafe_code,
    reason = "AVX2 intrinsics, compiled for and called on CPUs that have them"
)]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a chain of intrinsics has one argument: the CPU has AVX2"
)]

use crate::kernel::WithKernel;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run<S: WithKernel>(search: S) -> Result<S::Output, S> {
    Err(search)
}

/// Runs a search with AVX2 if this CPU has it, otherwise returns it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn run<S: WithKernel>(search: S) -> Result<S::Output, S> {
    static AVX2: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("lzcnt")
    });
    if *AVX2 {
        // SAFETY: the CPU has been found to have all the features that `x86::run` is compiled for.
        Ok(unsafe { x86::run(search) })
    } else {
        Err(search)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::Tid;
    use crate::geometry::{Field, MAX_DIMS, RecordGeometry};
    use crate::kernel::{CodeRange, Kernel, Portable, Records, WithKernel, low_bits};
    use crate::packed::point_batch::{FieldCoefficient, FieldCoefficients, PointBatch4};
    use crate::view::{PAD, View};
    use halocline_media::Bytes;
    use std::arch::x86_64::*;

    #[derive(Debug, Clone, Copy)]
    struct Avx2;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) fn run<S: WithKernel>(search: S) -> S::Output {
        search.run::<Avx2>()
    }

    /// Bytes of a vector.
    const V: usize = 32;

    impl Kernel for Avx2 {
        #[inline(always)]
        fn between<B: Bytes>(
            view: View<'_, B>,
            at: usize,
            len: usize,
            count: usize,
            wanted: CodeRange,
        ) -> u64 {
            let lanes = V >> len.trailing_zeros();
            // Whole vectors are loaded: up to 31 bytes beyond the values, for which sound indexes have
            // padding.
            let bytes = (count * len).next_multiple_of(V);
            let Some(from) = view.pointer(at, bytes) else {
                return Portable::between(view, at, len, count, wanted);
            };
            let mut mask = 0;
            let mut k = 0;
            while k < count {
                // SAFETY: `pointer` gave `bytes` readable bytes, and `k * len + V` is at most that, since `k`
                // is a multiple of the lanes; this code runs below `run` only, on a CPU with
                // these features.
                let hits = unsafe {
                    let x = _mm256_loadu_si256(from.add(k * len).cast());
                    match len {
                        1 => hits_u8(x, wanted),
                        2 => hits_u16(x, wanted),
                        4 => hits_u32(x, wanted),
                        _ => hits_u64(x, wanted),
                    }
                };
                mask |= u64::from(hits) << k;
                k += lanes;
            }
            mask & low_bits(count)
        }

        #[inline(always)]
        fn between_head(head: &[u8; PAD], count: usize, wanted: CodeRange) -> u64 {
            debug_assert!(count <= V);
            // SAFETY: bytes 1..33 of the head are loaded; this code runs below `run` only, on a CPU with
            // these features.
            let hits = unsafe { hits_u8(_mm256_loadu_si256(head.as_ptr().add(1).cast()), wanted) };
            u64::from(hits) & low_bits(count)
        }

        #[inline(always)]
        fn filter<B: Bytes>(
            view: View<'_, B>,
            records: Records,
            mask: u64,
            field: Field,
            wanted: CodeRange,
        ) -> u64 {
            let end = 64 - mask.leading_zeros() as usize;
            let narrow = field.shift as usize + field.width() <= 32;
            // Few records are quicker one by one; a gather reaches 4 bytes.
            if mask.count_ones() < 4 || !narrow {
                return Portable::filter(view, records, mask, field, wanted);
            }
            // Records before the first may lie in lines that were not prefetched.
            let mut k = mask.trailing_zeros() as usize;
            let start = records.at + k * records.len + field.byte;
            let Some(from) = view.pointer(start, (end - 1 - k) * records.len + 4) else {
                return Portable::filter(view, records, mask, field, wanted);
            };
            let (first, mut kept) = (k, 0);
            while k < end {
                // SAFETY: every lane reads the four bytes of a record from `first` on and below `end` (the
                // index is capped at `end - 1 - first`), all within what `pointer` has
                // checked; `end * records.len` is at most 64 * 520 and fits an i32. This code
                // runs below `run` only, on a CPU with these features.
                let hits = unsafe {
                    let lane = _mm256_add_epi32(
                        _mm256_set1_epi32((k - first) as i32),
                        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                    );
                    let lane = _mm256_min_epi32(lane, _mm256_set1_epi32((end - 1 - first) as i32));
                    let offset = _mm256_mullo_epi32(lane, _mm256_set1_epi32(records.len as i32));
                    let x = _mm256_i32gather_epi32::<1>(from.cast(), offset);
                    let x = _mm256_srl_epi32(x, _mm_cvtsi32_si128(field.shift as i32));
                    hits_u32(_mm256_and_si256(x, _mm256_set1_epi32(field.mask as i32)), wanted)
                };
                kept |= u64::from(hits) << k;
                k += 8;
            }
            kept & mask
        }

        #[inline(always)]
        fn equal<B: Bytes>(
            view: View<'_, B>,
            at: usize,
            geometry: &RecordGeometry,
            from: usize,
            point: &[u64],
        ) -> bool {
            let dims = point.len();
            let table = &*geometry.table;
            if from >= dims || dims > MAX_DIMS {
                return dims <= MAX_DIMS;
            }
            // The first of the fields is the highest one (geometry.rs lays them out from the last dimension
            // up).
            let Some(record) = view.pointer(at, table.byte[from] as usize + 8) else {
                return Portable::equal(view, at, geometry, from, point);
            };
            let mut dim = from;
            while dim < dims {
                let left = (dims - dim).min(4);
                // SAFETY: `dim < dims <= MAX_DIMS`, so four entries of the tables from `dim` on exist; the
                // masked load reads `left` codes of the point; the gather reads eight bytes
                // at the offsets of dimensions `dim..`, none beyond the field of `from`,
                // which `pointer` has checked (the tables end in zeros). This code runs below
                // `run` only, on a CPU with these features.
                let differ = unsafe {
                    let lanes =
                        _mm256_cmpgt_epi64(_mm256_set1_epi64x(left as i64), _mm256_setr_epi64x(0, 1, 2, 3));
                    let wanted = _mm256_maskload_epi64(point.as_ptr().add(dim).cast(), lanes);
                    let bytes = _mm256_loadu_si256(table.byte.as_ptr().add(dim).cast());
                    let shifts = _mm256_loadu_si256(table.shift.as_ptr().add(dim).cast());
                    let masks = _mm256_loadu_si256(table.mask.as_ptr().add(dim).cast());
                    let words = _mm256_i64gather_epi64::<1>(record.cast(), bytes);
                    let codes = _mm256_and_si256(_mm256_srlv_epi64(words, shifts), masks);
                    // Lanes beyond the point have mask 0 and wanted code 0: equal.
                    _mm256_xor_si256(codes, wanted)
                };
                // SAFETY: as above.
                if unsafe { _mm256_testz_si256(differ, differ) } == 0 {
                    return false;
                }
                dim += 4;
            }
            true
        }

        #[inline(always)]
        fn tail(geometry: &RecordGeometry, from: usize, point: &[u64]) -> Option<u64> {
            let dims = point.len().min(MAX_DIMS);
            let (shifts, masks) = (&geometry.table.tail, &geometry.table.mask);
            let mut dim = from;
            // SAFETY: `dim < dims <= MAX_DIMS`, so four shifts and masks from `dim` on exist; four codes are
            // loaded where at least four are left, and the masked load reads at most the `dims - dim`
            // that are. This code runs below `run` only, on a CPU with these features.
            unsafe {
                let (mut tail, mut beyond) = (_mm256_setzero_si256(), _mm256_setzero_si256());
                while dim < dims {
                    let codes = if dim + 4 <= dims {
                        _mm256_loadu_si256(point.as_ptr().add(dim).cast())
                    } else {
                        let left = _mm256_set1_epi64x((dims - dim) as i64);
                        let lanes = _mm256_cmpgt_epi64(left, _mm256_setr_epi64x(0, 1, 2, 3));
                        _mm256_maskload_epi64(point.as_ptr().add(dim).cast(), lanes)
                    };
                    let shift = _mm256_loadu_si256(shifts.as_ptr().add(dim).cast());
                    let mask = _mm256_loadu_si256(masks.as_ptr().add(dim).cast());
                    tail = _mm256_or_si256(tail, _mm256_sllv_epi64(codes, shift));
                    beyond = _mm256_or_si256(beyond, _mm256_andnot_si256(mask, codes));
                    dim += 4;
                }
                let half = _mm_or_si128(_mm256_castsi256_si128(tail), _mm256_extracti128_si256::<1>(tail));
                let tail = (_mm_cvtsi128_si64(half) | _mm_extract_epi64::<1>(half)) as u64;
                (_mm256_testz_si256(beyond, beyond) == 1).then_some(tail)
            }
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
            let Some(last) = count.checked_sub(1) else {
                return 0;
            };
            let Some(from) = view.pointer(records.at + byte, last * records.len + 8) else {
                return Portable::tails(view, records, count, (byte, shift), bits, tail);
            };
            let mut mask = 0;
            let mut k = 0;
            while k < count {
                // SAFETY: every lane reads eight bytes of a record up to `last` (the index is capped), all
                // within what `pointer` has checked; the offsets are at most 64 * 520 and fit
                // an i32. This code runs below `run` only, on a CPU with these features.
                let equal = unsafe {
                    let shift = _mm_cvtsi32_si128(shift as i32);
                    let (bits, tail) = (_mm256_set1_epi64x(bits as i64), _mm256_set1_epi64x(tail as i64));
                    let (len, last) = (_mm_set1_epi32(records.len as i32), _mm_set1_epi32(last as i32));
                    let four = |first: usize| {
                        let lane = _mm_add_epi32(_mm_set1_epi32(first as i32), _mm_setr_epi32(0, 1, 2, 3));
                        let offset = _mm_mullo_epi32(_mm_min_epi32(lane, last), len);
                        let x = _mm256_i32gather_epi64::<1>(from.cast(), offset);
                        let x = _mm256_and_si256(_mm256_srl_epi64(x, shift), bits);
                        _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(x, tail))) as u32
                    };
                    four(k) | four(k + 4) << 4
                };
                mask |= u64::from(equal) << k;
                k += 8;
            }
            mask & low_bits(count)
        }

        #[inline(always)]
        fn point_batch(coefficients: &[FieldCoefficients], dims: usize, points: &[u64]) -> PointBatch4 {
            let reach = |four: &FieldCoefficients| four.from + 4 > dims;
            if points.len() < 4 * dims || coefficients.last().is_none_or(reach) {
                return Portable::point_batch(coefficients, dims, points);
            }
            let mut quartet = PointBatch4::default();
            // SAFETY: four codes are loaded from dimension `from` of each of the four points; `from + 4` is
            // at most `dims`, since the last `from` is the largest, so they lie within `points`.
            // The stores fill arrays of four words. This code runs below `run` only, on a CPU
            // with these features.
            unsafe {
                let zero = _mm256_setzero_si256();
                let (mut place, mut tail, mut beyond) = (zero, zero, zero);
                for four in coefficients {
                    let load = |point: usize| {
                        _mm256_loadu_si256(points.as_ptr().add(point * dims + four.from).cast())
                    };
                    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
                    let (ab, cd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
                    let (ab2, cd2) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
                    let mut add = |codes: __m256i, weight: &FieldCoefficient| {
                        let all = |word: u64| _mm256_set1_epi64x(word as i64);
                        place = _mm256_add_epi64(place, _mm256_mul_epu32(codes, all(weight.stride)));
                        tail = _mm256_or_si256(tail, _mm256_sllv_epi64(codes, all(weight.shift)));
                        // Negative if the code is above `max`, or above what is.
                        let above = _mm256_or_si256(_mm256_sub_epi64(all(weight.max), codes), codes);
                        beyond = _mm256_or_si256(beyond, above);
                    };
                    add(_mm256_permute2x128_si256::<0x20>(ab, cd), &four.coefficients[0]);
                    add(_mm256_permute2x128_si256::<0x20>(ab2, cd2), &four.coefficients[1]);
                    add(_mm256_permute2x128_si256::<0x31>(ab, cd), &four.coefficients[2]);
                    add(_mm256_permute2x128_si256::<0x31>(ab2, cd2), &four.coefficients[3]);
                }
                let beyond = _mm256_cmpgt_epi64(zero, beyond);
                _mm256_storeu_si256(
                    quartet.places.as_mut_ptr().cast(),
                    _mm256_andnot_si256(beyond, place),
                );
                // All ones where a code is too large: no tail.
                _mm256_storeu_si256(quartet.tails.as_mut_ptr().cast(), _mm256_or_si256(beyond, tail));
            }
            quartet
        }

        #[inline(always)]
        fn tids<B: Bytes>(
            view: View<'_, B>,
            records: Records,
            count: usize,
            tid_mask: u32,
            out: &mut Vec<Tid>,
        ) {
            if count == 0 {
                return;
            }
            let Some(from) = view.pointer(records.at, (count - 1) * records.len + 4) else {
                return Portable::tids(view, records, count, tid_mask, out);
            };
            out.extend((0..count).map(|k| {
                // SAFETY: record `k < count` starts at `k * records.len`, and `pointer` has checked four
                // bytes of the last one; a byte array has alignment 1.
                u32::from_le_bytes(unsafe { from.add(k * records.len).cast::<[u8; 4]>().read() }) & tid_mask
            }));
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn hits_u8(x: __m256i, wanted: CodeRange) -> u32 {
        let x = _mm256_sub_epi8(x, _mm256_set1_epi8(wanted.lo as i8));
        let in_span = _mm256_cmpeq_epi8(_mm256_min_epu8(x, _mm256_set1_epi8(wanted.span as i8)), x);
        _mm256_movemask_epi8(in_span) as u32
    }

    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn hits_u16(x: __m256i, wanted: CodeRange) -> u32 {
        let x = _mm256_sub_epi16(x, _mm256_set1_epi16(wanted.lo as i16));
        let in_span = _mm256_cmpeq_epi16(_mm256_min_epu16(x, _mm256_set1_epi16(wanted.span as i16)), x);
        _pext_u32(_mm256_movemask_epi8(in_span) as u32, 0x5555_5555)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn hits_u32(x: __m256i, wanted: CodeRange) -> u32 {
        let x = _mm256_sub_epi32(x, _mm256_set1_epi32(wanted.lo as i32));
        let in_span = _mm256_cmpeq_epi32(_mm256_min_epu32(x, _mm256_set1_epi32(wanted.span as i32)), x);
        _mm256_movemask_ps(_mm256_castsi256_ps(in_span)) as u32
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn hits_u64(x: __m256i, wanted: CodeRange) -> u32 {
        let sign = _mm256_set1_epi64x(i64::MIN);
        let x = _mm256_xor_si256(_mm256_sub_epi64(x, _mm256_set1_epi64x(wanted.lo as i64)), sign);
        let beyond = _mm256_cmpgt_epi64(x, _mm256_xor_si256(_mm256_set1_epi64x(wanted.span as i64), sign));
        !_mm256_movemask_pd(_mm256_castsi256_pd(beyond)) as u32 & 0xf
    }
}
