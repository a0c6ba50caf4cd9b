//! A writer that publishes between a reader's look at the superblock and its pin.

use std::sync::Arc;

use halocline_explore::Tracked;

use super::model::{PoolStep, SMALL_POOL, read_snapshot, run};
use super::wrapped::Wrapped;
use crate::Pool;
use crate::fault::{self, PoolFault};
use crate::layout::SLOTS;

fn overtaken_reader(loads: u64) -> Result<(), String> {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(&pool, &[PoolStep::Put("a", 1, &[100])], |_| (), |_| ());
    let writer = pool.clone();
    let steps = [
        PoolStep::Put("a", 2, &[100]),
        PoolStep::Put("a", 3, &[100]),
        PoolStep::Put("a", 4, &[100; 5]),
    ];
    medium.interrupt_after(loads, Box::new(move || run(&writer, &steps, |_| (), |_| ())));
    let snapshot = pool.snapshot().map_err(|error| error.to_string())?;
    assert!(!medium.is_waiting(), "the writer has had its turn");
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
    let broken = fault::with(PoolFault::SkipSecondLook, || {
        std::panic::catch_unwind(|| overtaken_reader(SLOTS as u64)).map_or(true, |result| result.is_err())
    });
    assert!(broken);
}
