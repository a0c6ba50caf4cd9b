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
    get_expired,
    get_flushed,
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
    read_buf_oom,
    auth_cmds,
    auth_errors,
    bytes_read,
    bytes_written,
    rejected_connections,
    listen_disabled_num,
    time_in_listen_disabled_us,
    idle_kicks,
    conn_yields,
    evictions,
);

/// Buckets that each power of two is divided into.
const PARTS: usize = 16;
/// Powers of two of microseconds that latencies are distinguished by, up to 8 s.
const POWERS: usize = 24;
const BUCKETS: usize = PARTS * POWERS;

/// A histogram of latencies in steps of a sixteenth.
///
/// Latencies are numbers of sixteenths of a microsecond. Those below 1 us have a bucket each, in the first
/// [`PARTS`]; each power of two has the same number.
#[derive(Debug)]
pub(crate) struct Histogram(Box<[Counter]>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram((0..BUCKETS).map(|_| Counter::default()).collect())
    }
}

/// Returns the bucket of a latency in sixteenths of a microsecond.
fn bucket_of(sixteenths: u64) -> usize {
    let Some(power) = sixteenths.checked_ilog2().filter(|power| *power >= PARTS.ilog2()) else {
        return sixteenths as usize;
    };
    let shift = power - PARTS.ilog2();
    let part = (sixteenths >> shift) as usize % PARTS;
    ((shift as usize + 1) * PARTS + part).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket in microseconds.
fn bound_of(bucket: usize) -> f64 {
    let (power, part) = (bucket / PARTS, bucket % PARTS);
    let sixteenths = match power {
        0 => part + 1,
        _ => (PARTS + part + 1) << (power - 1),
    };
    sixteenths as f64 / PARTS as f64
}

impl Histogram {
    pub(crate) fn add(&self, latency: Duration) {
        let sixteenths = latency.as_nanos().saturating_mul(PARTS as u128) / 1000;
        let bucket = bucket_of(u64::try_from(sixteenths).unwrap_or(u64::MAX));
        self.0[bucket].add(1);
    }

    /// Returns the upper bounds of the powers of two in microseconds with the number of latencies below them
    /// and not below the one before.
    pub(crate) fn powers(&self) -> impl Iterator<Item = (u64, u64)> {
        let count = |buckets: &[Counter]| buckets.iter().map(Counter::get).sum();
        self.0
            .chunks(PARTS)
            .enumerate()
            .map(move |(power, buckets)| (1 << power, count(buckets)))
    }

    /// Returns a latency in microseconds that `percent` percent do not exceed, at most a sixteenth too large.
    /// `None` if there is none.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        let counts: Vec<u64> = self.0.iter().map(Counter::get).collect();
        let all: u64 = counts.iter().sum();
        let rank = ((all as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut below = 0;
        let bucket = counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        bucket.map(bound_of)
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
        assert_eq!(histogram.percentile(50.0), None);
        for micros in [0, 1, 3, 4, u64::MAX] {
            histogram.add(Duration::from_micros(micros));
        }
        let counts: Vec<_> = histogram.powers().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(1, 1), (2, 1), (4, 1), (8, 1), (1 << (POWERS - 1), 1)]);
    }

    #[test]
    fn percentiles_are_at_most_a_sixteenth_too_large() {
        let histogram = Histogram::default();
        let latencies: Vec<u64> = (1..=1000).map(|at| at * at * 7).collect();
        for nanos in &latencies {
            histogram.add(Duration::from_nanos(*nanos));
        }
        for (percent, rank) in [(0.0, 1), (50.0, 500), (99.0, 990), (99.9, 999), (100.0, 1000)] {
            let exact = latencies[rank - 1] as f64 / 1000.0;
            let found = histogram.percentile(percent).unwrap();
            let most = (exact * (1.0 + 1.0 / 16.0)).max(exact + 1.0 / 16.0);
            assert!(found >= exact && found <= most, "p{percent}: {found} for {exact}");
        }
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
