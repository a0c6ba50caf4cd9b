//! Estimates of the number of distinct keys of a column in 4 KiB of DRAM (HyperLogLog, and linear counting
//! for few).

/// A HyperLogLog sketch with 4096 registers: standard error 1.6 %.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    registers: Box<[u8; REGISTERS]>,
}

const REGISTER_BITS: u32 = 12;
const REGISTERS: usize = 1 << REGISTER_BITS;

impl Default for Sketch {
    fn default() -> Self {
        Self {
            registers: Box::new([0; REGISTERS]),
        }
    }
}

impl Sketch {
    /// Counts a key in.
    #[inline]
    pub(crate) fn add(&mut self, key: u64) {
        let hash = mix(key);
        let register = &mut self.registers[(hash >> (64 - REGISTER_BITS)) as usize];
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8 + 1;
        if rank > *register {
            *register = rank;
        }
    }

    /// The estimate.
    pub(crate) fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.registers.iter().filter(|&&rank| rank == 0).count();
        if estimate <= 2.5 * m && empty > 0 {
            (m * (m / empty as f64).ln()).round() as u64
        } else {
            estimate as u64
        }
    }
}

/// The finaliser of SplitMix64: every bit of the key reaches every bit of the hash.
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

    #[test]
    fn estimates_are_near() {
        for distinct in [0u64, 1, 7, 100, 2_000, 20_000, 1_000_000] {
            let mut sketch = Sketch::default();
            (0..distinct).for_each(|key| sketch.add(key * 3 + 5));
            (0..distinct).for_each(|key| sketch.add(key * 3 + 5));
            let error = (sketch.estimate() as f64 - distinct as f64).abs();
            assert!(
                error <= distinct as f64 * 0.06,
                "{distinct} estimated as {}",
                sketch.estimate()
            );
        }
    }
}
