//! Hit rates of the caches of pairs that are put in front of an ordered index: where a hundredth of the keys
//! is hot and moves with each period, and by skew, beside the highest rate that a cache without foresight can
//! have.
//!
//! `cargo bench -p halocline-cache --bench hot_pairs -- [KEYS]`, by default 1,000,000 keys. A cache has 6.6 %
//! of the bytes of all pairs, a period a tenth as many lookups as there are keys. Three periods are a
//! warm-up.

#![allow(clippy::print_stdout, reason = "a measurement prints")]

use halocline_cache::{HotQueue, HotQueueOptions, PairCache, PairLookup};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Part of the bytes of all pairs that a cache has.
const SHARE: f64 = 0.066;
/// Keys that are hot at a time, as a part of all.
const HOT: f64 = 0.01;
const PERIODS: u64 = 8;
const WARM_UP: u64 = 3;

/// The choice of the keys that are looked up.
enum Lookups {
    /// This share goes to the hot keys of the period.
    Moving(f64),
    /// Ranks with these cumulative probabilities.
    Skewed(Vec<f64>),
}

impl Lookups {
    fn skewed(keys: u64, theta: f64) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-theta);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Lookups::Skewed(sums)
    }

    fn key(&self, keys: u64, period: u64, rng: &mut SmallRng) -> u64 {
        let hot = (keys as f64 * HOT) as u64;
        match self {
            Lookups::Moving(share) if rng.random_bool(*share) => period * hot + rng.random_range(0..hot),
            Lookups::Moving(_) => rng.random_range(0..keys),
            Lookups::Skewed(sums) => {
                let drawn: f64 = rng.random();
                sums.partition_point(|sum| *sum < drawn) as u64
            }
        }
    }

    /// Runs the periods and returns the share of hits after the warm-up.
    fn rate(&self, keys: u64, mut hits: impl FnMut(u64) -> bool) -> f64 {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut found, mut all) = (0, 0);
        for period in 0..PERIODS {
            for _ in 0..keys / 10 {
                let is_hit = hits(self.key(keys, period, &mut rng));
                if period >= WARM_UP {
                    found += u64::from(is_hit);
                    all += 1;
                }
            }
        }
        found as f64 / all as f64
    }
}

fn adaptive(lookups: &Lookups, keys: u64) -> f64 {
    let cache = PairCache::new((keys as f64 * 16.0 * SHARE) as usize)
        .expect("a cache")
        .always_on();
    lookups.rate(keys, |key| {
        let hash = PairCache::hash(key);
        match cache.get(hash, key) {
            PairLookup::Hit(_) => true,
            PairLookup::Miss(ticket) => {
                cache.offer(hash, key, key, ticket);
                false
            }
            PairLookup::Busy => unreachable!("nobody writes"),
        }
    })
}

fn published(lookups: &Lookups, keys: u64) -> f64 {
    let options = HotQueueOptions {
        period: keys / 10,
        ..HotQueueOptions::published(2)
    };
    let mut queue = HotQueue::new(options.within((keys as f64 * 16.0 * SHARE) as u64));
    lookups.rate(keys, |key| {
        let found = queue.get(key).is_some();
        if !found {
            queue.offer(key, key);
        }
        found
    })
}

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` does not, and uses small data.
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let default = if flags.is_empty() { 10_000 } else { 1_000_000 };
    let keys = rest
        .first()
        .map_or(default, |number| number.parse().expect("a number"));
    println!("{keys} keys; share of lookups that hit");
    let report = |name: String, lookups: &Lookups| {
        let (adaptive, published) = (adaptive(lookups, keys), published(lookups, keys));
        println!("{name:22} adaptive {adaptive:.3}   published {published:.3}");
    };
    for share in [0.09, 0.25, 0.65, 0.8, 0.84] {
        report(
            format!("{:.0} % of lookups hot", share * 100.0),
            &Lookups::Moving(share),
        );
    }
    for theta in [0.5, 0.8, 0.9, 0.99] {
        report(format!("Zipf {theta}"), &Lookups::skewed(keys, theta));
    }
}
