//! The reserve: what frees space works on a full disk, every crash while it is used, and each way to lose it.

use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;

use super::model::{
    BOOT, ExpectedObjects, LOG, NEXT_BOOT, PoolStep, RESERVED_POOL, SMALL_POOL, contents, find,
    read_snapshot, run, states, without_copy, write,
};
use super::wrapped::Wrapped;
use crate::fault::{self, PoolFault};
use crate::layout::BLOCK;
use crate::pool::PoolGeometry;
use crate::{ExtentBytes, ObjectKind, Pool, PoolError, ReserveUse, SlabOptions, Txn};

fn put(pool: &Pool, name: &str, seed: u8, len: usize) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    let mut writer = txn.alloc(len as u64)?;
    writer.append(&contents(seed, 0, len));
    let extent = writer.finish(len as u64)?;
    txn.put(name, ObjectKind::TABLE, &[seed; 20], vec![extent])?;
    txn.commit().map(drop)
}

fn remove(pool: &Pool, name: &str) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    txn.use_reserve(ReserveUse::Dropping);
    txn.remove(name)?;
    txn.commit().map(drop)
}

fn is_full<T: std::fmt::Debug>(result: Result<T, PoolError>) -> bool {
    match result {
        Err(PoolError::DiskFull { .. }) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

/// Puts objects until there is not a block left, and returns their number.
fn fill(pool: &Pool) -> usize {
    let mut count = 0;
    for len in [9000, 100] {
        while !is_full(put(pool, &format!("o{count}"), count as u8, len)) {
            count += 1;
        }
    }
    count
}

/// Lets readers in this process keep the last free blocks.
fn keep_rest(pool: &Pool) -> Vec<ExtentBytes> {
    keep_rest_of(&pool.begin().unwrap())
}

fn keep_rest_of(txn: &Txn) -> Vec<ExtentBytes> {
    let mut kept = Vec::new();
    while let Ok(mut writer) = txn.alloc(100) {
        writer.append(&[1; 100]);
        let extent = writer.finish(100).unwrap();
        kept.push(txn.extent(&extent).unwrap());
    }
    kept
}

fn reserved(pool: &Pool) -> u64 {
    pool.info().unwrap().reserve
}

/// Fills pools of each kind of medium, and drops everything there is.
fn drops_everything(geometry: PoolGeometry) {
    for lazy in [false, true] {
        let tracked = Arc::new(Tracked::new(0).unwrap());
        let medium = if lazy {
            Wrapped::lazy(&tracked)
        } else {
            Wrapped::new(&tracked)
        };
        let pool = Pool::create_with(Arc::clone(&medium), geometry).unwrap();
        run(
            &pool,
            &[PoolStep::Log(4096), PoolStep::Append(30)],
            |_| (),
            |_| (),
        );
        medium.limit(240 << 10);
        let txn = pool.begin().unwrap();
        txn.put_log_with(LOG, 64, vec![contents(1, 0, 30)]).unwrap();
        txn.commit().unwrap();
        let count = fill_beside_log(&pool);
        assert!(count > 10, "{count} objects");
        let mut kept = keep_rest(&pool);
        for number in 0..count {
            // Another process each time but the first, which learns of the reserve from the directory.
            let pool = match number {
                0 => pool.clone(),
                _ => Pool::open_with(Arc::clone(&medium), geometry, halocline_media::boot_id()).unwrap(),
            };
            let txn = pool.begin().unwrap();
            txn.use_reserve(ReserveUse::Dropping);
            txn.remove(&format!("o{number}")).unwrap();
            let records = txn.log_records(LOG, 0).unwrap().records;
            txn.put_log_with(LOG, 64, records.into_iter().map(Vec::from).collect())
                .unwrap();
            txn.commit().unwrap();
            kept.clear();
        }
        assert_eq!(pool.snapshot().unwrap().objects().count(), 1);
        assert!(pool.check(|_| ()).unwrap().is_intact());
        // All of the space is there again.
        assert!(fill_beside_log(&pool) > count / 2);
    }
}

/// Does the same as [`fill`] in a pool whose log has records, which each publish carries on.
fn fill_beside_log(pool: &Pool) -> usize {
    let mut count = 0;
    for len in [9000, 100] {
        loop {
            let put = || {
                let txn = pool.begin()?;
                let records = txn.log_records(LOG, 0)?.records;
                let bytes = contents(count as u8, 0, len);
                let mut writer = txn.alloc(len as u64)?;
                writer.append(&bytes);
                let extent = writer.finish(len as u64)?;
                let (name, seed) = (format!("o{count}"), count as u8);
                txn.put(&name, ObjectKind::TABLE, &[seed; 20], vec![extent])?;
                txn.put_log_with(LOG, 64, records.into_iter().map(Vec::from).collect())?;
                txn.commit().map(drop)
            };
            if is_full(put()) {
                break;
            }
            count += 1;
        }
    }
    count
}

#[test]
fn a_full_disk_is_emptied_without_a_free_byte() {
    drops_everything(RESERVED_POOL);
    let without = std::panic::catch_unwind(|| drops_everything(SMALL_POOL));
    assert!(without.is_err(), "without a reserve nothing can be dropped");
    let spent = || fault::with(PoolFault::SpendReserve, || drops_everything(RESERVED_POOL));
    assert!(std::panic::catch_unwind(spent).is_err());
}

#[test]
fn the_reserve_is_completed_before_anything_else_is_written() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), RESERVED_POOL).unwrap();
    put(&pool, "a", 1, 9000).unwrap();
    let complete = reserved(&pool);
    assert!(complete >= RESERVED_POOL.reserve + 2 * BLOCK, "{complete}");
    medium.limit(pool.info().unwrap().len);
    fill(&pool);
    assert_eq!(reserved(&pool), complete);
    let txn = pool.begin().unwrap();
    let rest = keep_rest_of(&txn);
    txn.use_reserve(ReserveUse::Deleting);
    // What stays may take a part only.
    assert!(is_full(txn.alloc(RESERVED_POOL.reserve)));
    let kept = write(&txn, &contents(7, 0, 100));
    assert!(is_full(txn.alloc(BLOCK)));
    txn.use_reserve(ReserveUse::Dropping);
    txn.put("kept", ObjectKind::TABLE, &[7; 20], vec![kept]).unwrap();
    txn.commit().unwrap();
    drop(rest);
    let less = reserved(&pool);
    assert!(less < complete, "{less} of {complete}");
    assert!(is_full(put(&pool, "b", 2, 9000)), "the reserve is not complete");
    remove(&pool, "a").unwrap();
    put(&pool, "b", 2, 100).unwrap();
    assert_eq!(reserved(&pool), complete);
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn a_slab_is_created_in_the_reserve_of_a_full_disk() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), RESERVED_POOL).unwrap();
    put(&pool, "a", 1, 30_000).unwrap();
    medium.limit(pool.info().unwrap().len);
    fill(&pool);
    let rest = keep_rest(&pool);
    let options = SlabOptions {
        node_size: 256,
        owner: *b"reserved",
        chunk: RESERVED_POOL.reserve,
    };
    assert!(is_full(pool.create_slab("slab", &options)));
    let create = |purpose| pool.create_slab_using_reserve("slab", &options, purpose);
    assert!(is_full(create(ReserveUse::Deleting)), "it may take a part only");
    let slab = create(ReserveUse::Dropping).unwrap();
    drop(rest);
    assert_eq!(slab.stats().bytes, RESERVED_POOL.reserve);
    assert!(is_full(put(&pool, "b", 2, 9000)), "the reserve is not complete");
    remove(&pool, "a").unwrap();
    put(&pool, "b", 2, 100).unwrap();
    drop(slab);
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn a_pool_without_reserve_gets_one_when_there_is_room() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    // As an older program leaves it.
    let old = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    medium.limit(64 << 10);
    fill(&old);
    assert_eq!(reserved(&old), 0);
    drop(old);
    let pool = Pool::open_with(Arc::clone(&medium), RESERVED_POOL, BOOT).unwrap();
    assert!(is_full(put(&pool, "b", 2, 100)), "there is no room for a reserve");
    medium.limit(256 << 10);
    // No publish is needed: the space is there, and has blocks.
    let len = medium.len();
    drop(pool);
    let pool = Pool::open_with(Arc::clone(&medium), RESERVED_POOL, BOOT).unwrap();
    drop(pool.begin().unwrap());
    assert!(medium.len() > len);
    medium.limit(medium.len() + SMALL_POOL.growth);
    put(&pool, "b", 2, 100).unwrap();
    assert!(reserved(&pool) > 0);
    // An older program takes it for free space, and leaves it out of its list.
    let old = Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT).unwrap();
    fill(&old);
    assert!(old.check(|_| ()).unwrap().is_intact());
}

/// Drops an object that a snapshot sees.
fn drop_beside_a_snapshot() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), RESERVED_POOL).unwrap();
    medium.limit(128 << 10);
    put(&pool, "big", 1, 50_000).unwrap();
    fill(&pool);
    let snapshot = pool.snapshot().unwrap();
    let before = read_snapshot(&snapshot);
    let kept = keep_rest(&pool);
    remove(&pool, "big").unwrap();
    drop(kept);
    assert!(
        is_full(put(&pool, "b", 2, 20_000)),
        "the snapshot keeps the space"
    );
    assert_eq!(read_snapshot(&snapshot), before);
    drop(snapshot);
    put(&pool, "b", 2, 20_000).unwrap();
}

#[test]
fn a_drop_beside_a_snapshot_frees_its_space_later() {
    drop_beside_a_snapshot();
    let broken = || fault::with(PoolFault::ReserveFromLimbo, drop_beside_a_snapshot);
    assert!(std::panic::catch_unwind(broken).is_err());
}

/// Lets a vacuum pass over the reserve, of which a later transaction needs the blocks.
fn vacuumed() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), RESERVED_POOL).unwrap();
    put(&pool, "big", 1, 200_000).unwrap();
    // After the object, as its space was free before.
    put(&pool, "a", 2, 100).unwrap();
    remove(&pool, "big").unwrap();
    for other_has_it_open in [true, false] {
        let other =
            other_has_it_open.then(|| Pool::open_with(Arc::clone(&medium), RESERVED_POOL, BOOT).unwrap());
        pool.vacuum().unwrap();
        drop(other);
        let again = Pool::open_with(Arc::clone(&medium), RESERVED_POOL, BOOT).unwrap();
        let (_, newest) = again.inner.pin_newest().unwrap();
        let listed = newest.directory().limbo.as_ref().unwrap().reserve.clone();
        assert!(!listed.is_empty());
        for range in listed {
            assert!(range.end <= medium.len() && medium.has_blocks(range.start, range.end - range.start));
            assert!(
                other_has_it_open || range.end < 100_000,
                "the reserve moves towards the start"
            );
        }
    }
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn a_vacuum_leaves_the_reserve_its_blocks() {
    vacuumed();
    let broken = || fault::with(PoolFault::VacuumReserve, vacuumed);
    assert!(std::panic::catch_unwind(broken).is_err());
}

const SETUP: &[PoolStep] = &[
    PoolStep::Put("a", 1, &[9000]),
    PoolStep::Put("b", 2, &[100]),
    PoolStep::Put("c", 3, &[5000]),
    PoolStep::Put("d", 4, &[100]),
];

/// Number of the first steps, which remove objects beside a reader.
const REMOVED: usize = 3;

/// Steps on a full disk, of which those that remove may use the reserve.
const STEPS: &[PoolStep] = &[
    PoolStep::Remove("b"),
    PoolStep::Remove("a"),
    PoolStep::Remove("c"),
    PoolStep::Put("e", 5, &[4000]),
    PoolStep::Put("d", 6, &[100]),
    PoolStep::Remove("e"),
    PoolStep::Put("d", 7, &[100; 2]),
];

/// Performs a step, of which one that removes may use the reserve.
fn perform(pool: &Pool, step: &PoolStep) -> Result<(), PoolError> {
    match *step {
        PoolStep::Remove(name) => remove(pool, name),
        PoolStep::Put(name, seed, lens) => {
            let txn = pool.begin()?;
            let extents = lens.iter().enumerate().map(|(index, len)| {
                let mut writer = txn.alloc(*len as u64)?;
                writer.append(&contents(seed, index, *len));
                writer.finish(*len as u64)
            });
            let extents = extents.collect::<Result<Vec<_>, PoolError>>()?;
            txn.put(name, ObjectKind::TABLE, &[seed; 20], extents)?;
            txn.commit().map(drop)
        }
        _ => unreachable!("there are no others"),
    }
}

/// Returns a medium on a disk of this size.
fn limited(medium: &Arc<Tracked>, lazy: bool, disk: u64) -> Arc<Wrapped> {
    let limited = if lazy {
        Wrapped::lazy(medium)
    } else {
        Wrapped::new(medium)
    };
    limited.limit(disk);
    limited
}

/// Returns the size of a disk, and a setup after which the first steps beside a reader need the reserve.
fn full_setup(lazy: bool) -> (u64, Vec<PoolStep>) {
    const EXTRA_OBJECTS: [&str; 20] = [
        "f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11", "f12", "f13",
        "f14", "f15", "f16", "f17", "f18", "f19",
    ];
    let on_disk = |disk: u64| {
        let pool = Pool::create_with(
            limited(&Arc::new(Tracked::new(0).unwrap()), lazy, disk),
            RESERVED_POOL,
        )
        .unwrap();
        let more = EXTRA_OBJECTS.map(|name| PoolStep::Put(name, 9, &[100]));
        let fits = |step: &&PoolStep| !is_full(perform(&pool, step));
        let setup: Vec<PoolStep> = SETUP.iter().chain(&more).take_while(fits).copied().collect();
        pool.sync().unwrap();
        if setup.len() < SETUP.len() {
            return None;
        }
        let complete = reserved(&pool);
        let _reader = pool.snapshot().unwrap();
        STEPS[..REMOVED]
            .iter()
            .for_each(|step| perform(&pool, step).unwrap());
        (reserved(&pool) < complete).then_some((disk, setup))
    };
    let disks = (64 << 10..192 << 10).step_by(BLOCK as usize);
    disks
        .clone()
        .find_map(on_disk)
        .expect("a disk that is full to the last block")
}

/// Drops and replaces objects on a full disk, each time as another process, which every crash must leave
/// whole. If `lazy` is true, fences are not durable, and the state of the last sync may be found again.
fn explore_full(lazy: bool) -> Result<(), String> {
    let (disk, setup) = full_setup(lazy);
    let all = states(&[&setup, STEPS].concat());
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let limited = |medium: &Arc<Tracked>| limited(medium, lazy, disk);
    let open = |medium: &Arc<Wrapped>, boot| Pool::open_with(Arc::clone(medium), RESERVED_POOL, boot);
    let open_after = |medium: &Arc<Wrapped>| match open(medium, NEXT_BOOT) {
        Err(PoolError::UnsyncedAfterReboot { .. } | PoolError::DamagedSuperblock { .. }) if lazy => {
            Pool::repair_with(Arc::clone(medium), NEXT_BOOT, |_| ())?;
            open(medium, NEXT_BOOT)
        }
        other => other,
    };
    let report = explorer.run(
        |medium| {
            let pool = Pool::create_with(limited(medium), RESERVED_POOL).unwrap();
            setup.iter().for_each(|step| perform(&pool, step).unwrap());
            pool.sync().unwrap();
        },
        |medium| {
            let limited = limited(medium);
            let reader = open(&limited, BOOT).unwrap();
            let mut pinned = Some(reader.snapshot().unwrap());
            for (number, step) in STEPS.iter().enumerate() {
                if number == REMOVED {
                    pinned = None;
                }
                medium.begin(number as u64);
                let pool = open(&limited, BOOT).unwrap();
                perform(&pool, step).unwrap();
                if lazy {
                    // The process dies without a sync.
                    std::mem::forget(pool);
                }
                medium.acknowledge(number as u64);
            }
            drop(pinned);
        },
        |medium, crash| {
            let (first, last) = crash.completed(setup.len());
            let first = if lazy { setup.len() } else { first };
            let limited = limited(&medium);
            let pool = open_after(&limited).map_err(|error| error.to_string())?;
            let at = find(&pool, &all, first, last)?;
            // Without the newest superblock, the generation before is whole.
            for slot in if lazy { 4..4 } else { 0..4 } {
                without_copy(&*limited, slot, || match open(&limited, NEXT_BOOT) {
                    Ok(pool) => find(&pool, &all, 0, last).map(drop),
                    Err(PoolError::DamagedSuperblock { .. }) if slot < 2 => Ok(()),
                    Err(error) => Err(error.to_string()),
                })
                .map_err(|error| format!("without copy {slot}: {error}"))?;
            }
            // Everything can still be dropped.
            for name in all[at].keys() {
                remove(&pool, name).map_err(|error| format!("{name}: {error}"))?;
            }
            find(&pool, &[ExpectedObjects::new()], 0, 0)?;
            let report = pool.check(|_| ()).map_err(|error| error.to_string())?;
            if report.is_intact() {
                Ok(())
            } else {
                Err(format!("{report:?}"))
            }
        },
    );
    report.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn a_crash_while_the_reserve_is_used_leaves_everything_whole() {
    explore_full(false).unwrap();
    explore_full(true).unwrap();
    for (fault, lazy) in [
        (PoolFault::ReserveFromLimbo, true),
        (PoolFault::ReserveListedEarly, false),
    ] {
        let broken = std::panic::catch_unwind(|| fault::with(fault, || explore_full(lazy)));
        assert!(!matches!(broken, Ok(Ok(()))), "{fault:?} was not noticed");
    }
}

/// A transaction that ends without a commit leaves the reserve complete.
#[test]
fn what_is_not_committed_goes_back() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), RESERVED_POOL).unwrap();
    put(&pool, "a", 1, 100).unwrap();
    medium.limit(medium.len());
    fill(&pool);
    let complete = reserved(&pool);
    for _ in 0..3 {
        let txn: Txn = pool.begin().unwrap();
        txn.use_reserve(ReserveUse::Dropping);
        drop(txn.alloc(complete).unwrap());
        txn.alloc(complete).unwrap().write_at(0, &[0xEE; 1000]);
    }
    remove(&pool, "a").unwrap();
    remove(&pool, "o0").unwrap();
    assert!(pool.check(|_| ()).unwrap().is_intact());
}
