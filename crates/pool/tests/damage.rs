//! A pool file with any byte changed or truncated anywhere: a typed error or the right bytes, never a panic
//! or wrong ones.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};
use proptest::prelude::*;

const OBJECTS: [(&str, usize); 3] = [("table/a", 300), ("table/b", 70_000), ("index/c", 5_000)];

fn contents(name: &str, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8) ^ ((at >> 7) as u8) ^ name.as_bytes()[name.len() - 1])
        .collect()
}

/// Returns the bytes of a small pool with a history.
fn pristine() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        for (name, len) in OBJECTS {
            let txn = pool.begin().unwrap();
            let mut writer = txn.alloc(len as u64).unwrap();
            writer.append(&contents(name, len));
            let extent = writer.finish(len as u64).unwrap();
            txn.put(name, ObjectKind::TABLE, name.as_bytes(), vec![extent])
                .unwrap();
            txn.commit().unwrap();
        }
        pool.close().unwrap();
        fs::read(&path).unwrap()
    })
}

/// Returns the length of the significant bytes: the superblocks and everything in use.
fn interesting() -> usize {
    110 << 10
}

/// Opens a damaged pool. Accepts an error that describes the damage. Otherwise all objects must be right, or
/// `check` and a verified read must report them.
fn judge(path: &Path) {
    let pool = match Pool::open(path, &PoolOptions::default()) {
        Ok(pool) => pool,
        Err(error) => return expected(&error),
    };
    let report = match pool.check(|_| ()) {
        Ok(report) => report,
        Err(error) => return expected(&error),
    };
    let snapshot = pool.snapshot().unwrap();
    let mut wrong = 0;
    for object in snapshot.objects() {
        let (name, len) = OBJECTS
            .into_iter()
            .find(|(name, _)| *name == object.name())
            .expect("a name that was put");
        assert_eq!(object.meta(), name.as_bytes());
        match object.extent_verified(0) {
            Ok(bytes) => assert_eq!(*bytes, *contents(name, len)),
            Err(PoolError::ChecksumMismatch {
                object, extent: 0, ..
            }) if object == name => wrong += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(report.problems.len(), wrong, "{report:?}");
    assert_eq!(
        snapshot.objects().count(),
        OBJECTS.len(),
        "a synced pool has every copy of its newest superblock twice"
    );
}

fn expected(error: &PoolError) {
    let typed = matches!(
        error,
        PoolError::NotAPool { .. }
            | PoolError::Truncated { .. }
            | PoolError::DamagedSuperblock { .. }
            | PoolError::DamagedDirectory { .. }
            | PoolError::UnsyncedAfterReboot { .. }
    );
    assert!(typed, "{error:?}");
    assert!(error.to_string().contains("pool"), "{error}");
}

fn with(bytes: &[u8], look: impl FnOnce(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    fs::write(&path, bytes).unwrap();
    look(&path);
}

#[test]
fn every_byte_of_the_superblocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let mut bytes = pristine().to_vec();
    for slot in 0..4 {
        for at in 0..128 {
            let at = slot * 4096 + at;
            bytes[at] ^= 0x41;
            fs::write(&path, &bytes).unwrap();
            bytes[at] ^= 0x41;
            judge(&path);
        }
    }
}

#[test]
fn both_superblocks_at_once_need_repair() {
    let mut bytes = pristine().to_vec();
    bytes[40] ^= 1;
    bytes[4096 + 40] ^= 1;
    with(&bytes, |path| {
        let error = Pool::open(path, &PoolOptions::default()).unwrap_err();
        assert!(matches!(error, PoolError::DamagedSuperblock { .. }), "{error}");
        let report = Pool::repair(path, |_| ()).unwrap();
        assert!(!report.lost_changes());
        judge(path);
        assert!(
            Pool::open(path, &PoolOptions::default())
                .unwrap()
                .check(|_| ())
                .unwrap()
                .is_intact()
        );
    });
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let mut bytes = pristine().to_vec();
    // Store a later version with a correct checksum, as a newer program would.
    for slot in 0..4 {
        let start = slot * 4096;
        bytes[start + 8] = 9;
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[start..start + 120]);
        bytes[start + 120..start + 128].copy_from_slice(&sum.to_le_bytes());
    }
    with(&bytes, |path| {
        for error in [
            Pool::open(path, &PoolOptions::default()).unwrap_err(),
            Pool::repair(path, |_| ()).unwrap_err(),
        ] {
            assert!(
                matches!(
                    error,
                    PoolError::NewerFormat {
                        found: 9,
                        supported: 4,
                        ..
                    }
                ),
                "{error}"
            );
        }
        assert_eq!(fs::read(path).unwrap(), bytes);
    });
}

#[test]
fn check_reports_all_damage() {
    let mut bytes = pristine().to_vec();
    let offsets: Vec<u64> = {
        let mut offsets = Vec::new();
        with(&bytes, |path| {
            let pool = Pool::open(path, &PoolOptions::default()).unwrap();
            let snapshot = pool.snapshot().unwrap();
            offsets = snapshot
                .objects()
                .map(|object| object.extent_ref(0).offset)
                .collect();
        });
        offsets
    };
    for offset in &offsets[..2] {
        bytes[*offset as usize + 5] ^= 0x10;
    }
    bytes[4096 * 2 + 50] ^= 1;
    with(&bytes, |path| {
        let pool = Pool::open(path, &PoolOptions::default()).unwrap();
        let report = pool.check(|_| ()).unwrap();
        assert_eq!(
            (report.problems.len(), report.damaged_copies.as_slice()),
            (2, &[2][..]),
            "{report:?}"
        );
        let text: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(
            text[0].contains("index/c") && text[1].contains("table/a"),
            "{text:?}"
        );
        let error = pool
            .snapshot()
            .unwrap()
            .object("index/c")
            .unwrap()
            .extent(0)
            .unwrap_err();
        assert!(
            matches!(error, PoolError::ChecksumMismatch { .. }),
            "small extents are verified when read: {error}"
        );
        // Damage to some objects must not affect the others.
        let repaired = Pool::repair(path, |_| ()).unwrap();
        assert!(!repaired.lost_changes());
        assert_eq!(repaired.objects, report.problems);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_changed(changes in prop::collection::vec((0..interesting(), 1..=255_u8), 1..4)) {
        let mut bytes = pristine().to_vec();
        for (at, with) in changes {
            bytes[at] ^= with;
        }
        with(&bytes, judge_changes);
    }

    #[test]
    fn cut_off_anywhere(len in 0..=pristine().len()) {
        with(&pristine()[..len], |path| {
            let opened = Pool::open(path, &PoolOptions::default());
            match opened {
                Ok(_) => assert_eq!(len, pristine().len()),
                Err(error) => expected(&error),
            }
            // An older generation may lie before the cut.
            if len < pristine().len() && let Ok(report) = Pool::repair(path, |_| ()) {
                assert!(report.lost_changes());
                assert!(Pool::open(path, &PoolOptions::default()).unwrap().check(|_| ()).unwrap().is_intact());
            }
        });
    }
}

/// Judges a file like [`judge`], but several changed bytes may leave an older generation as the newest.
fn judge_changes(path: &Path) {
    match Pool::open(path, &PoolOptions::default()) {
        Ok(pool) if pool.snapshot().unwrap().objects().count() < OBJECTS.len() => {
            let report = pool.check(|_| ()).unwrap();
            assert!(!report.damaged_copies.is_empty(), "{report:?}");
        }
        _ => judge(path),
    }
}
