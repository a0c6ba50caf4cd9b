//! Conditions on columns of strings, compared with the strings one by one: several segments and chunks,
//! deleted rows, every string type, with and without a dictionary.

use crate::common::dram_pool;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use halocline_columns::{
    ColumnsError, LikePattern, RowSelection, StringPredicate, Table, TableOptions, TableWriter, delete_rows,
};
use halocline_pool::Pool;
use halocline_workloads::SplitMix64;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const WORDS: [&str; 9] = [
    "",
    "s",
    "s99",
    "alpha",
    "al",
    "\u{e9}t\u{e9}",
    "\u{1F980}",
    "%_",
    "omega",
];

/// Random strings of a few words and a number below `distinct`.
fn strings(rows: usize, distinct: u64, rng: &mut SplitMix64) -> Vec<Option<String>> {
    let mut string = |_| {
        if rng.below(12) == 0 {
            return None;
        }
        let words = (0..rng.below(4)).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]);
        let words: String = words.collect();
        Some(if rng.below(5) == 0 {
            words
        } else {
            format!("{words}{}", rng.below(distinct))
        })
    };
    (0..rows).map(&mut string).collect()
}

fn conditions(known: &[Option<String>], rng: &mut SplitMix64) -> Vec<StringPredicate> {
    let mut constant = || {
        known[rng.below(known.len() as u64) as usize]
            .clone()
            .unwrap_or_default()
    };
    let (one, two, three) = (constant(), constant(), constant());
    let [a, b, c] = [&one, &two, &three].map(|text| text.as_bytes());
    let like = |pattern: &str| StringPredicate::like(LikePattern::parse(pattern).expect("no escape is open"));
    let escaped = one.replace('%', "\\%").replace('_', "\\_");
    let all = vec![
        StringPredicate::equal(a),
        StringPredicate::set([a, b, c]),
        StringPredicate::range(Bound::Excluded(a.min(b)), Bound::Included(a.max(b))),
        StringPredicate::range(Bound::Included(c), Bound::Unbounded),
        StringPredicate::prefix(b"s99"),
        StringPredicate::prefix(&a[..a.len().min(2)]),
        like("%omega%"),
        like("%alpha%1%"),
        like("_t\u{e9}%"),
        like("%\\%\\_%"),
        like("%9"),
        like(&format!("{escaped}%")),
        like(&format!("%{escaped}%")),
        StringPredicate::null(),
        StringPredicate::any([StringPredicate::equal(b), like("%s9%7")]),
    ];
    all.iter()
        .flat_map(|condition| [condition.clone(), condition.not()])
        .collect()
}

fn table(pool: &Pool, segments: &[Vec<Option<String>>], data_type: &DataType, distinct: usize) -> Table {
    for (number, strings) in segments.iter().enumerate() {
        let column = StringArray::from_iter(strings);
        let column = cast(&column, data_type).expect("a type of strings");
        let rows: ArrayRef = Arc::new(Int32Array::from_iter_values(0..strings.len() as i32));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", rows, false), ("s", column, true)]);
        let batch = batch.expect("columns of one length");
        let mut options = TableOptions::default();
        (options.chunk_rows, options.dictionary_limit) = (2048, distinct);
        let txn = pool.begin().expect("no other writer");
        let mut writer = match number {
            0 => TableWriter::new(&txn, "t", batch.schema(), options).expect("storable"),
            _ => TableWriter::append(&txn, "t", options).expect("written before"),
        };
        writer.write(&batch).expect("written");
        writer.finish().expect("finished");
        txn.commit().expect("committed");
    }
    Table::open(&pool.snapshot().expect("open"), "t").expect("written")
}

fn is_dictionary(table: &Table) -> bool {
    table.segments()[0].column(1).code_space().is_some()
}

fn check(table: &Table, segments: &[Vec<Option<String>>], gone: &BTreeMap<u64, RoaringBitmap>, seed: u64) {
    let mut rng = SplitMix64::new(seed);
    for (segment, strings) in table.segments().iter().zip(segments) {
        let conditions = conditions(strings, &mut rng);
        let rows = segment.rows();
        let from = rng.below(rows as u64) as usize;
        for (at, condition) in conditions.iter().enumerate() {
            let other = &conditions[(at + 5) % conditions.len()];
            for (range, predicates) in [
                (0..rows, vec![(1, condition.clone())]),
                (
                    from..rows.min(from + 1500),
                    vec![(1, condition.clone()), (1, other.clone())],
                ),
            ] {
                let selected = segment.with_string_conditions(&predicates).expect("strings");
                let found: Vec<u32> = selected
                    .select(&[], range.clone())
                    .expect("sound")
                    .iter()
                    .collect();
                let gone = gone.get(&segment.id());
                let matches = |row: &u32| {
                    let value = strings[*row as usize].as_deref().map(str::as_bytes);
                    gone.is_none_or(|gone| !gone.contains(*row))
                        && predicates.iter().all(|(_, predicate)| predicate.matches(value))
                };
                let expected: Vec<u32> = (range.start as u32..range.end as u32).filter(matches).collect();
                assert_eq!(found, expected, "seed {seed}, {predicates:?}");
                let count = selected.count(&[], range.clone()).expect("sound");
                assert_eq!(count, expected.len() as u64);
                let mut filtered = RowSelection::default();
                segment.select_into(&[], range, &mut filtered).expect("sound");
                selected.filter(&[], &mut filtered).expect("sound");
                assert!(filtered.rows().eq(expected), "seed {seed}, {predicates:?}");
            }
            let share = segment.column(1).estimated_share(condition);
            assert!(segment.column(1).code_space().is_some() || (0.0..=1.0).contains(&share));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn conditions_agree_with_the_strings(
        seed in any::<u64>(),
        data_type in proptest::sample::select(vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]),
        distinct in proptest::sample::select(vec![1usize, 100_000]),
    ) {
        let mut rng = SplitMix64::new(seed);
        let segments: Vec<_> = [5000, 1, 2500].map(|rows| strings(rows, 900, &mut rng)).into();
        let pool = dram_pool();
        let mut stored = table(&pool, &segments, &data_type, distinct);
        check(&stored, &segments, &BTreeMap::new(), seed);
        let mut gone = BTreeMap::new();
        for segment in stored.segments() {
            let rows: RoaringBitmap = (1..segment.rows() as u32).filter(|_| rng.below(9) == 0).collect();
            gone.insert(segment.id(), rows);
        }
        let txn = pool.begin().expect("no other writer");
        delete_rows(&txn, "t", &gone).expect("rows");
        txn.commit().expect("committed");
        stored = Table::open(&pool.snapshot().expect("open"), "t").expect("written");
        check(&stored, &segments, &gone, seed);
    }
}

#[test]
fn both_kinds_of_columns_are_tested() {
    let mut rng = SplitMix64::new(1);
    let segments = [strings(5000, 900, &mut rng)];
    assert!(!is_dictionary(&table(
        &dram_pool(),
        &segments,
        &DataType::Utf8,
        1
    )));
    assert!(is_dictionary(&table(
        &dram_pool(),
        &segments,
        &DataType::Utf8,
        100_000
    )));
}

#[test]
fn codes_of_matching_strings() {
    let mut rng = SplitMix64::new(2);
    let segments = [strings(5000, 900, &mut rng)];
    let table = table(&dram_pool(), &segments, &DataType::Utf8View, 100_000);
    let segment = &table.segments()[0];
    let space = segment.column(1).code_space().expect("a dictionary");
    for condition in conditions(&segments[0], &mut rng) {
        let codes = space.matching(&condition).expect("strings");
        let found = segment.select(&[(1, codes)], 0..segment.rows()).expect("sound");
        let expected = (0..).zip(&segments[0]);
        let expected = expected.filter(|(_, value)| condition.matches(value.as_deref().map(str::as_bytes)));
        assert!(found.iter().eq(expected.map(|(row, _)| row)), "{condition:?}");
    }
}

#[test]
fn chunks_are_decided_by_their_bounds() {
    // Chunks of 2,048 rows with beginnings of their own.
    let sorted: Vec<Option<String>> = (0..20_000).map(|row| Some(format!("{:08}", row / 4))).collect();
    let segments = [sorted];
    let table = table(&dram_pool(), &segments, &DataType::Utf8, 1);
    check(&table, &segments, &BTreeMap::new(), 5);
    let column = table.segments()[0].column(1);
    let share = |condition: StringPredicate| column.estimated_share(&condition);
    let half = StringPredicate::range(Bound::Included(b"00002500"), Bound::Unbounded);
    assert!((0.4..0.6).contains(&share(half.clone())) && (0.4..0.6).contains(&share(half.not())));
    assert_eq!(share(StringPredicate::prefix(b"1")), 0.0);
    assert!(share(StringPredicate::equal(b"00002500")) < 0.01);
}

#[test]
fn conditions_on_codes_and_strings_are_combined() {
    let mut rng = SplitMix64::new(6);
    let segments = [strings(9000, 900, &mut rng)];
    let table = table(&dram_pool(), &segments, &DataType::Utf8, 1);
    let segment = &table.segments()[0];
    let numbers = segment.column(0).code_space().expect("integers");
    let below = numbers
        .range(
            Bound::Included(&Int32Array::from(vec![1500])),
            Bound::Excluded(&Int32Array::from(vec![7000])),
        )
        .expect("integers");
    let one = segment
        .with_string_conditions(&[(1, StringPredicate::prefix(b"s"))])
        .expect("strings");
    let two = one
        .with_string_conditions(&[(1, StringPredicate::equal(b"s").not())])
        .expect("strings");
    assert!(!segment.has_string_conditions() && two.has_string_conditions());
    let found = two.select(&[(0, below)], 0..9000).expect("sound");
    let matches = |row: &u32| {
        let value = segments[0][*row as usize].as_deref();
        value.is_some_and(|value| value.starts_with('s') && value != "s")
    };
    assert!(found.iter().eq((1500..7000).filter(matches)));
}

#[test]
fn other_types_are_refused() {
    let mut rng = SplitMix64::new(3);
    let table = table(&dram_pool(), &[strings(100, 9, &mut rng)], &DataType::Utf8, 1);
    let segment = &table.segments()[0];
    let condition = StringPredicate::equal(b"a");
    let refused = segment.with_string_conditions(&[(0, condition.clone())]);
    assert!(matches!(refused, Err(ColumnsError::TypeMismatch { column, .. }) if column == "n"));
    let codes = segment
        .column(0)
        .code_space()
        .expect("integers")
        .matching(&condition);
    assert!(matches!(codes, Err(ColumnsError::TypeMismatch { .. })));
}

#[test]
fn binary_values_have_conditions_too() {
    let mut rng = SplitMix64::new(4);
    let segments = [strings(3000, 900, &mut rng)];
    let table = table(&dram_pool(), &segments, &DataType::Binary, 1);
    check(&table, &segments, &BTreeMap::new(), 4);
    let column = table.segments()[0].column(1).scan(0..3000).expect("sound");
    assert_eq!(column.as_binary::<i32>().len(), 3000);
}
