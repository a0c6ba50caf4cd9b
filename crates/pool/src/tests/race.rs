//! A reader that a writer overtakes between its look at the superblock and its pin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use halocline_media::{MediaError, Medium, MediumKind, Tracked};

use super::model::{SMALL, Step, read_snapshot, run};
use crate::layout::SLOTS;
use crate::mistake::{self, Mistake};
use crate::{Pool, PoolError};

type Interruption = Box<dyn FnOnce() + Send>;

/// A medium that lets something else happen after a number of loads.
struct Interrupted {
    medium: Tracked,
    loads: AtomicU64,
    then: Mutex<Option<Interruption>>,
}

impl Interrupted {
    fn after(&self, loads: u64, then: Interruption) {
        *self.then.lock().unwrap() = Some(then);
        self.loads.store(loads, Ordering::SeqCst);
    }
}

impl Medium for Interrupted {
    fn kind(&self) -> MediumKind {
        self.medium.kind()
    }

    fn len(&self) -> u64 {
        self.medium.len()
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        self.medium.grow(new_len)
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        self.medium.refresh()
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.medium.load(offset, into);
        let left = self.loads.load(Ordering::SeqCst);
        self.loads.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 1 {
            let then = self.then.lock().unwrap().take();
            if let Some(then) = then {
                then();
            }
        }
    }

    fn load_u64(&self, offset: u64) -> u64 {
        self.medium.load_u64(offset)
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is the memory's.
        unsafe { self.medium.slice(offset, len) }
    }

    fn prefetch(&self, offset: u64) {
        self.medium.prefetch(offset);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.medium.store(offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        self.medium.store_u64(offset, value);
    }

    fn flush(&self, offset: u64, len: u64) {
        self.medium.flush(offset, len);
    }

    fn fence(&self) -> Result<(), MediaError> {
        self.medium.fence()
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.medium.sync()
    }

    fn fence_is_durable(&self) -> bool {
        true
    }
}

fn overtaken_reader(loads: u64) -> Result<(), String> {
    let medium = Interrupted {
        medium: Tracked::new(0).unwrap(),
        loads: AtomicU64::new(0),
        then: Mutex::default(),
    };
    let medium = Arc::new(medium);
    let pool = Pool::create_with(Arc::clone(&medium), SMALL).unwrap();
    run(&pool, &[Step::Put("a", 1, &[100])], |_| (), |_| ());
    let writer = pool.clone();
    let steps = [
        Step::Put("a", 2, &[100]),
        Step::Put("a", 3, &[100]),
        Step::Put("a", 4, &[100; 5]),
    ];
    medium.after(loads, Box::new(move || run(&writer, &steps, |_| (), |_| ())));
    let snapshot = pool.snapshot().map_err(|error: PoolError| error.to_string())?;
    assert!(
        medium.then.lock().unwrap().is_none(),
        "the writer has had its turn"
    );
    let found = read_snapshot(&snapshot)?;
    let expected = if found["a"].0 == 4 {
        vec![100; 5]
    } else {
        vec![100]
    };
    assert_eq!(found["a"].1, expected);
    Ok(())
}

#[test]
fn a_reader_that_is_overtaken_looks_again() {
    // Each look reads every copy of the superblock.
    for loads in 1..=2 * SLOTS as u64 {
        overtaken_reader(loads).unwrap();
    }
    let broken = mistake::with(Mistake::SkipSecondLook, || {
        std::panic::catch_unwind(|| overtaken_reader(SLOTS as u64)).map_or(true, |result| result.is_err())
    });
    assert!(broken);
}
