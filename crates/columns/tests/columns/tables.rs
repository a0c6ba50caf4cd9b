//! Random tables, written, opened and read back; selections and predicates against brute force over the Arrow
//! values.

use crate::common::{Shape, Value, assert_same, batch, dram_pool, types, values, write};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use halocline_columns::{CodePredicate, CodeSpace, Column, RowSelection, Segment, TableOptions};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::ops::{Bound, Range};

/// A table's columns and its options.
fn shapes() -> impl Strategy<Value = Vec<(DataType, Shape)>> {
    let shape = (
        prop_oneof![Just(0), Just(1), Just(2), Just(40), Just(3000)],
        prop_oneof![3 => Just(0), 1 => Just(20), 1 => Just(256)],
        any::<u64>(),
    )
        .prop_map(|(distinct, nulls, seed)| Shape {
            distinct,
            nulls,
            seed,
        });
    proptest::collection::vec((proptest::sample::select(types()), shape), 1..6)
}

fn options() -> impl Strategy<Value = TableOptions> {
    let limits = prop_oneof![Just(10), Just(100), Just(65_536)];
    let memory = prop_oneof![Just(1usize), Just(1 << 16), Just(128 << 20)];
    let segments = prop_oneof![3 => Just(1u64 << 31), 1 => Just(1500), 1 => Just(4096)];
    (limits, memory, segments, 1usize..3).prop_map(|(limit, memory, segment_rows, chunk)| {
        let mut options = TableOptions::default();
        options.dictionary_limit = limit;
        options.memory = memory;
        options.segment_rows = segment_rows;
        options.chunk_rows = chunk * 1024;
        options
    })
}

fn slices(batch: &RecordBatch, sizes: &[usize]) -> Vec<RecordBatch> {
    let mut out = Vec::new();
    let mut start = 0;
    for size in sizes.iter().cycle() {
        let len = (*size).min(batch.num_rows() - start);
        out.push(batch.slice(start, len));
        start += len;
        if start == batch.num_rows() {
            return out;
        }
    }
    out
}

/// The rows of a segment within the table.
fn check_segment(segment: &Segment, all: &RecordBatch, first: usize, pick: u64) {
    let rows = segment.rows();
    let range = (pick as usize % rows)..((pick >> 20) as usize % rows + 1).max(pick as usize % rows);
    for (i, expected) in all.columns().iter().enumerate() {
        let column = segment.column(i);
        let expected = expected.slice(first, rows);
        assert_same(&column.scan(0..rows).expect("sound"), &expected);
        assert_same(
            &column.scan(range.clone()).expect("sound"),
            &expected.slice(range.start, range.len()),
        );
        for share in [1, 2, 40, 700] {
            let mut selection = RowSelection::default();
            let chosen = (0..rows).filter(|row| row.wrapping_mul(pick as usize | 1) / 8 % share == 0);
            chosen.for_each(|row| selection.add_range(row..row + 1));
            let chosen = UInt32Array::from_iter_values(selection.rows());
            assert_same(
                &column.decode(&selection).expect("sound"),
                &arrow_select::take::take(&expected, &chosen, None).expect("rows exist"),
            );
        }
        let mut beyond = RowSelection::default();
        beyond.add_range(rows - 1..rows + 1);
        assert!(column.decode(&beyond).is_err());
        let mut wanted: Vec<u32> = (0..rows as u32)
            .filter(|row| row.wrapping_mul(pick as u32 | 1) % 7 == 0)
            .collect();
        if pick.is_multiple_of(2) {
            wanted.reverse();
            wanted.push(0);
        }
        let gathered = column.gather(&wanted).expect("sound");
        let taken =
            arrow_select::take::take(&expected, &UInt32Array::from(wanted), None).expect("rows exist");
        assert_same(&gathered, &taken);
        check_codes(column, &expected, range.clone());
    }
}

fn check_codes(column: &Column, expected: &ArrayRef, range: Range<usize>) {
    let mut codes = Vec::new();
    let Some(space) = column.code_space() else {
        assert!(column.read_codes(range, &mut codes).is_err());
        return;
    };
    column.read_codes(0..column.rows(), &mut codes).expect("sound");
    assert_same(&space.decode(&codes).expect("codes of the column"), expected);
    let mut encoded = Vec::new();
    space
        .encode(expected, &mut encoded)
        .expect("values of the column");
    assert_eq!(encoded, codes);
    assert_eq!(space.has_null(), expected.null_count() > 0);
    assert_eq!(codes.iter().max(), Some(&space.max_code()));
    let mut part = Vec::new();
    column.read_codes(range.clone(), &mut part).expect("sound");
    assert_eq!(part, &codes[range]);
    for chunk in 0..column.chunks() {
        let first = chunk * column.chunk_rows();
        let chunk_codes = &codes[first..(first + column.chunk_rows()).min(codes.len())];
        let bounds = (
            *chunk_codes.iter().min().expect("rows"),
            *chunk_codes.iter().max().expect("rows"),
        );
        assert_eq!(column.zone(chunk).expect("sound"), bounds);
    }
    let all = values(expected);
    for pair in (0..all.len().min(300)).collect::<Vec<_>>().windows(2) {
        let (a, b) = (&all[pair[0]], &all[pair[1]]);
        let order = codes[pair[0]].cmp(&codes[pair[1]]);
        match (a, b) {
            (Value::Null, Value::Null) => assert_eq!(order, Ordering::Equal),
            (Value::Null, _) => assert_eq!(order, Ordering::Less),
            (_, Value::Null) => assert_eq!(order, Ordering::Greater),
            // The two zeros are equal but have two codes.
            _ if a.cmp(b) == Ordering::Equal => {}
            _ => assert_eq!(order, a.cmp(b)),
        }
    }
}

/// A predicate on values, the model of one on codes.
type Matches = Box<dyn Fn(&Value) -> bool>;

/// A random predicate on a column, and what it should match.
fn predicate(space: &CodeSpace, probes: &ArrayRef, kind: u64) -> (CodePredicate, Matches) {
    let known = values(probes);
    let one = |i: u64| probes.slice(i as usize % probes.len(), 1);
    let (low, high) = (one(kind >> 8), one(kind >> 20));
    let (a, b) = (values(&low).remove(0), values(&high).remove(0));
    let compare = |bound: Value, keep: fn(Ordering) -> bool| {
        move |value: &Value| *value != Value::Null && bound != Value::Null && keep(value.cmp(&bound))
    };
    let built = match kind % 9 {
        0 => space.equal(&low),
        1 => space.range(Bound::Included(&*low), Bound::Included(&*high)),
        2 => space.range(Bound::Excluded(&*low), Bound::Excluded(&*high)),
        3 => space.range(Bound::Unbounded, Bound::Excluded(&*high)),
        4 => space.range(Bound::Excluded(&*low), Bound::Unbounded),
        5 => space.set(probes),
        6 => Ok(space.is_null()),
        7 => Ok(space.is_not_null()),
        _ => space.range(Bound::Included(&*low), Bound::Excluded(&*high)),
    }
    .expect("probes have the column's type");
    let matches: Matches = match kind % 9 {
        0 => Box::new(compare(a, Ordering::is_eq)),
        1 => {
            let (above, below) = (compare(a, Ordering::is_ge), compare(b, Ordering::is_le));
            Box::new(move |value| above(value) && below(value))
        }
        2 => {
            let (above, below) = (compare(a, Ordering::is_gt), compare(b, Ordering::is_lt));
            Box::new(move |value| above(value) && below(value))
        }
        3 => Box::new(compare(b, Ordering::is_lt)),
        4 => Box::new(compare(a, Ordering::is_gt)),
        5 => Box::new(move |value| {
            known
                .iter()
                .any(|known| *known != Value::Null && *value != Value::Null && known.cmp(value).is_eq())
        }),
        6 => Box::new(|value| *value == Value::Null),
        7 => Box::new(|value| *value != Value::Null),
        _ => {
            let (above, below) = (compare(a, Ordering::is_ge), compare(b, Ordering::is_lt));
            Box::new(move |value| above(value) && below(value))
        }
    };
    (built, matches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_come_back(
        columns in shapes(),
        options in options(),
        rows in 1usize..6000,
        sizes in proptest::collection::vec(1usize..3000, 1..4),
        pick in any::<u64>(),
    ) {
        let all = batch(&columns, rows);
        let (table, stats) = write(&dram_pool(), &slices(&all, &sizes), options.clone());
        prop_assert_eq!(table.rows(), rows as u64);
        prop_assert_eq!(stats.rows, rows as u64);
        prop_assert_eq!(stats.stored_bytes, table.stored_bytes());
        prop_assert_eq!(table.schema(), &all.schema());
        // A segment also ends where the first decimal of a column that does not fit 64 bits comes in a later
        // batch than the segment's first.
        let full = rows.div_ceil(options.segment_rows as usize);
        let wide = columns.iter().filter(|(data_type, _)| matches!(data_type, DataType::Decimal128(19.., _)));
        prop_assert!((full..=full + wide.count()).contains(&table.segments().len()));
        let mut first = 0;
        for segment in table.segments() {
            check_segment(segment, &all, first, pick);
            first += segment.rows();
        }
        prop_assert_eq!(first, rows);
        let errors = table.check();
        prop_assert!(errors.is_empty(), "{:?}", errors);
    }

    #[test]
    fn selections_match_brute_force(
        columns in shapes(),
        options in options(),
        rows in 1usize..4000,
        draws in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..4),
        pick in any::<u64>(),
    ) {
        let all = batch(&columns, rows);
        let (table, _) = write(&dram_pool(), std::slice::from_ref(&all), options);
        let mut first = 0;
        for segment in table.segments() {
            let mut predicates = Vec::new();
            let mut expected = vec![true; segment.rows()];
            for (kind, seed) in &draws {
                let at = *seed as usize % columns.len();
                let Some(space) = segment.column(at).code_space() else { continue };
                // Values of the column and others, NULL among them.
                let other = Shape { seed: *seed, nulls: 30, ..columns[at].1 };
                let strange = Shape { distinct: 0, ..other };
                let own = all.column(at).slice(first, segment.rows());
                let probes = [own.slice(0, own.len().min(5)), crate::common::random_array(&columns[at].0, 4, other),
                    crate::common::random_array(&columns[at].0, 3, strange)];
                let probes: Vec<&dyn Array> = probes.iter().map(|array| &**array).collect();
                let probes = arrow_select::concat::concat(&probes).expect("one type");
                let (predicate, matches) = predicate(space, &probes, *kind);
                prop_assert!(!space.describe(&predicate).is_empty());
                let values = values(&own);
                expected.iter_mut().zip(&values).for_each(|(keep, value)| *keep &= matches(value));
                predicates.push((at, predicate));
            }
            let from = pick as usize % segment.rows();
            for range in [0..segment.rows(), from..segment.rows(), from / 2..from] {
                let wanted: Vec<u32> = range.clone().filter(|&row| expected[row]).map(|row| row as u32).collect();
                let bitmap = segment.select(&predicates, range.clone()).expect("sound");
                prop_assert_eq!(bitmap.iter().collect::<Vec<_>>(), &wanted[..], "{:?}", predicates);
                prop_assert_eq!(segment.count(&predicates, range.clone()).expect("sound"), wanted.len() as u64);
                let mut rows = Vec::new();
                segment.select_blocks(&predicates, range, |first, mask| {
                    rows.extend((0..1024).filter(|i| mask[i / 64] >> (i % 64) & 1 == 1).map(|i| (first + i) as u32));
                }).expect("sound");
                prop_assert_eq!(rows, wanted);
            }
            first += segment.rows();
        }
    }

    #[test]
    fn prefixes_match_brute_force(
        strings in proptest::collection::vec(proptest::option::weighted(0.9, "[ab\u{e9}]{0,4}"), 1..200),
        prefix in "[ab\u{e9}]{0,3}",
        data_type in proptest::sample::select(vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]),
    ) {
        let array = arrow_cast::cast(&arrow_array::StringArray::from(strings.clone()), &data_type).expect("strings");
        let all = RecordBatch::try_from_iter_with_nullable([("s", array, true)]).expect("one column");
        let (table, _) = write(&dram_pool(), &[all], TableOptions::default());
        let segment = &table.segments()[0];
        let predicate = segment.column(0).code_space().expect("few strings").prefix(&prefix).expect("strings");
        let found = segment.select(&[(0, predicate)], 0..segment.rows()).expect("sound");
        for (row, string) in strings.iter().enumerate() {
            let starts = string.as_ref().is_some_and(|string| string.starts_with(&prefix));
            prop_assert_eq!(found.contains(row as u32), starts);
        }
    }
}
