//! The conformance suite: the contract of [`Medium`], tried on each kind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_emulator::{ClockMode, Device, DeviceProfile, EmulatedSpec};
use halocline_explore::Tracked;
use halocline_media::{Counting, Dram, FileMedium, FileOptions, LINE, Medium, PAGE};

const MIB: u64 = 1 << 20;

/// Opens the same medium again, as another process would, or returns `None` where that is impossible.
type Again = Box<dyn Fn(bool) -> Option<Medium>>;

struct Backing {
    name: &'static str,
    medium: Medium,
    again: Again,
    _folder: Option<tempfile::TempDir>,
}

fn file_backing(name: &'static str, options: FileOptions) -> Backing {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("medium");
    let medium = FileMedium::open(
        &path,
        &FileOptions {
            create: true,
            ..options.clone()
        },
    )
    .unwrap();
    let again: Again = Box::new(move |read_only| {
        let options = FileOptions {
            read_only,
            ..options.clone()
        };
        Some(FileMedium::open(&path, &options).unwrap().into())
    });
    Backing {
        name,
        medium: medium.into(),
        again,
        _folder: Some(folder),
    }
}

fn memory_backing(name: &'static str, medium: impl Into<Medium>) -> Backing {
    Backing {
        name,
        medium: medium.into(),
        again: Box::new(|_| None),
        _folder: None,
    }
}

fn device() -> Arc<Device> {
    let spec = EmulatedSpec {
        clock: ClockMode::Virtual,
        absolute: true,
        ..EmulatedSpec::new(DeviceProfile::optane())
    };
    Device::new(&spec).unwrap()
}

fn backings() -> Vec<Backing> {
    vec![
        memory_backing("dram", Dram::new(0).unwrap()),
        memory_backing("counting", Counting::new(Dram::new(0).unwrap())),
        memory_backing("emulated", device().emulate(Dram::new(0).unwrap())),
        memory_backing("tracked", Tracked::new(0).unwrap()),
        file_backing("page cache", FileOptions::default()),
        file_backing(
            "page cache, strict",
            FileOptions {
                strict: true,
                ..FileOptions::default()
            },
        ),
        file_backing(
            "assumed DAX",
            FileOptions {
                assume_dax: true,
                ..FileOptions::default()
            },
        ),
    ]
}

fn on_each(test: impl Fn(&Backing)) {
    for backing in backings() {
        test(&backing);
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn loaded(medium: &Medium, offset: u64, len: usize) -> Vec<u8> {
    let mut into = vec![0xEE; len];
    medium.load(offset, &mut into);
    into
}

#[test]
fn what_is_stored_is_loaded_at_every_alignment_and_length() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(MIB).unwrap();
        for len in (0..40).chain([
            63, 64, 65, 2047, 2048, 2049, 4096, 16_383, 16_384, 16_450, 300_001,
        ]) {
            let wanted = bytes(len);
            for offset in [8192, 8193, 8197, 8199, 8192 + 57] {
                for store in [Medium::store, Medium::store_unread] {
                    medium.store(offset - 16, &vec![0xAA; len + 32]);
                    store(medium, offset, &wanted);
                    assert_eq!(
                        loaded(medium, offset, len),
                        wanted,
                        "{} len {len} at {offset}",
                        backing.name
                    );
                    assert_eq!(loaded(medium, offset - 16, 16), [0xAA; 16]);
                    assert_eq!(loaded(medium, offset + len as u64, 16), [0xAA; 16]);
                }
            }
        }
    });
}

#[test]
fn words_are_little_endian_and_atomic() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(PAGE).unwrap();
        medium.store_u64(64, 0x0102_0304_0506_0708);
        assert_eq!(medium.load_u64(64), 0x0102_0304_0506_0708);
        let words = medium.words(56, 3);
        let name = backing.name;
        let is_plain = ["dram", "page cache", "assumed"];
        assert_eq!(
            words.is_some(),
            is_plain.iter().any(|start| name.starts_with(start)),
            "{name}"
        );
        if let Some(words) = words {
            assert_eq!(
                [0, 1, 2].map(|word| words.load(word)),
                [0, 0x0102_0304_0506_0708, 0]
            );
        }
        for (offset, words) in [
            (4, 1),
            (medium.len() - 8, 2),
            (u64::MAX - 7, 2),
            (medium.len() + 8, 0),
        ] {
            assert!(medium.words(offset, words).is_none(), "{name}: {offset}, {words}");
        }
        medium.prefetch_lines(0, 4);
        medium.prefetch_lines(u64::MAX - 1024, 4);
        assert_eq!(loaded(medium, 64, 8), [8, 7, 6, 5, 4, 3, 2, 1]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000_u64 {
                    medium.store_u64(128, (round << 32) | round);
                    medium.store(136, &[round as u8; 8]);
                    medium.store(147, &[round as u8; 3]);
                }
                done.store(true, Ordering::Release);
            });
            let mut last = false;
            while !last {
                last = done.load(Ordering::Acquire);
                let word = medium.load_u64(128);
                assert_eq!(word >> 32, word & 0xFFFF_FFFF);
                let other = loaded(medium, 136, 8);
                assert!(other.iter().all(|byte| *byte == other[0]), "torn: {other:?}");
                medium.store(144, &[9; 3]);
            }
        });
        assert_eq!(loaded(medium, 144, 8), [9, 9, 9, 31, 31, 31, 0, 0]);
    });
}

#[test]
fn growth_moves_nothing_and_brings_zeroes() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(100).unwrap();
        assert_eq!(medium.len(), PAGE);
        medium.store(0, &bytes(4096));
        // SAFETY: nobody stores to the first page while the slice lives.
        #[allow(unsafe_code, reason = "the suite tries every call")]
        let before = unsafe { medium.slice(0, 4096) };
        for len in [3 * PAGE, MIB, 9 * MIB, 5 * PAGE] {
            medium.grow(len).unwrap();
            assert!(medium.len() >= len);
            let end = medium.len();
            assert_eq!(loaded(medium, end - 100, 100), [0; 100]);
            medium.store(end - 8, &[1; 8]);
            medium.store(end - 8, &[0; 8]);
        }
        assert_eq!(medium.len(), 9 * MIB);
        assert_eq!(before, bytes(4096));
        assert_eq!(loaded(medium, 0, 4096), bytes(4096));
    });
}

#[test]
fn flushes_of_every_alignment_are_taken() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(MIB).unwrap();
        for (offset, len) in [
            (0, 0),
            (0, 1),
            (63, 2),
            (LINE - 1, LINE + 2),
            (4095, 2),
            (MIB - 1, 1),
            (MIB, 0),
            (0, MIB),
        ] {
            medium.store(offset, &bytes(len as usize));
            medium.flush(offset, len);
            medium.fence().unwrap();
            medium.persist(offset, len).unwrap();
        }
        medium.sync().unwrap();
        medium.prefetch(0);
        medium.prefetch(u64::MAX);
    });
}

#[test]
fn what_is_out_of_range_panics_and_touches_nothing() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(PAGE).unwrap();
        let calls: [(&str, &dyn Fn()); 9] = [
            ("load", &|| medium.load(PAGE - 1, &mut [0; 2])),
            ("load far", &|| medium.load(u64::MAX, &mut [0; 2])),
            ("load_u64", &|| assert_eq!(medium.load_u64(PAGE), 0)),
            ("load_u64 unaligned", &|| assert_eq!(medium.load_u64(4), 0)),
            ("store", &|| medium.store(PAGE - 1, &[1; 2])),
            ("store far", &|| medium.store(u64::MAX - 1, &[1; 2])),
            ("store_u64", &|| medium.store_u64(PAGE, 1)),
            ("store_u64 unaligned", &|| medium.store_u64(PAGE - 4, 1)),
            ("flush", &|| medium.flush(PAGE - 1, 2)),
        ];
        for (name, call) in calls {
            assert!(
                catch_unwind(AssertUnwindSafe(call)).is_err(),
                "{name} on {}",
                backing.name
            );
        }
        assert_eq!(loaded(medium, 0, PAGE as usize), [0; PAGE as usize]);
        medium.load(PAGE, &mut []);
        medium.store(PAGE, &[]);
    });
}

#[test]
fn another_mapping_sees_stores_and_after_a_refresh_growth() {
    on_each(|backing| {
        let medium = &backing.medium;
        medium.grow(PAGE).unwrap();
        let Some(other) = (backing.again)(true) else {
            return;
        };
        medium.store(10, b"seen at once");
        assert_eq!(loaded(&other, 10, 12), b"seen at once");
        medium.grow(4 * MIB).unwrap();
        medium.store_u64(3 * MIB, 77);
        assert_eq!(other.len(), PAGE);
        assert_eq!(other.refresh().unwrap(), 4 * MIB);
        assert_eq!(other.load_u64(3 * MIB), 77);
        assert_eq!(medium.refresh().unwrap(), 4 * MIB);
    });
}
