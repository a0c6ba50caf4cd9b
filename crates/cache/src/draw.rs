//! Chance without shared state: a generator per thread, the same stream in every thread.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// The next number: good enough to decide what is sampled (the upper bits of a linear congruence, Knuth's MMIX).
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
