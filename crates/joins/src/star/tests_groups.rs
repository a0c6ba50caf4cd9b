//! Grouping by columns of the fact table, beside a map.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halocline_columns::{CodePredicate, Segment, Table};
use proptest::prelude::*;

use super::tests::{Row, table_of};
use super::*;
use crate::{JoinError, JoinResult};

/// Rows, sum, count, least and greatest of `x`, sum of `y`; the last two again, of rows with a negative `y`.
type State = (u64, Option<i128>, u64, [Option<i128>; 5]);

/// States by the values of `a` and `b`.
type Answer = BTreeMap<(Option<i64>, i64), State>;

fn brute_force(rows: &[Row], keep: impl Fn(&Row) -> bool) -> Answer {
    let mut answer = Answer::new();
    for row in rows.iter().filter(|row| keep(row)) {
        let state = answer.entry((row.0.map(i64::from), row.1)).or_default();
        state.0 += 1;
        if let Some(x) = row.2.map(i128::from) {
            state.1 = Some(state.1.unwrap_or(0) + x);
            state.2 += 1;
            state.3[0] = Some(state.3[0].map_or(x, |least| least.min(x)));
            state.3[1] = Some(state.3[1].map_or(x, |most| most.max(x)));
            if row.3 < 0 {
                state.3[3] = Some(state.3[3].map_or(x, |most| most.max(x)));
            }
        }
        state.3[2] = Some(state.3[2].unwrap_or(0) + i128::from(row.3));
        if row.3 < 0 {
            state.3[4] = Some(state.3[4].unwrap_or(0) + i128::from(row.3));
        }
    }
    answer
}

/// The values of a column and their numbers: its NULL is 0.
struct Domain {
    low: i64,
    group: GroupColumn,
}

impl Domain {
    fn new(
        column: usize,
        tables: &[Table],
        value: fn(&Row) -> Option<i64>,
        rows: &[Row],
        listed: bool,
    ) -> Self {
        let values = || rows.iter().filter_map(value);
        let (low, high) = values().min().zip(values().max()).unwrap_or((0, 0));
        let codes = tables.iter().map(|table| {
            let space = table.segments()[0].column(column).code_space().expect("numbers");
            let base = space.integer_base().expect("whole numbers");
            let shift = base.wrapping_sub(low) as u64;
            let shift = shift.wrapping_add(1);
            if listed {
                let number = |code: u64| match (code, space.has_null()) {
                    (0, true) => 0,
                    _ => code.wrapping_add(shift) as u32,
                };
                GroupCodes::Listed((0..=space.max_code()).map(number).collect())
            } else {
                GroupCodes::Shifted {
                    shift,
                    has_null: space.has_null(),
                }
            }
        });
        Domain {
            low,
            group: GroupColumn {
                column,
                size: (high.wrapping_sub(low) as u64) + 2,
                codes: codes.collect(),
            },
        }
    }

    fn number(&self, value: Option<i64>) -> u64 {
        value.map_or(0, |value| value.wrapping_sub(self.low) as u64 + 1)
    }

    fn value(&self, number: u64) -> Option<i64> {
        let above = number.checked_sub(1)?;
        Some(self.low.wrapping_add(above as i64))
    }
}

fn aggregates() -> Vec<Aggregate> {
    let of = |function, column| Aggregate {
        function,
        measure: Measure::Column(column),
        filter: None,
    };
    vec![
        of(Function::Sum, 0),
        of(Function::Count, 0),
        of(Function::Min, 0),
        of(Function::Max, 0),
        of(Function::Sum, 1),
        Aggregate {
            filter: Some(0),
            ..of(Function::Max, 0)
        },
        Aggregate {
            filter: Some(0),
            ..of(Function::Sum, 1)
        },
    ]
}

struct Fixture {
    rows: Vec<Row>,
    _directories: Vec<tempfile::TempDir>,
    tables: Vec<Table>,
    decoded: Vec<Row>,
    domains: [Domain; 2],
}

impl Fixture {
    /// Splits rows into two segments and decoded rows.
    fn new(rows: Vec<Row>, listed: bool) -> Fixture {
        let (stored, decoded) = rows.split_at(rows.len() - rows.len() / 7);
        let parts = stored.split_at(stored.len() / 3);
        let parts = [parts.0, parts.1].into_iter().filter(|rows| !rows.is_empty());
        let (directories, tables): (Vec<_>, Vec<Table>) = parts.map(table_of).unzip();
        let domains = [
            Domain::new(0, &tables, |row| row.0.map(i64::from), &rows, listed),
            Domain::new(1, &tables, |row| Some(row.1), &rows, false),
        ];
        Fixture {
            decoded: decoded.to_vec(),
            rows,
            _directories: directories,
            tables,
            domains,
        }
    }

    fn join(&self) -> JoinResult<StarJoin> {
        let groups = self.domains.iter().map(|domain| domain.group.clone());
        let join = StarJoin::new(vec![], [2, 3].map(MeasureSource::Fact).to_vec(), aggregates())?;
        join.filter(vec![self.negative()]).group_by(groups.collect())
    }

    /// Returns the filter `y < 0`.
    fn negative(&self) -> AggregateFilter {
        let conditions = self.tables.iter().map(|table| {
            let space = table.segments()[0].column(3).code_space().expect("numbers");
            let base = space.integer_base().expect("numbers");
            let codes = match base {
                0.. => CodePredicate::Nothing,
                base => CodePredicate::range(0, base.unsigned_abs() - 1),
            };
            vec![(3, codes)]
        });
        AggregateFilter {
            conditions: conditions.collect(),
        }
    }

    fn added(&self, keep: impl Fn(&Row) -> bool) -> Vec<DecodedRows> {
        let kept: Vec<Row> = self.decoded.iter().copied().filter(keep).collect();
        let chunks = kept.chunks(50).map(|rows| {
            let of = |value: fn(&Row) -> Option<i64>| {
                let values: Vec<Option<i64>> = rows.iter().map(value).collect();
                let valid = values.iter().map(Option::is_some).collect();
                MeasureValues::new(values.iter().map(|value| value.unwrap_or(0)).collect(), valid)
            };
            let numbers = rows
                .iter()
                .map(|row| self.domains[0].number(row.0.map(i64::from)));
            let others = rows.iter().map(|row| self.domains[1].number(Some(row.1)));
            DecodedRows {
                rows: rows.len(),
                keys: vec![],
                measured: vec![of(|row| row.2.map(i64::from)), of(|row| Some(row.3.into()))],
                groups: vec![numbers.collect(), others.collect()],
                filters: vec![rows.iter().map(|row| row.3 < 0).collect()],
            }
        });
        chunks.collect()
    }

    /// Returns the segments with the condition that `y` is at least `least`, if that is given.
    fn segments(&self, least: Option<i32>) -> Vec<SegmentRows<'_>> {
        let segments = self.tables.iter().map(|table| {
            let segment: &Segment = &table.segments()[0];
            let space = segment.column(3).code_space().expect("numbers");
            let condition = least.map(|least| {
                let base = space.integer_base().expect("numbers");
                let code = i64::from(least).saturating_sub(base).max(0) as u64;
                (3, CodePredicate::range(code, u64::MAX))
            });
            (segment, condition.into_iter().collect())
        });
        segments.collect()
    }

    fn answer(&self, groups: &Groups, shares: usize) -> Answer {
        let mut answer = Answer::new();
        for share in 0..shares {
            let mut cursor = groups.cursor(share, shares);
            while let Some(states) = groups.next(&mut cursor, 100) {
                assert!((1..=100).contains(&states.len()));
                for (at, number) in states.numbers().iter().enumerate() {
                    let size = self.domains[0].group.size;
                    let a = self.domains[0].value(number % size);
                    let b = self.domains[1].value(number / size).expect("no NULL");
                    let value = |aggregate| states.value(at, aggregate);
                    let counted = states.count(at, 1);
                    let others = [2, 3, 4, 5, 6].map(value);
                    let state = (states.rows(at), value(0), counted, others);
                    assert!(answer.insert((a, b), state).is_none(), "a group comes twice");
                }
            }
        }
        answer
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![Just(None), (-5..40_i32).prop_map(Some)];
    let measure = prop_oneof![Just(None), any::<i32>().prop_map(Some), (0..9_i32).prop_map(Some)];
    proptest::collection::vec((key, -9..9_i64, measure, any::<i32>()), 7..4000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_a_map(
        rows in rows(),
        far in prop_oneof![Just(1), Just(4), Just(1_i64 << 20), Just(1_i64 << 45)],
        listed in any::<bool>(),
        least in prop_oneof![Just(None), any::<i32>().prop_map(Some)],
        threads in 1..4_usize,
        shares in 1..4_usize,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(a, b, x, y)| (a, b * far, x, y)).collect();
        let fixture = Fixture::new(rows, listed);
        let keep = |row: &Row| least.is_none_or(|least| row.3 >= least);
        let join = fixture.join().expect("few groups");
        let segments = fixture.segments(least);
        prop_assert!(segments.iter().all(|(segment, _)| join.can_read(segment)));
        let (groups, stats) = join
            .run(&segments, &fixture.added(keep), threads, &AtomicBool::new(false))
            .expect("aggregated");
        prop_assert_eq!(stats.selected, fixture.rows.iter().filter(|row| keep(row)).count() as u64);
        prop_assert_eq!(fixture.answer(&groups, shares), brute_force(&fixture.rows, keep));
    }
}

/// Returns rows in an order that interleaves their groups.
fn scattered(rows: u32, groups: u32, far: i64) -> Vec<Row> {
    let row = |row: u32| {
        let group = row.wrapping_mul(0x9E37_79B9) % groups;
        let x = (!row.is_multiple_of(5)).then_some(row as i32 - 1000);
        (
            (!row.is_multiple_of(3)).then_some(7),
            i64::from(group) * far,
            x,
            row as i32,
        )
    };
    (0..rows).map(row).collect()
}

#[test]
fn many_groups_are_merged_by_all_threads() {
    // Few groups, pages of an array, and hashed ones.
    for (groups, far) in [(10, 1), (30_000, 1), (30_000, 1 << 30)] {
        let fixture = Fixture::new(scattered(200_000, groups, far), false);
        let wanted = brute_force(&fixture.rows, |_| true);
        let join = fixture.join().expect("few groups");
        for threads in [1, 2, 5] {
            let (found, _) = join
                .run(
                    &fixture.segments(None),
                    &fixture.added(|_| true),
                    threads,
                    &AtomicBool::new(false),
                )
                .expect("aggregated");
            assert_eq!(fixture.answer(&found, 3), wanted);
        }
    }
}

#[test]
fn memory_is_limited() {
    for far in [1, 1 << 30] {
        let fixture = Fixture::new(scattered(100_000, 50_000, far), false);
        let join = fixture.join().expect("few groups");
        let used = AtomicUsize::new(0);
        let run = |limit: usize| {
            used.store(0, Ordering::Relaxed);
            let reserve = |bytes| used.fetch_add(bytes, Ordering::Relaxed) + bytes <= limit;
            join.run_within(
                &fixture.segments(None),
                &fixture.added(|_| true),
                2,
                &AtomicBool::new(false),
                &reserve,
            )
        };
        run(usize::MAX).expect("no limit");
        // A record has 7 words at least.
        assert!(used.load(Ordering::Relaxed) >= 50_000 * 7 * 8);
        let error = run(1 << 20).expect_err("a limit");
        assert!(matches!(error, JoinError::Memory { .. }), "{error}");
    }
}

#[test]
fn one_group_is_there_without_rows() {
    let (_directory, table) = table_of(&[(None, 1, Some(1), 1)]);
    let join = StarJoin::new(
        vec![],
        [2, 3].map(MeasureSource::Fact).to_vec(),
        aggregates()[..5].to_vec(),
    )
    .expect("one group");
    let nothing = vec![(3, CodePredicate::Nothing)];
    let segments = [(&table.segments()[0], nothing)];
    let (groups, _) = join
        .run(&segments, &[], 2, &AtomicBool::new(false))
        .expect("aggregated");
    assert!(groups.all().is_empty());
    let states = groups.whole();
    assert_eq!((states.len(), states.rows(0), states.count(0, 1)), (1, 0, 0));
    assert_eq!((states.value(0, 0), states.value(0, 2)), (None, None));
}

#[test]
fn sums_have_128_bits_where_they_must() {
    let rows: Vec<Row> = (0..5000)
        .map(|row| {
            (
                Some(row % 2),
                if row % 2 == 0 { i64::MAX } else { i64::MIN },
                None,
                1,
            )
        })
        .collect();
    let (_directory, table) = table_of(&rows);
    let sum = Aggregate {
        function: Function::Sum,
        measure: Measure::Column(0),
        filter: None,
    };
    let space = table.segments()[0].column(0).code_space().expect("numbers");
    let group = GroupColumn {
        column: 0,
        size: space.max_code() + 1,
        codes: vec![GroupCodes::Shifted {
            shift: 0,
            has_null: space.has_null(),
        }],
    };
    let segments = [(&table.segments()[0], vec![])];
    let whole = StarJoin::new(vec![], vec![MeasureSource::Fact(1)], vec![sum]).expect("one group");
    let grouped = whole.clone().group_by(vec![group]).expect("two groups");
    let of = |join: &StarJoin| {
        let (groups, _) = join
            .run(&segments, &[], 1, &AtomicBool::new(false))
            .expect("aggregated");
        let states = groups.all();
        (0..states.len())
            .filter_map(|at| states.value(at, 0))
            .collect::<Vec<i128>>()
    };
    assert_eq!(of(&whole), [-2500]);
    assert_eq!(
        of(&grouped),
        [2500 * i128::from(i64::MAX), 2500 * i128::from(i64::MIN)]
    );
}

#[test]
fn more_groups_than_64_bits_are_refused() {
    let column = |column| GroupColumn {
        column,
        size: 1 << 40,
        codes: vec![GroupCodes::Listed(Arc::new([]))],
    };
    let join = StarJoin::new(vec![], vec![], vec![]).expect("one group");
    let error = join.group_by(vec![column(0), column(1)]).expect_err("80 bits");
    assert!(matches!(error, JoinError::TooManyGroups { .. }), "{error}");
}
