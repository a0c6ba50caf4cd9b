//! The join beside a nested loop over the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use halocline_columns::{CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_pool::{Pool, PoolOptions};
use proptest::prelude::*;

use super::*;
use crate::JoinError;

/// A row of the fact table: a key, another key, two measures.
pub(super) type Row = (Option<i32>, i64, Option<i32>, i32);

pub(super) fn table_of(rows: &[Row]) -> (tempfile::TempDir, Table) {
    let columns: [(&str, ArrayRef); 4] = [
        (
            "a",
            Arc::new(rows.iter().map(|row| row.0).collect::<Int32Array>()),
        ),
        (
            "b",
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
        ),
        (
            "x",
            Arc::new(rows.iter().map(|row| row.2).collect::<Int32Array>()),
        ),
        (
            "y",
            Arc::new(rows.iter().map(|row| Some(row.3)).collect::<Int32Array>()),
        ),
    ];
    stored(columns)
}

/// Stores nullable columns as a table.
pub(super) fn stored<const N: usize>(columns: [(&str, ArrayRef); N]) -> (tempfile::TempDir, Table) {
    let directory = tempfile::tempdir().expect("a folder");
    let pool = Pool::create(directory.path().join("p"), &PoolOptions::default()).expect("a pool");
    let nullable = columns.map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).expect("a batch");
    let txn = pool.begin().expect("a transaction");
    let mut writer = TableWriter::new(&txn, "t", batch.schema(), TableOptions::default()).expect("a writer");
    writer.write(&batch).expect("written");
    writer.finish().expect("finished");
    txn.commit().expect("committed");
    let table = Table::open(&pool.snapshot().expect("a snapshot"), "t").expect("a table");
    (directory, table)
}

fn dimension_of(rows: &BTreeMap<i64, u32>) -> Arc<Dimension> {
    let mut builder = DimensionBuilder::default();
    rows.iter().for_each(|(key, group)| builder.push(&[*key], *group));
    Arc::new(builder.finish().expect("unique keys"))
}

/// Sum, count, least and greatest of `x * y` at 32 bits, and the count of rows, by group.
type Answer = BTreeMap<u32, (u64, Option<i128>, u64, Option<i128>, Option<i128>)>;

fn brute_force(rows: &[Row], first: &BTreeMap<i64, u32>, second: &BTreeMap<i64, u32>, stride: u32) -> Answer {
    let mut answer = Answer::new();
    for (a, b, x, y) in rows {
        let (Some(left), Some(right)) = (a.and_then(|a| first.get(&i64::from(a))), second.get(b)) else {
            continue;
        };
        let state = answer.entry(left + right * stride).or_default();
        state.0 += 1;
        if let Some(x) = x {
            let product = i128::from(i64::from(*x) * i64::from(*y));
            state.1 = Some(state.1.unwrap_or(0) + product);
            state.2 += 1;
            state.3 = Some(state.3.map_or(product, |least| least.min(product)));
            state.4 = Some(state.4.map_or(product, |most| most.max(product)));
        }
    }
    answer
}

/// Products of two numbers of 32 bits fit 64.
fn product(function: Function) -> Aggregate {
    product_of(Width::W64, function)
}

fn product_of(width: Width, function: Function) -> Aggregate {
    let (x, y) = (Box::new(Measure::Column(0)), Box::new(Measure::Column(1)));
    Aggregate {
        function,
        measure: Measure::Multiply(width, x, y),
        filter: None,
    }
}

fn join_of(first: &Arc<Dimension>, second: &Arc<Dimension>) -> StarJoin {
    join_in(Width::W64, first, second)
}

fn join_in(width: Width, first: &Arc<Dimension>, second: &Arc<Dimension>) -> StarJoin {
    let probe = |column, dimension: &Arc<Dimension>| Probe {
        columns: vec![column],
        dimension: Arc::clone(dimension),
    };
    let functions = [Function::Sum, Function::Count, Function::Min, Function::Max];
    StarJoin::new(
        vec![probe(0, first), probe(1, second)],
        vec![MeasureSource::Fact(2), MeasureSource::Fact(3)],
        functions.map(|function| product_of(width, function)).to_vec(),
    )
    .expect("few groups")
}

#[test]
fn answers_are_the_same_with_read_ahead() {
    let rows: Vec<Row> = (0..5_000)
        .map(|row| (Some(row % 31), i64::from(row % 3), Some(row % 7), row % 11))
        .collect();
    let (_directory, table) = table_of(&rows);
    let (first, second) = (
        BTreeMap::from([(3, 0), (4, 1), (30, 2)]),
        BTreeMap::from([(0, 0), (2, 1)]),
    );
    let join = join_of(&dimension_of(&first), &dimension_of(&second));
    let ahead = join.clone().with_read_ahead(vec![0, 1, 2, 3]);
    let expected = brute_force(&rows, &first, &second, 3);
    for threads in [1, 3] {
        assert_eq!(answer_of(&join, &table, threads).0, expected);
        assert_eq!(answer_of(&ahead, &table, threads).0, expected);
    }
}

fn answer_of(join: &StarJoin, table: &Table, threads: usize) -> (Answer, StarStats) {
    answer_with(join, table, &[], threads)
}

/// Converts rows that are in no segment to decoded rows.
fn decoded(rows: &[Row]) -> DecodedRows {
    let values = |of: fn(&Row) -> Option<i64>| {
        let values: Vec<Option<i64>> = rows.iter().map(of).collect();
        let valid: Vec<bool> = values.iter().map(Option::is_some).collect();
        let all = valid.iter().all(|valid| *valid);
        let values = values.into_iter().map(Option::unwrap_or_default).collect();
        MeasureValues::new(values, if all { vec![] } else { valid })
    };
    DecodedRows {
        rows: rows.len(),
        keys: vec![
            vec![values(|row| row.0.map(i64::from))],
            vec![values(|row| Some(row.1))],
        ],
        measured: vec![
            values(|row| row.2.map(i64::from)),
            values(|row| Some(row.3.into())),
        ],
        groups: vec![],
        filters: vec![],
    }
}

fn answer_with(join: &StarJoin, table: &Table, added: &[DecodedRows], threads: usize) -> (Answer, StarStats) {
    let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> = table
        .segments()
        .iter()
        .inspect(|segment| assert!(join.can_read(segment)))
        .map(|segment| (segment, vec![]))
        .collect();
    let (groups, stats) = join
        .run(&segments, added, threads, &AtomicBool::new(false))
        .expect("joined");
    let groups = groups.all();
    let with_rows = groups.numbers().iter().enumerate();
    let answer = with_rows.map(|(group, number)| {
        let value = |aggregate| groups.value(group, aggregate);
        let counted = groups.count(group, 1);
        (
            *number as u32,
            (groups.rows(group), value(0), counted, value(2), value(3)),
        )
    });
    (answer.collect(), stats)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![Just(None), (-5..40_i32).prop_map(Some)];
    let measure = prop_oneof![Just(None), any::<i32>().prop_map(Some), (0..9_i32).prop_map(Some)];
    proptest::collection::vec((key, -3..3_i64, measure, any::<i32>()), 1..3000)
}

fn keys() -> impl Strategy<Value = BTreeMap<i64, u32>> {
    proptest::collection::btree_map(-9..45_i64, 0..6_u32, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn as_a_nested_loop(rows in rows(), first in keys(), second in keys(), far in any::<bool>(), threads in 1..4_usize, added in 0..99_usize) {
        // With keys far away the second dimension is hashed.
        let mut second = second;
        if far {
            second.extend([(1 << 40, 0), (-1 << 40, 0)]);
        }
        // Some rows are in no segment.
        let (stored, added) = rows.split_at(rows.len() - added.min(rows.len() - 1));
        let (_directory, table) = table_of(stored);
        let added: Vec<DecodedRows> = added.chunks(50).map(decoded).collect();
        let (left, right) = (dimension_of(&first), dimension_of(&second));
        prop_assert_eq!(right.is_dense(), !far);
        let stride = left.groups().max(1);
        let (answer, stats) = answer_with(&join_of(&left, &right), &table, &added, threads);
        prop_assert_eq!(&answer, &brute_force(&rows, &first, &second, stride));
        let joined: u64 = answer.values().map(|state| state.0).sum();
        prop_assert!(stats.passed.last().is_none_or(|passed| *passed == joined));
        // Unchecked where the caller knows that nothing overflows; in 32 bits an error if and only if
        // something does.
        let (unchecked, _) = answer_with(&join_in(Width::Fits, &left, &right), &table, &added, threads);
        prop_assert_eq!(&unchecked, &answer);
        let segments: Vec<_> = table.segments().iter().map(|segment| (segment, vec![])).collect();
        let narrow = join_in(Width::W32, &left, &right).run(&segments, &added, threads, &AtomicBool::new(false));
        let ends = answer.values().flat_map(|state| [state.3, state.4]).flatten();
        let fits = ends.into_iter().all(|end| i32::try_from(end).is_ok());
        prop_assert_eq!(narrow.is_ok(), fits);
        if let Err(error) = narrow {
            prop_assert!(matches!(error, JoinError::Overflow { .. }), "{}", error);
        }
    }
}

#[test]
fn many_chunks_and_threads() {
    let rows: Vec<Row> = (0..200_000)
        .map(|i: i32| (Some(i / 1000 % 50), i64::from(i % 7), Some(i % 100), i % 11))
        .collect();
    let (_directory, table) = table_of(&rows);
    // The first key is clustered: some chunks are not looked at.
    let first = BTreeMap::from([(20, 0), (21, 3), (22, 1)]);
    let second = (0..5).map(|key| (key, key as u32 % 2)).collect();
    let join = join_of(&dimension_of(&first), &dimension_of(&second));
    let wanted = brute_force(&rows, &first, &second, 4);
    for threads in [1, 2, 5] {
        let (answer, stats) = answer_of(&join, &table, threads);
        assert_eq!(answer, wanted);
        assert!(
            stats.selected < stats.rows && stats.passed[0] < 30_000,
            "{stats:?}"
        );
        let stored: u64 = table.segments()[0]
            .columns()
            .iter()
            .map(|column| column.stored_bytes())
            .sum();
        assert!((1..stored).contains(&stats.bytes), "{stats:?} of {stored} bytes");
        assert!(stats.units >= stats.bytes / 64, "{stats:?}");
    }
}

#[test]
fn blocks_without_rows_left_do_not_count_as_read() {
    let rows: Vec<Row> = (0..200_000)
        .map(|i: i32| {
            (
                Some(i.wrapping_mul(7919) % 60_000),
                i64::from(i % 7),
                Some(i % 100),
                i % 11,
            )
        })
        .collect();
    let (_directory, table) = table_of(&rows);
    let first = BTreeMap::from([(20, 0)]);
    // From the least to the most: the range of keys is no condition.
    let second = [0, 2, 3, 6].map(|key| (key, 0)).into();
    let join = join_of(&dimension_of(&first), &dimension_of(&second));
    let (answer, stats) = answer_of(&join, &table, 2);
    assert_eq!(answer, brute_force(&rows, &first, &second, 1));
    assert!((1..9).contains(&stats.passed[0]), "{stats:?}");
    let stored = table.segments()[0]
        .columns()
        .iter()
        .map(|column| column.stored_bytes());
    let (first, others) = (stored.clone().next().unwrap(), stored.skip(1).sum::<u64>());
    // A few blocks of some 196.
    assert!(
        (1..first + others / 10).contains(&stats.bytes),
        "{stats:?} of {first} and {others} bytes"
    );
}

#[test]
fn what_is_only_looked_for_may_come_twice() {
    let rows: Vec<Row> = (0..100).map(|i| (Some(i % 10), 1, Some(i), 1)).collect();
    let (_directory, table) = table_of(&rows);
    for far in [0, 1 << 40] {
        let mut builder = DimensionBuilder::default().existence();
        for (key, group) in [(3, 5), (4, 0), (3, 6), (far + 4, 1), (4, 0)] {
            builder.push(&[key], group);
        }
        let dimension = Arc::new(builder.finish().expect("duplicates are allowed"));
        assert_eq!((dimension.groups(), dimension.is_dense()), (1, far == 0));
        let all = dimension_of(&BTreeMap::from([(1, 0)]));
        let (answer, _) = answer_of(&join_of(&dimension, &all), &table, 1);
        assert_eq!(answer[&0].0, 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Keys of two columns, and of one with large codes.
    #[test]
    fn wide_keys(rows in rows(), keys in proptest::collection::btree_map((-9..45_i64, -4..4_i64), 0..6_u32, 0..90),
                 far in prop_oneof![Just(1), Just(1_i64 << 33), Just(1_i64 << 50)], added in 0..99_usize) {
        let rows: Vec<Row> = rows.into_iter().map(|(a, b, x, y)| (a, b * far, x, y)).collect();
        let (stored, added) = rows.split_at(rows.len() - added.min(rows.len() - 1));
        let (_directory, table) = table_of(stored);
        let (mut pairs, mut single) = (DimensionBuilder::new(2), DimensionBuilder::default());
        keys.iter().for_each(|((a, b), group)| pairs.push(&[*a, b * far], *group));
        (-2..3).for_each(|b| single.push(&[b * far], (b & 1) as u32));
        let (pairs, single) = (pairs.finish().expect("unique"), Arc::new(single.finish().expect("unique")));
        prop_assert!(pairs.columns() == 2 && single.groups() == 2);
        let stride = pairs.groups().max(1);
        let join = StarJoin::new(
            vec![
                Probe { columns: vec![0, 1], dimension: Arc::new(pairs) },
                Probe { columns: vec![1], dimension: single },
            ],
            vec![MeasureSource::Fact(2), MeasureSource::Fact(3)],
            vec![product(Function::Sum)],
        )
        .expect("few groups");
        let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
        for (a, b, ..) in &rows {
            let pair = a.and_then(|a| keys.get(&(a.into(), b / far)));
            if let (Some(group), -2..3) = (pair, b / far) {
                *wanted.entry(group + ((b / far) & 1) as u32 * stride).or_default() += 1;
            }
        }
        let added: Vec<DecodedRows> = added.chunks(50).map(decoded).map(|mut rows| {
            rows.keys[0] = rows.keys.iter().flatten().cloned().collect();
            rows
        }).collect();
        let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> =
            table.segments().iter().map(|segment| (segment, vec![])).collect();
        let (groups, _) = join.run(&segments, &added, 2, &AtomicBool::new(false)).expect("joined");
        let groups = groups.all();
        let found = groups.numbers().iter().enumerate();
        let found: BTreeMap<u32, u64> = found.map(|(at, group)| (*group as u32, groups.rows(at))).collect();
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn nothing_to_join() {
    let (_directory, table) = table_of(&[(Some(1), 1, Some(1), 1)]);
    let none = dimension_of(&BTreeMap::new());
    let all = dimension_of(&BTreeMap::from([(1, 0)]));
    assert_eq!(answer_of(&join_of(&none, &all), &table, 2).0, Answer::new());
    let (answer, _) = answer_of(&join_of(&all, &all), &table, 2);
    assert_eq!(answer, Answer::from([(0, (1, Some(1), 1, Some(1), Some(1)))]));
}

#[test]
fn it_can_be_interrupted_and_refuses_too_many_groups() {
    let (_directory, table) = table_of(&[(Some(1), 1, Some(1), 1)]);
    let all = dimension_of(&BTreeMap::from([(1, 0)]));
    let segments = [(&table.segments()[0], vec![])];
    let ended = join_of(&all, &all).run(&segments, &[], 1, &AtomicBool::new(true));
    assert!(matches!(ended, Err(JoinError::Interrupted)));
    let many = dimension_of(&(0..2000).map(|key| (key, key as u32)).collect());
    let probe = |column| Probe {
        columns: vec![column],
        dimension: Arc::clone(&many),
    };
    let error = StarJoin::new(vec![probe(0), probe(1), probe(0)], vec![], vec![]).expect_err("too many");
    assert!(matches!(error, JoinError::TooManyGroups { .. }), "{error}");
}

#[test]
fn probes_go_by_what_rows_tell() {
    // All keys of `a` are in their dimension, though its keys fill a thousandth of what lies between them; of
    // those of `b`, which fill it, one in five is.
    let rows: Vec<Row> = (0..50_000)
        .map(|row| {
            (
                Some(row * 7 % 100 * 1000),
                i64::from(row * 11 % 1000),
                Some(row),
                1,
            )
        })
        .collect();
    let (_directory, table) = table_of(&rows);
    let all: BTreeMap<i64, u32> = (0..100).map(|key| (key * 1000, 0)).collect();
    let few: BTreeMap<i64, u32> = (0..200).map(|key| (key * 5, key as u32 % 3)).collect();
    let (answer, stats) = answer_of(&join_of(&dimension_of(&all), &dimension_of(&few)), &table, 2);
    assert_eq!(answer, brute_force(&rows, &all, &few, 1));
    assert_eq!(stats.order, [1, 0]);
    assert_eq!(stats.passed, [10_000, 10_000]);
}

#[test]
fn keys_far_between_are_looked_up_roughly_first() {
    let hash = |row: u32, most: u32| row.wrapping_mul(0x9E37_79B9).rotate_left(13) % most;
    let rows: Vec<Row> = (0..70_000)
        .map(|row| {
            let key = (row % 41 > 0).then(|| hash(row, 400_000) as i32);
            (key, i64::from(hash(row, 9)), Some(row as i32 % 50), 2)
        })
        .collect();
    let (_directory, table) = table_of(&rows);
    // One of 50 keys; the bits of 397,000 take more than twice what is quickly looked up, so that 4 share
    // one.
    let far: BTreeMap<i64, u32> = (0..7_900).map(|key| (3_000 + key * 50, key as u32 % 3)).collect();
    let all = (0..9).map(|key| (key, key as u32 % 2)).collect();
    let dimension = dimension_of(&far);
    let super::dimension::KeyLookup::DenseKeys(dense) = &dimension.keys else {
        panic!("hashed")
    };
    assert_eq!(dense.rough.as_ref().map(|rough| rough.shift()), Some(2));
    let wanted = brute_force(&rows, &far, &all, 3);
    for threads in [1, 3] {
        let (answer, stats) = answer_of(&join_of(&dimension, &dimension_of(&all)), &table, threads);
        assert_eq!(answer, wanted);
        let in_far = rows
            .iter()
            .filter_map(|row| row.0)
            .filter(|key| far.contains_key(&i64::from(*key)));
        assert_eq!((stats.order[0], stats.passed[0]), (0, in_far.count() as u64));
    }
}

#[test]
fn few_rows_of_many_stripes_are_probed_together() {
    let hash = |row: u32, most: u32| row.wrapping_mul(0x9E37_79B9).rotate_left(13) % most;
    // Runs of some rows; in some stretches many rows are left, in others few or none, so that rows wait for
    // more, or do not.
    let rows: Vec<Row> = (0..300_000)
        .map(|row| {
            let key = match row / 20_000 % 4 {
                0 => hash(row / 5, 40),
                1 => 5_000,
                _ => hash(row / 5, 9_000),
            };
            (
                Some(key as i32),
                i64::from(hash(row, 500)),
                Some(row as i32 % 50),
                2,
            )
        })
        .collect();
    let (_directory, table) = table_of(&rows);
    let first: BTreeMap<i64, u32> = (0..30).map(|key| (key, key as u32 % 3)).collect();
    for share in [2, 100] {
        let second = (0..500 / share)
            .map(|key| (key * share, key as u32 % 4))
            .collect();
        let join = join_of(&dimension_of(&first), &dimension_of(&second));
        let wanted = brute_force(&rows, &first, &second, 3);
        for threads in [1, 2] {
            let (answer, stats) = answer_of(&join, &table, threads);
            assert_eq!(answer, wanted, "one of {share}");
            let joined: u64 = answer.values().map(|state| state.0).sum();
            assert_eq!(stats.passed.last(), Some(&joined));
        }
    }
}
