//! Large tables with any bit flipped: every read gives the right values or an error that names the place, and
//! whoever copies rows stops.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use crate::common::{Shape, Value, batch, values};
use arrow_schema::DataType;
use halocline_columns::{
    CodePredicate, ColumnsError, Result, Segment, Table, TableOptions, TableWriter, compact,
};
use halocline_media::{Dram, MediumAccess};
use halocline_pool::{ExtentRef, Pool, VerifyMode};
use halocline_workloads::SplitMix64;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: usize = 40_000;

fn written(seed: u64) -> (Arc<Dram>, Pool, Vec<ExtentRef>) {
    let column = |data_type, distinct, nulls| {
        (
            data_type,
            Shape {
                distinct,
                nulls,
                seed: seed + distinct,
            },
        )
    };
    let batch = batch(
        &[
            column(DataType::Int64, 0, 10),
            column(DataType::UInt16, 300, 0),
            // A dictionary of more than 64 KiB, and strings as they are.
            column(DataType::Utf8View, 9000, 5),
            column(DataType::Utf8View, 0, 0),
        ],
        ROWS,
    );
    let medium = Arc::new(Dram::new(1 << 20).expect("memory"));
    let pool = Pool::create_on(Arc::clone(&medium)).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    let mut options = TableOptions::default();
    options.chunk_rows = 8192;
    options.dictionary_limit = 20_000;
    let mut writer = TableWriter::new(&txn, "t", batch.schema(), options).expect("storable");
    writer.write(&batch).expect("written");
    writer.finish().expect("finished");
    let deleted: RoaringBitmap = (0..ROWS as u32).filter(|row| row * 7919 % 5 == 0).collect();
    halocline_columns::delete_rows(&txn, "t", &BTreeMap::from([(0, deleted)])).expect("deleted");
    txn.commit().expect("committed");
    let object = pool.snapshot().expect("open").get("table/t").expect("written");
    let extents = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    (medium, pool, extents)
}

/// All that can be read, each answer on its own.
fn answers(segment: &Segment) -> Vec<Result<String>> {
    let mut answers = vec![segment.select(&[], 0..ROWS).map(|rows| format!("{}", rows.len()))];
    let some: Vec<u32> = (0..ROWS as u32).step_by(977).collect();
    let text = |values: Vec<Value>| format!("{values:?}");
    for (i, column) in segment.columns().iter().enumerate() {
        answers.push(column.gather(&some).map(|array| text(values(&array))));
        answers.push(column.scan(0..9000).map(|array| text(values(&array))));
        let Some(space) = column.code_space() else {
            continue;
        };
        let middle = space.max_code() / 2;
        let decoded = space.decode(&[middle]);
        answers.push(decoded.as_ref().map(|array| text(values(array))).map_err(again));
        let predicate = decoded.and_then(|value| space.equal(&value));
        let found = predicate.and_then(|predicate| segment.select(&[(i, predicate)], 0..ROWS));
        answers.push(found.map(|rows| format!("{:?}", rows.iter().collect::<Vec<_>>())));
        let range = CodePredicate::range(middle / 2, middle);
        answers.push(
            segment
                .count(&[(i, range)], 0..ROWS)
                .map(|count| count.to_string()),
        );
    }
    answers
}

fn again(error: &ColumnsError) -> ColumnsError {
    ColumnsError::Damaged {
        place: error.to_string(),
        what: String::new(),
    }
}

fn table(pool: &Pool) -> Result<Table> {
    Table::open(&pool.snapshot()?, "t")
}

#[test]
fn no_flipped_bit_gives_a_wrong_answer_or_is_copied() {
    let first = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) % (1 << 40);
    // A few seeds give columns so small that no extent has sums of its blocks.
    let written = (first..first + 100).find_map(|seed| {
        println!("seed {seed}");
        let (medium, pool, extents) = written(seed);
        let large = extents.iter().any(|extent| extent.sums);
        large.then_some((seed, medium, pool, extents))
    });
    let (seed, medium, pool, extents) = written.expect("most seeds give large extents");
    let expected: Vec<String> = {
        let table = table(&pool).expect("intact");
        let answers = answers(&table.segments()[0]).into_iter();
        answers.map(|answer| answer.expect("intact")).collect()
    };
    let mut rng = SplitMix64::new(seed);
    let mut refused = 0;
    for flip in 0..250 {
        // As often the directory or the deleted rows as the parts.
        let extent = extents[rng.below(extents.len() as u64) as usize];
        let at = extent.offset + rng.below(extent.len);
        let bit = 1 << rng.below(8);
        let change = || {
            let mut byte = [0];
            medium.load(at, &mut byte);
            medium.store(at, &[byte[0] ^ bit]);
        };
        change();
        pool.forget_verified();
        match table(&pool) {
            Err(error) => {
                assert!(error.to_string().contains("table"), "{error}");
                refused += 1;
            }
            Ok(table) => {
                let answers = answers(&table.segments()[0]);
                for (number, (answer, expected)) in answers.into_iter().zip(&expected).enumerate() {
                    match answer {
                        Ok(found) => assert!(
                            found == *expected,
                            "flip {flip} of bit {bit} at {at} of {extent:?}: answer {number} is wrong"
                        ),
                        Err(error) => {
                            assert!(
                                error.to_string().contains("t`") || error.to_string().contains("table/t"),
                                "{error}"
                            );
                            refused += 1;
                        }
                    }
                }
            }
        }
        if flip % 5 == 0 {
            // Even if all was found intact before the damage, and queries are not to verify anything.
            change();
            pool.forget_verified();
            let whole = table(&pool).expect("intact");
            answers(&whole.segments()[0])
                .into_iter()
                .for_each(|answer| drop(answer.expect("intact")));
            change();
            pool.set_verify_mode(VerifyMode::Off);
            let generation = pool.snapshot().expect("open").generation();
            let txn = pool.begin().expect("no other writer");
            let merged = compact::merge(&txn, "t", &[0], &compact::MergeOptions::default());
            drop(txn);
            pool.set_verify_mode(VerifyMode::Lazy);
            assert_eq!(pool.snapshot().expect("open").generation(), generation);
            let unused = merged.is_ok();
            if unused {
                // Only what holds nothing of a row may be damaged: what stands between chunks, or after
                // deleted rows that are known, and sketches, which the merge makes anew.
                let found = pool.check(|_| ()).expect("readable");
                assert!(!found.is_intact(), "flip {flip}");
                let mut errors = whole.check();
                errors.retain(|error| !error.to_string().contains("the sketches"));
                assert!(
                    errors.is_empty(),
                    "flip {flip} at {at} of {extent:?} was merged: {errors:?}"
                );
            }
        }
        change();
    }
    assert!(refused > 50, "only {refused} answers met the damage");
}
