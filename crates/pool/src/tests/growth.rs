//! The size of a pool under alternating writers, with pinned generations and after writers have died. It must
//! stay below twice the size of what the newest and the pinned generations name, and no visible byte may be
//! overwritten.
//!
//! The steps are random. A failure names its seed; `HALOCLINE_GROWTH_SEED` replays it.

use std::collections::BTreeSet;
use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediumBackend;

use super::model::{BOOT, SMALL_POOL, contents, write};
use super::wrapped::Wrapped;
use crate::layout::{BLOCK, DATA_START, blocks};
use crate::{ObjectKind, Pool, Snapshot};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A random number generator (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }
}

pub(crate) fn seeds() -> Vec<u64> {
    match std::env::var("HALOCLINE_GROWTH_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![1, 2, 3, 4],
    }
}

/// Replaces an object by one of length `len` whose bytes are derived from `number`.
fn put(pool: &Pool, name: &str, number: u64, len: usize) {
    let txn = pool.begin().unwrap();
    let half = len / 2;
    let extents = vec![
        write(&txn, &contents(number as u8, 0, half)),
        write(&txn, &contents(number as u8, 1, len - half)),
    ];
    txn.put(name, ObjectKind::TABLE, &[number as u8], extents)
        .unwrap();
    txn.commit().unwrap();
}

/// Asserts that every byte of a snapshot is as it was written.
fn verify(snapshot: &Snapshot) {
    for object in snapshot.objects() {
        for index in 0..object.extent_count() {
            let bytes = object.extent(index).unwrap();
            let expected = contents(object.meta()[0], index, bytes.len());
            assert!(
                *bytes == *expected,
                "'{}' of generation {}",
                object.name(),
                snapshot.generation()
            );
        }
    }
}

/// Returns the blocks that a generation names, including its directory.
fn named(pool: &Pool, snapshot: &Snapshot) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for object in snapshot.objects() {
        for index in 0..object.extent_count() {
            let extent = object.extent_ref(index);
            found.extend((extent.offset..extent.offset + blocks(extent.len)).step_by(BLOCK as usize));
        }
    }
    // The directory takes one block in these pools.
    assert!(pool.info().unwrap().objects < 20);
    found
}

/// Returns the bytes that the newest generation and the snapshots name.
fn needed(pool: &Pool, pinned: &[Snapshot]) -> u64 {
    let mut all = named(pool, &pool.snapshot().unwrap());
    for snapshot in pinned {
        all.extend(named(pool, snapshot));
    }
    let directories = 1 + pinned.len() as u64;
    (all.len() as u64 + directories) * BLOCK + DATA_START
}

/// Publishes many times, by alternating handles, with some snapshots held and some short-lived. `medium`
/// returns the medium of the file after all processes have died.
fn many_publishes<B: MediumBackend>(
    seed: u64,
    publishes: u64,
    mut medium: Arc<B>,
    crash: impl Fn(&Arc<B>) -> Arc<B>,
) {
    let mut random = Random(seed);
    let open = |medium: &Arc<B>| Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
    drop(Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap());
    let mut pools = [open(&medium), open(&medium), open(&medium)];
    let reader = open(&medium);
    for name in NAMES {
        put(&pools[0], name, 1, 20_000);
    }
    let mut pinned = vec![reader.snapshot().unwrap()];
    drop(reader);
    let mut most = 0;
    for number in 2..publishes {
        let pool = &pools[random.below(3) as usize];
        let name = NAMES[random.below(4) as usize];
        put(pool, name, number, 10_000 + random.below(20_000) as usize);
        match random.below(40) {
            0 if pinned.len() < 4 => pinned.push(pool.snapshot().unwrap()),
            1 if pinned.len() > 1 => drop(pinned.swap_remove(1)),
            2 => {
                // Allocate without publishing.
                let txn = pool.begin().unwrap();
                txn.alloc(30_000).unwrap().write_at(0, &[0xEE; 30_000]);
            }
            3 if number % 7 == 0 => {
                // All processes die, one of them after an allocation.
                let txn = pool.begin().unwrap();
                txn.alloc(30_000).unwrap().write_at(0, &[0xEE; 30_000]);
                let next = crash(&medium);
                drop(txn);
                medium = next;
                pools = [open(&medium), open(&medium), open(&medium)];
                pinned = vec![pools[0].snapshot().unwrap()];
            }
            4 => pool.sync().unwrap(),
            _ => {}
        }
        if number % 16 == 0 {
            pinned.iter().for_each(verify);
        }
        let pool = &pools[0];
        verify(&pool.snapshot().unwrap());
        // The file does not shrink by itself, so compare with the maximum ever needed.
        most = most.max(needed(pool, &pinned));
        let len = medium.len();
        assert!(
            len <= 2 * most + 2 * SMALL_POOL.growth,
            "{len} bytes for {most} after {number} publishes, {} pins",
            pinned.len()
        );
    }
    assert!(pools[0].check(|_| ()).unwrap().is_intact());
}

fn with_seeds(run: impl Fn(u64)) {
    for seed in seeds() {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "with HALOCLINE_GROWTH_SEED={seed}");
    }
}

#[test]
fn the_file_stays_short_where_fences_are_durable() {
    with_seeds(|seed| {
        many_publishes(seed, 1000, Arc::new(Tracked::new(0).unwrap()), |medium| {
            Arc::new(Tracked::from_image(&medium.image()).unwrap())
        })
    });
}

#[test]
fn the_file_stays_short_where_only_syncs_are_durable() {
    with_seeds(|seed| {
        let medium = Wrapped::lazy(&Arc::new(Tracked::new(0).unwrap()));
        many_publishes(seed, 1000, medium, |medium| {
            Wrapped::lazy(&Arc::new(Tracked::from_image(&medium.image()).unwrap()))
        })
    });
}
