//! Directories that no writer produces, with correct checksums: they are rejected with a description of the
//! contradiction, and cost no more memory than their size.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::{Medium, MediumAccess};
use zerocopy::FromBytes;

use super::model::{BOOT, PoolStep, SMALL_POOL, run};
use crate::directory::{Directory, ObjectMap, ObjectRecord, encode};
use crate::features::Features;
use crate::layout::{DATA_START, ObjectEntry, Superblock, checksum};
use crate::limbo::{AgedRange, LimboList};
use crate::object::{ExtentRef, ObjectKind};
use crate::{Pool, PoolError};

const BLOCK: u64 = 4096;
const LEN: u64 = DATA_START + 1000 * BLOCK;

fn at(block: u64, blocks: u64, sum: u64) -> ExtentRef {
    ExtentRef::plain(DATA_START + block * BLOCK, blocks * BLOCK, sum)
}

fn objects(found: Vec<(&str, ObjectKind, Vec<ExtentRef>)>) -> ObjectMap {
    let meta = |kind| -> Box<[u8]> {
        match kind {
            ObjectKind::SLAB => [&1_u32.to_le_bytes()[..], &256_u32.to_le_bytes(), &[7; 8]]
                .concat()
                .into(),
            _ => Box::default(),
        }
    };
    let record = |(name, kind, extents): (&str, ObjectKind, Vec<ExtentRef>)| {
        (
            name.into(),
            Arc::new(ObjectRecord::new(kind, meta(kind), extents.into())),
        )
    };
    found.into_iter().map(record).collect()
}

fn decode(bytes: &[u8]) -> Result<Directory, String> {
    let own = ExtentRef::plain(DATA_START, bytes.len() as u64, 0);
    Directory::decode(bytes, own, 9, LEN, Features::LIMBO_LIST).map_err(|reason| reason.to_string())
}

fn refused(found: Vec<(&str, ObjectKind, Vec<ExtentRef>)>, limbo: &LimboList) -> String {
    decode(&encode(9, &objects(found), Some(limbo))).unwrap_err()
}

#[test]
fn extents_that_overlap_are_refused_by_name() {
    const TABLE: ObjectKind = ObjectKind::TABLE;
    let none = LimboList::default();
    // Sharing the same immutable extent is allowed.
    let shared = objects(vec![
        ("a", TABLE, vec![at(10, 2, 1), at(20, 1, 2)]),
        ("b", ObjectKind::INDEX, vec![at(10, 2, 1), at(10, 2, 1)]),
    ]);
    assert!(decode(&encode(9, &shared, Some(&none))).is_ok());
    for (other, kind) in [
        (at(11, 2, 1), TABLE),
        (at(9, 4, 1), TABLE),
        (at(10, 1, 1), TABLE),
        (at(10, 2, 7), TABLE),
        (at(11, 1, 5), ObjectKind::LOG),
        (at(10, 2, 1), ObjectKind::LOG),
        (at(10, 2, 1), ObjectKind::SLAB),
    ] {
        let reason = refused(
            vec![
                ("first", TABLE, vec![at(10, 2, 1)]),
                ("second", kind, vec![other]),
            ],
            &none,
        );
        assert!(
            reason.contains("'first'") && reason.contains("'second'"),
            "{reason}"
        );
        assert!(reason.contains("overlap"), "{reason}");
    }
    let reason = refused(vec![("first", TABLE, vec![at(0, 1, 1)])], &none);
    assert!(
        reason.contains("'first'") && reason.contains("the directory itself"),
        "{reason}"
    );
    let limbo = LimboList::new(
        0,
        vec![AgedRange {
            range: DATA_START + 10 * BLOCK..DATA_START + 12 * BLOCK,
            born: 1,
            freed: Some(5),
        }],
        Vec::new(),
    );
    let reason = refused(vec![("first", TABLE, vec![at(11, 3, 1)])], &limbo);
    assert!(
        reason.contains("'first'") && reason.contains("limbo list"),
        "{reason}"
    );
    let reason = refused(
        vec![("two", ObjectKind::LOG, vec![at(11, 1, 1), at(11, 1, 1)])],
        &none,
    );
    assert!(reason.contains("log"), "{reason}");
}

#[test]
fn objects_that_share_their_description_are_refused_before_they_are_made() {
    let extents: Vec<ExtentRef> = (0..400).map(|block| at(10 + block, 1, block)).collect();
    let names: Vec<String> = (0..400).map(|number| format!("object{number:05}")).collect();
    let found = names
        .iter()
        .enumerate()
        .map(|(number, name)| (name.as_str(), ObjectKind::TABLE, vec![extents[number]]));
    let mut bytes = encode(9, &objects(found.collect()), Some(&LimboList::default()));
    assert!(decode(&bytes).is_ok());
    for number in 0..names.len() {
        let start = 64 + number * 48;
        let mut entry = ObjectEntry::read_from_bytes(&bytes[start..start + 48]).unwrap();
        entry.first_extent = 0.into();
        entry.extent_count = 400.into();
        bytes[start..start + 48].copy_from_slice(zerocopy::IntoBytes::as_bytes(&entry));
    }
    let reason = decode(&bytes).unwrap_err();
    assert!(reason.contains("'object00001'"), "{reason}");
}

#[test]
fn a_directory_longer_than_the_file_holds_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    drop(Pool::create(&path, &crate::PoolOptions::default()).unwrap());
    let len = 300 << 30;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    if file.set_len(len).is_err() {
        return;
    }
    use std::os::unix::fs::FileExt;
    for slot in 0..4 {
        let mut bytes = [0; 128];
        file.read_exact_at(&mut bytes, slot * 4096).unwrap();
        let mut superblock = Superblock::read_from_bytes(&bytes).unwrap();
        superblock.file_len = len.into();
        superblock.directory_len = (len - DATA_START).into();
        superblock.checksum = checksum(&zerocopy::IntoBytes::as_bytes(&superblock)[..120]).into();
        file.write_all_at(zerocopy::IntoBytes::as_bytes(&superblock), slot * 4096)
            .unwrap();
    }
    for result in [
        Pool::open(&path, &crate::PoolOptions::default()).map(drop),
        Pool::repair(&path, |_| ()).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(
            error.to_string().contains("longer than all that the file holds"),
            "{error}"
        );
    }
}

#[test]
fn a_pool_with_overlapping_objects_is_refused_at_opening() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(
        &pool,
        &[PoolStep::Put("a", 1, &[100, 100]), PoolStep::Log(4096)],
        |_| (),
        |_| (),
    );
    let extent = pool.snapshot().unwrap().object("a").unwrap().extent_ref(0);
    let (superblock, pinned) = pool.inner.pin_newest().unwrap();
    // Place the log over the table.
    let mut objects = (*pinned.directory().objects).clone();
    let log = ExtentRef::plain(extent.offset, 4096, 77);
    objects.insert("log".into(), Arc::new(ObjectRecord::log(log)));
    let bytes = encode(
        superblock.generation.get(),
        &objects,
        pinned.directory().limbo.as_ref(),
    );
    medium.store(superblock.directory_offset.get(), &bytes);
    drop(pinned);
    drop(pool);
    for slot in 0..4 {
        let hostile = Superblock {
            directory_len: (bytes.len() as u64).into(),
            directory_checksum: checksum(&bytes).into(),
            ..superblock
        };
        hostile.store(&Medium::from(&medium), slot);
    }
    let error = Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT).unwrap_err();
    assert!(matches!(error, PoolError::DamagedDirectory { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("'a'") && text.contains("'log'"), "{text}");
}
