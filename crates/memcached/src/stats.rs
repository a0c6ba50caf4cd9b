//! Counters of the server, which `stats` returns, and histograms of latencies.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A number that only grows, but for [`reset`](Self::reset) and [`sub`](Self::sub).
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Declares counters with the names that `stats` gives them.
macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        /// Counts of what the server has done since it was started or `stats reset`.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) reads: Histogram,
            pub(crate) writes: Histogram,
        }

        impl Counters {
            /// Returns the counters with their names.
            pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get())),*]
            }

            /// Sets all counters to 0.
            pub(crate) fn reset(&self) {
                $(self.$name.reset();)*
                self.reads.reset();
                self.writes.reset();
            }
        }
    };
}

counters!(
    total_items,
    cmd_get,
    cmd_set,
    cmd_flush,
    cmd_touch,
    cmd_meta,
    get_hits,
    get_misses,
    hot_hits,
    delete_hits,
    delete_misses,
    incr_hits,
    incr_misses,
    decr_hits,
    decr_misses,
    cas_hits,
    cas_misses,
    cas_badval,
    touch_hits,
    touch_misses,
    store_too_large,
    store_no_memory,
    auth_cmds,
    auth_errors,
    bytes_read,
    bytes_written,
    rejected_connections,
    idle_kicks,
    evictions,
);

/// Number of buckets: bucket `n` has latencies of less than `2^n` microseconds.
const BUCKETS: usize = 24;

/// A histogram of latencies in powers of two.
#[derive(Debug, Default)]
pub(crate) struct Histogram([Counter; BUCKETS]);

impl Histogram {
    pub(crate) fn add(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].add(1);
    }

    /// Returns upper bounds in microseconds with the number of latencies below them and above the one before.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0
            .iter()
            .enumerate()
            .map(|(bucket, count)| (1 << bucket, count.get()))
    }

    fn reset(&self) {
        self.0.iter().for_each(Counter::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_in_powers_of_two() {
        let histogram = Histogram::default();
        for micros in [0, 1, 3, 4, u64::MAX] {
            histogram.add(Duration::from_micros(micros));
        }
        let counts: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(1, 1), (2, 1), (4, 1), (8, 1), (1 << (BUCKETS - 1), 1)]);
    }

    #[test]
    fn counters_have_the_names_of_memcached() {
        let counters = Counters::default();
        counters.get_hits.add(3);
        assert!(counters.named().contains(&("get_hits", 3)));
        counters.reset();
        assert!(counters.named().iter().all(|(_, count)| *count == 0));
    }
}
