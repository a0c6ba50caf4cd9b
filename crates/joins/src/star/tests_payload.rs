//! Measures over columns of dimensions, beside a nested loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int32Array, StringArray};
use halocline_columns::{CodePredicate, Segment};
use proptest::prelude::*;

use super::tests::{Row, stored, table_of};
use super::*;

/// A row of a dimension: its group and its payload, an integer and a float.
type Record = (u32, Option<i64>, f64);

/// Sums by group: rows, `x * p` (32-bit values), the least `p`, and `q`, of which the payload is `(p, q)`.
type Answer = BTreeMap<u32, (u64, Option<i128>, Option<i128>, f64)>;

fn dimension(columns: usize, rows: &BTreeMap<Vec<i64>, Record>) -> Dimension {
    built(DimensionBuilder::new(columns), rows)
}

fn built(builder: DimensionBuilder, rows: &BTreeMap<Vec<i64>, Record>) -> Dimension {
    let mut builder = builder.payload(2);
    let rows = Vec::from_iter(rows);
    // Several calls: the first without a NULL or a group.
    for rows in rows.chunks(7) {
        let keys = Vec::from_iter(rows.iter().flat_map(|(key, _)| key.iter().copied()));
        let groups = Vec::from_iter(rows.iter().map(|(_, (group, ..))| *group));
        let has_null = rows.iter().any(|(_, (_, integer, _))| integer.is_none());
        let valid = rows.iter().map(|(_, (_, integer, _))| integer.is_some());
        let integers = MeasureValues::new(
            rows.iter()
                .map(|(_, (_, integer, _))| integer.unwrap_or(9))
                .collect(),
            if has_null { valid.collect() } else { vec![] },
        );
        let floats = MeasureValues::of_floats(rows.iter().map(|(_, (_, _, float))| *float), vec![]);
        builder.extend(keys, &groups, vec![integers, floats]);
    }
    builder.finish().expect("unique keys")
}

fn join(columns: Vec<usize>, dimension: Dimension) -> StarJoin {
    let of = |column| MeasureSource::Dimension { probe: 0, column };
    let aggregate = |function, measure| Aggregate {
        function,
        measure,
        filter: None,
    };
    let product = Measure::Multiply(
        Width::W64,
        Box::new(Measure::Column(1)),
        Box::new(Measure::Column(0)),
    );
    StarJoin::new(
        vec![Probe {
            columns,
            dimension: Arc::new(dimension),
        }],
        vec![of(0), MeasureSource::Fact(2), of(1)],
        vec![
            aggregate(Function::Sum, product),
            aggregate(Function::Min, Measure::Column(0)),
            aggregate(Function::Sum, Measure::FloatColumn(2)),
        ],
    )
    .expect("few groups")
}

fn brute_force(
    rows: &[Row],
    rows_of: &BTreeMap<Vec<i64>, Record>,
    key: impl Fn(&Row) -> Option<Vec<i64>>,
) -> Answer {
    let mut answer = Answer::new();
    for row in rows {
        let Some((group, integer, float)) = key(row).and_then(|key| rows_of.get(&key)) else {
            continue;
        };
        let state = answer.entry(*group).or_default();
        state.0 += 1;
        if let (Some(x), Some(p)) = (row.2, integer) {
            state.1 = Some(state.1.unwrap_or(0) + i128::from(x) * i128::from(*p));
        }
        if let Some(p) = integer.map(i128::from) {
            state.2 = Some(state.2.map_or(p, |least| least.min(p)));
        }
        state.3 += float;
    }
    answer
}

fn answer(join: &StarJoin, rows: &[Row], added: usize, columns: &[usize]) -> Answer {
    let (stored, added) = rows.split_at(rows.len() - added.min(rows.len() - 1));
    let (_directory, table) = table_of(stored);
    let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> =
        table.segments().iter().map(|segment| (segment, vec![])).collect();
    assert!(segments.iter().all(|(segment, _)| join.can_read(segment)));
    let values = |of: &dyn Fn(&Row) -> Option<i64>| {
        let values = added.iter().map(|row| of(row).unwrap_or(5)).collect();
        MeasureValues::new(values, added.iter().map(|row| of(row).is_some()).collect())
    };
    let keys = columns.iter().map(|column| match column {
        0 => values(&|row| row.0.map(i64::from)),
        _ => values(&|row| Some(row.1)),
    });
    let decoded = DecodedRows {
        rows: added.len(),
        keys: vec![keys.collect()],
        measured: vec![
            MeasureValues::default(),
            values(&|row| row.2.map(i64::from)),
            MeasureValues::default(),
        ],
        ..DecodedRows::default()
    };
    let run = join.run(&segments, &[decoded], 2, &AtomicBool::new(false));
    let (groups, _) = run.expect("joined");
    let groups = groups.all();
    let group = |at: usize| {
        let float = groups.float(at, 2).unwrap_or(0.0);
        (groups.rows(at), groups.value(at, 0), groups.value(at, 1), float)
    };
    let found = groups.numbers().iter().enumerate();
    found.map(|(at, number)| (*number as u32, group(at))).collect()
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let float = (-64..64_i32).prop_map(|value| f64::from(value) / 4.0);
    proptest::collection::vec((0..4_u32, proptest::option::of(-99..99_i64), float), 1..60)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        proptest::option::of(-9..45_i32),
        -4..4_i64,
        proptest::option::of(-50..50_i32),
        Just(0),
    );
    proptest::collection::vec(row, 1..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Keys of one column: dense, hashed, and with codes of more than 32 bits.
    #[test]
    fn columns_of_a_dimension_are_measured(
        rows in rows(), records in records(), far in prop_oneof![Just(1), Just(97), Just(1_i64 << 45)],
        added in 0..99_usize,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(a, b, x, y)| (a, b * far, x, y)).collect();
        let keys = |record: usize| vec![(record as i64 % 8 - 3) * far];
        let by_b: BTreeMap<Vec<i64>, Record> =
            records.iter().enumerate().map(|(at, record)| (keys(at), *record)).collect();
        let join = join(vec![1], dimension(1, &by_b));
        prop_assert_eq!(answer(&join, &rows, added, &[1]), brute_force(&rows, &by_b, |row| Some(vec![row.1])));
    }

    /// Narrow codes with NULLs, in ranges that are dense and that are not.
    #[test]
    fn narrow_keys_have_a_payload(
        rows in rows(), records in records(), gap in prop_oneof![Just(0_i64), Just(1 << 40)], added in 0..99_usize,
    ) {
        let mut by_a: BTreeMap<Vec<i64>, Record> =
            records.iter().enumerate().map(|(at, record)| (vec![at as i64 - 5], *record)).collect();
        by_a.insert(vec![100 + gap], (1, None, 1.0));
        let dimension = dimension(1, &by_a);
        prop_assert_eq!(dimension.is_dense(), gap == 0);
        let join = join(vec![0], dimension);
        let expected = brute_force(&rows, &by_a, |row| row.0.map(|a| vec![a.into()]));
        prop_assert_eq!(answer(&join, &rows, added, &[0]), expected);
    }

    /// Strings of dictionaries, with strings that only one side has.
    #[test]
    fn strings_are_keys(rows in rows(), records in records(), has_null in any::<bool>(), repeats in any::<bool>()) {
        let name = |number: i64| format!("{number:>0$}", (number.unsigned_abs() as usize % 5) * 3);
        let key = |row: &Row| (!has_null || row.1 != 2).then(|| name(row.1));
        let keys: StringArray = rows.iter().map(key).collect();
        let x: Int32Array = rows.iter().map(|row| row.2).collect();
        let columns: [(&str, ArrayRef); 2] = [("s", Arc::new(keys)), ("x", Arc::new(x))];
        let (_directory, table) = stored(columns);
        prop_assume!(table.segments().iter().all(|segment| has_string_keys(segment.column(0))));
        let names: Vec<String> = (0..records.len()).map(|at| name(at as i64 - 3)).collect();
        let bytes = || names.iter().map(|name| name.as_bytes());
        let groups = Vec::from_iter(records.iter().map(|(group, ..)| *group));
        let values = MeasureValues::of_floats(records.iter().map(|(_, _, float)| *float), vec![]);
        let (builder, source, measure) = if repeats {
            let mut builder = DimensionBuilder::of_strings().existence();
            builder.extend_strings(bytes().chain(bytes()), &[], vec![]);
            (builder, MeasureSource::Fact(1), Measure::Column(0))
        } else {
            let mut builder = DimensionBuilder::of_strings().payload(1);
            builder.extend_strings(bytes(), &groups, vec![values]);
            (builder, MeasureSource::Dimension { probe: 0, column: 0 }, Measure::FloatColumn(0))
        };
        let dimension = builder.finish().expect("keys repeat only where they may");
        prop_assert_eq!(dimension.key_of_string(names[0].as_bytes()), Some(0));
        prop_assert_eq!(dimension.key_of_string(b"none"), None);
        let probe = Probe { columns: vec![0], dimension: Arc::new(dimension) };
        let sum = Aggregate { function: Function::Sum, measure, filter: None };
        let join = StarJoin::new(vec![probe], vec![source], vec![sum]).expect("few groups");
        let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> =
            table.segments().iter().map(|segment| (segment, vec![])).collect();
        prop_assert!(segments.iter().all(|(segment, _)| join.can_read(segment)));
        let (groups, _) = join.run(&segments, &[], 2, &AtomicBool::new(false)).expect("joined");
        let groups = groups.all();
        let found = (0..groups.numbers().len()).map(|at| {
            let sum = if repeats {
                groups.value(at, 0).map_or(0.0, |sum| sum as f64)
            } else {
                groups.float(at, 0).unwrap_or(0.0)
            };
            (groups.numbers()[at] as u32, (groups.rows(at), sum))
        });
        let mut expected: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
        for row in &rows {
            let record = key(row).and_then(|key| names.iter().position(|name| *name == key));
            let Some(record) = record else { continue };
            let (group, value) = if repeats {
                (0, row.2.map_or(0.0, f64::from))
            } else {
                (records[record].0, records[record].2)
            };
            let state = expected.entry(group).or_default();
            *state = (state.0 + 1, state.1 + value);
        }
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    }

    /// Rows whose key no row of the dimension has, or is NULL, count with NULLs.
    #[test]
    fn optional_dimensions_keep_all_rows(
        rows in rows(), records in records(), gap in prop_oneof![Just(0_i64), Just(1 << 40)], added in 0..99_usize,
    ) {
        let of_record = |(at, record): (usize, &Record)| (vec![at as i64 - 5], (0, record.1, record.2));
        let mut by_a: BTreeMap<Vec<i64>, Record> = records.iter().enumerate().map(of_record).collect();
        by_a.insert(vec![100 + gap], (0, None, 1.0));
        let join = join(vec![0], built(DimensionBuilder::new(1).optional(), &by_a));
        let mut expected = brute_force(&rows, &by_a, |row| row.0.map(|a| vec![a.into()]));
        expected.entry(0).or_default().0 = rows.len() as u64;
        prop_assert_eq!(answer(&join, &rows, added, &[0]), expected);
        let pairs = by_a.iter().map(|(key, record)| (vec![key[0] * 2, 1], *record));
        let pairs: BTreeMap<Vec<i64>, Record> = pairs.collect();
        let join = self::join(vec![0, 1], built(DimensionBuilder::new(2).optional(), &pairs));
        let mut expected = brute_force(&rows, &pairs, |row| row.0.map(|a| vec![a.into(), row.1]));
        expected.entry(0).or_default().0 = rows.len() as u64;
        prop_assert_eq!(answer(&join, &rows, added, &[0, 1]), expected);
    }

    /// Keys of two columns.
    #[test]
    fn keys_of_two_columns_have_a_payload(
        rows in rows(), records in records(), far in prop_oneof![Just(1), Just(1_i64 << 33)], added in 0..99_usize,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(a, b, x, y)| (a, b * far, x, y)).collect();
        let key = |at: usize| vec![at as i64 % 11 * 4, (at as i64 / 11 - 3) * far];
        let by_pair: BTreeMap<Vec<i64>, Record> =
            records.iter().enumerate().map(|(at, record)| (key(at), *record)).collect();
        let join = join(vec![0, 1], dimension(2, &by_pair));
        let expected = brute_force(&rows, &by_pair, |row| row.0.map(|a| vec![a.into(), row.1]));
        prop_assert_eq!(answer(&join, &rows, added, &[0, 1]), expected);
    }
}
