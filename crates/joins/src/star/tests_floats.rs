//! Aggregates of floats beside brute force.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array};
use halocline_columns::Table;
use proptest::prelude::*;

use super::tests::stored;
use super::*;

/// A row: a group, a double, a single-precision float, an integer.
type FloatRow = (i64, Option<f64>, Option<f32>, i64);

fn table_of(rows: &[FloatRow]) -> (tempfile::TempDir, Table) {
    let group: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>());
    let double: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>());
    let single: ArrayRef = Arc::new(rows.iter().map(|row| row.2).collect::<Float32Array>());
    let integer: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.3)).collect::<Int64Array>());
    let columns = [("g", group), ("d", double), ("s", single), ("n", integer)];
    stored(columns)
}

fn decoded(rows: &[FloatRow], low: i64) -> DecodedRows {
    let valid = |of: fn(&FloatRow) -> bool| rows.iter().map(of).collect::<Vec<bool>>();
    let doubles = rows.iter().map(|row| row.1.unwrap_or(9.0));
    let singles = rows.iter().map(|row| row.2.map_or(9.0, f64::from));
    DecodedRows {
        rows: rows.len(),
        keys: vec![],
        measured: vec![
            MeasureValues::of_floats(doubles, valid(|row| row.1.is_some())),
            MeasureValues::of_floats(singles, valid(|row| row.2.is_some())),
            MeasureValues::new(rows.iter().map(|row| row.3).collect(), vec![]),
        ],
        groups: vec![rows.iter().map(|row| (row.0 - low) as u64).collect()],
        filters: vec![],
    }
}

const COLUMNS: [usize; 3] = [1, 2, 3];

/// Returns five sums of floats and two of integers, which take more than one pass, and other functions.
fn aggregates() -> Vec<Aggregate> {
    let (double, single) = (
        || Box::new(Measure::FloatColumn(0)),
        || Box::new(Measure::FloatColumn(1)),
    );
    let hundredth = || Box::new(Measure::ToFloat(2, Box::new(Measure::Column(2))));
    let half = Box::new(Measure::FloatLiteral(0.5_f64.to_bits()));
    let of = |function, measure| Aggregate {
        function,
        measure,
        filter: None,
    };
    vec![
        of(Function::Sum, *double()),
        of(Function::Sum, Measure::Column(2)),
        of(Function::Sum, *single()),
        of(Function::Sum, Measure::Multiply(Width::Float, double(), single())),
        of(Function::Sum, Measure::Add(Width::Float, hundredth(), half)),
        of(
            Function::Sum,
            Measure::Subtract(Width::Float, single(), hundredth()),
        ),
        of(
            Function::Sum,
            Measure::Paired(Box::new(Measure::Column(2)), double()),
        ),
        of(Function::Min, *double()),
        of(Function::Max, *double()),
        of(Function::Max, *single()),
        of(Function::Count, *double()),
        of(Function::Count, *single()),
    ]
}

/// The aggregates of a group: sums and extremes as floats, then counts.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    rows: u64,
    floats: [Option<f64>; 8],
    integers: [Option<i128>; 2],
    counts: [u64; 2],
}

fn brute_force(rows: &[FloatRow]) -> BTreeMap<i64, State> {
    let mut answer = BTreeMap::<i64, State>::new();
    for (group, double, single, integer) in rows {
        let state = answer.entry(*group).or_default();
        let single = single.map(f64::from);
        let hundredth = *integer as f64 / 100.0;
        state.rows += 1;
        let sums = [
            *double,
            single,
            double.zip(single).map(|(double, single)| double * single),
            Some(hundredth + 0.5),
            single.map(|single| single - hundredth),
        ];
        for (sum, value) in state.floats.iter_mut().zip(sums) {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value);
            }
        }
        let mut extreme = |at: usize, value: Option<f64>, is_less: fn(&f64, &f64) -> bool| {
            if let Some(value) = value
                && state.floats[at].is_none_or(|other| is_less(&value, &other))
            {
                state.floats[at] = Some(value);
            }
        };
        extreme(5, *double, |a, b| a.total_cmp(b).is_lt());
        extreme(6, *double, |a, b| a.total_cmp(b).is_gt());
        extreme(7, single, |a, b| a.total_cmp(b).is_gt());
        let mut add = |at: usize, value: Option<i64>| {
            if let Some(value) = value {
                state.integers[at] = Some(state.integers[at].unwrap_or(0) + i128::from(value));
            }
        };
        add(0, Some(*integer));
        add(1, double.map(|_| *integer));
        state.counts[0] += u64::from(double.is_some());
        state.counts[1] += u64::from(single.is_some());
    }
    answer
}

fn answer(groups: &Groups, of_number: impl Fn(u64) -> i64, is_grouped: bool) -> BTreeMap<i64, State> {
    let states = if is_grouped { groups.all() } else { groups.whole() };
    let positions = 0..states.len();
    let all = positions.map(|at| {
        let state = State {
            rows: states.rows(at),
            floats: [0, 2, 3, 4, 5, 7, 8, 9].map(|aggregate| states.float(at, aggregate)),
            integers: [1, 6].map(|aggregate| states.value(at, aggregate)),
            counts: [10, 11].map(|aggregate| states.count(at, aggregate)),
        };
        (of_number(states.numbers()[at]), state)
    });
    all.collect()
}

/// Compares bits: sums of these floats are exact in any order. The sign of NaN is left open.
fn assert_same(found: &BTreeMap<i64, State>, wanted: &BTreeMap<i64, State>) {
    let exact = |answer: &BTreeMap<i64, State>| -> Vec<(i64, State, [Option<u64>; 8])> {
        let of = |(group, state): (&i64, &State)| {
            let bits =
                |float: Option<f64>| float.map(|float| if float.is_nan() { 0 } else { float.to_bits() });
            let bits = state.floats.map(bits);
            let rest = State {
                floats: [None; 8],
                ..state.clone()
            };
            (*group, rest, bits)
        };
        answer.iter().map(of).collect()
    };
    assert_eq!(exact(found), exact(wanted), "{found:?} {wanted:?}");
}

/// Runs the aggregates over two segments and decoded rows.
fn check(rows: &[FloatRow], threads: usize) {
    let (stored, added) = rows.split_at(rows.len() - rows.len() / 9);
    let parts = stored.split_at(stored.len() / 3);
    let parts = [parts.0, parts.1].into_iter().filter(|rows| !rows.is_empty());
    let (_directories, tables): (Vec<_>, Vec<Table>) = parts.map(table_of).unzip();
    let low = rows.iter().map(|row| row.0).min().unwrap_or(0);
    let high = rows.iter().map(|row| row.0).max().unwrap_or(0);
    let segments: Vec<SegmentRows<'_>> = tables
        .iter()
        .map(|table| (&table.segments()[0], vec![]))
        .collect();
    let codes = segments.iter().map(|(segment, _)| {
        let space = segment.column(0).code_space().expect("numbers");
        let base = space.integer_base().expect("whole numbers");
        GroupCodes::Shifted {
            shift: base.wrapping_sub(low) as u64,
            has_null: false,
        }
    });
    let group = GroupColumn {
        column: 0,
        size: (high - low) as u64 + 1,
        codes: codes.collect(),
    };
    let added: Vec<DecodedRows> = added.chunks(50).map(|rows| decoded(rows, low)).collect();
    let whole =
        StarJoin::new(vec![], COLUMNS.map(MeasureSource::Fact).to_vec(), aggregates()).expect("one group");
    let grouped = whole.clone().group_by(vec![group]).expect("few groups");
    let run = |join: &StarJoin| {
        assert!(segments.iter().all(|(segment, _)| join.can_read(segment)));
        let run = join.run(&segments, &added, threads, &AtomicBool::new(false));
        run.expect("floats do not overflow").0
    };
    let number = |number: u64| low + number as i64;
    assert_same(&answer(&run(&grouped), number, true), &brute_force(rows));
    let all: Vec<FloatRow> = rows.iter().map(|row| (0, row.1, row.2, row.3)).collect();
    let mut wanted = brute_force(&all);
    wanted.entry(0).or_default();
    assert_same(&answer(&run(&whole), |_| 0, false), &wanted);
}

/// Generates sixteenths, of which all sums and products here are exact; seldom others, whose sums do not
/// depend on their order either.
fn doubles(special: bool) -> impl Strategy<Value = Option<f64>> {
    let sixteenths = (-4000..4000_i32).prop_map(|value| Some(f64::from(value) / 16.0));
    let positive = (0..900_i32).prop_map(|value| Some(f64::from(value) / 4.0));
    let other = if special {
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-0.0)].boxed()
    } else {
        Just(-0.0).boxed()
    };
    prop_oneof![8 => sixteenths, 8 => positive, 2 => Just(None), 1 => other.prop_map(Some)]
}

fn rows(special: bool, positive: bool, nulls: bool) -> impl Strategy<Value = Vec<FloatRow>> {
    let singles = doubles(special).prop_map(|value| value.map(|value| value as f32));
    // Quarters of a hundred, so that a hundredth of them is exact.
    let row = (
        -20..20_i64,
        doubles(special),
        singles,
        (-9..9_i64).prop_map(|value| value * 25),
    );
    let adjusted = move |(group, double, single, integer): FloatRow| {
        let double = double.map(|value| if positive { value.abs() } else { value });
        let or = |value: Option<f64>| if nulls { value } else { value.or(Some(0.25)) };
        let single = if nulls { single } else { single.or(Some(1.5)) };
        (group, or(double), single, integer)
    };
    proptest::collection::vec(row.prop_map(adjusted), 1..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn as_brute_force(
        (rows, far) in (any::<bool>(), any::<bool>(), any::<bool>()).prop_flat_map(|(special, positive, nulls)| {
            (rows(special, positive, nulls), prop_oneof![Just(1), Just(1_i64 << 18), Just(1_i64 << 45)])
        }),
        threads in 1..4_usize,
    ) {
        let rows: Vec<FloatRow> = rows.into_iter().map(|(group, a, b, c)| (group * far, a, b, c)).collect();
        check(&rows, threads);
    }
}

#[test]
fn many_groups() {
    let row = |row: u32| {
        let group = row.wrapping_mul(0x9E37_79B9) % 30_000;
        let double = f64::from(row % 1000) / 8.0;
        (
            i64::from(group),
            Some(double),
            (!row.is_multiple_of(7)).then_some(1.5),
            25,
        )
    };
    let rows: Vec<FloatRow> = (0..100_000).map(row).collect();
    for threads in [1, 3] {
        check(&rows, threads);
    }
}

#[test]
fn nothing_but_null_and_nothing_at_all() {
    check(
        &[
            (3, None, None, 25),
            (3, None, None, -25),
            (4, None, Some(-0.0), 0),
        ],
        1,
    );
    let whole =
        StarJoin::new(vec![], COLUMNS.map(MeasureSource::Fact).to_vec(), aggregates()).expect("one group");
    let (groups, _) = whole.run(&[], &[], 2, &AtomicBool::new(false)).expect("no rows");
    assert_same(
        &answer(&groups, |_| 0, false),
        &BTreeMap::from([(0, State::default())]),
    );
}

#[test]
fn measures_say_whether_a_column_has_floats() {
    let (_directory, table) = table_of(&[(1, Some(0.5), None, 1)]);
    let join = |column: usize, measure: Measure| {
        let sum = Aggregate {
            function: Function::Sum,
            measure,
            filter: None,
        };
        StarJoin::new(vec![], vec![MeasureSource::Fact(column)], vec![sum]).expect("one group")
    };
    let readable = |column, measure| join(column, measure).can_read(&table.segments()[0]);
    assert!(readable(1, Measure::FloatColumn(0)) && readable(3, Measure::Column(0)));
    assert!(!readable(1, Measure::Column(0)) && !readable(3, Measure::FloatColumn(0)));
}
