//! A small number per thread, by which a device finds the thread's state in an array.

use std::cell::Cell;
use std::sync::Mutex;

/// Upper bound of the threads that use emulated media at once.
pub(crate) const MAX_THREADS: usize = 1024;

/// Key of a thread that has not been assigned one.
const NONE: u64 = u64::MAX;

static NUMBERS: Mutex<ThreadNumbers> = Mutex::new(ThreadNumbers {
    free: Vec::new(),
    used: 0,
    given: 0,
});

struct ThreadNumbers {
    free: Vec<u64>,
    used: u64,
    given: u64,
}

/// A guard that returns the thread's number to the free list when the thread ends.
struct ThreadNumberGuard(Cell<u64>);

impl Drop for ThreadNumberGuard {
    fn drop(&mut self) {
        KEY.set(NONE);
        if self.0.get() != NONE {
            lock().free.push(self.0.get());
        }
    }
}

thread_local! {
    static KEY: Cell<u64> = const { Cell::new(NONE) };
    static GUARD: ThreadNumberGuard = const { ThreadNumberGuard(Cell::new(NONE)) };
}

fn lock() -> std::sync::MutexGuard<'static, ThreadNumbers> {
    NUMBERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns this thread's key. Its number is `key % MAX_THREADS`; no two threads ever have the same key.
///
/// # Panics
/// Panics if more than [`MAX_THREADS`] threads use emulated media at once.
#[inline(always)]
pub(crate) fn key() -> u64 {
    let key = KEY.get();
    if key == NONE { take() } else { key }
}

#[cold]
fn take() -> u64 {
    let mut numbers = lock();
    let number = numbers.free.pop().unwrap_or_else(|| {
        numbers.used += 1;
        numbers.used - 1
    });
    assert!(
        number < MAX_THREADS as u64,
        "more than {MAX_THREADS} threads use emulated media at once; use fewer threads"
    );
    let key = numbers.given * MAX_THREADS as u64 + number;
    numbers.given += 1;
    drop(numbers);
    GUARD.with(|guard| guard.0.set(number));
    KEY.set(key);
    key
}
