//! The model of the CPU's last-level cache: [`CacheShape`], and the array of tags that decides hit or miss.
//!
//! A set consists of one, two or four words of four 16-bit tags each, most recently used first. The order of
//! the tags is the LRU order, and a lookup compares four tags at once. A tag holds 15 bits of the line number
//! above the set index, so two lines are confused if they map to the same set and are a multiple of 32768
//! times the size of one way apart (30 GB for 14 MiB with 16 ways).
//!
//! Threads share the array without locks. Each word is read and written atomically; a race of two threads on
//! one set can at worst duplicate a tag or lose one.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use halocline_media::LINE;

/// Tags in a word.
const LANES: u64 = 4;
const ONES: u64 = 0x0001_0001_0001_0001;
const HIGHS: u64 = 0x8000_8000_8000_8000;

/// Capacity and associativity of a cache of 64-byte lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShape {
    bytes: u64,
    ways: u32,
}

impl CacheShape {
    /// Returns a 16-way cache of about `bytes` bytes, with at least two sets of 1 KiB.
    pub fn with_bytes(bytes: u64) -> CacheShape {
        CacheShape::with_ways(bytes, 16)
    }

    /// Returns a cache of about `bytes` bytes with `ways` rounded up to 4, 8 or 16.
    pub fn with_ways(bytes: u64, ways: u32) -> CacheShape {
        let ways = round_ways(ways);
        let set = u64::from(ways) * LINE;
        CacheShape {
            bytes: (bytes / set).clamp(2, 1 << 20) * set,
            ways,
        }
    }

    /// Returns the last-level cache of this host as described by sysfs, or 16 MiB if sysfs does not describe
    /// it.
    pub fn host() -> CacheShape {
        let read = |index: u32, name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            std::fs::read_to_string(path).ok()
        };
        let of = |index| {
            let kib: u64 = read(index, "size")?.trim().strip_suffix('K')?.parse().ok()?;
            let ways = read(index, "ways_of_associativity")?.trim().parse().ok()?;
            Some(CacheShape::with_ways(kib << 10, ways))
        };
        let largest = (0..8).filter_map(of).max_by_key(|shape| shape.bytes);
        largest.unwrap_or(CacheShape::with_bytes(16 << 20))
    }

    /// Returns the capacity in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the associativity, in lines per set.
    pub fn ways(self) -> u32 {
        self.ways
    }
}

/// Sets of tags in LRU order, used for the cache of lines and for the device's buffer of units.
#[derive(Debug)]
pub(crate) struct CacheTags {
    words: Box<[AtomicU64]>,
    sets: u64,
    /// Base-2 logarithm of the words per set.
    width: u32,
    /// 2^64 / `sets`, rounded up: divides by multiplication, exact for numbers below 2^44.
    reciprocal: u64,
}

impl CacheTags {
    pub(crate) fn new(shape: CacheShape) -> CacheTags {
        CacheTags::with_sets(shape.bytes / LINE / u64::from(shape.ways), shape.ways)
    }

    /// Returns the tags of a device buffer of `units` units, or `None` if the device has no buffer.
    pub(crate) fn buffer(units: u32) -> Option<CacheTags> {
        (units > 0).then(|| {
            let ways = round_ways(units.div_ceil(2));
            CacheTags::with_sets(u64::from(units.div_ceil(ways)).max(2), ways)
        })
    }

    /// Builds an array of `sets` sets. The reciprocal requires at least two.
    fn with_sets(sets: u64, ways: u32) -> CacheTags {
        let width = u64::from(ways) / LANES;
        CacheTags {
            words: (0..sets * width).map(|_| AtomicU64::new(0)).collect(),
            sets,
            width: width.trailing_zeros(),
            reciprocal: u64::MAX / sets + 1,
        }
    }

    /// Returns the index of the first word of the line's set, and the line's tag. A tag is never 0, which
    /// marks an empty entry.
    #[inline(always)]
    fn place(&self, line: u64) -> (usize, u64) {
        let quotient = ((u128::from(line) * u128::from(self.reciprocal)) >> 64) as u64;
        let set = (line - quotient * self.sets) as usize;
        (set << self.width, quotient & 0x7FFF | 0x8000)
    }

    /// Looks up a line and makes it the most recently used of its set, replacing the least recently used one
    /// on a miss. Returns true on a hit.
    #[inline(always)]
    pub(crate) fn access(&self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        let words = &self.words[set..set + (1 << self.width)];
        front(words, tag)
    }

    /// Accesses the lines `first..=last` in order and calls `missed` for each line that misses.
    #[inline(always)]
    pub(crate) fn access_each(&self, first: u64, last: u64, mut missed: impl FnMut(u64)) {
        let width = 1 << self.width;
        let mut line = first;
        while line <= last {
            // All lines up to the wrap-around of the set index have the same tag.
            let (set, tag) = self.place(line);
            let sets = self.words[set..].chunks_exact(width);
            for (line, words) in (line..=last).zip(sets.clone()) {
                if !front(words, tag) {
                    missed(line);
                }
            }
            line += sets.len() as u64;
        }
    }

    /// Empties all sets.
    pub(crate) fn clear(&self) {
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Looks up the tag in a set and moves it to the front. On a miss, inserts it there and drops the last tag.
#[inline(always)]
fn front(words: &[AtomicU64], tag: u64) -> bool {
    let wanted = tag * ONES;
    let mut carry = tag;
    for word in words {
        let old = word.load(Ordering::Relaxed);
        let found = zeros(old ^ wanted);
        if found != 0 {
            // `zeros` is exact for the lowest match only; higher false positives do not change `up_to`.
            let up_to = found ^ (found - 1);
            let moved = (old << 16 | carry) & up_to | old & !up_to;
            if moved != old {
                word.store(moved, Ordering::Relaxed);
            }
            return true;
        }
        word.store(old << 16 | carry, Ordering::Relaxed);
        carry = old >> 48;
    }
    false
}

fn round_ways(ways: u32) -> u32 {
    ways.clamp(LANES as u32, 16).next_power_of_two()
}

/// Sets the top bit of each 16-bit lane that is zero. Lanes above the lowest zero may be set falsely.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use std::hash::{BuildHasher, RandomState};

    use super::*;

    /// A reference implementation: a list of lines per set, most recently used first.
    struct ReferenceCache {
        sets: Vec<Vec<u64>>,
        ways: usize,
    }

    impl ReferenceCache {
        fn access(&mut self, line: u64) -> bool {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(line % count) as usize];
            let at = set.iter().position(|held| *held == line);
            if let Some(at) = at {
                set.remove(at);
            }
            set.insert(0, line);
            set.truncate(self.ways);
            at.is_some()
        }
    }

    #[test]
    fn it_is_an_lru_cache() {
        let seed = RandomState::new().hash_one(0);
        let mut random = SmallRng::seed_from_u64(seed);
        for (bytes, ways) in [
            (2 << 10, 16),
            (7 << 10, 16),
            (12 << 10, 8),
            (13 << 9, 4),
            (64 << 10, 8),
            (512, 4),
        ] {
            let shape = CacheShape::with_ways(bytes, ways);
            assert_eq!(shape.bytes(), bytes);
            let sets = (bytes / LINE / u64::from(ways)) as usize;
            let mut plain = ReferenceCache {
                sets: vec![Vec::new(); sets],
                ways: ways as usize,
            };
            let tags = CacheTags::new(shape);
            let lines = 3 * bytes / LINE / 2;
            let mut hits = 0;
            for step in 0..20_000_u64 {
                // Include distant lines so that tags of all sizes occur.
                let line = random.random_range(0..lines) + random.random_range(0..2) * (sets as u64 * 30_000);
                let (is, wanted) = (tags.access(line), plain.access(line));
                assert_eq!(is, wanted, "seed {seed}, line {line}, step {step}, {shape:?}");
                hits += u64::from(is);
            }
            assert!(hits > 0);
            tags.clear();
            assert!(!tags.access(1));
        }
    }

    #[test]
    fn the_host_has_one() {
        let shape = CacheShape::host();
        assert!(shape.bytes() >= 32 << 10 && shape.ways() >= 4, "{shape:?}");
    }
}
