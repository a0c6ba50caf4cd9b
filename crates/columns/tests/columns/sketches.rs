//! Sketches of distinct values: those of the segments of a table, merged, know the distinct values of its
//! rows, whatever the type, however the values are stored, and through every change.

use crate::common::dram_pool;
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use halocline_columns::compact::{MergeOptions, merge};
use halocline_columns::{
    DistinctSketch, Table, TableOptions, TableProperties, TableWriter, add_column, create_table, delete_rows,
};
use halocline_pool::Txn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of a segment.
const ROWS: i32 = 30_000;
/// Four standard errors.
const BOUND: f64 = 0.065;

/// Segment `number`: a column with a tenth of the values of the one before, one with its own values, a few
/// strings in a dictionary, many that are stored as they are, decimals of which only segment 1 has wide ones.
fn segment(number: i32) -> RecordBatch {
    let rows = || number * (ROWS - ROWS / 10)..number * (ROWS - ROWS / 10) + ROWS;
    let some = |row: i32| row % 10 != 3;
    let overlapping: ArrayRef = Arc::new(Int32Array::from_iter_values(rows()));
    let own: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..ROWS).map(|row| f64::from(number) + f64::from(row % 1000) / 2000.0),
    ));
    let few: ArrayRef = Arc::new(
        rows()
            .map(|row| some(row).then(|| format!("mode {}", row % 7)))
            .collect::<StringArray>(),
    );
    let many: ArrayRef = Arc::new(
        rows()
            .map(|row| some(row).then(|| format!("comment of row {row}")))
            .collect::<StringArray>(),
    );
    let wide = |row: i32| i128::from(row % 4000) << if number == 1 && row % 2 == 0 { 70 } else { 0 };
    let decimals = rows().map(wide).collect::<Decimal128Array>();
    let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(38, 2).expect("38 digits"));
    let nothing: ArrayRef = Arc::new(Int32Array::from(vec![None; ROWS as usize]));
    RecordBatch::try_from_iter_with_nullable([
        ("overlapping", overlapping, false),
        ("own", own, true),
        ("few", few, true),
        ("many", many, true),
        ("decimals", decimals, true),
        ("nothing", nothing, true),
    ])
    .expect("columns of one length")
}

fn append(txn: &Txn, batch: &RecordBatch) {
    let mut writer = TableWriter::append(txn, "t", TableOptions::default()).expect("there");
    writer.write(batch).expect("rows of the table");
    writer.finish().expect("finished");
}

fn open(txn: &Txn) -> Table {
    let table = Table::open_in(txn, "t").expect("there");
    assert!(table.check().is_empty(), "{:?}", table.check());
    table
}

/// The merged sketches of all segments.
fn merged(table: &Table) -> Vec<DistinctSketch> {
    let segments = table.segments().iter();
    let sketches = segments.map(|segment| segment.sketches().expect("sound").expect("of this version"));
    let merge = |all: Vec<DistinctSketch>, own: Vec<DistinctSketch>| {
        let merged = all.into_iter().zip(&own).map(|(mut all, own)| {
            all.merge(own);
            all
        });
        merged.collect()
    };
    sketches.reduce(merge).expect("a segment")
}

fn assert_near(sketch: &DistinctSketch, distinct: i32, what: &str) {
    let error = (sketch.estimate() as f64 - f64::from(distinct)).abs();
    assert!(
        error <= f64::from(distinct) * BOUND,
        "{what}: {distinct} estimated as {}",
        sketch.estimate()
    );
}

#[test]
fn sketches_know_the_distinct_values_through_all_changes() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &segment(0).schema(), &TableProperties::default()).expect("storable");
    (0..3).for_each(|number| append(&txn, &segment(number)));
    let table = open(&txn);
    assert_eq!(table.segments().len(), 3);
    let columns = merged(&table);
    // Two thirds of the rows have values that no other segment has, and a tenth of strings is NULL.
    let overlapping = 3 * ROWS - 2 * (ROWS / 10);
    let many = overlapping - overlapping / 10;
    // Even values of segment 1 are shifted, except 0.
    let decimals = 4000 + 2000 - 1;
    let expected = [overlapping, 3000, 7, many, decimals, 0];
    let names = ["overlapping", "own", "few", "many", "decimals", "nothing"];
    for ((sketch, expected), name) in columns.iter().zip(expected).zip(names) {
        assert_near(sketch, expected, name);
    }
    let space = |table: &Table, column: usize| table.segments()[0].column(column).code_space().is_some();
    assert!(space(&table, 2) && !space(&table, 3), "a dictionary, and none");

    // Deleted rows are counted until a merge leaves them out.
    let gone = BTreeMap::from([(table.segments()[0].id(), (0..ROWS as u32 / 2).collect())]);
    delete_rows(&txn, "t", &gone).expect("rows");
    assert_eq!(merged(&open(&txn)), columns);

    // A new column has its sketch, whether it is NULL, a number or a string.
    let default: ArrayRef = Arc::new(StringArray::from(vec!["same"]));
    add_column(
        &txn,
        "t",
        &Field::new("same", DataType::Utf8, true),
        Some(&default),
    )
    .expect("added");
    add_column(&txn, "t", &Field::new("null", DataType::Int64, true), None).expect("added");
    let added = merged(&open(&txn));
    assert_eq!(added[..6], columns[..]);
    assert_eq!([added[6].estimate(), added[7].estimate()], [1, 0]);

    let ids: Vec<u64> = open(&txn).segments().iter().map(|segment| segment.id()).collect();
    merge(&txn, "t", &ids, &MergeOptions::default()).expect("merged");
    let table = open(&txn);
    assert_eq!(table.segments().len(), 1);
    let compacted = merged(&table);
    let left = overlapping - ROWS / 2;
    assert_near(&compacted[0], left, "overlapping, merged");
    assert_near(&compacted[3], left - left / 10, "many, merged");
    assert_near(&compacted[4], decimals, "decimals, merged");
    for column in [2, 5, 6, 7] {
        assert_eq!(compacted[column], added[column], "column {column}");
    }
}

/// The same rows have the same sketch, whatever the chunks, the order, and whether there is a dictionary.
#[test]
fn sketches_depend_on_the_values_only() {
    let of = |options: TableOptions, reverse: bool| {
        let pool = dram_pool();
        let txn = pool.begin().expect("no other writer");
        let batch = segment(0);
        let mut writer = TableWriter::new(&txn, "t", batch.schema(), options).expect("storable");
        let starts: Vec<usize> = (0..ROWS as usize).step_by(1000).collect();
        let write = |start: &usize| writer.write(&batch.slice(*start, 1000)).expect("written");
        if reverse {
            starts.iter().rev().for_each(write)
        } else {
            starts.iter().for_each(write)
        }
        writer.finish().expect("finished");
        merged(&open(&txn))
    };
    let expected = of(TableOptions::default(), false);
    let mut options = TableOptions::default();
    (options.chunk_rows, options.dictionary_limit) = (1024, 3);
    assert_eq!(of(options, true), expected);
}
