//! Estimates of the number of distinct values of a column in 4 KiB of DRAM.
//!
//! HyperLogLog (Flajolet, Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a near-optimal cardinality
//! estimation algorithm", AofA 2007) with 4096 registers, and the estimator of Ertl ("New cardinality
//! estimation algorithms for HyperLogLog sketches", arXiv:1702.01284, algorithm 6), which needs neither bias
//! tables nor another method for few values. The standard error is 1.6 %.
//!
//! Invariants: a value has the same hash in every segment, however it is stored there, so that the sketches
//! of segments can be merged; registers depend on the set of values only, not on their order or number. The
//! hash and the stored form are part of the format (docs/format/tables.md): they never change.

use crate::format::checksum;
use crate::format::wide;
use crate::write::physical::Native;

const REGISTER_BITS: u32 = 12;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Largest number that a register can hold: the bits of a hash that do not choose the register, and 1.
const MAX_RANK: u8 = (64 - REGISTER_BITS) as u8 + 1;
/// Bytes of a stored register that is not 0.
const SPARSE_BYTES: usize = 3;
/// Bytes of all registers in 6 bits each.
const DENSE_BYTES: usize = REGISTERS * 6 / 8;

/// A sketch of the distinct values of a column, NULL not counted.
#[derive(Clone, PartialEq, Eq)]
pub struct DistinctSketch {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for DistinctSketch {
    /// Returns the sketch of no value.
    fn default() -> Self {
        Self {
            registers: Box::new([0; REGISTERS]),
        }
    }
}

impl std::fmt::Debug for DistinctSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DistinctSketch").field(&self.estimate()).finish()
    }
}

impl DistinctSketch {
    /// Counts a value that has a key.
    #[inline]
    pub(crate) fn add_key(&mut self, key: u64) {
        self.add_hash(mix(key));
    }

    /// Counts a string.
    #[inline]
    pub(crate) fn add_string(&mut self, bytes: &[u8]) {
        self.add_hash(checksum(bytes));
    }

    /// Counts a decimal that is stored as a string: by its key if it has one, as other segments store it so.
    pub(crate) fn add_wide_decimal(&mut self, bytes: &[u8]) {
        match wide::from_bytes(bytes).map(i64::try_from) {
            Some(Ok(value)) => self.add_key(i64::key(value)),
            _ => self.add_string(bytes),
        }
    }

    #[inline]
    fn add_hash(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> (64 - REGISTER_BITS)) as usize];
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8 + 1;
        if rank > *register {
            *register = rank;
        }
    }

    /// Adds the values of another sketch. The result is the sketch of the union.
    pub fn merge(&mut self, other: &Self) {
        for (register, other) in self.registers.iter_mut().zip(other.registers.iter()) {
            *register = (*register).max(*other);
        }
    }

    /// Estimates the number of distinct values. The standard error is 1.6 %, much less for few values; 0 is
    /// exact.
    pub fn estimate(&self) -> u64 {
        let mut counts = [0u32; MAX_RANK as usize + 1];
        for &rank in self.registers.iter() {
            counts[usize::from(rank.min(MAX_RANK))] += 1;
        }
        let (m, last) = (REGISTERS as f64, usize::from(MAX_RANK));
        if f64::from(counts[0]) >= m {
            return 0;
        }
        let mut z = m * tau(1.0 - f64::from(counts[last]) / m);
        for count in counts[1..last].iter().rev() {
            z = 0.5 * (z + f64::from(*count));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        (m * m / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
    }

    /// Returns the stored form: registers that are not 0, as their numbers and values, if there are few of
    /// them; else all in 6 bits each.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let used = (0u16..).zip(self.registers.iter()).filter(|(_, rank)| **rank > 0);
        let sparse: Vec<u8> = used
            .flat_map(|(number, rank)| {
                let [low, high] = number.to_le_bytes();
                [low, high, *rank]
            })
            .collect();
        if sparse.len() < DENSE_BYTES {
            return sparse;
        }
        let quads = self.registers.chunks_exact(4);
        quads
            .flat_map(|four| {
                let bits = (0u32..).zip(four).map(|(at, rank)| u32::from(*rank) << (6 * at));
                let [a, b, c, _] = bits.fold(0, |all, bits| all | bits).to_le_bytes();
                [a, b, c]
            })
            .collect()
    }

    /// Reads the stored form; `None` if it is none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut sketch = Self::default();
        if bytes.len() == DENSE_BYTES {
            for (four, packed) in sketch.registers.chunks_exact_mut(4).zip(bytes.chunks_exact(3)) {
                let bits = u32::from_le_bytes([packed[0], packed[1], packed[2], 0]);
                for (at, rank) in (0u32..).zip(four) {
                    *rank = (bits >> (6 * at)) as u8 & 63;
                    if *rank > MAX_RANK {
                        return None;
                    }
                }
            }
            return Some(sketch);
        }
        if bytes.len() > DENSE_BYTES || !bytes.len().is_multiple_of(SPARSE_BYTES) {
            return None;
        }
        let mut next = 0;
        for entry in bytes.chunks_exact(SPARSE_BYTES) {
            let number = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            let ascends = number >= next && number < REGISTERS;
            if !ascends || !(1..=MAX_RANK).contains(&entry[2]) {
                return None;
            }
            sketch.registers[number] = entry[2];
            next = number + 1;
        }
        Some(sketch)
    }
}

/// Computes Ertl's sigma: x plus the sum over all k of x^(2^k) 2^(k-1). `x` must be below 1.
fn sigma(mut x: f64) -> f64 {
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before || !z.is_finite() {
            return z;
        }
    }
}

/// Computes Ertl's tau: a third of 1 - x minus the sum over all k of (1 - x^(2^-k))^2 2^-k.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// Hashes a key with the finaliser of SplitMix64: every bit of the key affects every bit of the hash.
#[inline]
pub(crate) fn mix(key: u64) -> u64 {
    let mut hash = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative error that estimates of random sets exceed once in a few thousand cases: four standard
    /// errors.
    const BOUND: f64 = 4.0 * 0.01625;

    fn of_keys(keys: impl Iterator<Item = u64>) -> DistinctSketch {
        let mut sketch = DistinctSketch::default();
        keys.for_each(|key| sketch.add_key(key));
        sketch
    }

    fn assert_near(sketch: &DistinctSketch, distinct: u64, what: &str) {
        let error = (sketch.estimate() as f64 - distinct as f64).abs();
        assert!(
            error <= distinct as f64 * BOUND,
            "{what}: {distinct} estimated as {}",
            sketch.estimate()
        );
    }

    #[test]
    fn estimates_are_near() {
        let sizes = [
            0u64, 1, 2, 7, 100, 900, 2_000, 5_000, 10_000, 20_000, 100_000, 1_000_000,
        ];
        for distinct in sizes {
            let twice = (0..distinct).chain(0..distinct);
            assert_near(&of_keys(twice.map(|key| key * 3 + 5)), distinct, "keys");
            let mut strings = DistinctSketch::default();
            (0..distinct).for_each(|number| strings.add_string(format!("name {number}").as_bytes()));
            assert_near(&strings, distinct, "strings");
        }
    }

    /// The root of the mean square of the errors is that of the paper.
    #[test]
    fn the_standard_error_is_that_of_the_paper() {
        for distinct in [300u64, 3_000, 12_000, 60_000] {
            let runs = 60u64;
            let square = |run: u64| {
                let sketch = of_keys((0..distinct).map(|key| (run << 40) + key));
                (sketch.estimate() as f64 / distinct as f64 - 1.0).powi(2)
            };
            let error = ((0..runs).map(square).sum::<f64>() / runs as f64).sqrt();
            assert!(
                error < 1.5 * 1.04 / (REGISTERS as f64).sqrt(),
                "{distinct}: {error}"
            );
        }
    }

    #[test]
    fn merging_is_the_sketch_of_the_union() {
        let (a, b) = (0..70_000u64, 50_000..120_000u64);
        let (mut left, right) = (of_keys(a.clone()), of_keys(b.clone()));
        let mut other = right.clone();
        other.merge(&left);
        left.merge(&right);
        assert!(left == of_keys(a.chain(b)) && left == other);
        assert_near(&left, 120_000, "the union");
        left.merge(&DistinctSketch::default());
        assert_eq!(left, other);
    }

    #[test]
    fn stored_sketches_are_read_as_they_were() {
        for distinct in [0u64, 1, 500, 1_023, 1_500, 5_000, 1_000_000] {
            let sketch = of_keys(0..distinct);
            let bytes = sketch.to_bytes();
            assert!(bytes.len() <= DENSE_BYTES, "{distinct}: {} bytes", bytes.len());
            assert!(
                bytes.len() as u64 <= 3 * distinct,
                "{distinct}: {} bytes",
                bytes.len()
            );
            assert_eq!(DistinctSketch::from_bytes(&bytes), Some(sketch), "{distinct}");
        }
    }

    #[test]
    fn damaged_sketches_are_refused() {
        let sparse = of_keys(0..10).to_bytes();
        assert_eq!(DistinctSketch::from_bytes(&sparse[1..]), None);
        let twice = [&sparse[..3], &sparse[..3]].concat();
        assert_eq!(DistinctSketch::from_bytes(&twice), None);
        for (number, rank) in [(4096u16, 1), (3, 0), (3, 54)] {
            let [low, high] = number.to_le_bytes();
            assert_eq!(DistinctSketch::from_bytes(&[low, high, rank]), None);
        }
        assert_eq!(DistinctSketch::from_bytes(&[255; DENSE_BYTES]), None);
        assert_eq!(DistinctSketch::from_bytes(&[0; DENSE_BYTES + 3]), None);
    }

    /// A decimal has one hash, in segments with keys and in those without.
    #[test]
    fn decimals_are_the_same_in_both_forms() {
        let (mut keys, mut wide) = (DistinctSketch::default(), DistinctSketch::default());
        for value in [-7i64, 0, 8, i64::MIN, i64::MAX] {
            keys.add_key(value.key());
            wide.add_wide_decimal(&wide::to_bytes(value.into()));
        }
        assert_eq!(keys, wide);
        wide.add_wide_decimal(&wide::to_bytes(i128::MAX));
        assert_ne!(keys, wide);
    }

    /// Stored sketches depend on these hashes.
    #[test]
    fn hashes_are_frozen() {
        let mut sketch = DistinctSketch::default();
        sketch.add_key(1);
        sketch.add_string(b"AIR");
        let hashes = [mix(1), checksum(b"AIR")];
        let mut numbers = hashes.map(|hash| (hash >> 52) as u16);
        numbers.sort_unstable();
        let stored: Vec<u16> = sketch
            .to_bytes()
            .chunks(3)
            .map(|entry| u16::from_le_bytes([entry[0], entry[1]]))
            .collect();
        assert_eq!(stored, numbers);
        assert_eq!(mix(1), 0x910A_2DEC_8902_5CC1);
    }
}
