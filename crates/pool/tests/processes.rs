//! Several real processes on one pool. The test runs itself as the other processes.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use halocline_pool::{LogRecords, ObjectKind, Pool, PoolError, PoolOptions, SlabOptions};

const ROLE: &str = "HALOCLINE_POOL_TEST_ROLE";
const POOL: &str = "HALOCLINE_POOL_TEST_POOL";

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (seed.wrapping_mul(0x9E37_79B9) ^ at.wrapping_mul(seed + 1) ^ (at >> 8)) as u8)
        .collect()
}

/// Returns the contents of an object in its n-th version.
fn version(number: u64) -> Vec<u8> {
    bytes(number, 1 + (number as usize * 7919) % 300_000)
}

fn put(pool: &Pool, number: u64) -> u64 {
    let txn = pool.begin().unwrap();
    let contents = version(number);
    let mut writer = txn.alloc(contents.len() as u64 + 10_000).unwrap();
    writer.append(&contents);
    let extent = writer.finish(contents.len() as u64).unwrap();
    let name = format!("object/{}", number % 3);
    txn.put(&name, ObjectKind::TABLE, &number.to_le_bytes(), vec![extent])
        .unwrap();
    txn.commit().unwrap()
}

/// Asserts that an object is one of its versions; returns its number.
fn verify(object: &halocline_pool::Object) -> u64 {
    let number = u64::from_le_bytes(object.meta().try_into().unwrap());
    assert_eq!(
        *object.extent_verified(0).unwrap(),
        *version(number),
        "version {number}"
    );
    number
}

/// Returns the record of a number, whose length is derived from it.
fn record(number: u64) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.resize(8 + (number as usize * 131) % 400, number as u8);
    record
}

/// Appends the contents of the log to the folded data, and empties the log.
fn fold(pool: &Pool) {
    let txn = pool.begin().unwrap();
    let folded: Vec<u8> = txn_numbers(&txn)
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut writer = txn.alloc(folded.len() as u64).unwrap();
    writer.append(&folded);
    let extent = writer.finish(folded.len() as u64).unwrap();
    txn.put("folded", ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.put_log("log", 8192).unwrap();
    txn.commit().unwrap();
}

fn txn_numbers(txn: &halocline_pool::Txn) -> Vec<u64> {
    let folded = txn.get("folded").unwrap().extent_verified(0).unwrap();
    numbers(&folded, &txn.log_records("log", 0).unwrap())
}

/// Returns all numbers, folded or not, and asserts that all records are right.
fn logged(pool: &Pool) -> Vec<u64> {
    let snapshot = pool.snapshot().unwrap();
    let folded = snapshot.object("folded").unwrap().extent_verified(0).unwrap();
    numbers(&folded, &snapshot.log_records("log", 0).unwrap())
}

fn numbers(folded: &[u8], log: &LogRecords) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    for found in &log.records {
        assert_eq!(**found, *record(word(found)));
    }
    let folded = folded.chunks_exact(8).map(word);
    folded
        .chain(log.records.iter().map(|record| word(record)))
        .collect()
}

/// A process that runs the test `child` below in a role.
struct Other {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, pool: &Path) -> Other {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(POOL, pool)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Other {
            process,
            commands,
            answers,
        }
    }

    /// Returns the next answer line, or `None` when the process has ended.
    fn answer(&mut self) -> Option<String> {
        for line in (&mut self.answers).lines() {
            // The test runner may print before the answer on the same line.
            if let Some((_, answer)) = line.ok()?.split_once("> ") {
                return Some(answer.to_owned());
            }
        }
        None
    }

    fn ask(&mut self, command: &str) -> Option<String> {
        writeln!(self.commands, "{command}").unwrap();
        self.answer()
    }

    fn end(mut self) {
        drop(self.commands);
        assert!(self.process.wait().unwrap().success());
    }
}

fn answer(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {text}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "started by the other tests"]
fn child() {
    let (Ok(role), Some(path)) = (env::var(ROLE), env::var_os(POOL)) else {
        return;
    };
    let pool = Pool::open(path, &PoolOptions::default()).unwrap();
    match role.as_str() {
        // Publishes versions endlessly and reports each.
        "writer" => {
            let first = pool.snapshot().unwrap().generation();
            for number in first.. {
                answer(put(&pool, number));
            }
        }
        // Appends numbers to a log endlessly, folds it now and then, and reports each.
        "logger" => {
            for number in logged(&pool).len() as u64.. {
                let appended = pool.begin().unwrap().log_append("log", &record(number));
                if let Err(PoolError::LogFull { .. }) = appended {
                    fold(&pool);
                    pool.begin().unwrap().log_append("log", &record(number)).unwrap();
                }
                answer(number);
                if number % 29 == 7 {
                    fold(&pool);
                }
                if number % 97 == 40 {
                    pool.vacuum().unwrap();
                }
            }
        }
        // Holds a transaction until its standard input closes.
        "holder" => {
            let txn = pool.begin().unwrap();
            answer(std::process::id());
            std::io::stdin().lines().for_each(drop);
            drop(txn);
        }
        // Has a slab open until its standard input closes.
        "slab" => {
            let slab = pool.open_slab("slab", *b"testslab").unwrap();
            answer(std::process::id());
            std::io::stdin().lines().for_each(drop);
            drop(slab);
        }
        "reader" => {
            let mut held = None;
            for command in std::io::stdin().lines() {
                match command.unwrap().as_str() {
                    "hold" => held = Some(pool.snapshot().unwrap()),
                    "drop" => held = None,
                    "newest" => {}
                    other => panic!("{other}"),
                }
                if let Some(snapshot) = &held {
                    assert!(
                        snapshot
                            .objects()
                            .all(|object| verify(&object) + 2 <= snapshot.generation())
                    );
                }
                let newest = pool.snapshot().unwrap();
                let last = newest.objects().map(|object| verify(&object)).max();
                assert_eq!(last, Some(newest.generation() - 2));
                answer(newest.generation());
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_writer_in_another_process_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let mut holder = Other::start("holder", &path);
    let id: u32 = holder.answer().unwrap().parse().unwrap();
    let error = pool.begin().unwrap_err();
    assert!(
        matches!(error, PoolError::Locked { pid: Some(pid), .. } if pid == id),
        "{error}"
    );
    assert!(error.to_string().contains(&format!("process {id}")));
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    put(&pool, 1);
}

#[test]
fn who_has_a_slab_open_in_another_process_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let options = SlabOptions {
        node_size: 4096,
        owner: *b"testslab",
        chunk: 1 << 20,
    };
    let slab = pool.create_slab("slab", &options).unwrap();
    assert!(pool.slab_is_in_use("slab").unwrap());
    let here = pool.open_slab("slab", options.owner).unwrap_err();
    assert!(matches!(here, PoolError::SlabInUse { pid: None, .. }), "{here}");
    drop(slab);
    assert!(!pool.slab_is_in_use("slab").unwrap());
    let mut holder = Other::start("slab", &path);
    let id: u32 = holder.answer().unwrap().parse().unwrap();
    assert!(pool.slab_is_in_use("slab").unwrap());
    let txn = pool.begin().unwrap();
    for error in [
        pool.open_slab("slab", options.owner).unwrap_err(),
        pool.open_slab_read_only("slab", options.owner).unwrap_err(),
        txn.remove("slab").unwrap_err(),
    ] {
        assert!(
            matches!(error, PoolError::SlabInUse { pid: Some(pid), .. } if pid == id),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("process {id}")), "{error}");
    }
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    txn.remove("slab").unwrap();
}

#[test]
fn readers_in_other_processes_keep_their_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    for number in 0..3 {
        put(&pool, number);
    }
    let mut reader = Other::start("reader", &path);
    assert_eq!(reader.ask("hold").unwrap(), "4");
    let mut generation = 4;
    for number in 3..60 {
        generation = put(&pool, number);
        if number % 10 == 0 {
            pool.sync().unwrap();
            assert_eq!(reader.ask("newest").unwrap(), generation.to_string());
        }
    }
    let grown = pool.info().unwrap().len;
    assert!(
        grown <= 6 << 20,
        "the reader keeps what it sees, and nothing that came after it: {grown}"
    );
    assert_eq!(reader.ask("drop").unwrap(), generation.to_string());
    for number in 60..120 {
        put(&pool, number);
    }
    assert_eq!(
        pool.info().unwrap().len,
        grown,
        "what the reader has let go is used again"
    );
    assert_eq!(reader.ask("newest").unwrap(), (generation + 60).to_string());
    assert_eq!(reader.ask("hold").unwrap(), (generation + 60).to_string());
    // The death of a reader releases its pin as well.
    reader.process.kill().unwrap();
    reader.process.wait().unwrap();
    for number in 120..180 {
        put(&pool, number);
    }
    assert_eq!(pool.info().unwrap().len, grown);
    let reader = Other::start("reader", &path);
    reader.end();
}

#[test]
fn a_writer_killed_at_any_moment_loses_nothing_it_has_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    drop(Pool::create(&path, &PoolOptions::default()).unwrap());
    let mut longest = 0;
    for round in 0..30_u64 {
        let mut writer = Other::start("writer", &path);
        // Kill it after this number of publishes; everything reported until then counts as acknowledged.
        let mut acknowledged = 0;
        for _ in 0..1 + round * 7 % 23 {
            acknowledged = writer.answer().unwrap().parse().unwrap();
        }
        writer.process.kill().unwrap();
        while let Some(generation) = writer.answer() {
            acknowledged = generation.parse().unwrap();
        }
        writer.process.wait().unwrap();

        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        let snapshot = pool.snapshot().unwrap();
        assert!(
            snapshot.generation() >= acknowledged,
            "{} after {acknowledged}",
            snapshot.generation()
        );
        assert!(snapshot.generation() <= acknowledged + 1);
        let numbers: Vec<u64> = snapshot.objects().map(|object| verify(&object)).collect();
        assert_eq!(
            numbers.iter().max(),
            Some(&(snapshot.generation() - 1)),
            "the last version is there"
        );
        let report = pool.check(|_| ()).unwrap();
        assert!(report.is_intact(), "{report:?}");
        longest = longest.max(pool.info().unwrap().len);
    }
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let info = pool.info().unwrap();
    assert_eq!(info.used + info.free, info.len);
    assert!(
        longest <= 12 << 20,
        "three objects of at most 300 kB never need {longest} bytes"
    );
    // After a sync, one transaction can allocate all free space.
    pool.sync().unwrap();
    let txn = pool.begin().unwrap();
    let mut taken = 0;
    let mut pieces = Vec::new();
    while pool.info().unwrap().len == info.len {
        pieces.push(txn.alloc(4096).unwrap());
        taken += 4096;
    }
    assert_eq!(taken - 4096, info.free - info.reserve);
}

#[test]
fn a_logger_killed_at_any_moment_loses_nothing_it_has_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    txn.put_log("log", 8192).unwrap();
    let extent = txn.alloc(0).unwrap().finish(0).unwrap();
    txn.put("folded", ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
    drop(pool);
    let mut longest = 0;
    for round in 0..100_u64 {
        let mut logger = Other::start("logger", &path);
        let mut acknowledged: u64 = 0;
        for _ in 0..1 + round * 13 % 101 {
            acknowledged = logger.answer().unwrap().parse().unwrap();
        }
        logger.process.kill().unwrap();
        while let Some(number) = logger.answer() {
            acknowledged = number.parse().unwrap();
        }
        logger.process.wait().unwrap();

        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        let numbers = logged(&pool);
        let count = numbers.len() as u64;
        assert!(
            (acknowledged + 1..=acknowledged + 2).contains(&count),
            "{count} after {acknowledged}"
        );
        assert_eq!(
            numbers,
            (0..count).collect::<Vec<_>>(),
            "none twice, none missing"
        );
        let report = pool.check(|_| ()).unwrap();
        assert!(report.is_intact(), "{report:?}");
        let info = pool.info().unwrap();
        assert_eq!(info.used + info.free, info.len);
        longest = longest.max(info.len);
    }
    assert!(longest <= 6 << 20, "a few numbers never need {longest} bytes");
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    pool.vacuum().unwrap();
    let info = pool.info().unwrap();
    assert!(
        info.allocated <= (4 << 20) + (64 << 10) || info.allocated >= info.len,
        "hardly anything is in use: {info:?}"
    );
}
