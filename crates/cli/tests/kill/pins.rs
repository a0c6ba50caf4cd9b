//! Readers of older generations: what they have pinned stays as it was, and the file stays small beside it.

use std::collections::BTreeSet;
use std::fs;

use halocline_pool::{ObjectKind, Pool, PoolOptions, Snapshot};
use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::Xxh3;

use crate::common::Home;

/// Readers at a time.
const MAX_READERS: usize = 3;
/// Bytes that a pool may have whatever is in it.
const FIXED_BYTES: u64 = 16 << 20;

/// Readers in this process; who writes is another one.
#[derive(Debug)]
pub(crate) struct Pins {
    pool: Pool,
    pins: Vec<(Snapshot, u64)>,
}

impl Pins {
    pub(crate) fn new(home: &Home) -> Self {
        let options = PoolOptions::default().with_read_only(true);
        Self {
            pool: Pool::open(home.path("p"), &options).unwrap(),
            pins: Vec::new(),
        }
    }

    /// Some readers go, one comes, now and then.
    pub(crate) fn turn(&mut self, rng: &mut SplitMix64) {
        if self.pins.len() > rng.below(MAX_READERS as u64 + 1) as usize {
            let number = rng.below(self.pins.len() as u64) as usize;
            self.pins.swap_remove(number);
        }
        if rng.below(3) > 0 && self.pins.len() < MAX_READERS {
            let snapshot = self.pool.snapshot().unwrap();
            let sum = sum(&snapshot);
            self.pins.push((snapshot, sum));
        }
    }

    /// Checks that pinned data is unchanged, and that the file is not much longer than what is pinned and in
    /// use.
    pub(crate) fn judge(&self, home: &Home) -> Result<(), String> {
        let newest = self.pool.snapshot().map_err(|error| error.to_string())?;
        let mut extents = BTreeSet::new();
        for snapshot in self.pins.iter().map(|(snapshot, _)| snapshot).chain([&newest]) {
            for object in snapshot.objects() {
                let all = (0..object.extent_count()).map(|index| object.extent_ref(index));
                extents.extend(all.map(|extent| (extent.offset, extent.len)));
            }
        }
        for (snapshot, before) in &self.pins {
            if sum(snapshot) != *before {
                return Err(format!(
                    "generation {} changed under its reader",
                    snapshot.generation()
                ));
            }
        }
        let named: u64 = extents.iter().map(|(_, len)| len).sum();
        let file = fs::metadata(home.path("p")).unwrap().len();
        if file <= 2 * named + FIXED_BYTES {
            Ok(())
        } else {
            Err(format!(
                "the file has {file} bytes, {named} are in use or pinned by {} readers",
                self.pins.len()
            ))
        }
    }
}

/// A checksum of all that does not change while it is pinned.
fn sum(snapshot: &Snapshot) -> u64 {
    let mut sum = Xxh3::new();
    for object in snapshot.objects() {
        if matches!(object.kind(), ObjectKind::TABLE | ObjectKind::INDEX) {
            for index in 0..object.extent_count() {
                sum.update(&object.extent(index).unwrap());
            }
        }
    }
    sum.digest()
}
