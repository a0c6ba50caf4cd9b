//! Pseudorandom numbers without shared state: one generator per thread, with the same stream in every thread.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// Returns the next number. The quality is sufficient for sampling (the upper bits of Knuth's MMIX
/// linear congruential generator).
#[inline]
pub(crate) fn next() -> u64 {
    STATE.with(|state| {
        let next = state
            .get()
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.set(next);
        next ^ next >> 32
    })
}
