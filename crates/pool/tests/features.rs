//! Feature words written by a later program: rejected by name, opened for reading only, or kept.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};

const INCOMPATIBLE: usize = 96;
const READ_COMPATIBLE: usize = 104;
const COMPATIBLE: usize = 112;

fn put(pool: &Pool, name: &str, bytes: &[u8]) {
    let txn = pool.begin().unwrap();
    let mut writer = txn.alloc(bytes.len() as u64).unwrap();
    writer.append(bytes);
    let extent = writer.finish(bytes.len() as u64).unwrap();
    txn.put(name, ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
}

/// Sets a bit of a feature word in all copies of the superblock, as a program that knows it would. The file
/// may be open.
fn set(path: &Path, word: usize, bit: u32) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    for slot in 0..4 {
        let mut superblock = [0; 128];
        file.read_exact_at(&mut superblock, slot * 4096).unwrap();
        if superblock[..8] != *b"HALOCLIN" {
            continue;
        }
        if superblock[8] < 4 {
            superblock[8] = 4;
            superblock[96..120].fill(0);
        }
        superblock[word + bit as usize / 8] |= 1 << (bit % 8);
        let sum = xxhash_rust::xxh3::xxh3_64(&superblock[..120]);
        superblock[120..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&superblock, slot * 4096).unwrap();
    }
}

/// Returns the feature word of each copy of the superblock.
fn words(path: &Path, word: usize) -> [u64; 4] {
    let bytes = fs::read(path).unwrap();
    [0, 1, 2, 3].map(|slot| {
        let at = slot * 4096 + word;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    })
}

/// Creates and closes a pool with one object, whose superblock copies are all written.
fn pool() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    for round in 0..3_u8 {
        put(&pool, "table/a", &[round; 100]);
        pool.sync().unwrap();
    }
    pool.close().unwrap();
    (directory, path)
}

fn read_only() -> PoolOptions {
    PoolOptions::default().with_read_only(true)
}

#[test]
fn an_unknown_incompatible_bit_refuses_the_pool_by_name() {
    let (_directory, path) = pool();
    set(&path, INCOMPATIBLE, 17);
    let bytes = fs::read(&path).unwrap();
    for error in [
        Pool::open(&path, &PoolOptions::default()).unwrap_err(),
        Pool::open(&path, &read_only()).unwrap_err(),
        Pool::repair(&path, |_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, PoolError::UnknownFeature { .. }), "{error}");
        assert!(error.to_string().contains("bit 17 of `incompatible`"), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_unknown_read_compatible_bit_allows_reading_only() {
    let (_directory, path) = pool();
    set(&path, READ_COMPATIBLE, 63);
    let bytes = fs::read(&path).unwrap();
    for error in [
        Pool::open(&path, &PoolOptions::default()).unwrap_err(),
        Pool::repair(&path, |_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, PoolError::ReadOnlyFeature { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("bit 63 of `read_compatible`"), "{text}");
        assert!(text.contains("--read-only"), "{text}");
    }
    let pool = Pool::open(&path, &read_only()).unwrap();
    let object = pool.snapshot().unwrap().object("table/a").unwrap();
    assert_eq!(*object.extent(0).unwrap(), [2; 100]);
    assert!(pool.check(|_| ()).unwrap().is_intact());
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_handle_stops_writing_when_another_program_adds_a_feature() {
    let (_directory, path) = pool();
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    put(&pool, "table/b", b"before");
    set(&path, READ_COMPATIBLE, 40);
    let error = pool.begin().unwrap_err();
    assert!(matches!(error, PoolError::ReadOnlyFeature { .. }), "{error}");
    let object = pool.snapshot().unwrap().object("table/b").unwrap();
    assert_eq!(*object.extent(0).unwrap(), *b"before");
    set(&path, INCOMPATIBLE, 3);
    let error = pool.snapshot().unwrap_err();
    assert!(matches!(error, PoolError::UnknownFeature { .. }), "{error}");
}

#[test]
fn unknown_compatible_bits_are_kept_by_publishes_and_syncs() {
    let (_directory, path) = pool();
    set(&path, COMPATIBLE, 33);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    for round in 0..4_u8 {
        put(&pool, "table/a", &[round; 200]);
        pool.sync().unwrap();
    }
    pool.close().unwrap();
    let words = words(&path, COMPATIBLE);
    assert!(words.iter().all(|word| word >> 33 & 1 == 1), "{words:x?}");
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    assert_eq!(pool.info().unwrap().version, 4);
}
