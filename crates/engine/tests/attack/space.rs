//! Statement after statement, by writers that take turns, with readers of older generations: the file stays
//! small.

use std::collections::BTreeSet;
use std::fs;

use halocline_pool::{Pool, PoolOptions, Snapshot};
use halocline_workloads::SplitMix64;

use crate::answers::Opened;

/// Rows of the table.
const ROWS: u64 = 10_000;
/// Bytes that a pool may have whatever is in it.
const FIXED_BYTES: u64 = 8 << 20;
/// Readers at a time.
const READERS: usize = 3;

/// Runs `statements` statements.
///
/// # Panics
/// If the file becomes longer than twice what is in use and what readers have pinned.
pub(crate) fn soak(statements: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("attacked-soak.pool");
    drop(Pool::create(&path, &PoolOptions::default()).unwrap());
    let mut writers: Vec<Opened> = (0..2).map(|_| Opened::open(&path, false).unwrap()).collect();
    let make = format!("CREATE TABLE t AS SELECT i, i % 7 AS v FROM generate_series(1, {ROWS}) AS s(i)");
    writers[0].run(&make).unwrap();
    let read_only = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(&path, &read_only).unwrap();
    let mut readers: Vec<Snapshot> = Vec::new();
    let mut rng = SplitMix64::new(7);
    for number in 0..statements {
        let sql = match rng.below(4) {
            0 => format!("INSERT INTO t VALUES ({number}, 7)"),
            1 => format!("UPDATE t SET v = v + 1 WHERE i % 100 = {}", number % 100),
            _ => "UPDATE t SET v = v + 1".to_owned(),
        };
        let writer = rng.below(2) as usize;
        writers[writer].run(&sql).unwrap();
        if rng.below(40) == 0 {
            writers[writer] = Opened::open(&path, false).unwrap();
        }
        if rng.below(10) == 0 {
            readers.push(pool.snapshot().unwrap());
        }
        if readers.len() > READERS {
            readers.swap_remove(rng.below(READERS as u64) as usize);
        }
        let newest = pool.snapshot().unwrap();
        let named = named(readers.iter().chain([&newest]));
        let file = fs::metadata(&path).unwrap().len();
        assert!(
            file <= 2 * named + FIXED_BYTES,
            "after {number} statements the file has {file} bytes; {named} are in use or pinned"
        );
    }
}

/// Bytes of all extents that the generations name.
fn named<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> u64 {
    let mut extents = BTreeSet::new();
    for snapshot in snapshots {
        for object in snapshot.objects() {
            let all = (0..object.extent_count()).map(|index| object.extent_ref(index));
            extents.extend(all.map(|extent| (extent.offset, extent.len)));
        }
    }
    extents.iter().map(|(_, len)| len).sum()
}
