//! Tables whose bytes were changed behind the pool's back: errors or wrong values, never a panic; and `check`
//! finds whatever makes a value wrong.

use crate::common::{Shape, batch, types, values};
use arrow_schema::DataType;
use halocline_columns::{CodePredicate, LikePattern, StringPredicate, Table, TableOptions, TableWriter};
use halocline_media::{Dram, MediumAccess};
use halocline_pool::Pool;
use halocline_workloads::SplitMix64;
use proptest::prelude::*;
use std::sync::Arc;

/// Reads a table in every way there is. Returns whether all of it could be read and is what `expected` says.
fn read_everything(table: &Table, expected: &arrow_array::RecordBatch, seed: u64) -> bool {
    let mut sound = true;
    for segment in table.segments() {
        let rows = segment.rows();
        let some: Vec<u32> = (0..rows as u32).step_by(1 + seed as usize % 100).collect();
        for (i, expected) in expected.columns().iter().enumerate() {
            let column = segment.column(i);
            let scanned = column.scan(0..rows);
            sound &= scanned.is_ok_and(|array| {
                let same = |(a, b): (crate::common::Value, crate::common::Value)| {
                    format!("{a:?}") == format!("{b:?}")
                };
                values(&array).into_iter().zip(values(expected)).all(same)
            });
            sound &= column.gather(&some).is_ok();
            for predicate in [
                StringPredicate::prefix(b"a"),
                StringPredicate::like(LikePattern::containing("a")),
                StringPredicate::null().not(),
            ] {
                if let Ok(selected) = segment.with_string_conditions(&[(i, predicate)]) {
                    let _ = selected.count(&[], 0..rows);
                }
            }
            let mut codes = Vec::new();
            if let Some(space) = column.code_space() {
                if column.read_codes(0..rows, &mut codes).is_ok() {
                    assert!(codes.iter().all(|&code| code <= space.max_code()));
                    sound &= space.decode(&codes).is_ok();
                }
                for chunk in 0..column.chunks() {
                    let _ = column.zone(chunk);
                }
                let middle = space.max_code() / 2;
                for predicate in [
                    CodePredicate::equal(middle),
                    CodePredicate::range(1, middle),
                    CodePredicate::set((0..middle.min(9)).map(|i| i * 2).collect()),
                    space.is_not_null(),
                ] {
                    let _ = space.describe(&predicate);
                    let _ = segment.select(&[(i, predicate)], 0..rows);
                }
            }
        }
    }
    sound
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn damaged_tables_never_panic(
        columns in proptest::collection::vec(
            (proptest::sample::select(types()), any::<u64>(), prop_oneof![Just(0), Just(3), Just(500)])
                .prop_map(|(data_type, seed, distinct)| {
                    (data_type, Shape { distinct, nulls: seed % 2 * 30, seed })
                }),
            1..4,
        ),
        rows in 1usize..2500,
        seed in any::<u64>(),
        header in any::<bool>(),
    ) {
        let columns: Vec<(DataType, Shape)> = columns;
        let expected = batch(&columns, rows);
        let medium = Arc::new(Dram::new(1 << 20).expect("memory"));
        let pool = Pool::create_on(Arc::clone(&medium)).expect("a fresh pool");
        let txn = pool.begin().expect("no other writer");
        let mut options = TableOptions::default();
        options.chunk_rows = 1024;
        options.dictionary_limit = 100;
        let mut writer = TableWriter::new(&txn, "t", expected.schema(), options).expect("storable");
        writer.write(&expected).expect("written");
        writer.finish().expect("finished");
        txn.commit().expect("committed");

        let snapshot = pool.snapshot().expect("open");
        let object = snapshot.get("table/t").expect("written");
        let mut rng = SplitMix64::new(seed);
        let extents = object.extent_count() as u64;
        // Few extents have headers: hit the directory as often as everything else.
        let extent = object.extent_ref(if header { 0 } else { rng.below(extents) as usize });
        for _ in 0..1 + rng.below(3) {
            let offset = extent.offset + rng.below(extent.len);
            let mut byte = [0];
            medium.load(offset, &mut byte);
            byte[0] ^= 1 << rng.below(8);
            medium.store(offset, &byte);
        }
        if let Ok(table) = Table::open(&snapshot, "t") {
            let sound = read_everything(&table, &expected, seed);
            let errors = table.check();
            prop_assert!(sound || !errors.is_empty(), "check missed what reading noticed");
            for error in errors {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
