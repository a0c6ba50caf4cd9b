//! The dimension `part`.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::DataType;

use super::lists::{COLORS, CONTAINERS, TYPES, TextBuilder, names, pick, pick_each};
use super::people::keys;
use super::streams;
use crate::SplitMix64;

pub(super) const COLUMNS: [(&str, DataType); 9] = [
    ("p_partkey", DataType::Int32),
    ("p_name", DataType::Utf8),
    ("p_mfgr", DataType::Utf8),
    ("p_category", DataType::Utf8),
    ("p_brand1", DataType::Utf8),
    ("p_color", DataType::Utf8),
    ("p_type", DataType::Utf8),
    ("p_size", DataType::Int32),
    ("p_container", DataType::Utf8),
];

/// Returns the price of a part in cents.
pub(super) fn price(partkey: u64) -> u64 {
    90_000 + partkey / 10 % 20_001 + 100 * (partkey % 1_000)
}

/// Generates the columns of these rows.
pub(super) fn columns(seed: u64, rows: Range<u64>) -> Vec<ArrayRef> {
    let [
        mut part_names,
        mut mfgrs,
        mut categories,
        mut brands,
        mut types,
        mut containers,
    ] = std::array::from_fn(|_| TextBuilder::default());
    let (mut colors, mut sizes) = (Vec::new(), Vec::new());
    for row in rows.clone() {
        let mut rng = SplitMix64::stream(seed, streams::PART + row);
        part_names.push(|out| pick_each(&mut rng, &[&COLORS, &COLORS], out));
        let (mfgr, category, brand) = (1 + rng.below(5), 1 + rng.below(5), 1 + rng.below(40));
        let push = |texts: &mut TextBuilder, rest: std::fmt::Arguments<'_>| {
            texts.push(|out| write!(out, "MFGR#{mfgr}{rest}").expect("strings take everything"));
        };
        push(&mut mfgrs, format_args!(""));
        push(&mut categories, format_args!("{category}"));
        push(&mut brands, format_args!("{category}{brand}"));
        colors.push(pick(&mut rng, &COLORS));
        types.push(|out| pick_each(&mut rng, &TYPES, out));
        sizes.push(1 + rng.below(50) as i32);
        containers.push(|out| pick_each(&mut rng, &CONTAINERS, out));
    }
    vec![
        keys(rows),
        part_names.finish(),
        mfgrs.finish(),
        categories.finish(),
        brands.finish(),
        names(colors),
        types.finish(),
        Arc::new(Int32Array::from(sizes)),
        containers.finish(),
    ]
}
