//! Pools and keys for several tests.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::sync::Arc;

use halocline_media::Dram;
use halocline_pool::Pool;
use rand::Rng;
use rand::rngs::StdRng;

/// A pool in DRAM, and the medium to open it again.
pub(crate) fn dram_pool() -> (Pool, Arc<Dram>) {
    let medium = Arc::new(Dram::new(0).unwrap());
    (Pool::create_on(Arc::clone(&medium)).unwrap(), medium)
}

/// A shape of random keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// A few bytes of a small alphabet, the empty key among them.
    Short,
    /// Eight bytes, big-endian.
    Numbers,
    /// Addresses with long common prefixes.
    Urls,
    /// A few tenants with keys longer than the prefix of a leaf.
    Tenants,
}

impl Keys {
    pub(crate) const ALL: [Keys; 4] = [Keys::Short, Keys::Numbers, Keys::Urls, Keys::Tenants];

    /// Returns one of about `count` keys.
    pub(crate) fn draw(self, rng: &mut StdRng, count: u64) -> Vec<u8> {
        let number = rng.random_range(0..count);
        match self {
            Keys::Short => {
                let len = (number % 5) as usize;
                (0..len)
                    .map(|at| [0, 1, b'a', 0xFE, 0xFF][(number >> (2 * at)) as usize % 5])
                    .collect()
            }
            Keys::Numbers => number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec(),
            Keys::Urls => format!(
                "https://www.example.com/catalogue/section-{}/page-{:06}/item-{}",
                number % 7,
                number / 7 % 1000,
                number
            )
            .into_bytes(),
            Keys::Tenants => {
                let mut key = vec![b'0' + (number % 3) as u8; 230];
                key.extend_from_slice(&(number / 3).to_be_bytes());
                key
            }
        }
    }
}
