//! A table that an earlier build of this program wrote is read for ever: its description and its extents, in
//! a file that is never made again. Packed segments (format 1) are in the golden pools of the crate
//! `halocline`.

use crate::common::dram_pool;
use crate::encodings::{array, numbers, short_runs, table_of};
use arrow_array::{ArrayRef, Decimal128Array, Int64Array, StringArray};
use halocline_columns::{Encoding, Table};
use halocline_pool::{ObjectKind, Pool};
use halocline_workloads::SplitMix64;
use std::path::Path;
use std::sync::Arc;

/// Segments of format 2 (metadata version 4): a column for each encoding without NULLs, and one with.
const ENCODED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/encoded-v4.table");

/// Segments of format 3 (metadata version 5): runs that are marked, without NULLs and with.
const MARKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/marked-v5.table");

/// A segment of format 4 (metadata version 6): decimals of more than 64 bits in a dictionary, as they are,
/// and none of them.
const WIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wide-v6.table");

/// A segment with sketches (metadata version 5).
const SKETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sketched-v5.table");

/// Encodings of the columns of the first file; later ones are not in it.
const FIRST_ENCODINGS: [Encoding; 6] = [
    Encoding::Constant,
    Encoding::BitPacked,
    Encoding::Plain,
    Encoding::Dictionary,
    Encoding::Delta,
    Encoding::RunLength,
];

/// The rows of the first file.
fn encoded() -> Vec<ArrayRef> {
    let mut rng = SplitMix64::new(4);
    let of = |nulls: u64, rng: &mut SplitMix64| {
        FIRST_ENCODINGS.map(|kind| {
            let numbers = numbers(kind, 2500, rng);
            array(&numbers, nulls, rng)
        })
    };
    [of(0, &mut rng), of(20, &mut rng)].concat()
}

/// Those of the second.
fn marked() -> Vec<ArrayRef> {
    let mut rng = SplitMix64::new(5);
    let numbers = short_runs(2500, &mut rng);
    [0, 1].map(|nulls| array(&numbers, nulls, &mut rng)).to_vec()
}

/// Those of the third: few different decimals, many, and such that fit 64 bits; with NULLs.
fn wide() -> Vec<ArrayRef> {
    let of = |of_row: &dyn Fn(i128) -> i128| -> ArrayRef {
        let values = (0..9000).map(|row| (row % 41 != 5).then(|| of_row(row)));
        let decimals = values
            .collect::<Decimal128Array>()
            .with_precision_and_scale(38, 3);
        Arc::new(decimals.expect("38 digits"))
    };
    let most = 10_i128.pow(38) - 1;
    vec![
        of(&|row| [most, -most, 7, -(1 << 63), 1 << 63, 0][row as usize % 6]),
        of(&|row| (row - 4500) << 64),
        of(&|row| row - 10),
    ]
}

/// Those of the fourth: numbers with few and many values, strings with and without a dictionary; with NULLs.
fn sketched() -> Vec<ArrayRef> {
    let strings = |of_row: &dyn Fn(u32) -> String| -> ArrayRef {
        let values = (0..9000).map(|row| (row % 41 != 5).then(|| of_row(row)));
        Arc::new(values.collect::<StringArray>())
    };
    let mut rng = SplitMix64::new(6);
    vec![
        array(&short_runs(9000, &mut rng), 10, &mut rng),
        Arc::new(Int64Array::from_iter_values((0..9000).map(|row| row * row))),
        strings(&|row| format!("mode {}", row % 7)),
        strings(&|row| format!("row {row}")),
    ]
}

/// Lengths are four bytes, little-endian.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (taken, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
    *bytes = rest;
    Some(taken)
}

#[test]
fn encoded_segments_are_read_as_ever() {
    let encodings = read(ENCODED, &encoded());
    assert_eq!(encodings[..FIRST_ENCODINGS.len()], FIRST_ENCODINGS);
}

#[test]
fn wide_decimals_are_read_as_ever() {
    // The second column has no codes, and so no encoding of them.
    assert_eq!(read(WIDE, &wide()).len(), 2);
}

#[test]
fn marked_segments_are_read_as_ever() {
    assert_eq!(
        read(MARKED, &marked()),
        [Encoding::RunLength, Encoding::RunLength]
    );
}

/// Sketches are those that the same rows have today: hashes and registers never change.
#[test]
fn sketches_are_read_as_ever() {
    let (_pool, stored) = stored(SKETCHED);
    let (_other, written) = table_of(&sketched(), 1024);
    let sketches = |table: &Table| table.segments()[0].sketches().expect("sound").expect("sketches");
    assert_eq!(sketches(&stored), sketches(&written));
    let estimates: Vec<u64> = sketches(&stored).iter().map(|sketch| sketch.estimate()).collect();
    assert_eq!((estimates[2], estimates.len()), (7, 4));
    for (column, expected) in stored.segments()[0].columns().iter().zip(sketched()) {
        assert_eq!(&column.scan(0..column.rows()).expect("sound"), &expected);
    }
}

/// Opens the table of a file.
fn stored(path: &str) -> (Pool, Table) {
    let file = std::fs::read(path).expect("a golden table");
    let mut rest = &file[..];
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let meta = take(&mut rest).expect("a description");
    let mut extents = Vec::new();
    while let Some(bytes) = take(&mut rest) {
        let mut writer = txn.alloc(bytes.len() as u64).expect("space");
        writer.append(bytes);
        extents.push(writer.finish(bytes.len() as u64).expect("written"));
    }
    txn.put("table/t", ObjectKind::TABLE, meta, extents)
        .expect("a table");
    txn.commit().expect("committed");
    let table = Table::open(&pool.snapshot().expect("open"), "t").expect("readable");
    assert!(table.check().is_empty(), "{:?}", table.check());
    (pool, table)
}

/// Compares a file with the columns that it was made of; returns the encodings of the first chunks of those
/// that have codes.
fn read(path: &str, columns: &[ArrayRef]) -> Vec<Encoding> {
    let (_pool, table) = stored(path);
    let segment = &table.segments()[0];
    assert!(
        segment.sketches().expect("sound").is_none(),
        "older than sketches"
    );
    let mut encodings = Vec::new();
    for (i, expected) in columns.iter().enumerate() {
        let column = segment.column(i);
        assert_eq!(&column.scan(0..segment.rows()).expect("sound"), expected);
        if column.code_space().is_some() {
            encodings.push(column.chunk_info(0).expect("sound").encoding);
        }
    }
    encodings
}

/// Makes the newest file; it must not exist.
#[test]
#[ignore = "golden tables are made once"]
fn make() {
    assert!(
        !Path::new(SKETCHED).exists(),
        "a golden table is never made again"
    );
    let (pool, _) = table_of(&sketched(), 1024);
    let snapshot = pool.snapshot().expect("open");
    let object = snapshot.get("table/t").expect("there");
    let mut out = Vec::new();
    put(&mut out, object.meta());
    for i in 0..object.extent_count() {
        put(&mut out, &object.extent(i).expect("sound"));
    }
    std::fs::write(SKETCHED, out).expect("a file");
}
