//! Lookups and offers of a tuple cache of 40 MiB on one thread, with keys of one to three words, and the
//! gate of a cache whose hit rate does not pay: `cargo bench -p halocline-cache --bench lookup_speed`.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use halocline_cache::TupleCache;

/// Number of calls per iteration.
const CALLS: u64 = 10_000;

fn main() {
    divan::main();
}

/// Scatters numbers, so that adjacent ones are unrelated.
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A cache whose lower half of ranks has been asked for so often that its use counts are saturated.
struct WarmCache {
    cache: TupleCache,
    words: usize,
    room: u64,
}

impl WarmCache {
    fn new(words: usize) -> Self {
        // `cargo test` runs every benchmark once, without this argument.
        let measured = std::env::args().any(|argument| argument == "--bench");
        let bytes = if measured { 40 << 20 } else { 1 << 20 };
        let cache = TupleCache::new(bytes, words).expect("a cache");
        let room = cache.room() as u64;
        let warm = Self { cache, words, room };
        for rank in (0..5).flat_map(|_| 0..room / 2) {
            if warm.get(rank).is_none() {
                warm.put(rank);
            }
        }
        warm
    }

    fn get(&self, rank: u64) -> Option<u32> {
        self.cache.get(mix(rank), &[rank, !rank, rank ^ 5][..self.words])
    }

    fn put(&self, rank: u64) {
        let key = &[rank, !rank, rank ^ 5][..self.words];
        self.cache.put(mix(rank), key, rank as u32);
    }
}

/// Measures calls of `call` with consecutive numbers.
fn measure(bencher: Bencher<'_, '_>, mut call: impl FnMut(u64)) {
    let mut number = 0;
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        for _ in 0..CALLS {
            call(number);
            number += 1;
        }
    });
}

#[divan::bench(args = [1, 2, 3])]
fn hit(bencher: Bencher<'_, '_>, words: usize) {
    let warm = WarmCache::new(words);
    measure(bencher, |number| {
        black_box(warm.get(mix(number) % (warm.room / 2)));
    });
}

/// Each key depends on the previous result, so lookups do not overlap.
#[divan::bench(args = [1, 2, 3])]
fn dependent_hit(bencher: Bencher<'_, '_>, words: usize) {
    let warm = WarmCache::new(words);
    let mut last = 0;
    measure(bencher, |number| {
        let found = warm.get(mix(number + last) % (warm.room / 2));
        last = u64::from(found.unwrap_or_default());
    });
}

#[divan::bench(args = [1, 2, 3])]
fn miss(bencher: Bencher<'_, '_>, words: usize) {
    let warm = WarmCache::new(words);
    measure(bencher, |number| {
        black_box(warm.get(warm.room * 1000 + number));
    });
}

/// Keys that do not recur are offered and not admitted.
#[divan::bench(args = [1, 2, 3])]
fn put(bencher: Bencher<'_, '_>, words: usize) {
    let warm = WarmCache::new(words);
    measure(bencher, |number| warm.put(warm.room * 2000 + number));
}

#[divan::bench]
fn closed_gate(bencher: Bencher<'_, '_>) {
    let cache = TupleCache::new(1 << 20, 1)
        .expect("a cache")
        .with_break_even(0.03);
    for rank in 0..10_000_000 {
        if !cache.worth() {
            break;
        }
        let hash = mix(rank);
        if cache.get(hash, &[rank]).is_none() {
            cache.put(hash, &[rank], 1);
        }
    }
    measure(bencher, |_| {
        black_box(cache.worth());
    });
}
