//! Random numbers of tests, from a seed that is printed.

/// Returns the seed of a random test, which `HALOCLINE_SEED` sets, and prints it.
pub(crate) fn seed() -> u64 {
    let chosen = std::env::var("HALOCLINE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = chosen.unwrap_or_else(|| std::process::id().into());
    println!("HALOCLINE_SEED={seed}");
    seed
}

/// A generator of random numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
