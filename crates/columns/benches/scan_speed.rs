//! Import, scans, selections and gathers of TPC-H lineitem.
//!
//! `cargo bench -p halocline-columns --bench scan_speed`. `HALOCLINE_BENCH_SCALE` sets the scale factor
//! (0.1), `HALOCLINE_BENCH_FOLDER` the folder of the pools.

use std::ops::Bound;
use std::sync::LazyLock;

use arrow_array::{Array, ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use halocline_columns::{CodePredicate, Segment, Table};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::TpchTable;

mod common;

fn main() {
    divan::main();
}

/// Rows of a scan's morsel.
const MORSEL: usize = 8192;

/// Returns the names of the columns of lineitem.
fn column_names() -> Vec<String> {
    let schema = TpchTable::Lineitem.schema();
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

static TABLE: LazyLock<Table> = LazyLock::new(|| common::imported_table("lineitem", &lineitem()));

fn lineitem() -> Vec<RecordBatch> {
    let reader = TpchTable::Lineitem.reader(common::scale(), 0, 1);
    reader.collect::<Result<_, _>>().expect("generated rows")
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn column_index(name: &str) -> usize {
    TABLE.schema().index_of(name).expect("a column of lineitem")
}

fn segment() -> &'static Segment {
    &TABLE.segments()[0]
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn import(bencher: Bencher<'_, '_>) {
    let batches = lineitem();
    bencher
        .counter(ItemsCount::new(rows(&batches)))
        .with_inputs(common::create_pool)
        .bench_local_values(|(folder, pool)| {
            common::import(&pool, "lineitem", &batches);
            (folder, pool)
        });
}

#[divan::bench]
fn open(bencher: Bencher<'_, '_>) {
    let (folder, pool) = common::create_pool();
    common::import(&pool, "lineitem", &lineitem());
    drop(pool);
    let path = folder.path().join("bench.pool");
    bencher.bench_local(|| {
        let pool = Pool::open(&path, &PoolOptions::default()).expect("a sound pool");
        Table::open(&pool.snapshot().expect("a snapshot"), "lineitem").expect("the table")
    });
}

#[divan::bench(sample_count = 5)]
fn check(bencher: Bencher<'_, '_>) {
    let table = &*TABLE;
    bencher
        .counter(ItemsCount::new(table.rows()))
        .bench_local(|| assert!(table.check().is_empty()));
}

/// The items are values, the bytes those that are stored.
#[divan::bench(args = column_names(), sample_count = 5)]
fn scan(bencher: Bencher<'_, '_>, name: &str) {
    let segment = segment();
    let column = segment.column(column_index(name));
    bencher
        .counter(ItemsCount::new(segment.rows()))
        .counter(BytesCount::new(column.stored_bytes()))
        .bench_local(|| {
            let morsels = (0..segment.rows()).step_by(MORSEL);
            let scanned = morsels.map(|row| column.scan(row..(row + MORSEL).min(segment.rows())));
            scanned.map(|values| values.expect("sound").len()).sum::<usize>()
        });
}

/// Conditions on lineitem.
const CONDITIONS: [&str; 7] = [
    "l_discount 5-7",
    "l_quantity < 24",
    "l_shipdate 1994",
    "l_extendedprice",
    "l_shipmode in 3",
    "l_partkey in 500",
    "TPC-H Q6",
];

fn between(name: &str, low: &dyn Array, high: &dyn Array) -> (usize, CodePredicate) {
    let index = column_index(name);
    let space = segment().column(index).code_space().expect("codes");
    let range = space.range(Bound::Included(low), Bound::Included(high));
    (index, range.expect("values of the column's type"))
}

fn decimals(name: &str, low: i128, high: i128) -> (usize, CodePredicate) {
    let decimal = |value| Decimal128Array::from(vec![value]).with_precision_and_scale(15, 2);
    let [low, high] = [low, high].map(|value| decimal(value).expect("15 digits"));
    between(name, &low, &high)
}

fn one_of(name: &str, values: ArrayRef) -> (usize, CodePredicate) {
    let index = column_index(name);
    let space = segment().column(index).code_space().expect("codes");
    (index, space.set(&values).expect("values of the column's type"))
}

/// Returns the predicates of one of [`CONDITIONS`].
fn predicates(condition: &str) -> Vec<(usize, CodePredicate)> {
    let date = |days: i32| Date32Array::from(vec![days]);
    match condition {
        "l_discount 5-7" => vec![decimals("l_discount", 5, 7)],
        "l_quantity < 24" => vec![decimals("l_quantity", 100, 2399)],
        "l_shipdate 1994" => vec![between("l_shipdate", &date(8766), &date(9130))],
        "l_extendedprice" => vec![decimals("l_extendedprice", 1_000_000, 1_100_000)],
        "l_shipmode in 3" => {
            let modes = StringViewArray::from(vec!["AIR", "RAIL", "SHIP"]);
            vec![one_of("l_shipmode", std::sync::Arc::new(modes))]
        }
        "l_partkey in 500" => {
            let keys = Int64Array::from_iter_values((0..500).map(|i| i * 397 + 1));
            vec![one_of("l_partkey", std::sync::Arc::new(keys))]
        }
        _ => ["l_shipdate 1994", "l_discount 5-7", "l_quantity < 24"]
            .into_iter()
            .flat_map(predicates)
            .collect(),
    }
}

#[divan::bench(args = CONDITIONS)]
fn count(bencher: Bencher<'_, '_>, condition: &str) {
    let (segment, predicates) = (segment(), predicates(condition));
    bencher
        .counter(ItemsCount::new(segment.rows()))
        .bench_local(|| segment.count(&predicates, 0..segment.rows()));
}

#[divan::bench(args = CONDITIONS)]
fn select(bencher: Bencher<'_, '_>, condition: &str) {
    let (segment, predicates) = (segment(), predicates(condition));
    bencher
        .counter(ItemsCount::new(segment.rows()))
        .bench_local(|| segment.select(&predicates, 0..segment.rows()));
}

/// Gathers one row of `ONE_OF`, scattered.
#[divan::bench(args = ["l_discount", "l_extendedprice", "l_shipmode", "l_comment"], consts = [1000, 30, 10, 3])]
fn gather<const ONE_OF: u32>(bencher: Bencher<'_, '_>, name: &str) {
    let segment = segment();
    let rows: Vec<u32> = (0..segment.rows() as u32)
        .filter(|row| row.wrapping_mul(2_654_435_761) % ONE_OF == 0)
        .collect();
    let column = segment.column(column_index(name));
    bencher
        .counter(ItemsCount::new(rows.len()))
        .bench_local(|| column.gather(&rows).expect("sound").len());
}
