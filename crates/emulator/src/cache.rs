//! The model of the CPU's last-level cache: [`CacheShape`], and the array of tags that decides hit or miss.
//!
//! A set is one, two or four words of four 16-bit tags, most recently used first, so that the order of the tags is the
//! LRU order, and a search is four comparisons at once. Exact as long as no more than 32768 times the bytes of one way are
//! in use (30 GB with 14 MiB of 16 ways); beyond, two lines that far apart are taken for the same.
//!
//! Threads share it without locks: each word is read and written whole, and a race of two on one set can only leave a
//! tag twice or forget one.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use halocline_media::LINE;

/// Tags in a word.
const LANES: u64 = 4;
const ONES: u64 = 0x0001_0001_0001_0001;
const HIGHS: u64 = 0x8000_8000_8000_8000;

/// Size and ways of a cache of 64-byte lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShape {
    bytes: u64,
    ways: u32,
}

impl CacheShape {
    /// A cache of about `bytes` bytes and 16 ways; at least two sets of 1 KiB.
    pub fn with_bytes(bytes: u64) -> CacheShape {
        CacheShape::with_ways(bytes, 16)
    }

    /// As [`with_bytes`](CacheShape::with_bytes), with 4, 8 or 16 ways: `ways` is rounded up to one of these.
    pub fn with_ways(bytes: u64, ways: u32) -> CacheShape {
        let ways = round_ways(ways);
        let set = u64::from(ways) * LINE;
        CacheShape {
            bytes: (bytes / set).clamp(2, 1 << 20) * set,
            ways,
        }
    }

    /// The last-level cache of this host as the system describes it; 16 MiB where it does not.
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

    /// Bytes of the lines it holds.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Lines in a set.
    pub fn ways(self) -> u32 {
        self.ways
    }
}

/// Sets of tags in LRU order. The same structure serves as the cache of lines and as the device's buffer of units.
#[derive(Debug)]
pub(crate) struct Tags {
    words: Box<[AtomicU64]>,
    sets: u64,
    /// Words of a set, as a power of two.
    width: u32,
    /// 2^64 / `sets`, rounded up: division by multiplication, exact for numbers below 2^44.
    reciprocal: u64,
}

impl Tags {
    pub(crate) fn new(shape: CacheShape) -> Tags {
        Tags::with_sets(shape.bytes / LINE / u64::from(shape.ways), shape.ways)
    }

    /// The buffer of a device: `units` of them, or none.
    pub(crate) fn buffer(units: u32) -> Option<Tags> {
        (units > 0).then(|| {
            let ways = round_ways(units.div_ceil(2));
            Tags::with_sets(u64::from(units.div_ceil(ways)).max(2), ways)
        })
    }

    /// At least two sets.
    fn with_sets(sets: u64, ways: u32) -> Tags {
        let width = u64::from(ways) / LANES;
        Tags {
            words: (0..sets * width).map(|_| AtomicU64::new(0)).collect(),
            sets,
            width: width.trailing_zeros(),
            reciprocal: u64::MAX / sets + 1,
        }
    }

    /// The first word of a line's set, and its tag. No tag is 0, which stands for an empty place.
    #[inline(always)]
    fn place(&self, line: u64) -> (usize, u64) {
        let quotient = ((u128::from(line) * u128::from(self.reciprocal)) >> 64) as u64;
        let set = (line - quotient * self.sets) as usize;
        (set << self.width, quotient & 0x7FFF | 0x8000)
    }

    /// Looks a line up and makes it the most recent one; puts it in place of the least recent one if it is not there.
    /// Returns whether it was.
    #[inline(always)]
    pub(crate) fn access(&self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        let words = &self.words[set..set + (1 << self.width)];
        front(words, tag)
    }

    /// [`access`](Tags::access) for each line in turn, with `missed` called for those that were not there.
    #[inline(always)]
    pub(crate) fn access_each(&self, first: u64, last: u64, mut missed: impl FnMut(u64)) {
        let width = 1 << self.width;
        let mut line = first;
        while line <= last {
            // Up to where the sets begin anew, the tag is the same.
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

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Looks for the tag in a set and brings it to the front; the last tag falls out if it is not there.
#[inline(always)]
fn front(words: &[AtomicU64], tag: u64) -> bool {
    let wanted = tag * ONES;
    let mut carry = tag;
    for word in words {
        let old = word.load(Ordering::Relaxed);
        let found = zeros(old ^ wanted);
        if found != 0 {
            // The lowest of the four zeros is found without fail; what is above it does not matter.
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

/// Marks the lowest 16 bits of the four that are zero, and maybe some above.
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

    /// A list of lines per set, most recent first.
    struct Plain {
        sets: Vec<Vec<u64>>,
        ways: usize,
    }

    impl Plain {
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
            let mut plain = Plain {
                sets: vec![Vec::new(); sets],
                ways: ways as usize,
            };
            let tags = Tags::new(shape);
            let lines = 3 * bytes / LINE / 2;
            let mut hits = 0;
            for step in 0..20_000_u64 {
                // Far lines, too: tags of all sizes.
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
