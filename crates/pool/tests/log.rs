//! Logs through the public interface.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use halocline_pool::{LogDamage, ObjectKind, Pool, PoolError, PoolOptions, PoolProblem, Snapshot};
use proptest::prelude::*;
use tempfile::TempDir;

type Records = Vec<Box<[u8]>>;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    (directory, path)
}

fn options() -> PoolOptions {
    PoolOptions::default()
}

/// Creates a pool with an empty log of one block.
fn with_log(path: &PathBuf) -> Pool {
    let pool = Pool::create(path, &options()).unwrap();
    put_log(&pool, 4096);
    pool
}

fn put_log(pool: &Pool, capacity: u64) -> u64 {
    let txn = pool.begin().unwrap();
    txn.put_log("log", capacity).unwrap();
    txn.commit().unwrap()
}

fn append(pool: &Pool, record: &[u8]) -> u64 {
    pool.begin().unwrap().log_append("log", record).unwrap()
}

fn records(snapshot: &Snapshot) -> Records {
    snapshot.log_records("log", 0).unwrap().records
}

fn newest(pool: &Pool) -> Records {
    records(&pool.snapshot().unwrap())
}

/// Returns the offset of the log.
fn offset(pool: &Pool) -> u64 {
    pool.snapshot()
        .unwrap()
        .object("log")
        .unwrap()
        .extent_ref(0)
        .offset
}

#[test]
fn records_are_seen_by_all_handles_of_their_generation() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let other = Pool::open(&path, &options()).unwrap();
    let read_only = Pool::open(&path, &options().with_read_only(true));
    let seen = read_only.unwrap().snapshot().unwrap();
    let first = append(&pool, b"one");
    assert_eq!(append(&other, b"two, by another handle"), first + 40);
    let end = append(&pool, b"");
    let all: [Box<[u8]>; 3] = [(*b"one").into(), (*b"two, by another handle").into(), [].into()];
    assert_eq!(records(&seen), all);
    let since = seen.log_records("log", first).unwrap();
    assert_eq!((&since.records[..], since.end), (&all[1..], end));
    assert!(seen.log_records("log", end).unwrap().records.is_empty());
    for position in [4, 8, first + 8, end + 16, 1 << 40] {
        let error = seen.log_records("log", position).unwrap_err();
        assert!(
            matches!(error, PoolError::NoSuchPosition { position: named, .. } if named == position),
            "{error}"
        );
    }
    assert_eq!(seen.generation(), pool.snapshot().unwrap().generation());
    drop((seen, pool, other));
    assert_eq!(newest(&Pool::open(&path, &options()).unwrap()), all);
}

#[test]
fn a_publish_takes_a_new_log_or_an_empty_one() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let (at, generation) = (offset(&pool), pool.snapshot().unwrap().generation());
    assert_eq!(put_log(&pool, 4096), generation, "it is empty and large enough");
    let old = pool.snapshot().unwrap();
    assert_eq!(put_log(&pool, 5000), generation + 1);
    assert_ne!(offset(&pool), at, "it was too small");
    append(&pool, b"record");
    let full = pool.snapshot().unwrap();
    let txn = pool.begin().unwrap();
    txn.put("a", ObjectKind::TABLE, b"", vec![]).unwrap();
    let error = txn.commit().unwrap_err();
    assert!(
        matches!(&error, PoolError::LogNotFolded { name, .. } if name == "log"),
        "{error}"
    );
    let txn = pool.begin().unwrap();
    assert_eq!(txn.log_records("log", 0).unwrap().records.len(), 1);
    txn.put_log("log", 100).unwrap();
    assert_eq!(txn.commit().unwrap(), generation + 2);
    append(&pool, b"another");
    assert_eq!(newest(&pool), [Box::from(*b"another")]);
    assert_eq!(records(&full), [Box::from(*b"record")]);
    assert!(records(&old).is_empty());
    // Removing the log discards its records deliberately.
    let txn = pool.begin().unwrap();
    txn.remove("log").unwrap();
    txn.commit().unwrap();
}

#[test]
fn a_log_begins_with_what_it_was_named_with() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    append(&pool, b"to be folded");
    let txn = pool.begin().unwrap();
    let first = vec![b"kept".to_vec(), vec![7; 9000]];
    txn.put_log_with("log", 4096, first.clone()).unwrap();
    txn.commit().unwrap();
    append(&pool, b"appended");
    let expected: Vec<&[u8]> = vec![b"kept", &first[1], b"appended"];
    assert_eq!(
        newest(&pool).iter().map(|record| &**record).collect::<Vec<_>>(),
        expected
    );
    drop(pool);
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!(
        newest(&pool).iter().map(|record| &**record).collect::<Vec<_>>(),
        expected
    );
    let txn = pool.begin().unwrap();
    txn.put("a", ObjectKind::TABLE, b"", vec![]).unwrap();
    assert!(
        matches!(txn.commit(), Err(PoolError::LogNotFolded { .. })),
        "they are records like others"
    );
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn an_append_after_the_log_was_named_again_is_not_lost() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let txn = pool.begin().unwrap();
    txn.put("a", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.put_log("log", 4096).unwrap();
    txn.log_append("log", b"late").unwrap();
    assert!(matches!(txn.commit(), Err(PoolError::LogNotFolded { .. })));
    assert_eq!(newest(&pool), [Box::from(*b"late")]);
}

#[test]
fn a_full_log_says_so() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let mut count = 0;
    let error = loop {
        let txn = pool.begin().unwrap();
        match txn.log_append("log", &[7; 88]) {
            Ok(end) => {
                count += 1;
                assert_eq!(end, count * 104);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(count, 38);
    assert!(
        matches!(
            &error,
            PoolError::LogFull {
                wanted: 104,
                free: 16,
                capacity: 3968,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(append(&pool, b""), 3968, "to the last byte before the count");
    assert_eq!(newest(&pool).len(), 39);
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn logs_and_other_objects_are_not_confused() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let txn = pool.begin().unwrap();
    txn.put("table", ObjectKind::TABLE, b"", vec![]).unwrap();
    assert!(matches!(
        txn.put("x", ObjectKind::LOG, b"", vec![]),
        Err(PoolError::IsALog { .. })
    ));
    let log = txn.get("log").unwrap();
    assert!(matches!(log.extent(0), Err(PoolError::IsALog { .. })));
    assert!(matches!(log.extent_verified(0), Err(PoolError::IsALog { .. })));
    let extent = log.extent_ref(0);
    assert!(matches!(
        txn.extent(&extent),
        Err(PoolError::UnknownExtent { .. })
    ));
    assert!(matches!(
        txn.put("x", ObjectKind::TABLE, b"", vec![extent]),
        Err(PoolError::UnknownExtent { .. })
    ));
    txn.commit().unwrap();
    let txn = pool.begin().unwrap();
    assert!(matches!(
        txn.log_append("table", b""),
        Err(PoolError::NotALog {
            kind: ObjectKind::TABLE,
            ..
        })
    ));
    assert!(matches!(
        txn.log_append("none", b""),
        Err(PoolError::NoSuchObject { .. })
    ));
    txn.put("log2", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.put_log("log2", 1).unwrap();
    assert!(
        matches!(txn.log_append("log2", b""), Err(PoolError::NoSuchObject { .. })),
        "not in the base"
    );
}

#[test]
fn a_pool_needs_a_newer_program_from_its_first_publish_on() {
    /// Returns the versions of the four superblocks, which older programs check.
    fn versions(path: &PathBuf) -> [u8; 4] {
        let bytes = fs::read(path).unwrap();
        [0, 1, 2, 3].map(|slot| bytes[slot * 4096 + 8])
    }
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    assert_eq!(pool.info().unwrap().version, 1);
    assert!(!versions(&path).contains(&4));
    put_log(&pool, 1);
    assert_eq!(pool.info().unwrap().version, 4);
    assert!(versions(&path).contains(&4));
    append(&pool, b"record");
    assert!(versions(&path).contains(&4));
    let txn = pool.begin().unwrap();
    txn.remove("log").unwrap();
    txn.commit().unwrap();
    assert_eq!(pool.info().unwrap().version, 4);
    for _ in 0..2 {
        let txn = pool.begin().unwrap();
        txn.put("a", ObjectKind::TABLE, b"", vec![]).unwrap();
        txn.commit().unwrap();
        pool.sync().unwrap();
    }
    assert_eq!(versions(&path), [4; 4]);
}

/// Creates and closes a pool with records of 50 bytes, 72 bytes apart; returns the offset of its log.
fn with_records(path: &PathBuf, count: u8) -> u64 {
    let pool = with_log(path);
    for record in 0..count {
        append(&pool, &[record; 50]);
    }
    let at = offset(&pool);
    pool.close().unwrap();
    at
}

/// Changes bytes of a file.
fn damage(path: &PathBuf, at: u64, with: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let at = at as usize;
    for (byte, with) in bytes[at..].iter_mut().zip(with) {
        *byte ^= with;
    }
    fs::File::create(path).unwrap().write_all(&bytes).unwrap();
}

#[test]
fn a_damaged_record_is_not_the_end_of_the_log() {
    const RECORDS: u64 = 4;
    // Damage each record in its length, salt, payload and checksum, including the last one.
    for record in 0..RECORDS {
        for within in [0, 3, 5, 20, 70] {
            let (_directory, path) = place();
            let at = with_records(&path, RECORDS as u8);
            damage(&path, at + record * 72 + within, &[0x10]);
            let pool = Pool::open(&path, &options()).unwrap();
            let expected = LogDamage {
                intact: record,
                position: record * 72,
                lost: Some(RECORDS - record),
            };
            let refused = |error: PoolError| {
                let named = error.to_string().contains(&format!("record {} ", record + 1));
                assert!(
                    matches!(&error, PoolError::DamagedLog { name, damage, .. }
                        if name == "log" && *damage == expected && named),
                    "{error}"
                );
            };
            refused(pool.snapshot().unwrap().log_records("log", 0).unwrap_err());
            let txn = pool.begin().unwrap();
            refused(txn.log_append("log", b"hides it").unwrap_err());
            refused(txn.put_log("log", 4096).unwrap_err());
            txn.put("a", ObjectKind::TABLE, b"", vec![]).unwrap();
            refused(txn.commit().unwrap_err());
            let report = pool.check(|_| ()).unwrap();
            let problem = PoolProblem::Log {
                object: "log".to_owned(),
                damage: expected,
            };
            assert_eq!((report.records, report.problems), (record, vec![problem]));
        }
    }
}

#[test]
fn records_up_to_the_damage_are_read_until_it_is_reached() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    append(&pool, &[1; 50]);
    let seen = pool.snapshot().unwrap();
    let first = seen.log_records("log", 0).unwrap();
    append(&Pool::open(&path, &options()).unwrap(), &[2; 50]);
    let at = offset(&pool) + first.end + 20;
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, &[9], at).unwrap();
    let error = seen.log_records("log", first.end).unwrap_err();
    assert!(matches!(error, PoolError::DamagedLog { .. }), "{error}");
}

#[test]
fn a_damaged_count_is_told_from_damaged_records() {
    let (_directory, path) = place();
    let at = with_records(&path, 3);
    let count = at + 4096 - 128;
    // Damage one word at a time: the start, the end, the number of records.
    for word in [0, 8, 16] {
        damage(&path, count + word, &[0x20]);
        let pool = Pool::open(&path, &options()).unwrap();
        assert_eq!(newest(&pool).len(), 3, "word at {word}");
        let problem = PoolProblem::LogCount {
            object: "log".to_owned(),
            records: 3,
        };
        assert_eq!(pool.check(|_| ()).unwrap().problems, [problem]);
        damage(&path, count + word, &[0x20]);
    }
    // Then damage all of it, so that it is unknown whether there was a fourth record.
    damage(&path, count, &[0xFF; 128]);
    let pool = Pool::open(&path, &options()).unwrap();
    let error = pool.snapshot().unwrap().log_records("log", 0).unwrap_err();
    assert!(
        matches!(
            error,
            PoolError::DamagedLog {
                damage: LogDamage {
                    intact: 3,
                    lost: None,
                    ..
                },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_repair_keeps_the_records_before_the_damage_and_says_what_goes() {
    let (_directory, path) = place();
    let at = with_records(&path, 4);
    damage(&path, at + 2 * 72 + 20, &[1]);
    let damaged = fs::read(&path).unwrap();
    let problem = PoolProblem::Log {
        object: "log".to_owned(),
        damage: LogDamage {
            intact: 2,
            position: 144,
            lost: Some(2),
        },
    };
    let plan = Pool::plan_repair(&path, |_| ()).unwrap();
    assert!(plan.loses_changes() && !plan.report().lost_changes());
    assert_eq!(plan.report().logs, [problem]);
    assert_eq!(fs::read(&path).unwrap(), damaged, "a plan changes nothing");
    let saved = halocline_pool::saved_state_path(&path);
    plan.save_state(&saved).unwrap();
    plan.apply().unwrap();

    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!(newest(&pool).len(), 2);
    append(&pool, &[9; 50]);
    assert_eq!(newest(&pool).len(), 3);
    assert!(pool.check(|_| ()).unwrap().is_intact());
    drop(pool);
    // The saved state restores the damage.
    let mut bytes = fs::read(&path).unwrap();
    let saved = fs::read(saved).unwrap();
    bytes[..16384].copy_from_slice(&saved[..16384]);
    bytes[at as usize..][..4096].copy_from_slice(&saved[at as usize..][..4096]);
    assert_eq!(bytes, damaged);
}

#[test]
fn a_page_of_zeros_does_not_empty_the_log() {
    let (_directory, path) = place();
    let at = with_records(&path, 3);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at as usize..][..4096].fill(0);
    fs::write(&path, bytes).unwrap();
    let pool = Pool::open(&path, &options()).unwrap();
    let error = pool.snapshot().unwrap().log_records("log", 0).unwrap_err();
    assert!(matches!(error, PoolError::DamagedLog { .. }), "{error}");
}

#[test]
fn the_count_follows_the_records_of_all_handles() {
    let (_directory, path) = place();
    let pool = with_log(&path);
    let other = Pool::open(&path, &options()).unwrap();
    for number in 0..5 {
        append(if number % 2 == 0 { &pool } else { &other }, &[number; 50]);
    }
    drop(other);
    pool.sync().unwrap();
    let report = pool.check(|_| ()).unwrap();
    assert_eq!((report.records, report.counted_records), (5, 5));
    append(&pool, b"after the sync");
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    /// Moves the records to an object and creates a log of this number of blocks.
    Fold(u64),
    Publish,
    Reopen,
    Hold,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..700_usize).prop_map(Step::Append),
        2 => (1..3_u64).prop_map(Step::Fold),
        1 => Just(Step::Publish),
        1 => Just(Step::Reopen),
        1 => Just(Step::Hold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..60)) {
        let (_directory, path) = place();
        let mut pool = with_log(&path);
        let mut model = Records::new();
        // Snapshots of older generations, and one of the newest.
        let (mut held, mut current) = (Vec::<(Snapshot, Records)>::new(), None::<Snapshot>);
        for (number, step) in steps.into_iter().enumerate() {
            let publishes = matches!(step, Step::Fold(_)) || matches!(step, Step::Publish) && model.is_empty();
            if publishes && let Some(snapshot) = current.take() {
                held.push((snapshot, model.clone()));
            }
            match step {
                Step::Append(len) => {
                    let record = vec![number as u8; len];
                    let txn = pool.begin().unwrap();
                    match txn.log_append("log", &record) {
                        Ok(_) => model.push(record.into()),
                        Err(PoolError::LogFull { wanted, free, .. }) => prop_assert!(wanted > free),
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Fold(blocks) => {
                    let txn = pool.begin().unwrap();
                    prop_assert_eq!(&txn.log_records("log", 0).unwrap().records, &model);
                    txn.put("n", ObjectKind::TABLE, &number.to_le_bytes(), vec![]).unwrap();
                    txn.put_log("log", blocks * 4096).unwrap();
                    txn.commit().unwrap();
                    model.clear();
                }
                Step::Publish => {
                    let txn = pool.begin().unwrap();
                    txn.put("n", ObjectKind::TABLE, &number.to_le_bytes(), vec![]).unwrap();
                    prop_assert_eq!(txn.commit().is_ok(), publishes);
                }
                Step::Reopen => pool = Pool::open(&path, &options()).unwrap(),
                Step::Hold => current = Some(pool.snapshot().unwrap()),
            }
            prop_assert_eq!(&newest(&pool), &model);
            if let Some(snapshot) = &current {
                prop_assert_eq!(&records(snapshot), &model);
            }
            for (snapshot, then) in &held {
                prop_assert_eq!(&records(snapshot), then);
            }
        }
        prop_assert!(pool.check(|_| ()).unwrap().is_intact());
    }
}
