//! Measures both layouts on a uniform table: build time, size, exact match, range and partial match.
//!
//! `cargo run --release -p halocline-elf --example layouts -- [ROWS] [ROUNDS]`
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use halocline_elf::{BuildOptions, CodePredicate, Elf, Layout, Matches, Rows, build};
use halocline_media::huge::HugeVec;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Instant;

const DIMS: usize = 10;
const CODES: u64 = 100;

/// Column-major codes.
struct Table {
    rows: usize,
    columns: Vec<Vec<u8>>,
}

impl Rows for Table {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn max_code(&self, _dim: usize) -> u64 {
        CODES - 1
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        for (out, &code) in out.iter_mut().zip(&self.columns[dim][start..]) {
            *out = u64::from(code);
        }
    }
}

/// Zipfian row numbers (Gray et al., 1994), spread over the table.
fn zipf(rows: usize, theta: f64, count: usize, rng: &mut StdRng) -> Vec<usize> {
    let n = rows as f64;
    let zeta: f64 = (1..=rows).map(|i| (i as f64).powf(-theta)).sum();
    let zeta2 = 1.0 + 0.5_f64.powf(theta);
    let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta2 / zeta);
    let draw = |u: f64| match u * zeta {
        uz if uz < 1.0 => 0,
        uz if uz < zeta2 => 1,
        _ => (n * (eta * u - eta + 1.0).powf(1.0 / (1.0 - theta))) as usize,
    };
    (0..count)
        .map(|_| draw(rng.random()).min(rows - 1).wrapping_mul(2_654_435_761) % rows)
        .collect()
}

fn range(point: &[u64]) -> Vec<CodePredicate> {
    point
        .iter()
        .map(|&lo| CodePredicate::Range {
            lo,
            hi: lo + CODES / 50,
        })
        .collect()
}

fn partial(point: &[u64], dims: &[usize]) -> Vec<CodePredicate> {
    let mut predicates = vec![CodePredicate::Any; DIMS];
    for &dim in dims {
        predicates[dim] = CodePredicate::Range {
            lo: point[dim],
            hi: point[dim] + CODES / 50,
        };
    }
    predicates
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Operations per second.
fn rate(operations: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    operations as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let argument = |i, default| {
        std::env::args()
            .nth(i)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (rows, rounds) = (argument(1, 10_000_000), argument(2, 3));
    let mut rng = StdRng::seed_from_u64(7);
    let columns = (0..DIMS)
        .map(|_| (0..rows).map(|_| rng.random_range(0..CODES) as u8).collect())
        .collect();
    let table = Table { rows, columns };
    let picked = zipf(rows, 0.5, 1_000_000, &mut rng);
    let points: Vec<u64> = picked
        .iter()
        .flat_map(|&row| (0..DIMS).map(move |dim| (row, dim)))
        .map(|(row, dim)| u64::from(table.columns[dim][row]))
        .collect();

    let mut elves = vec![];
    let mut builds = vec![];
    for (layout, threads) in [(Layout::Published, 1), (Layout::Packed, 2), (Layout::Packed, 1)] {
        let options = BuildOptions {
            layout,
            threads,
            ..BuildOptions::default()
        };
        let mut times = vec![];
        let mut bytes = HugeVec::new();
        for _ in 0..rounds {
            drop(std::mem::take(&mut bytes));
            let start = Instant::now();
            build(&table, &options, None, &mut bytes).expect("a build");
            times.push(start.elapsed().as_secs_f64());
        }
        let seconds = median(times);
        println!(
            "build {layout}, {threads} threads: {seconds:.2} s, {:.1} MB",
            bytes.len() as f64 / 1e6
        );
        builds.push((seconds, bytes.len() as f64));
        if threads != 1 || layout == Layout::Published {
            elves.push(Elf::open(Arc::new(bytes)).expect("a sound index"));
        }
    }
    println!(
        "build x{:.2}, size x{:.3}",
        builds[0].0 / builds[1].0,
        builds[1].1 / builds[0].1
    );

    let mut rates: Vec<Vec<Vec<f64>>> = vec![vec![vec![]; 6]; 2];
    let names = [
        "exact",
        "exact_batch",
        "range 2 %",
        "range 2 % count",
        "partial 0,2,4,6,8",
        "partial 1,2",
    ];
    let mut checks = [[0_u64; 6]; 2];
    for _ in 0..rounds {
        for (system, elf) in elves.iter().enumerate() {
            let check = &mut checks[system];
            let points_of = |count: usize| points.chunks_exact(DIMS).take(count);
            let mut tids = vec![];
            let mut one = |queries: usize, make: &dyn Fn(&[u64]) -> Vec<CodePredicate>, sum: &mut u64| {
                *sum = 0;
                let queries: Vec<_> = points_of(queries).map(make).collect();
                rate(queries.len(), || {
                    for predicates in &queries {
                        tids.clear();
                        elf.select(predicates)
                            .expect("ten dimensions")
                            .tids_into(&mut tids)
                            .expect("a sound index");
                        *sum += tids.len() as u64;
                    }
                })
            };
            rates[system][2].push(one(50_000, &range, &mut check[2]));
            rates[system][4].push(one(500, &|point| partial(point, &[0, 2, 4, 6, 8]), &mut check[4]));
            rates[system][5].push(one(500, &|point| partial(point, &[1, 2]), &mut check[5]));
            let queries: Vec<_> = points_of(50_000).map(range).collect();
            check[3] = 0;
            rates[system][3].push(rate(queries.len(), || {
                for predicates in &queries {
                    check[3] += elf
                        .select(predicates)
                        .expect("ten dimensions")
                        .count()
                        .expect("a sound index");
                }
            }));
            (check[0], check[1]) = (0, 0);
            rates[system][0].push(rate(picked.len(), || {
                for point in points.chunks_exact(DIMS) {
                    check[0] += u64::from(elf.exact(point).expect("ten dimensions").first().expect("a row"));
                }
            }));
            let mut matches = Matches::new();
            rates[system][1].push(rate(picked.len(), || {
                for batch in points.chunks(DIMS * 1000) {
                    elf.exact_batch(batch, &mut matches).expect("ten dimensions");
                    check[1] += matches.tids().iter().map(|&tid| u64::from(tid)).sum::<u64>();
                }
            }));
        }
    }
    assert_eq!(checks[0], checks[1], "the layouts give different answers");
    for (i, name) in names.iter().enumerate() {
        let [published, packed] = [0, 1].map(|system: usize| median(rates[system][i].clone()));
        let base = if i == 1 {
            median(rates[0][0].clone())
        } else {
            published
        };
        println!(
            "{name:20} published {published:12.0}/s  packed {packed:12.0}/s  x{:.2}",
            packed / base
        );
    }
}
