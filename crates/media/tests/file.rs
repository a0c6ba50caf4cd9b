//! Behaviour specific to files: reopening, missing, truncated and read-only files, full disks.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;

use halocline_media::{
    FileMedium, FileOptions, MediaError, MediumAccess, MediumBackend, MediumKind, PAGE, exit_on_bus_error,
};

const MIB: u64 = 1 << 20;

fn create() -> FileOptions {
    FileOptions {
        create: true,
        ..FileOptions::default()
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("medium");
    (folder, path)
}

#[test]
fn contents_persist_after_closing_in_every_mode() {
    for options in [
        create(),
        FileOptions {
            strict: true,
            ..create()
        },
        FileOptions {
            assume_dax: true,
            ..create()
        },
    ] {
        let (_folder, path) = folder();
        let medium = FileMedium::open(&path, &options).unwrap();
        assert!(medium.is_empty());
        medium.grow(2 * MIB).unwrap();
        medium.store(MIB - 3, b"across a page");
        medium.persist(MIB - 3, 13).unwrap();
        medium.store_u64(64, 5);
        medium.store_u64(MIB + 8192, 6);
        medium.flush(64, 8);
        medium.flush(MIB + 8192, 8);
        medium.fence().unwrap();
        medium.sync().unwrap();
        drop(medium);
        let medium = FileMedium::open(
            &path,
            &FileOptions {
                read_only: true,
                ..FileOptions::default()
            },
        )
        .unwrap();
        let mut found = [0; 13];
        medium.load(MIB - 3, &mut found);
        assert_eq!(&found, b"across a page");
        assert_eq!(
            (medium.len(), medium.load_u64(64), medium.load_u64(MIB + 8192)),
            (2 * MIB, 5, 6)
        );
    }
}

#[test]
fn kinds_say_what_they_are() {
    let (_folder, path) = folder();
    let kind = |options: FileOptions| {
        let medium = FileMedium::open(&path, &options).unwrap();
        (medium.kind(), medium.fence_is_durable())
    };
    let (default, durable) = kind(create());
    if default == MediumKind::Dax {
        assert!(durable);
        return;
    }
    assert_eq!(
        (default, durable),
        (MediumKind::PageCache { strict: false }, false)
    );
    assert_eq!(
        kind(FileOptions {
            strict: true,
            ..create()
        }),
        (MediumKind::PageCache { strict: true }, true)
    );
    let (assumed, durable) = kind(FileOptions {
        assume_dax: true,
        ..create()
    });
    assert_eq!((assumed, durable), (MediumKind::AssumedDax, true));
    assert!(assumed.to_string().contains("not durable"), "{assumed}");
}

#[test]
fn what_cannot_be_opened_is_told_apart() {
    let (folder, path) = folder();
    let missing = FileMedium::open(&path, &FileOptions::default()).unwrap_err();
    assert!(
        matches!(missing, MediaError::NotFound { .. }) && missing.to_string().contains("create it first"),
        "{missing}"
    );
    let read_only = FileMedium::open(
        &path,
        &FileOptions {
            read_only: true,
            ..create()
        },
    )
    .unwrap_err();
    assert!(matches!(read_only, MediaError::NotFound { .. }), "{read_only}");
    let directory = FileMedium::open(folder.path(), &create()).unwrap_err();
    assert!(matches!(directory, MediaError::NotAFile { .. }), "{directory}");
    let device = FileMedium::open("/dev/null", &create()).unwrap_err();
    assert!(matches!(device, MediaError::NotAFile { .. }), "{device}");
    let nowhere = FileMedium::open(path.join("below"), &create()).unwrap_err();
    assert!(
        matches!(nowhere, MediaError::Io { action: "open", .. }),
        "{nowhere}"
    );
}

#[test]
fn read_only_refuses_writes() {
    let (_folder, path) = folder();
    FileMedium::open(&path, &create()).unwrap().grow(PAGE).unwrap();
    let medium = FileMedium::open(
        &path,
        &FileOptions {
            read_only: true,
            ..FileOptions::default()
        },
    )
    .unwrap();
    assert!(medium.read_only());
    assert!(matches!(medium.grow(2 * PAGE), Err(MediaError::ReadOnly { .. })));
    medium.fence().unwrap();
    medium.sync().unwrap();
    for store in [
        |medium: &FileMedium| medium.store(0, &[1]),
        |medium: &FileMedium| medium.store_u64(0, 1),
    ] {
        assert!(catch_unwind(AssertUnwindSafe(|| store(&medium))).is_err());
    }
    assert_eq!(medium.load_u64(0), 0);
}

#[test]
fn a_file_that_was_cut_off_is_an_error() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(&path, &create()).unwrap();
    medium.grow(8 * PAGE).unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(3 * PAGE)
        .unwrap();
    for result in [medium.refresh().map(|_| ()), medium.grow(9 * PAGE)] {
        match result {
            Err(MediaError::Truncated {
                expected,
                actual,
                path: named,
            }) => {
                assert_eq!((expected, actual, named), (8 * PAGE, 3 * PAGE, path.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    let again = FileMedium::open(&path, &FileOptions::default()).unwrap();
    assert_eq!(again.len(), 3 * PAGE);
}

#[test]
fn a_length_that_is_no_multiple_of_a_page_is_served_as_it_is() {
    let (_folder, path) = folder();
    std::fs::write(&path, b"twenty-one bytes long").unwrap();
    let strict = FileOptions {
        strict: true,
        ..FileOptions::default()
    };
    let medium = FileMedium::open(&path, &strict).unwrap();
    assert_eq!(medium.len(), 21);
    let mut last = [0; 4];
    medium.load(17, &mut last);
    assert_eq!(&last, b"long");
    assert!(catch_unwind(AssertUnwindSafe(|| medium.load(18, &mut [0; 4]))).is_err());
    medium.persist(20, 1).unwrap();
    medium.grow(22).unwrap();
    medium.store(4090, b"behind");
    assert_eq!(
        (medium.len(), std::fs::metadata(&path).unwrap().len()),
        (PAGE, PAGE)
    );
    medium.load(17, &mut last);
    assert_eq!(&last, b"long");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_the_file_as_it_was() {
    let (_folder, path) = folder();
    let room = rustix::fs::statvfs(path.parent().unwrap()).unwrap();
    let too_much = (room.f_blocks * room.f_frsize).next_multiple_of(PAGE) + 64 * MIB;
    let options = FileOptions {
        reserve: too_much + MIB,
        ..create()
    };
    let medium = match FileMedium::open(&path, &options) {
        // A file system larger than the address space cannot be filled by this test.
        Err(MediaError::OutOfMemory { .. }) => return,
        medium => medium.unwrap(),
    };
    medium.grow(MIB).unwrap();
    medium.store_u64(0, 9);
    match medium.grow(too_much) {
        Err(MediaError::DiskFull { path: named, wanted }) => {
            assert_eq!((named, wanted), (path.clone(), too_much - MIB))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    assert_eq!((medium.len(), medium.load_u64(0)), (MIB, 9));
    medium.grow(2 * MIB).unwrap();
    medium.sync().unwrap();
}

#[test]
fn growth_beyond_the_reserved_addresses_is_an_error() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(
        &path,
        &FileOptions {
            reserve: 4 * MIB,
            ..create()
        },
    )
    .unwrap();
    medium.grow(4 * MIB).unwrap();
    for wanted in [4 * MIB + 1, u64::MAX] {
        let error = medium.grow(wanted).unwrap_err();
        assert!(
            matches!(
                error,
                MediaError::AddressSpace {
                    reserved: 0x40_0000,
                    ..
                }
            ),
            "{error}"
        );
    }
    drop(medium);
    let small = FileOptions {
        reserve: MIB,
        ..FileOptions::default()
    };
    assert_eq!(FileMedium::open(&path, &small).unwrap().len(), 4 * MIB);
}

#[test]
fn holes_get_blocks_before_they_are_written() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = folder();
    std::fs::File::create(&path).unwrap().set_len(4 * MIB).unwrap();
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    let _reader = FileMedium::open(
        &path,
        &FileOptions {
            read_only: true,
            ..FileOptions::default()
        },
    )
    .unwrap();
    assert_eq!(blocks(), 0);
    let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
    assert!(blocks() * 512 >= 4 * MIB, "{} blocks", blocks());
    medium.store_u64(3 * MIB, 1);
}

#[test]
fn blocks_that_are_given_back_can_be_had_again() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(&path, &create()).unwrap();
    medium.grow(8 * MIB).unwrap();
    for at in [2 * MIB - 8, 2 * MIB, 6 * MIB - 8, 6 * MIB] {
        medium.store_u64(at, 7);
    }
    medium.sync().unwrap();
    let before = medium.allocated().unwrap();
    assert!(before >= 8 * MIB);
    // Ranges of slightly more than four and less than two MiB: only whole holes count.
    medium.discard(2 * MIB - 8, 4 * MIB + 16).unwrap();
    medium.discard(10, MIB).unwrap();
    let after = medium.allocated().unwrap();
    assert!(after <= before - 4 * MIB + 64 * 1024, "{before} {after}");
    let found = [2 * MIB - 8, 2 * MIB, 6 * MIB - 8, 6 * MIB].map(|at| medium.load_u64(at));
    assert_eq!(found, [7, 0, 0, 7]);
    let keep = FileOptions {
        keep_holes: true,
        ..FileOptions::default()
    };
    let other = FileMedium::open(&path, &keep).unwrap();
    other.store_u64(0, 1);
    assert!(
        other.allocated().unwrap() <= after,
        "a store beside a hole fills none of it"
    );
    other.reserve(3 * MIB, MIB).unwrap();
    let reserved = medium.allocated().unwrap();
    assert!(reserved >= after + 2 * MIB, "the whole piece");
    other.store_u64(2 * MIB, 8);
    assert!(medium.allocated().unwrap() <= reserved);
    assert_eq!((medium.load_u64(2 * MIB), medium.len()), (8, 8 * MIB));
    let reader = FileMedium::open(
        &path,
        &FileOptions {
            read_only: true,
            ..FileOptions::default()
        },
    )
    .unwrap();
    for result in [reader.discard(0, PAGE), reader.reserve(0, PAGE)] {
        assert!(matches!(result, Err(MediaError::ReadOnly { .. })));
    }
}

#[test]
fn a_file_is_cut_off_and_grows_again() {
    let (_folder, path) = folder();
    for strict in [false, true] {
        let options = FileOptions { strict, ..create() };
        let medium = FileMedium::open(&path, &options).unwrap();
        medium.grow(8 * PAGE).unwrap();
        medium.store(0, b"stays");
        medium.store(6 * PAGE, b"goes");
        medium.flush(6 * PAGE, 4);
        medium.flush(0, 5);
        assert_eq!(medium.truncate(9 * PAGE).unwrap(), 8 * PAGE, "it does not grow");
        assert_eq!(medium.truncate(4 * PAGE + 1).unwrap(), 5 * PAGE);
        assert_eq!(
            (medium.len(), path.metadata().unwrap().len()),
            (5 * PAGE, 5 * PAGE)
        );
        assert_eq!(medium.refresh().unwrap(), 5 * PAGE);
        medium.fence().unwrap();
        medium.sync().unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| medium.load_u64(6 * PAGE))).is_err());
        medium.grow(8 * PAGE).unwrap();
        let mut bytes = [1; 5];
        medium.load(6 * PAGE, &mut bytes);
        assert_eq!(bytes, [0; 5], "what was cut off is gone");
        medium.store(6 * PAGE, b"new");
        medium.load(0, &mut bytes);
        assert_eq!(&bytes, b"stays");
        drop(medium);
        assert_eq!(&std::fs::read(&path).unwrap()[6 * PAGE as usize..][..3], b"new");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn growing_often_takes_no_more_mappings() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(&path, &create()).unwrap();
    for pages in 1..=500 {
        medium.grow(pages * PAGE).unwrap();
    }
    let path = path.to_str().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(
        maps.lines().filter(|line| line.ends_with(path)).count(),
        1,
        "{maps}"
    );
}

#[test]
fn the_file_can_be_locked() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(&path, &create()).unwrap();
    let other = FileMedium::open(&path, &create()).unwrap();
    let lock = |medium: &FileMedium| {
        rustix::fs::flock(
            medium.as_fd(),
            rustix::fs::FlockOperation::NonBlockingLockExclusive,
        )
    };
    lock(&medium).unwrap();
    assert!(lock(&other).is_err());
    assert_eq!(medium.path(), path);
}

const CHILD: &str = "HALOCLINE_MEDIA_CHILD";

/// The other side of [`another_process_shares_the_file`]: does nothing when the suite runs it.
#[test]
fn child_process() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let medium = FileMedium::open(path, &FileOptions::default()).unwrap();
    assert_eq!(medium.load_u64(0), 11);
    medium.store_u64(8, 12);
    medium.grow(5 * MIB).unwrap();
    medium.store_u64(4 * MIB, 13);
    std::process::abort();
}

#[test]
fn another_process_shares_the_file() {
    let (_folder, path) = folder();
    let medium = FileMedium::open(&path, &create()).unwrap();
    medium.grow(PAGE).unwrap();
    medium.store_u64(0, 11);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .args(["--exact", "child_process", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    // The child aborts deliberately: stores to the page cache outlive the process.
    assert!(!child.status.success());
    assert_eq!(
        medium.refresh().unwrap(),
        5 * MIB,
        "{}",
        String::from_utf8_lossy(&child.stderr)
    );
    assert_eq!((medium.load_u64(8), medium.load_u64(4 * MIB)), (12, 13));
}

/// The environment variable that tells the child of the SIGBUS tests what to do with the file.
const FAULT: &str = "HALOCLINE_MEDIA_FAULT";
const EXIT_CODE: u8 = 74;

/// The process that the SIGBUS tests end. Does nothing when the suite runs it.
#[test]
fn bus_error_child() {
    let (Some(path), Ok(fault)) = (std::env::var_os(CHILD), std::env::var(FAULT)) else {
        return;
    };
    exit_on_bus_error(1).unwrap();
    exit_on_bus_error(EXIT_CODE).unwrap();
    let closed = FileMedium::open(&path, &FileOptions::default()).unwrap();
    let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
    drop(closed);
    match fault.as_str() {
        "load" | "store" | "thread" => {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(PAGE).unwrap();
            match fault.as_str() {
                "load" => drop(medium.load_u64(MIB)),
                "store" => medium.store_u64(MIB, 1),
                _ => std::thread::scope(|scope| drop(scope.spawn(|| medium.load_u64(MIB)).join())),
            }
        }
        "sent" => {
            let own = rustix::process::getpid();
            // The standard library's handler lets the first signal pass.
            loop {
                rustix::process::kill_process(own, rustix::process::Signal::BUS).unwrap();
            }
        }
        other => panic!("no such fault: {other}"),
    }
    std::process::exit(0);
}

fn bus_error(fault: &str) -> (PathBuf, std::process::Output) {
    let (_folder, path) = folder();
    FileMedium::open(&path, &create()).unwrap().grow(2 * MIB).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .args(["--exact", "bus_error_child", "--nocapture"])
        .env(CHILD, &path)
        .env(FAULT, fault)
        .output();
    (path, child.unwrap())
}

#[test]
fn touching_what_was_cut_off_ends_the_process_with_a_message() {
    for fault in ["load", "store", "thread"] {
        let (path, output) = bus_error(fault);
        let path = path.display();
        assert_eq!(
            output.status.code(),
            Some(EXIT_CODE.into()),
            "{fault}: {:?}",
            output.status
        );
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            text,
            format!(
                "error: {path} was truncated, or its disk reported an error, while it was open\n\
                 hint: restore it from a copy, then run `halocline check {path}`\n"
            )
        );
    }
}

#[test]
fn another_bus_error_is_none_of_a_file() {
    use std::os::unix::process::ExitStatusExt;
    let (_, output) = bus_error("sent");
    assert_eq!(output.status.signal(), Some(7), "{:?}", output.status);
}
