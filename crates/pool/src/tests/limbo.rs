//! Handles that take over from each other by the limbo list: every crash between them, and each way for the
//! list to be wrong.

use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;

use super::model::{BOOT, PoolStep, SMALL_POOL, contents, read_snapshot, run, write};
use super::wrapped::Wrapped;
use super::{crash, power};
use crate::fault::{self, PoolFault};
use crate::limbo::{AgedRange, LimboList};
use crate::{ObjectKind, Pool};

/// Both handles find what the other has freed, and use all of it.
const TURNS: &[PoolStep] = &[
    PoolStep::Put("a", 2, &[100]),
    PoolStep::Turn,
    PoolStep::Put("a", 3, &[100]),
    PoolStep::Turn,
    PoolStep::Put("a", 4, &[100; 2]),
    PoolStep::Turn,
    PoolStep::Put("a", 5, &[100; 2]),
    PoolStep::Put("b", 6, &[100]),
];

const SETUP: &[PoolStep] = &[PoolStep::Put("a", 1, &[100])];

#[test]
fn handles_that_take_turns_overwrite_nothing_that_is_needed() {
    crash::explore(SETUP, TURNS);
}

#[test]
fn handles_that_take_turns_leave_what_is_pinned() {
    crash::explore(
        SETUP,
        &[
            PoolStep::Pin,
            PoolStep::Put("a", 2, &[200]),
            PoolStep::Turn,
            PoolStep::Put("b", 3, &[100]),
            PoolStep::Turn,
            PoolStep::Put("a", 4, &[60; 4]),
            PoolStep::Unpin,
            PoolStep::Turn,
            PoolStep::Put("a", 5, &[120; 6]),
            PoolStep::Turn,
            PoolStep::Put("a", 6, &[120; 3]),
        ],
    );
}

#[test]
fn handles_that_take_turns_keep_what_is_synced() {
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let steps = [TURNS, &[PoolStep::Sync, PoolStep::Turn], TURNS].concat();
    let setup = [SETUP, &[PoolStep::Sync]].concat();
    power::explore(&explorer, &setup, &steps, false).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_list_without_what_was_freed_is_noticed() {
    // Only the synced copy of the previous generation is left, and its space must be protected.
    let explore = || crash::explore(SETUP, TURNS);
    assert!(std::panic::catch_unwind(|| fault::with(PoolFault::ForgetLimbo, explore)).is_err());
}

#[test]
fn a_list_that_takes_old_space_for_young_is_noticed() {
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
        run(
            &pool,
            &[
                SETUP,
                &[PoolStep::Put("b", 1, &[100]), PoolStep::Pin],
                TURNS,
                TURNS,
            ]
            .concat(),
            |_| (),
            |_| (),
        );
    };
    work();
    for fault in [
        PoolFault::ForgetAge,
        PoolFault::ForgetLimbo,
        PoolFault::IgnoreReaders,
    ] {
        let broken = std::panic::catch_unwind(|| fault::with(fault, work));
        assert!(broken.is_err(), "{fault:?} was not noticed");
    }
}

/// Lets a repair return to an older generation, whose list lacks later ones that a reader still has pinned.
fn a_reader_through_a_repair() {
    let medium = Wrapped::lazy(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    let steps = [
        PoolStep::Put("a", 1, &[100]),
        PoolStep::Put("b", 1, &[100]),
        PoolStep::Sync,
        PoolStep::Put("c", 2, &[100]),
        PoolStep::Put("a", 3, &[100; 2]),
    ];
    run(&pool, &steps, |_| (), |_| ());
    let snapshot = pool.snapshot().unwrap();
    // Damage the newest directory, so that its generation cannot be kept.
    let offset = pool.inner.pin_newest().unwrap().1.directory().extent.offset;
    let (bytes, then) = (medium.load_u64(offset), read_snapshot(&snapshot));
    medium.store_u64(offset, !bytes);
    let report = Pool::repair_on(&medium, |_| ()).unwrap();
    assert!(report.lost_changes(), "{report:?}");
    medium.store_u64(offset, bytes);
    let other = Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT).unwrap();
    for seed in 4..10 {
        run(&other, &[PoolStep::Put("d", seed, &[100; 2])], |_| (), |_| ());
        assert_eq!(read_snapshot(&snapshot), then, "what is pinned stays as it was");
    }
}

#[test]
fn the_list_of_a_generation_that_was_published_again_is_not_trusted() {
    a_reader_through_a_repair();
    let broken = std::panic::catch_unwind(|| fault::with(PoolFault::TrustOldList, a_reader_through_a_repair));
    assert!(broken.is_err());
}

/// Checks an extent that is read after its transaction was dropped, across publishes that fail at each of
/// their fences and later ones that succeed.
fn unpublished_and_read() {
    let mut fences = 0;
    while unpublished_and_read_through(fences) {
        fences += 1;
    }
    assert!(fences > 2, "a publish has two fences, a sync has others");
}

/// Returns true if the publish failed.
fn unpublished_and_read_through(fences: u64) -> bool {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(&pool, SETUP, |_| (), |_| ());
    let txn = pool.begin().unwrap();
    let extent = write(&txn, &contents(9, 0, 3000));
    let bytes = txn.extent(&extent).unwrap();
    drop(txn);
    let replace = |seed: u8| {
        let txn = pool.begin()?;
        let mut extents = Vec::new();
        for index in 0..4 {
            let bytes = contents(seed, index, 3000 * index + 1);
            let mut writer = txn.alloc(bytes.len() as u64)?;
            writer.append(&bytes);
            extents.push(writer.finish(bytes.len() as u64)?);
        }
        txn.put("a", ObjectKind::TABLE, &[seed; 20], extents)?;
        txn.commit()
    };
    medium.fail_after(fences);
    let failed = replace(2).is_err();
    medium.fail_after(u64::MAX);
    for seed in 3..20 {
        replace(seed).unwrap();
        assert!(*bytes == *contents(9, 0, 3000), "what is read stays as it was");
    }
    drop(bytes);
    // Nobody reads it any more, so all space is found again.
    let len = medium.len();
    for seed in 20..40 {
        replace(seed).unwrap();
    }
    assert_eq!(medium.len(), len);
    failed
}

#[test]
fn what_was_never_published_is_left_to_its_readers() {
    unpublished_and_read();
    let broken = std::panic::catch_unwind(|| fault::with(PoolFault::ForgetUnpublished, unpublished_and_read));
    assert!(broken.is_err());
}

#[test]
fn a_list_that_contradicts_itself_is_refused() {
    const BLOCK: u64 = 4096;
    let aged = |start: u64, end: u64, born, freed| AgedRange {
        range: start * BLOCK..end * BLOCK,
        born,
        freed,
    };
    let decode = |list: &LimboList, count| {
        let mut bytes = Vec::new();
        list.encode(&mut bytes);
        LimboList::decode(&bytes, count, 9)
    };
    let good = LimboList::new(
        3,
        vec![
            aged(8, 9, 2, Some(5)),
            aged(9, 10, 2, Some(5)),
            aged(4, 6, 0, Some(9)),
            aged(6, 8, 7, None),
        ],
        vec![12 * BLOCK..14 * BLOCK, 20 * BLOCK..21 * BLOCK],
    );
    assert_eq!(good.ranges.len(), 3, "neighbours of one age are one");
    assert_eq!((good.len(), good.reserve_bytes()), (5, 3 * BLOCK));
    assert_eq!(decode(&good, 5).as_ref(), Ok(&good));
    assert_eq!(
        (good.born(7 * BLOCK), good.born(4 * BLOCK), good.born(20 * BLOCK)),
        (7, 0, 0)
    );
    assert!(decode(&good, 2).is_err() && decode(&good, u64::MAX).is_err());
    let bad = |synced, ranges| LimboList {
        synced,
        ranges,
        reserve: Vec::new(),
    };
    for list in [
        bad(10, vec![]),
        bad(0, vec![aged(4, 6, 0, Some(9)), aged(5, 7, 0, Some(9))]),
        bad(0, vec![aged(6, 7, 0, Some(9)), aged(4, 5, 0, Some(9))]),
        bad(0, vec![aged(2, 5, 0, Some(9))]),
        bad(0, vec![aged(4, 4, 0, Some(9))]),
        bad(0, vec![aged(4, 5, 0, Some(10))]),
        bad(0, vec![aged(4, 5, 5, Some(5))]),
        bad(0, vec![aged(4, 5, 10, None)]),
        bad(
            0,
            vec![AgedRange {
                range: 4 * BLOCK + 8..5 * BLOCK,
                born: 0,
                freed: Some(2),
            }],
        ),
    ] {
        assert!(decode(&list, list.ranges.len() as u64).is_err(), "{list:?}");
    }
}
