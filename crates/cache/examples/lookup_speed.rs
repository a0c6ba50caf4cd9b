//! Nanoseconds per lookup of a tuple cache of 40 MiB on one thread: hits and misses of independent and
//! of dependent lookups, offers, and the gate of a cache that does not pay.
//!
//! `cargo run --release -p halocline-cache --example lookup_speed`

#![allow(clippy::print_stdout)]

use halocline_cache::TupleCache;
use std::hint::black_box;
use std::time::Instant;

/// Scatters numbers, so that adjacent ones are unrelated.
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Measures the nanoseconds per call of `ask` over `count` numbers.
fn nanoseconds(count: u64, mut ask: impl FnMut(u64) -> bool) -> f64 {
    let start = Instant::now();
    let mut hits = 0u64;
    for number in 0..count {
        hits += u64::from(ask(number));
    }
    black_box(hits);
    start.elapsed().as_nanos() as f64 / count as f64
}

fn main() {
    let count = 10_000_000;
    for words in 1..=3 {
        let cache = TupleCache::new(40 << 20, words).expect("a cache");
        let room = cache.room() as u64;
        let key = |rank: u64| [rank, !rank, rank ^ 5];
        // Recurring keys are admitted and their use counts saturated; others are not admitted.
        for rank in (0..5).flat_map(|_| 0..room / 2) {
            let hash = mix(rank);
            if cache.get(hash, &key(rank)[..words]).is_none() {
                cache.put(hash, &key(rank)[..words], rank as u32);
            }
        }
        let lookup = |rank: u64| cache.get(mix(rank), &key(rank)[..words]).is_some();
        let hit = nanoseconds(count, |i| lookup(mix(i) % (room / 2)));
        let miss = nanoseconds(count, |i| lookup(room * 1000 + i));
        // Each key depends on the previous result, so lookups do not overlap.
        let mut last = 0;
        let chained = nanoseconds(count, |i| {
            let rank = mix(i + last) % (room / 2);
            last = u64::from(cache.get(mix(rank), &key(rank)[..words]).unwrap_or_default());
            last > 0
        });
        let put = nanoseconds(count, |i| {
            let rank = room * 2000 + i;
            cache.put(mix(rank), &key(rank)[..words], 1);
            true
        });
        println!(
            "{words} words, 40 MiB, room for {room}: hit {hit:.1} ns ({chained:.1} one after another), miss {miss:.1} ns, \
             put {put:.1} ns"
        );
    }
    let cache = TupleCache::new(1 << 20, 1)
        .expect("a cache")
        .with_break_even(0.03);
    for rank in 0..10_000_000 {
        if cache.worth() {
            let hash = mix(rank);
            if cache.get(hash, &[rank]).is_none() {
                cache.put(hash, &[rank], 1);
            }
        }
    }
    let closed = nanoseconds(100_000_000, |_| cache.worth());
    println!("worth() of a cache that does not pay: {closed:.2} ns");
}
