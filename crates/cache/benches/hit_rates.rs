//! Hit rates of the tuple cache and of all policies with items of one size, at a capacity of 4 % of the
//! keys, beside the ideal rate: the sum of the hottest keys' probabilities.
//!
//! `cargo bench -p halocline-cache --bench hit_rates -- [KEYS [REQUESTS]]`, by default 1,000,000 keys and ten
//! times as many requests, the second half of which is measured.

#![allow(clippy::print_stdout, reason = "a measurement prints")]

use halocline_cache::{CacheItem, Capacity, PolicyKind, TupleCache};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

const SHARE: f64 = 0.04;

/// A generator of Zipfian ranks (Gray et al., SIGMOD'94, section 3.2).
struct Zipf {
    n: u64,
    theta: f64,
    zeta_n: f64,
    eta: f64,
}

fn zeta(n: u64, theta: f64) -> f64 {
    (1..=n).map(|rank| (rank as f64).powf(-theta)).sum()
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Self {
        let zeta_n = zeta(n, theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta(2, theta) / zeta_n);
        Self {
            n,
            theta,
            zeta_n,
            eta,
        }
    }

    fn rank(&self, rng: &mut SmallRng) -> u64 {
        let u: f64 = rng.random();
        if u * self.zeta_n < 1.0 {
            return 0;
        }
        if u * self.zeta_n < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as u64).min(self.n - 1)
    }

    fn ideal(&self, room: usize) -> f64 {
        zeta(room as u64, self.theta) / self.zeta_n
    }
}

/// Scatters ranks over keys, so that adjacent ranks are unrelated.
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn ask(cache: &TupleCache, rank: u64) -> bool {
    let hash = mix(rank);
    let found = cache.get(hash, &[rank]).is_some();
    if !found {
        cache.put(hash, &[rank], rank as u32);
    }
    found
}

fn tuple_cache(zipf: &Zipf, requests: u64) -> (f64, f64) {
    let mut budget = (zipf.n as f64 * SHARE * 13.6) as usize;
    let room = (zipf.n as f64 * SHARE) as usize;
    while TupleCache::new(budget, 1).expect("a cache").room() > room {
        budget -= 64;
    }
    let cache = TupleCache::new(budget, 1).expect("a cache");
    let mut rng = SmallRng::seed_from_u64(1);
    let mut hits = 0;
    for step in 0..requests {
        hits += u64::from(ask(&cache, zipf.rank(&mut rng)) && step >= requests / 2);
    }
    (
        hits as f64 / (requests - requests / 2) as f64,
        zipf.ideal(cache.room()),
    )
}

fn policy(kind: PolicyKind, zipf: &Zipf, requests: u64) -> (f64, f64) {
    let items = (zipf.n as f64 * SHARE) as u32;
    let bytes = u64::from(items);
    let mut policy = kind.build(Capacity { bytes, items });
    let mut slots: HashMap<u64, u32> = HashMap::new();
    let mut keys = vec![0; items as usize + 1];
    let mut free: Vec<u32> = (0..=items).collect();
    let (mut rng, mut evicted, mut hits) = (SmallRng::seed_from_u64(1), Vec::new(), 0);
    for step in 0..requests {
        let key = zipf.rank(&mut rng);
        if let Some(&slot) = slots.get(&key) {
            policy.hit(slot, key);
            hits += u64::from(step >= requests / 2);
            continue;
        }
        let slot = *free.last().expect("one slot is free");
        let item = CacheItem {
            slot,
            key,
            bytes: 1,
            probability: (key as f32 + 1.0).powf(-zipf.theta as f32),
        };
        if policy.admit(item, &mut evicted) {
            free.pop();
            slots.insert(key, slot);
            keys[slot as usize] = key;
        }
        for slot in evicted.drain(..) {
            slots.remove(&keys[slot as usize]);
            free.push(slot);
        }
    }
    (
        hits as f64 / (requests - requests / 2) as f64,
        policy.metadata_bytes() as f64 / f64::from(items),
    )
}

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` does not, and uses small data.
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let measured = !flags.is_empty();
    let mut arguments = rest.iter().map(|number| number.parse().expect("a number"));
    let keys: u64 = arguments
        .next()
        .unwrap_or(if measured { 1_000_000 } else { 10_000 });
    let requests = arguments.next().unwrap_or(10 * keys);
    println!("{keys} keys, {requests} requests, room for {SHARE} of the keys; the second half is measured");
    for theta in [0.5, 0.99, 0.0] {
        let zipf = Zipf::new(keys, theta);
        let (rate, ideal) = tuple_cache(&zipf, requests);
        println!("theta {theta}: ideal {ideal:.4}");
        println!("  tuple cache {rate:.4}");
        for kind in PolicyKind::ALL {
            let (rate, bytes) = policy(kind, &zipf, requests);
            println!(
                "  {:11} {rate:.4} ({bytes:.1} bytes of metadata an item)",
                kind.name()
            );
        }
    }
}
