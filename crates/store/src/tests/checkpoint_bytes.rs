//! The bytes that checkpoints write: they follow what has changed, not the size of the stores.

use std::sync::Arc;

use halocline_media::{Counting, Dram, LINE};
use halocline_pool::Pool;

use super::workload::Running;
use crate::WriteBatch;
use crate::fault::{self, StoreFault};
use crate::layout::{SEGMENT, SegmentEntry};

/// Checkpoints that are counted, of which one may write a whole catalog.
const CHECKPOINTS: u32 = 20;
const KEYS: u32 = 4000;
/// Bytes of a value of which few fit a segment.
const LARGE: usize = 15_000;

/// Fills a store with `keys` values of `bytes` bytes each, and replaces `changes` of them, all over the store,
/// before each of the checkpoints. Returns the lines that these flush together.
fn lines(keys: u32, bytes: usize, changes: u32) -> u64 {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let pool = Pool::create_on(&medium).unwrap();
    let running = Running::open(&pool).unwrap();
    let store = &running.open[0];
    for key in 0..keys {
        store.put(key.to_be_bytes(), vec![1_u8; bytes]).unwrap();
    }
    running.stores.checkpoint().unwrap();
    let mut lines = 0;
    for number in 0..CHECKPOINTS {
        let mut batch = WriteBatch::new();
        for change in 0..changes {
            let key = keys / changes * change + number;
            batch.put(store, key.to_be_bytes(), [number as u8; 20]).unwrap();
        }
        running.stores.write(batch).unwrap();
        let before = medium.counts();
        running.stores.checkpoint().unwrap();
        lines += (medium.counts() - before).lines;
    }
    lines
}

/// Returns the lines of a whole catalog of a store with so many values.
fn catalog_lines(keys: u32, bytes: usize) -> u64 {
    let segments = u64::from(keys) * bytes as u64 / SEGMENT;
    segments * size_of::<SegmentEntry>() as u64 / LINE
}

#[test]
fn they_follow_what_has_changed() {
    let few = lines(KEYS, 20, 5);
    let many = lines(KEYS, 20, 200);
    assert!(many > 2 * few, "{few} lines for 5 changes, {many} for 200");
    for (keys, bytes) in [(5 * KEYS, 20), (KEYS, LARGE)] {
        let most = 2 * (few + catalog_lines(keys, bytes));
        let of_large = lines(keys, bytes, 5);
        assert!(
            of_large < most,
            "{of_large} of {most} lines, {keys} keys of {bytes} bytes"
        );
    }
}

#[test]
fn whole_catalogs_are_noticed() {
    let most = 2 * (lines(KEYS, 20, 5) + catalog_lines(KEYS, LARGE));
    let renewed = fault::with(StoreFault::RenewCatalog, || lines(KEYS, LARGE, 5));
    assert!(renewed > most, "{renewed} of {most} lines");
}
