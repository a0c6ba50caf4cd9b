//! A small number for each thread, so that a device finds the thread's own state in an array.

use std::cell::Cell;
use std::sync::Mutex;

/// Threads that may use emulated media at once.
pub(crate) const MOST: usize = 1024;

/// The thread's number, and one that no thread had before, told apart by [`split`].
const NONE: u64 = u64::MAX;

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    free: Vec::new(),
    used: 0,
    given: 0,
});

struct Numbers {
    free: Vec<u64>,
    used: u64,
    given: u64,
}

/// Gives the number back when the thread ends.
struct Guard(Cell<u64>);

impl Drop for Guard {
    fn drop(&mut self) {
        KEY.set(NONE);
        if self.0.get() != NONE {
            lock().free.push(self.0.get());
        }
    }
}

thread_local! {
    static KEY: Cell<u64> = const { Cell::new(NONE) };
    static GUARD: Guard = const { Guard(Cell::new(NONE)) };
}

fn lock() -> std::sync::MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// This thread's key: its number is `key % MOST`; the same key never belongs to another thread.
///
/// # Panics
/// When more than [`MOST`] threads use emulated media at once.
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
        number < MOST as u64,
        "more than {MOST} threads use emulated media at once; use fewer threads"
    );
    let key = numbers.given * MOST as u64 + number;
    numbers.given += 1;
    drop(numbers);
    GUARD.with(|guard| guard.0.set(number));
    KEY.set(key);
    key
}
