//! The public interface of a pool in a file.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use halocline_emulator::{ClockMode, Device, DeviceProfile, EmulatedSpec};
use halocline_media::{Bytes, Dram};
use halocline_pool::{ExtentRef, MAX_NAME, ObjectKind, Pool, PoolError, PoolOptions, Txn};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    (directory, path)
}

fn options() -> PoolOptions {
    PoolOptions::default()
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| seed ^ (at as u8) ^ ((at >> 8) as u8)).collect()
}

fn write(txn: &Txn, bytes: &[u8]) -> ExtentRef {
    let mut writer = txn.alloc(bytes.len() as u64).unwrap();
    writer.append(bytes);
    writer.finish(bytes.len() as u64).unwrap()
}

fn put(pool: &Pool, name: &str, contents: &[u8]) -> u64 {
    let txn = pool.begin().unwrap();
    let extent = write(&txn, contents);
    txn.put(name, ObjectKind::TABLE, name.as_bytes(), vec![extent])
        .unwrap();
    txn.commit().unwrap()
}

fn remove(pool: &Pool, name: &str) -> u64 {
    let txn = pool.begin().unwrap();
    txn.remove(name).unwrap();
    txn.commit().unwrap()
}

#[test]
fn what_is_committed_is_there_after_reopening() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    assert_eq!(pool.snapshot().unwrap().generation(), 1);
    assert_eq!(put(&pool, "table/a", &bytes(1, 100_000)), 2);
    assert_eq!(put(&pool, "table/b", &bytes(2, 5_000_000)), 3);
    drop(pool);

    for options in [options(), options().with_read_only(true)] {
        let pool = Pool::open(&path, &options).unwrap();
        let snapshot = pool.snapshot().unwrap();
        let names: Vec<_> = snapshot
            .objects()
            .map(|object| object.name().to_owned())
            .collect();
        assert_eq!(names, ["table/a", "table/b"]);
        let object = snapshot.object("table/b").unwrap();
        assert_eq!(
            (object.kind(), object.meta(), object.bytes()),
            (ObjectKind::TABLE, &b"table/b"[..], 5_000_000)
        );
        assert_eq!(&*object.extent_verified(0).unwrap(), bytes(2, 5_000_000));
        assert_eq!(
            object.extent_ref(0).offset % (2 << 20),
            0,
            "long extents can be mapped by huge pages"
        );
        assert!(matches!(
            object.extent(1),
            Err(PoolError::NoSuchExtent { count: 1, .. })
        ));
        assert!(matches!(
            snapshot.object("table/c"),
            Err(PoolError::NoSuchObject { .. })
        ));
        assert!(pool.check(|_| ()).unwrap().is_intact());
    }
}

#[test]
fn a_transaction_that_is_dropped_leaves_no_trace() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "a", b"old");
    let free = pool.info().unwrap().free;
    {
        let txn = pool.begin().unwrap();
        let extent = write(&txn, b"new");
        txn.put("a", ObjectKind::TABLE, b"", vec![extent]).unwrap();
        assert_eq!(&*txn.get("a").unwrap().extent(0).unwrap(), b"new");
        assert_eq!(&*txn.extent(&extent).unwrap(), b"new");
        txn.remove("a").unwrap();
        assert!(txn.get("a").is_none() && txn.objects().is_empty());
        assert!(matches!(txn.remove("a"), Err(PoolError::NoSuchObject { .. })));
    }
    assert_eq!(
        &*pool.snapshot().unwrap().object("a").unwrap().extent(0).unwrap(),
        b"old"
    );
    assert_eq!(pool.info().unwrap().free, free);
    assert_eq!(
        pool.begin().unwrap().commit().unwrap(),
        2,
        "nothing to publish, nothing published"
    );
}

#[test]
fn a_snapshot_keeps_what_is_replaced_dropped_and_overwritten() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "a", &bytes(1, 300_000));
    let snapshot = pool.snapshot().unwrap();
    let extent = snapshot.object("a").unwrap().extent(0).unwrap();
    for round in 2..12 {
        put(&pool, "a", &bytes(round, 300_000));
        pool.sync().unwrap();
    }
    remove(&pool, "a");
    pool.sync().unwrap();
    put(&pool, "b", &bytes(99, 3_000_000));
    assert_eq!(&*extent, bytes(1, 300_000));
    drop(pool);
    assert_eq!(
        &*snapshot.object("a").unwrap().extent_verified(0).unwrap(),
        bytes(1, 300_000)
    );
}

#[test]
fn space_is_used_again_once_nobody_sees_it() {
    let (_directory, path) = place();
    for strict in [false, true] {
        let _ = fs::remove_file(&path);
        let pool = Pool::create(&path, &options().with_strict(strict)).unwrap();
        for round in 0..100 {
            put(&pool, "a", &bytes(round, 1 << 20));
        }
        let info = pool.info().unwrap();
        assert!(info.len <= 16 << 20, "{info:?}");
        assert_eq!(info.used + info.free, info.len);
        assert_eq!(
            &*pool
                .snapshot()
                .unwrap()
                .object("a")
                .unwrap()
                .extent_verified(0)
                .unwrap(),
            bytes(99, 1 << 20)
        );

        let snapshot = pool.snapshot().unwrap();
        for round in 0..100 {
            put(&pool, "a", &bytes(round, 1 << 20));
        }
        assert!(
            pool.info().unwrap().len <= 16 << 20,
            "a snapshot keeps what it sees, and nothing that came after it"
        );
        drop(snapshot);
        let len = pool.info().unwrap().len;
        for round in 0..100 {
            put(&pool, "a", &bytes(round, 1 << 20));
        }
        assert_eq!(pool.info().unwrap().len, len);
    }
}

#[test]
fn dropped_space_is_found_again_after_reopening() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "a", &bytes(1, 20 << 20));
    remove(&pool, "a");
    let txn = pool.begin().unwrap();
    let _half_written = txn.alloc(10 << 20).unwrap();
    let len = pool.info().unwrap().len;
    drop(_half_written);
    drop(txn);
    drop(pool);
    let pool = Pool::open(&path, &options()).unwrap();
    put(&pool, "b", &bytes(2, 20 << 20));
    assert_eq!(pool.info().unwrap().len, len);
}

#[test]
fn extents_can_be_kept_shared_and_renamed() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "a", b"kept");
    let txn = pool.begin().unwrap();
    let extent = txn.get("a").unwrap().extent_ref(0);
    let more = write(&txn, b"more");
    txn.put("b", ObjectKind::INDEX, b"", vec![extent, more]).unwrap();
    txn.put("c", ObjectKind(77), b"", vec![extent]).unwrap();
    txn.remove("a").unwrap();
    txn.commit().unwrap();
    remove(&pool, "c");
    pool.sync().unwrap();
    put(&pool, "d", &bytes(3, 1 << 20));
    let object = pool.snapshot().unwrap().object("b").unwrap();
    assert_eq!(&*object.extent_verified(0).unwrap(), b"kept");
    assert_eq!(&*object.extent_verified(1).unwrap(), b"more");

    remove(&pool, "b");
    let txn = pool.begin().unwrap();
    let error = txn.put("e", ObjectKind::TABLE, b"", vec![extent]).unwrap_err();
    assert!(matches!(error, PoolError::UnknownExtent { .. }), "{error}");
}

#[test]
fn empty_extents_and_objects_without_any_work() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    let a = write(&txn, b"");
    let b = txn.alloc(100).unwrap().finish(0).unwrap();
    txn.put("some", ObjectKind::TABLE, b"m", vec![a, b]).unwrap();
    txn.put("none", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.commit().unwrap();
    remove(&pool, "none");
    let pool = Pool::open(&path, &options()).unwrap();
    let object = pool.snapshot().unwrap().object("some").unwrap();
    assert_eq!((object.extent_count(), object.bytes()), (2, 0));
    assert!(object.extent(0).unwrap().is_empty() && object.extent_verified(1).unwrap().is_empty());
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
fn bytes_of_a_rolled_back_transaction_stay_while_someone_reads_them() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    let extent = write(&txn, &bytes(1, 100_000));
    let read = txn.extent(&extent).unwrap();
    drop(txn);
    for round in 0..20 {
        put(&pool, "a", &bytes(round, 100_000));
        pool.sync().unwrap();
    }
    assert_eq!(&*read, bytes(1, 100_000));
}

#[test]
fn other_handles_spare_what_a_rolled_back_transaction_left_to_read() {
    let (_directory, path) = place();
    let first = Pool::create(&path, &options()).unwrap();
    let second = Pool::open(&path, &options()).unwrap();
    // Let the second handle cache the free space of this generation.
    put(&first, "a", b"a");
    drop(second.begin().unwrap());
    let txn = first.begin().unwrap();
    let extent = write(&txn, &bytes(1, 100_000));
    let read = txn.extent(&extent).unwrap();
    drop(txn);
    assert!(matches!(second.begin(), Err(PoolError::Locked { .. })));
    put(&first, "b", &bytes(2, 100_000));
    assert_eq!(&*read, bytes(1, 100_000));
    drop(read);
    put(&second, "c", &bytes(3, 100_000));
    put(&first, "d", &bytes(4, 100_000));
}

#[test]
fn threads_write_one_extent_and_scratch_space() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options().with_strict(true)).unwrap();
    let txn = pool.begin().unwrap();
    let expected = bytes(9, 400_000);
    let writer = txn.alloc(1 << 20).unwrap();
    let scratch = txn.scratch(400_000).unwrap();
    std::thread::scope(|scope| {
        for (part, chunk) in expected.chunks(100_000).enumerate() {
            let (writer, scratch) = (&writer, &scratch);
            scope.spawn(move || {
                writer.write_at(part as u64 * 100_000, chunk);
                scratch.write_at(part as u64 * 100_000, chunk);
            });
        }
    });
    let mut copy = vec![0; 1000];
    scratch.read_at(12_345, &mut copy);
    assert_eq!(copy, expected[12_345..13_345]);
    assert_eq!(&*scratch.freeze(), expected);
    // Another thread than the committing one finishes the extent.
    let extent = std::thread::scope(|scope| scope.spawn(|| writer.finish(400_000).unwrap()).join().unwrap());
    txn.put("a", ObjectKind::TABLE, b"", vec![extent]).unwrap();
    std::thread::scope(|scope| scope.spawn(|| txn.commit().unwrap()).join().unwrap());
    assert_eq!(
        &*pool
            .snapshot()
            .unwrap()
            .object("a")
            .unwrap()
            .extent_verified(0)
            .unwrap(),
        expected
    );
}

#[test]
fn appending_aligns_and_refuses_what_does_not_fit() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    let mut writer = txn.alloc(100).unwrap();
    writer.write_all(b"abc").unwrap();
    writer.align(64);
    assert_eq!(writer.position(), 64);
    assert!(writer.write_all(&[1; 50]).is_err());
    assert_eq!((writer.position(), writer.capacity()), (100, 100));
    let extent = writer.finish(66).unwrap();
    let read = txn.extent(&extent).unwrap();
    assert_eq!(
        (&read[..3], &read[3..64], &read[64..]),
        (&b"abc"[..], &[0; 61][..], &[1, 1][..])
    );
}

#[test]
fn names_and_metadata_are_checked() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    let put = |name: &str| txn.put(name, ObjectKind::TABLE, b"", vec![]);
    put(&"x".repeat(MAX_NAME)).unwrap();
    put("table/Größe in m²").unwrap();
    assert!(matches!(
        put(&"x".repeat(MAX_NAME + 1)),
        Err(PoolError::NameTooLong { len: 256, .. })
    ));
    assert!(matches!(put(""), Err(PoolError::InvalidName { .. })));
    assert!(matches!(put("a\nb"), Err(PoolError::InvalidName { .. })));
}

#[test]
fn the_second_writer_is_refused_at_once() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let other = Pool::open(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    for second in [&pool, &pool.clone(), &other] {
        let error = second.begin().unwrap_err();
        assert!(matches!(error, PoolError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("test.pool"));
    }
    assert!(matches!(
        Pool::repair(&path, |_| ()),
        Err(PoolError::Locked { .. })
    ));
    drop(txn);
    other.begin().unwrap();
    pool.begin().unwrap();
    let reader = Pool::open(&path, &options().with_read_only(true)).unwrap();
    assert!(matches!(reader.begin(), Err(PoolError::ReadOnly { .. })));
    assert!(matches!(reader.sync(), Err(PoolError::ReadOnly { .. })));
}

#[test]
fn handles_on_one_file_see_and_respect_each_other() {
    let (_directory, path) = place();
    let first = Pool::create(&path, &options()).unwrap();
    let second = Pool::open(&path, &options()).unwrap();
    put(&first, "a", &bytes(1, 500_000));
    let snapshot = second.snapshot().unwrap();
    assert_eq!(snapshot.generation(), 2);
    for round in 0..40 {
        let writer = if round % 2 == 0 { &first } else { &second };
        put(writer, "a", &bytes(round, 500_000));
        writer.sync().unwrap();
        let reader = if round % 2 == 0 { &second } else { &first };
        let now = reader.snapshot().unwrap();
        assert_eq!(now.generation(), u64::from(round) + 3);
        assert_eq!(
            &*now.object("a").unwrap().extent_verified(0).unwrap(),
            bytes(round, 500_000)
        );
        assert_eq!(
            &*snapshot.object("a").unwrap().extent_verified(0).unwrap(),
            bytes(1, 500_000)
        );
    }
    drop(snapshot);
    let len = first.info().unwrap().len;
    for round in 0..40 {
        put(
            if round % 2 == 0 { &first } else { &second },
            "a",
            &bytes(round, 500_000),
        );
    }
    assert_eq!(
        first.info().unwrap().len,
        len,
        "nothing leaks between two writers"
    );
}

#[test]
fn a_foreign_file_is_refused_and_left_alone() {
    let (directory, path) = place();
    assert!(matches!(
        Pool::open(&path, &options()),
        Err(PoolError::NotFound { .. })
    ));
    for contents in [
        &b""[..],
        b"short",
        &[0; 100_000],
        &[7; 100_000],
        &bytes(5, 16 << 10),
    ] {
        fs::write(&path, contents).unwrap();
        let error = Pool::open(&path, &options()).unwrap_err();
        assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
        assert!(matches!(
            Pool::repair(&path, |_| ()),
            Err(PoolError::NotAPool { .. })
        ));
        assert!(matches!(
            Pool::create(&path, &options()),
            Err(PoolError::AlreadyExists { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), contents);
    }
    assert!(matches!(
        Pool::open(directory.path(), &options()),
        Err(PoolError::NotAPool { .. })
    ));
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left beside the pool"
    );
}

#[test]
fn a_pool_is_not_created_where_there_is_no_directory() {
    let (directory, _path) = place();
    let path = directory.path().join("missing").join("test.pool");
    let error = Pool::create(&path, &options()).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("missing/test.pool:"), "{error}");
}

#[test]
fn appended_and_scattered_extents_have_the_same_checksum() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    let appended = write(&txn, &bytes(1, 100_000));
    let scattered = txn.alloc(100_000).unwrap();
    scattered.write_at(0, &bytes(1, 100_000));
    let scattered = scattered.finish(100_000).unwrap();
    let mut patched = txn.alloc(200_000).unwrap();
    patched.append(&[0; 10]);
    patched.append(&bytes(1, 100_001)[10..]);
    patched.write_at(0, &bytes(1, 10));
    let patched = patched.finish(100_000).unwrap();
    let mut cut = txn.alloc(200_000).unwrap();
    cut.append(&bytes(1, 150_000));
    let cut = cut.finish(100_000).unwrap();
    for other in [scattered, patched, cut] {
        assert_eq!(other.checksum, appended.checksum);
    }
}

#[test]
fn a_pool_lives_in_dram_too() {
    let medium = std::sync::Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(std::sync::Arc::clone(&medium)).unwrap();
    let txn = pool.begin().unwrap();
    let extent = write(&txn, b"volatile");
    txn.put("a", ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
    assert!(matches!(
        Pool::create_on(std::sync::Arc::clone(&medium)),
        Err(PoolError::AlreadyExists { .. })
    ));
    let second = Pool::open_on(std::sync::Arc::clone(&medium)).unwrap();
    let txn = second.begin().unwrap();
    assert!(
        matches!(pool.begin(), Err(PoolError::Locked { .. })),
        "handles on one medium respect each other"
    );
    drop((txn, second));
    drop(pool);
    let pool = Pool::open_on(medium).unwrap();
    assert_eq!(
        &*pool.snapshot().unwrap().object("a").unwrap().extent(0).unwrap(),
        b"volatile"
    );
}

#[test]
fn reads_of_extents_are_charged_to_an_emulated_device() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "table/a", &bytes(1, 1_000_000));
    drop(pool);
    let spec = EmulatedSpec {
        clock: ClockMode::Virtual,
        absolute: true,
        ..EmulatedSpec::new(DeviceProfile::optane())
    };
    let device = Device::new(&spec).unwrap();
    let pool = Pool::open_wrapped(&path, &options(), |medium| device.emulate(medium)).unwrap();
    let snapshot = pool.snapshot().unwrap();
    let object = snapshot.object("table/a").unwrap();
    let extent = object.extent(0).unwrap();
    assert_eq!(extent.as_slice(), bytes(1, 1_000_000));
    let before = (device.counts(), device.elapsed());
    extent.touch(500_000, 8);
    extent.clone().touch(500_000, 8);
    extent.prefetch(900_000);
    extent.prefetch(1_000_000);
    device.settle();
    let counts = device.counts() - before.0;
    assert_eq!((counts.lines, counts.hits, counts.units), (2, 1, 2));
    assert_eq!((device.elapsed() - before.1).as_nanos(), 325);
    let fences = device.counts().fences;
    put(&pool, "table/b", &bytes(2, 1000));
    assert!(device.counts().fences > fences && device.counts().written_lines > 16);
}
