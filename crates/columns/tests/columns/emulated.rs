//! Reads that an emulated medium is charged with: those that a query needs, and no others.

use crate::common::write;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use halocline_columns::{CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_emulator::{ClockMode, Device, DeviceProfile, EmulatedSpec, Host};
use halocline_pool::{Pool, PoolOptions, VerifyMode};
use std::sync::Arc;

const ROWS: i32 = 300_000;

/// Columns of one chunk after another: packed, runs of 7 rows, few values far apart.
fn batch() -> RecordBatch {
    let hash = |row: i32| (row as u32).wrapping_mul(0x9E37_79B9).rotate_left(13);
    let column =
        |of: &dyn Fn(i32) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values((0..ROWS).map(of))) };
    RecordBatch::try_from_iter([
        ("packed", column(&|row| (hash(row) % 1_000_000) as i32)),
        ("runs", column(&|row| (hash(row / 7) % 50_000) as i32)),
        ("listed", column(&|row| (hash(row) % 100 * 1_000_003) as i32)),
        ("order", column(&|row| row / 10)),
    ])
    .expect("columns as long")
}

/// The table below an emulated device on a virtual clock.
fn on_device() -> (tempfile::TempDir, Pool, Arc<Device>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    let batch = batch();
    let mut writer = TableWriter::new(&txn, "t", batch.schema(), TableOptions::default()).expect("storable");
    writer.write(&batch).expect("written");
    writer.finish().expect("finished");
    txn.commit().expect("committed");
    pool.close().expect("closed");
    let spec = EmulatedSpec {
        clock: ClockMode::Virtual,
        host: Some(Host::like(&DeviceProfile::optane().dram)),
        ..EmulatedSpec::new(DeviceProfile::optane())
    };
    let device = Device::new(&spec).expect("a device");
    let pool = Pool::open_wrapped(&path, &PoolOptions::default(), |medium| device.emulate(medium))
        .expect("the pool");
    // What is counted is what queries read; verification reads whole chunks, once.
    pool.set_verify_mode(VerifyMode::Off);
    (directory, pool, device)
}

/// Lines that the device serves for something that is read when nothing is cached.
fn lines(device: &Device, read: impl FnOnce()) -> u64 {
    device.drop_caches();
    let before = device.counts();
    read();
    let counts = device.counts() - before;
    counts.lines
}

fn segment(pool: &Pool) -> Segment {
    let table = Table::open(&pool.snapshot().expect("a snapshot"), "t").expect("written");
    table.segments()[0].clone()
}

#[test]
fn a_whole_column_is_read_once() {
    let (_directory, pool, device) = on_device();
    let segment = segment(&pool);
    for column in segment.columns() {
        let all = column.stored_bytes() / 64;
        let read = lines(&device, || {
            column.scan(0..ROWS as usize).expect("undamaged");
        });
        // What is fetched ahead of the end of a chunk is the beginning of the next one, or of another
        // column's.
        assert!(
            (all..all + all / 10 + 200).contains(&read),
            "{}: {read} of {all}",
            column.name()
        );
    }
}

#[test]
fn what_zones_decide_is_not_read() {
    let (_directory, pool, device) = on_device();
    let segment = segment(&pool);
    let read = lines(&device, || {
        let none = segment.count(&[(3, CodePredicate::range(40_000, 50_000))], 0..ROWS as usize);
        assert_eq!(none.expect("undamaged"), 0);
        let all = segment.count(&[(3, CodePredicate::range(0, 40_000))], 0..ROWS as usize);
        assert_eq!(all.expect("undamaged"), ROWS as u64);
    });
    assert!(read < 100, "{read} lines");
}

#[test]
fn single_rows_are_lines_of_their_own() {
    let (_directory, pool, device) = on_device();
    let segment = segment(&pool);
    let rows: Vec<u16> = (0..40).map(|row| row * 1500).collect();
    for (number, column) in segment.columns().iter().enumerate().take(3) {
        let mut reader = column.code_reader::<u32>().expect("codes");
        let mut codes = vec![0; rows.len()];
        let read = lines(&device, || {
            reader.read_rows(1, 0, &rows, &mut codes).expect("undamaged");
        });
        // A value may lie in two lines, and runs have marks; what leads into a chunk comes on top.
        assert!(
            (40..40 * 4 + 60).contains(&read),
            "{}: {read} lines",
            column.name()
        );
        let mut all = Vec::new();
        column.read_codes(65_536..131_072, &mut all).expect("undamaged");
        for (row, code) in rows.iter().zip(codes) {
            assert_eq!(
                all[usize::from(*row)],
                u64::from(code),
                "column {number}, row {row}"
            );
        }
    }
}

#[test]
fn without_a_device_the_answers_are_the_same() {
    let (_directory, pool, _) = on_device();
    let plain_pool = crate::common::dram_pool();
    let (plain, _) = write(&plain_pool, &[batch()], TableOptions::default());
    let conditions = [
        (1, CodePredicate::range(100, 20_000)),
        (0, CodePredicate::range(5_000, 600_000)),
        (
            2,
            CodePredicate::equal(plain.segments()[0].column(2).zone(0).expect("codes").1),
        ),
    ];
    let selected = |segment: &Segment| segment.select(&conditions, 70..250_000).expect("undamaged");
    let expected = selected(&plain.segments()[0]);
    assert!(!expected.is_empty());
    assert_eq!(selected(&segment(&pool)), expected);
}

#[test]
fn verification_is_charged_once() {
    let (_directory, pool, device) = on_device();
    pool.set_verify_mode(VerifyMode::Lazy);
    let segment = segment(&pool);
    let column = segment.column(0);
    let chunk = column.chunk_info(0).expect("codes").bytes / 64;
    let one = || {
        lines(&device, || {
            column.gather(&[5]).expect("undamaged");
        })
    };
    let first = one();
    assert!(
        (chunk..2 * chunk + 100).contains(&first),
        "the first read of a row verifies its chunk: {first} lines of {chunk}"
    );
    let second = one();
    assert!(second * 4 < first, "{second} lines after {first}");
}
