//! Forecasts of indexes against the indexes as built.

use halocline_elf::{BuildOptions, CodePredicate, DimensionTest, Elf, Forecast, SampledColumn, build_vec};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

use crate::common::{Data, answer};

/// The tables: name, rows in row-major order, largest codes.
fn tables(rows: usize, seed: u64) -> Vec<(&'static str, Data)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut of = |max: Vec<u64>, row: &mut dyn FnMut(&mut StdRng, usize) -> Vec<u64>| {
        let codes: Vec<u64> = (0..rows).flat_map(|at| row(&mut rng, at)).collect();
        Data {
            dims: max.len(),
            rows,
            max,
            codes,
        }
    };
    // A code that is twice as rare as the one before it.
    let skewed = |rng: &mut StdRng, max: u64| (rng.random::<f64>().powi(4) * max as f64) as u64;
    vec![
        (
            "few values",
            of(vec![9, 49, 10], &mut |rng, _| {
                vec![
                    rng.random_range(0..10),
                    rng.random_range(0..50),
                    rng.random_range(0..11),
                ]
            }),
        ),
        (
            "many values",
            of(vec![9_999, 199, 2_555], &mut |rng, _| {
                vec![
                    rng.random_range(0..10_000),
                    rng.random_range(0..200),
                    rng.random_range(0..2_556),
                ]
            }),
        ),
        (
            "unique",
            of(vec![rows as u64 - 1, 99], &mut |rng, at| {
                vec![(at as u64 * 7_919) % rows as u64, rng.random_range(0..100)]
            }),
        ),
        (
            "skewed",
            of(vec![4_999, 9_999], &mut |rng, _| {
                vec![skewed(rng, 4_999), skewed(rng, 9_999)]
            }),
        ),
        (
            "correlated",
            of(vec![999, 999_999, 9], &mut |rng, _| {
                let first = rng.random_range(0..1_000);
                vec![
                    first,
                    first * 1_000 + rng.random_range(0..3),
                    rng.random_range(0..10),
                ]
            }),
        ),
        (
            "sparse codes",
            of(vec![1 << 40, 1 << 20], &mut |rng, _| {
                vec![
                    rng.random_range(0..300_u64) << 31,
                    rng.random_range(0..1_000_u64) << 10,
                ]
            }),
        ),
        (
            "one column",
            of(vec![2_555], &mut |rng, _| vec![rng.random_range(0..2_556)]),
        ),
        (
            "five columns",
            of(vec![10, 49, 2_555, 2_999, 999], &mut |rng, _| {
                vec![
                    rng.random_range(0..11),
                    rng.random_range(0..50),
                    rng.random_range(0..2_556),
                    rng.random_range(0..3_000),
                    rng.random_range(0..1_000),
                ]
            }),
        ),
    ]
}

/// A random one in `step` of the rows, ascending.
fn sampled_rows(rows: usize, step: usize, rng: &mut StdRng) -> Vec<usize> {
    let mut sampled = rand::seq::index::sample(rng, rows, rows / step).into_vec();
    sampled.sort_unstable();
    sampled
}

fn distinct(data: &Data, dim: usize) -> u64 {
    let mut codes: Vec<u64> = (0..data.rows).map(|row| data.code(row, dim)).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.len() as u64
}

fn sample(data: &Data, rows: &[usize]) -> Vec<SampledColumn> {
    let column = |dim: usize| {
        let codes: Vec<u64> = rows.iter().map(|row| data.code(*row, dim)).collect();
        SampledColumn::new(data.max[dim], distinct(data, dim), &codes)
    };
    (0..data.dims).map(column).collect()
}

fn forecast(data: &Data, columns: &[SampledColumn]) -> Forecast {
    Forecast::new(data.rows as u64, &columns.iter().collect::<Vec<_>>()).unwrap()
}

fn built(data: &Data) -> Vec<u8> {
    build_vec(data, &BuildOptions::default()).unwrap()
}

fn ratio(found: f64, expected: f64) -> f64 {
    found.max(expected) / found.min(expected)
}

#[test]
fn sizes_are_those_of_the_build_if_all_rows_are_sampled() {
    for rows in [0, 1, 50, 3_000, 40_000] {
        for (name, data) in tables(rows.max(1), 3) {
            let data = if rows == 0 {
                Data {
                    rows: 0,
                    codes: vec![],
                    ..data
                }
            } else {
                data
            };
            for data in [data.clone(), data.sorted()] {
                let all: Vec<usize> = (0..data.rows).collect();
                let forecast = forecast(&data, &sample(&data, &all));
                let bytes = built(&data).len() as f64;
                assert!(
                    ratio(forecast.bytes() as f64, bytes) < 1.03,
                    "{name}, {rows} rows: {} for {bytes}",
                    forecast.bytes()
                );
            }
        }
    }
}

#[test]
fn sizes_from_a_sample_are_within_a_quarter() {
    let seed = 11;
    let mut rng = StdRng::seed_from_u64(seed);
    for (name, data) in tables(150_000, seed) {
        for (is_sorted, data) in [(false, data.clone()), (true, data.sorted())] {
            // Without TIDs, most bytes are those of lists, whose number a small sample tells worse.
            let most = if is_sorted { 1.6 } else { 1.25 };
            for step in [4, 30] {
                let rows = sampled_rows(data.rows, step, &mut rng);
                let forecast = forecast(&data, &sample(&data, &rows));
                let bytes = built(&data).len() as f64;
                assert!(
                    ratio(forecast.bytes() as f64, bytes) < most,
                    "seed {seed}, {name}, one of {step}: {} for {bytes}",
                    forecast.bytes()
                );
            }
        }
    }
}

fn random_predicates(data: &Data, rng: &mut StdRng) -> Vec<CodePredicate> {
    let predicate = |dim: usize| {
        let code = data.code(rng.random_range(0..data.rows), dim);
        match rng.random_range(0..4) {
            0 => CodePredicate::Any,
            1 => CodePredicate::equal(code),
            2 => CodePredicate::range(code, code.saturating_add(data.max[dim] / 5)),
            _ => CodePredicate::range(code, data.max[dim]),
        }
    };
    (0..data.dims).map(predicate).collect()
}

#[test]
fn selections_are_estimated_as_the_index_would() {
    let seed = 5;
    let mut rng = StdRng::seed_from_u64(seed);
    for (name, data) in tables(60_000, seed) {
        let bytes = built(&data);
        let elf = Elf::open(Arc::new(bytes)).unwrap();
        for step in [1, 8] {
            let rows = sampled_rows(data.rows, step, &mut rng);
            let columns = sample(&data, &rows);
            let forecast = forecast(&data, &columns);
            for number in 0..40 {
                let predicates = random_predicates(&data, &mut rng);
                let passes: Vec<Vec<bool>> = (0..data.dims)
                    .map(|dim| {
                        let mut passes = vec![false; columns[dim].ranks()];
                        for (row, rank) in rows.iter().zip(columns[dim].rank_of_rows()) {
                            passes[*rank as usize] = predicates[dim].matches(data.code(*row, dim));
                        }
                        passes
                    })
                    .collect();
                let share = |dim: usize| {
                    let matches = |row: &usize| predicates[dim].matches(data.code(*row, dim));
                    (0..data.rows).filter(matches).count() as f64 / data.rows as f64
                };
                let tests: Vec<Option<DimensionTest<'_>>> = (0..data.dims)
                    .map(|dim| {
                        (predicates[dim] != CodePredicate::Any).then(|| DimensionTest {
                            passes: &passes[dim],
                            share: share(dim),
                        })
                    })
                    .collect();
                let found = forecast.estimate(&tests);
                let matching = answer(&data, &predicates).len() as f64;
                let say = format!("seed {seed}, {name}, one of {step}, {number}: {predicates:?}: {found:?}");
                match step {
                    1 => assert_eq!(found.rows.round(), matching, "{say}"),
                    // Within what a sample can tell.
                    _ => assert!(
                        (found.rows - matching).abs() < 0.1 * matching + 30.0 * step as f64,
                        "{say} for {matching}"
                    ),
                }
                let estimate = elf.estimate(&predicates).unwrap();
                assert!(
                    ratio(found.lists + 150.0, estimate.lists + 150.0) < 2.5,
                    "{say} for {estimate:?}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_planned_is_none() {
    let column = SampledColumn::new(9, 10, &[1, 2, 3]);
    assert!(Forecast::new(3, &[]).is_none());
    // More sampled rows than rows, no sample of some rows, and columns of different samples.
    assert!(Forecast::new(2, &[&column]).is_none());
    assert!(Forecast::new(2, &[&SampledColumn::new(9, 10, &[])]).is_none());
    assert!(Forecast::new(9, &[&column, &SampledColumn::new(9, 10, &[1])]).is_none());
    // Tuples of more than 128 bits.
    let wide: Vec<u64> = (0..1 << 16).collect();
    let wide = SampledColumn::new(1 << 20, 1 << 20, &wide);
    assert!(Forecast::new(1 << 20, &[&wide; 9]).is_none());
    assert!(Forecast::new(1 << 20, &[&wide; 7]).is_some());
}
