//! Bandwidths by number of threads.

use halocline_media::{MediaError, Rate};

/// Bytes of the stack of a thread, as the standard library allocates it.
const STACK: u64 = 2 << 20;

/// Returns the sum of what `each` returns for the threads 0, 1, 2, …
///
/// # Errors
/// The first error of a thread; [`MediaError::OutOfMemory`] if the system starts no more threads.
pub(crate) fn in_threads(
    threads: u32,
    each: impl Fn(u64) -> Result<f64, MediaError> + Sync,
) -> Result<f64, MediaError> {
    std::thread::scope(|scope| {
        let each = &each;
        let mut handles = Vec::new();
        for thread in 0..u64::from(threads) {
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || each(thread));
            // The system is short of memory, or of threads that this user may have.
            handles.push(spawned.map_err(|source| MediaError::OutOfMemory {
                bytes: STACK * u64::from(threads),
                source,
            })?);
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).sum()
    })
}

/// Returns the numbers of threads to measure: 1, 2, 4, … and `most`.
pub(crate) fn thread_counts(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = std::iter::successors(Some(1), |count: &u32| count.checked_mul(2))
        .take_while(|count| *count < most)
        .collect();
    counts.push(most.max(1));
    counts
}

/// Returns the bandwidths that `measure` finds for each number of threads.
pub(crate) fn rates(
    counts: &[u32],
    mut measure: impl FnMut(u32) -> Result<f64, MediaError>,
) -> Result<Vec<Rate>, MediaError> {
    let rate = |threads: &u32| {
        Ok(Rate {
            threads: *threads,
            bytes_per_second: measure(*threads)?,
        })
    };
    counts.iter().map(rate).collect()
}

/// Returns the largest bandwidth, and the smallest number of threads that reaches it up to 5 %.
pub(crate) fn peak_of(rates: &[Rate]) -> (f64, u32) {
    let peak = rates.iter().map(|rate| rate.bytes_per_second).fold(0.0, f64::max);
    let enough = rates.iter().find(|rate| rate.bytes_per_second >= 0.95 * peak);
    (peak, enough.map_or(1, |rate| rate.threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        assert_eq!(thread_counts(0), [1]);
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn the_peak_is_reached_by_the_fewest_threads() {
        let rate = |(threads, bytes_per_second)| Rate {
            threads,
            bytes_per_second,
        };
        let rates = [(1, 7e9), (2, 8.5e9), (4, 8.6e9), (12, 5e9)].map(rate);
        assert_eq!(peak_of(&rates), (8.6e9, 2));
        assert_eq!(peak_of(&[]), (0.0, 1));
    }
}
