//! Sorting rows: scattered by their highest bits while they are read, then each bucket on its own.
//!
//! Invariant: between the counting and the scattering pass, each (stripe of rows, bucket) owns its own range
//! of the destination; a stripe never writes beyond its ranges, even if the source returns other codes the
//! second time.
#![allow(
    unsafe_code,
    reason = "threads write interleaved, disjoint places of one destination"
)]

use crate::build::record::{RecordEncoder, SortRecord, compare, top_bits};
use crate::{ElfError, Result, Rows};
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;

/// Rows read at a time.
const CHUNK: usize = 1024;
/// A bucket of more rows is sorted by all threads together.
const LARGE_BUCKET: usize = 1 << 18;

/// A destination that several threads write to.
struct SharedSlice<'a, T> {
    first: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `put`, whose contract keeps threads apart; T itself may move between threads.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T: Copy> SharedSlice<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        Self {
            first: slice.as_mut_ptr(),
            len: slice.len(),
            owner: PhantomData,
        }
    }

    /// Writes `value` to index `at`.
    ///
    /// # Panics
    /// If `at` is out of bounds.
    ///
    /// # Safety
    /// No other thread accesses index `at` during the call.
    #[inline(always)]
    unsafe fn put(&self, at: usize, value: T) {
        assert!(at < self.len);
        // SAFETY: `at` is within the slice this was made from, which is borrowed mutably for 'a; the caller
        // keeps other threads away from this place.
        let place = unsafe { self.first.add(at) };
        // SAFETY: as above; a place of a slice is aligned and writable.
        unsafe { place.write(value) };
    }
}

/// Sorts the rows `range` into `out`, which has their number of records. Uses the current rayon pool.
pub(crate) fn sort<R: Rows + ?Sized, const W: usize>(
    encoder: &RecordEncoder<'_, R>,
    range: Range<usize>,
    out: &mut [SortRecord<W>],
) -> Result<()> {
    let rows = range.len();
    assert_eq!(rows, out.len());
    // About a thousand rows a bucket: they are sorted within the first-level cache.
    let bits = (rows.max(1).ilog2().saturating_sub(10) as usize)
        .min(14)
        .min(encoder.geometry.bits);
    let threads = rayon::current_num_threads();
    let stripe = rows.div_ceil(threads).next_multiple_of(CHUNK);
    let stripes: Vec<Range<usize>> = (0..threads)
        .map(|i| (i * stripe).min(rows)..((i + 1) * stripe).min(rows))
        .collect();
    let counts = stripes
        .par_iter()
        .map(|stripe| {
            let mut counts = vec![0_usize; 1 << bits];
            chunks::<R, W>(
                encoder,
                range.start,
                stripe,
                encoder.dims_within(bits),
                |record| {
                    counts[top_bits(record, encoder.geometry, bits)] += 1;
                    Ok(())
                },
            )?;
            Ok(counts)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut place = 0;
    let mut bounds = Vec::with_capacity((1 << bits) + 1);
    let mut starts = vec![vec![0; 1 << bits]; threads];
    for bucket in 0..1 << bits {
        bounds.push(place);
        for (starts, counts) in starts.iter_mut().zip(&counts) {
            starts[bucket] = place;
            place += counts[bucket];
        }
    }
    bounds.push(place);
    let shared = SharedSlice::new(out);
    stripes
        .par_iter()
        .zip(&mut starts)
        .zip(&counts)
        .try_for_each(|((stripe, next), counts)| {
            let ends: Vec<usize> = next
                .iter()
                .zip(counts)
                .map(|(start, count)| start + count)
                .collect();
            chunks::<R, W>(encoder, range.start, stripe, encoder.geometry.dims(), |record| {
                let bucket = top_bits(record, encoder.geometry, bits);
                let at = next[bucket];
                if at == ends[bucket] {
                    return Err(ElfError::Write("the rows changed while they were read".into()));
                }
                next[bucket] = at + 1;
                // SAFETY: places `starts..ends` of this stripe and bucket belong to this thread alone (the
                // running sum above gives each stripe and bucket its own range), and `at`
                // lies below the end.
                unsafe { shared.put(at, *record) };
                Ok(())
            })
        })?;
    let mut buckets = Vec::with_capacity(1 << bits);
    let mut rest = out;
    for bound in bounds.windows(2) {
        let (bucket, others) = rest.split_at_mut(bound[1] - bound[0]);
        if bucket.len() > LARGE_BUCKET {
            bucket.par_sort_unstable_by(compare);
        } else if bucket.len() > 1 {
            buckets.push(bucket);
        }
        rest = others;
    }
    buckets.into_par_iter().with_min_len(16).for_each(sort_bucket);
    Ok(())
}

fn sort_bucket<const W: usize>(bucket: &mut [SortRecord<W>]) {
    if W == 2 {
        bucket.sort_unstable_by_key(|record| u128::from(record[W - 1]) << 64 | u128::from(record[0]));
    } else {
        bucket.sort_unstable_by(compare);
    }
}

/// Calls `each` with the packed records of a stripe, `dims` dimensions of them.
fn chunks<R: Rows + ?Sized, const W: usize>(
    encoder: &RecordEncoder<'_, R>,
    base: usize,
    stripe: &Range<usize>,
    dims: usize,
    mut each: impl FnMut(&SortRecord<W>) -> Result<()>,
) -> Result<()> {
    let mut records = vec![[0; W]; CHUNK.min(stripe.len())];
    let mut codes = vec![];
    for start in stripe.clone().step_by(CHUNK) {
        let count = CHUNK.min(stripe.end - start);
        encoder.encode(base + start, dims, &mut records[..count], &mut codes)?;
        records[..count].iter().try_for_each(&mut each)?;
    }
    Ok(())
}
