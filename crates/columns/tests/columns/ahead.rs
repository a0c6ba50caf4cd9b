//! Read-ahead of scans and rows, and how much of a column is in memory, over a file that was dropped from the
//! page cache where the file system does so.

use crate::common::{Shape, Value, batch, values, write};
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_schema::DataType;
use halocline_columns::{
    CodePredicate, RowId, RowSelection, ScanAhead, SegmentReads, Table, TableOptions, column_residency,
};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SplitMix64;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 400_000;
const CHUNK: usize = 8_192;

/// Writes three columns, the first of which ascends, to a pool at `path`, and closes it.
fn store(path: &Path) -> RecordBatch {
    let mut random = SplitMix64::new(7);
    let ascending: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS as i32));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..ROWS).map(|_| random.next_u64() as i32),
    ));
    let strings = batch(
        &[(
            DataType::Utf8View,
            Shape {
                distinct: 0,
                nulls: 3,
                seed: 5,
            },
        )],
        ROWS,
    );
    let columns = [
        ("a", ascending, false),
        ("b", numbers, false),
        ("s", Arc::clone(strings.column(0)), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    let pool = Pool::create(path, &PoolOptions::default()).expect("a pool");
    let mut options = TableOptions::default();
    options.chunk_rows = CHUNK;
    write(&pool, std::slice::from_ref(&batch), options);
    batch
}

/// Drops the file from the page cache and opens its table. False if the file system has kept it.
fn reopened(path: &Path) -> (Table, bool) {
    let file = File::open(path).expect("the pool");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    let pool = Pool::open(path, &PoolOptions::default()).expect("the pool");
    let table = Table::open(&pool.snapshot().expect("open"), "t").expect("written");
    let dropped = column_residency(table.segments(), 1).pages.resident == 0;
    (table, dropped)
}

fn ahead(table: &Table, columns: &[usize], conditions: &[(usize, CodePredicate)]) -> ScanAhead {
    let reads = table.segments().iter().map(|segment| SegmentReads {
        segment: segment.clone(),
        columns: columns.to_vec(),
        conditions: conditions.to_vec(),
    });
    ScanAhead::new(reads.collect())
}

fn share(table: &Table, column: usize) -> f64 {
    column_residency(table.segments(), column).pages.share()
}

#[test]
fn a_scan_reads_what_follows_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p");
    let batch = store(&path);
    let (table, dropped) = reopened(&path);
    let whole = ahead(&table, &[0, 1], &[]);
    let chunks = ROWS.div_ceil(CHUNK);
    for chunk in 0..chunks {
        whole.begin(0, chunk);
        let rows = chunk * CHUNK..ROWS.min((chunk + 1) * CHUNK);
        let column = table.segments()[0].column(1).scan(rows.clone()).expect("read");
        assert_eq!(&column, &batch.column(1).slice(rows.start, rows.len()));
    }
    // Columns lie side by side, in less than a request each.
    let most = if dropped { 1..=4 } else { 0..=0 };
    assert!(most.contains(&whole.requests()), "{} requests", whole.requests());
    assert_eq!(share(&table, 1), 1.0);
    // What is in memory is not asked for, whoever asks.
    let again = ahead(&table, &[1], &[]);
    (0..chunks).for_each(|chunk| again.begin(0, chunk));
    assert_eq!(again.requests(), 0);
    // There are no such chunks and segments.
    again.begin(0, chunks + 7);
    again.begin(9, 0);
    ScanAhead::new(Vec::new()).begin(0, 0);
}

#[test]
fn chunks_that_zone_maps_exclude_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p");
    store(&path);
    let (table, dropped) = reopened(&path);
    // The first column ascends, so that this is true in one chunk.
    let few = CodePredicate::Range { lo: 100, hi: 200 };
    let scan = ahead(&table, &[1, 2], &[(0, few)]);
    scan.begin(0, 0);
    assert!(scan.requests() <= 2, "{} requests", scan.requests());
    if dropped {
        assert!(scan.requests() > 0);
        assert!(share(&table, 1) < 0.3 && share(&table, 2) < 0.3);
    }
    let none = ahead(&table, &[1], &[(0, CodePredicate::Nothing)]);
    none.begin(0, 0);
    assert_eq!(none.requests(), 0);
}

#[test]
fn rows_are_the_same_whatever_is_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p");
    let batch = store(&path);
    let mut random = SplitMix64::new(3);
    for count in [1_usize, 7, 60, 390] {
        let (table, _) = reopened(&path);
        let mut rows: Vec<RowId> = (0..count).map(|_| random.below(ROWS as u64) as RowId).collect();
        rows.sort_unstable();
        rows.dedup();
        let expected = |column: usize| -> Vec<Value> {
            let all = batch.column(column);
            rows.iter()
                .flat_map(|row| values(&all.slice(*row as usize, 1)))
                .collect()
        };
        for column in 0..3 {
            let stored = table.segments()[0].column(column);
            // Unverified at first, then verified.
            for _ in 0..2 {
                stored.read_rows_ahead(&rows);
                let read = stored.gather(&rows).expect("read");
                assert_eq!(values(&read), expected(column), "column {column}");
                let mut selection = RowSelection::default();
                rows.iter()
                    .for_each(|row| selection.add_range(*row as usize..*row as usize + 1));
                let read = stored.decode(&selection).expect("read");
                assert_eq!(values(&read), expected(column), "column {column}");
            }
        }
    }
}

#[test]
fn chunks_are_verified_once_they_were_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p");
    store(&path);
    let (table, _) = reopened(&path);
    let verified = |column| column_residency(table.segments(), column).verified;
    assert_eq!((verified(0), verified(1), verified(2)), (0.0, 0.0, 0.0));
    let segment = &table.segments()[0];
    segment.column(1).scan(0..ROWS / 2).expect("read");
    assert!((verified(1) - 0.5).abs() < 0.1, "{}", verified(1));
    segment.column(1).scan(0..ROWS).expect("read");
    assert_eq!((verified(0), verified(1)), (0.0, 1.0));
    assert_eq!(column_residency(&[], 0).pages.share(), 1.0);
    assert_eq!(column_residency(&[], 0).verified, 1.0);
}
