//! The dimensions `customer` and `supplier`.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::DataType;

use super::lists::{NATIONS, REGIONS, SEGMENTS, TextBuilder, address, city, names, phone, pick};
use super::streams;
use crate::SplitMix64;

pub(super) const CUSTOMER_COLUMNS: [(&str, DataType); 8] = [
    ("c_custkey", DataType::Int32),
    ("c_name", DataType::Utf8),
    ("c_address", DataType::Utf8),
    ("c_city", DataType::Utf8),
    ("c_nation", DataType::Utf8),
    ("c_region", DataType::Utf8),
    ("c_phone", DataType::Utf8),
    ("c_mktsegment", DataType::Utf8),
];

pub(super) const SUPPLIER_COLUMNS: [(&str, DataType); 7] = [
    ("s_suppkey", DataType::Int32),
    ("s_name", DataType::Utf8),
    ("s_address", DataType::Utf8),
    ("s_city", DataType::Utf8),
    ("s_nation", DataType::Utf8),
    ("s_region", DataType::Utf8),
    ("s_phone", DataType::Utf8),
];

/// The columns that customers and suppliers have in common.
#[derive(Debug, Default)]
struct PersonColumns {
    names: TextBuilder,
    addresses: TextBuilder,
    cities: TextBuilder,
    nations: Vec<&'static str>,
    regions: Vec<&'static str>,
    phones: TextBuilder,
}

impl PersonColumns {
    fn push(&mut self, rng: &mut SplitMix64, kind: &str, key: u64) {
        self.names
            .push(|out| write!(out, "{kind}#{key:09}").expect("strings take everything"));
        self.addresses.push(|out| address(rng, out));
        let nation = rng.below(NATIONS.len() as u64) as usize;
        self.cities.push(|out| city(rng, nation, out));
        self.nations.push(NATIONS[nation].0);
        self.regions.push(REGIONS[NATIONS[nation].1]);
        self.phones.push(|out| phone(rng, nation, out));
    }

    fn finish(self, rows: Range<u64>) -> Vec<ArrayRef> {
        vec![
            keys(rows),
            self.names.finish(),
            self.addresses.finish(),
            self.cities.finish(),
            names(self.nations),
            names(self.regions),
            self.phones.finish(),
        ]
    }
}

/// Generates the keys of these rows, starting at 1.
pub(super) fn keys(rows: Range<u64>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.map(|row| row as i32 + 1)))
}

/// Generates the columns of these rows of `customer`.
pub(super) fn customers(seed: u64, rows: Range<u64>) -> Vec<ArrayRef> {
    let mut common = PersonColumns::default();
    let mut segments = Vec::new();
    for row in rows.clone() {
        let mut rng = SplitMix64::stream(seed, streams::CUSTOMER + row);
        common.push(&mut rng, "Customer", row + 1);
        segments.push(pick(&mut rng, &SEGMENTS));
    }
    let mut columns = common.finish(rows);
    columns.push(names(segments));
    columns
}

/// Generates the columns of these rows of `supplier`.
pub(super) fn suppliers(seed: u64, rows: Range<u64>) -> Vec<ArrayRef> {
    let mut common = PersonColumns::default();
    for row in rows.clone() {
        let mut rng = SplitMix64::stream(seed, streams::SUPPLIER + row);
        common.push(&mut rng, "Supplier", row + 1);
    }
    common.finish(rows)
}
