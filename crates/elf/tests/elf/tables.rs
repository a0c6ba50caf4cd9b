//! Indexes of tables in a pool: several segments, plain strings, NULLs, spills, reopening, replaced tables.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use arrow_array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_columns::{CodePredicate, Table, TableOptions, TableWriter};
use halocline_elf::{ElfError, IndexOptions, Layout, Order, TableIndex, index_table};
use halocline_media::Dram;
use halocline_pool::{ObjectKind, Pool, Txn};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);
const ROWS: usize = 9000;
const SEGMENT: usize = 4096;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("comment", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("day", DataType::Date32, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("price", DataType::Float64, false),
    ]))
}

fn batch(seed: u64) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut some = |odds: u32| !rng.random_ratio(1, odds);
    let present: Vec<bool> = (0..ROWS).map(|_| some(9)).collect();
    let mut rng = StdRng::seed_from_u64(seed + 1);
    let ids = present
        .iter()
        .map(|&present| present.then(|| rng.random_range(-500_000..500_000_i64)));
    let ids: Int64Array = ids.collect();
    let comments = present
        .iter()
        .rev()
        .map(|&present| present.then(|| format!("comment {}", rng.random_range(0..3000))));
    let comments: StringArray = comments.collect();
    let flags: BooleanArray = present
        .iter()
        .map(|&present| present.then(|| rng.random()))
        .collect();
    let days: Date32Array = (0..ROWS).map(|_| Some(rng.random_range(9000..9100))).collect();
    let kinds: StringArray = (0..ROWS)
        .map(|_| Some(["AIR", "RAIL", "SHIP", "TRUCK"][rng.random_range(0..4)]))
        .collect();
    let prices: Float64Array = (0..ROWS)
        .map(|_| Some(f64::from(rng.random_range(-50..50)) / 8.0))
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids),
        Arc::new(comments),
        Arc::new(flags),
        Arc::new(days),
        Arc::new(kinds),
        Arc::new(prices),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn write(txn: &Txn, batch: &RecordBatch) -> Table {
    let mut options = TableOptions::default();
    (options.chunk_rows, options.segment_rows, options.dictionary_limit) = (1024, SEGMENT as u64, 100);
    let mut writer = TableWriter::new(txn, "t", schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    Table::open_in(txn, "t").unwrap()
}

/// A seed that differs from run to run; each test prints its own.
fn random_seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

#[test]
fn indexes_answer_like_the_rows_and_survive_reopening() {
    let seed: u64 = random_seed();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let batch = batch(seed % 1000);
    let pool = Pool::create_on(Arc::new(Dram::new(16 << 20).unwrap())).unwrap();
    let txn = pool.begin().unwrap();
    let table = write(&txn, &batch);
    let mut builds = vec![];
    for layout in [Layout::Packed, Layout::Published] {
        for (order, memory) in [(Order::Auto, 1 << 30), (Order::Given, 30_000)] {
            let options = IndexOptions {
                layout,
                order,
                memory,
                threads: 2,
            };
            let name = format!("{layout}-{order:?}");
            let columns = [1, 0, 2, 3, 4, 5];
            let stats = index_table(&txn, &table, &name, &columns, &options, &NEVER).unwrap();
            assert_eq!(
                (stats.rows, stats.segments),
                (ROWS as u64, ROWS.div_ceil(SEGMENT))
            );
            assert_eq!(stats.spilled_runs > 0, order == Order::Given);
            assert_eq!(
                stats.columns,
                if order == Order::Given {
                    &columns
                } else {
                    &[2, 4, 3, 5, 1, 0]
                }
            );
            builds.push((name, stats));
        }
    }
    txn.commit().unwrap();
    let snapshot = pool.snapshot().unwrap();
    assert_eq!(TableIndex::names(&snapshot).len(), builds.len());
    for (name, stats) in builds {
        let index = TableIndex::open(&snapshot, &name).unwrap();
        index.check().unwrap();
        assert_eq!(
            (index.name(), index.table(), index.rows()),
            (&*name, "t", ROWS as u64)
        );
        assert_eq!(
            (index.columns(), index.stored_bytes()),
            (&*stats.columns, stats.bytes())
        );
        for (number, segment) in index.segments().iter().enumerate() {
            let start = number * SEGMENT;
            let rows = SEGMENT.min(ROWS - start);
            let codes: Vec<Vec<u64>> = index
                .columns()
                .iter()
                .enumerate()
                .map(|(dim, &column)| {
                    let mut codes = vec![];
                    segment
                        .space(dim)
                        .encode(&*batch.column(column).slice(start, rows), &mut codes)
                        .unwrap();
                    codes
                })
                .collect();
            for _ in 0..40 {
                let row = rng.random_range(0..rows);
                let predicates: Vec<CodePredicate> = codes
                    .iter()
                    .zip(segment.spaces())
                    .map(|(codes, space)| match rng.random_range(0..5) {
                        0 => CodePredicate::equal(codes[row]),
                        1 => {
                            CodePredicate::range(codes[row].saturating_sub(space.max_code() / 4), codes[row])
                        }
                        2 => space.is_not_null(),
                        _ => CodePredicate::Any,
                    })
                    .collect();
                let matches = |row: &usize| {
                    predicates
                        .iter()
                        .zip(&codes)
                        .all(|(test, codes)| test.matches(codes[*row]))
                };
                let expected: Vec<u32> = (0..rows).filter(matches).map(|row| row as u32).collect();
                let mut found = segment.elf().select(&predicates).unwrap().tids().unwrap();
                found.sort_unstable();
                assert_eq!(found, expected, "{name}, segment {number}: {predicates:?}");
            }
        }
        // A plain string column is searched by value through the index's own dictionary.
        let dim = index.columns().iter().position(|&column| column == 1).unwrap();
        let segment = &index.segments()[0];
        let mut predicates = vec![CodePredicate::Any; 6];
        predicates[dim] = segment.space(dim).prefix("comment 17").unwrap();
        let count = segment.elf().select(&predicates).unwrap().count().unwrap();
        let comments: &StringArray = batch.column(1).as_any().downcast_ref().unwrap();
        let expected = comments
            .iter()
            .take(SEGMENT)
            .flatten()
            .filter(|comment| comment.starts_with("comment 17"));
        assert_eq!(count, expected.count() as u64);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let pool = Pool::create_on(Arc::new(Dram::new(16 << 20).unwrap())).unwrap();
    let txn = pool.begin().unwrap();
    let table = write(&txn, &batch(1));
    let options = IndexOptions::default();
    let build = |columns: &[usize]| index_table(&txn, &table, "i", columns, &options, &NEVER);
    assert!(matches!(build(&[]), Err(ElfError::WrongDimensions { .. })));
    assert!(matches!(build(&[1, 9]), Err(ElfError::NotIndexable { .. })));
    assert!(matches!(build(&[1, 0, 1]), Err(ElfError::NotIndexable { .. })));
    build(&[0, 3]).unwrap();
    txn.commit().unwrap();
    let snapshot = pool.snapshot().unwrap();
    assert!(matches!(
        TableIndex::open(&snapshot, "other"),
        Err(ElfError::NoSuchIndex { .. })
    ));
    TableIndex::open(&snapshot, "i").unwrap();

    let txn = pool.begin().unwrap();
    write(&txn, &batch(2));
    txn.put("index/broken", ObjectKind::INDEX, b"{\"v\":1}", vec![])
        .unwrap();
    txn.put("index/newer", ObjectKind::INDEX, b"{\"v\":7}", vec![])
        .unwrap();
    txn.commit().unwrap();
    let snapshot = pool.snapshot().unwrap();
    assert!(matches!(
        TableIndex::open(&snapshot, "i"),
        Err(ElfError::Stale { .. })
    ));
    assert!(matches!(
        TableIndex::open(&snapshot, "broken"),
        Err(ElfError::DamagedMeta { .. })
    ));
    assert!(matches!(
        TableIndex::open(&snapshot, "newer"),
        Err(ElfError::NewerVersion { found: 7, .. })
    ));
}
