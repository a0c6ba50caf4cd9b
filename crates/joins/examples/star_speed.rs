//! Times the star joins of some queries of the Star Schema Benchmark over the `lineorder` of a pool, without
//! SQL: dimensions are made up, with as many rows and groups as those of scale factor 10.
//!
//! `cargo run --release -p halocline-joins --example star_speed -- POOL [THREADS [QUERY|all [MEDIUM]]]`,
//! where a medium is one of `emulated:PROFILE`: what the queries wait for it is shown then.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_columns::{CodePredicate, Segment, Table};
use halocline_emulator::{Device, EmulatedSpec, Watch};
use halocline_joins::star::{
    Aggregate, Dimension, DimensionBuilder, Function, Measure, Probe, StarJoin, Width,
};
use halocline_pool::{Pool, PoolOptions, Snapshot};

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Keys from 1 to `most`, of which one of `part` stays, in `groups` groups.
fn keys(most: i64, part: u64, groups: u32) -> AnyResult<Arc<Dimension>> {
    let mut builder = DimensionBuilder::default();
    for key in 1..=most {
        let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        if hash.is_multiple_of(part) {
            builder.push(&[key], (hash / part % u64::from(groups)) as u32);
        }
    }
    Ok(Arc::new(builder.finish()?))
}

/// Days of years as yyyymmdd, grouped by year if asked.
fn days(years: std::ops::RangeInclusive<i64>, grouped: bool) -> AnyResult<Arc<Dimension>> {
    let mut builder = DimensionBuilder::default();
    for year in years.clone() {
        for month in 1..=12 {
            for day in 1..=31 {
                let group = if grouped { year - years.start() } else { 0 };
                builder.push(&[year * 10_000 + month * 100 + day], group as u32);
            }
        }
    }
    Ok(Arc::new(builder.finish()?))
}

const CUST: usize = 2;
const PART: usize = 3;
const SUPP: usize = 4;
const DATE: usize = 5;
const QUANTITY: usize = 8;
const PRICE: usize = 9;
const DISCOUNT: usize = 11;
const REVENUE: usize = 12;
const COST: usize = 13;

fn within(segment: &Segment, column: usize, low: i64, high: i64) -> AnyResult<(usize, CodePredicate)> {
    let space = segment.column(column).code_space().ok_or("codes")?;
    let base = space.integer_base().ok_or("whole numbers")?;
    Ok((
        column,
        CodePredicate::range((low - base).max(0) as u64, (high - base) as u64),
    ))
}

/// The pool, on its own medium or as if it were on the one of that name.
fn open(path: &str, medium: Option<String>) -> AnyResult<(Snapshot, Option<Arc<Device>>)> {
    let options = PoolOptions::default();
    let Some(medium) = medium else {
        return Ok((Pool::open(path, &options)?.snapshot()?, None));
    };
    let spec: EmulatedSpec = medium.parse()?;
    let device = Device::new(&spec)?;
    let pool = Pool::open_wrapped(path, &options, |medium| device.emulate(medium))?;
    Ok((pool.snapshot()?, Some(device)))
}

fn main() -> AnyResult {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("POOL")?;
    let threads: usize = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let only = arguments.next().filter(|only| only != "all");
    let (snapshot, device) = open(&path, arguments.next())?;
    let table = Table::open(&snapshot, "lineorder")?;
    let segment = &table.segments()[0];
    let probe = |column: usize, dimension: Arc<Dimension>| Probe {
        columns: vec![column],
        dimension,
    };
    let sum = |measure| {
        vec![Aggregate {
            function: Function::Sum,
            measure,
        }]
    };
    let column = || sum(Measure::Column(0));
    let pair = |of: fn(Width, Box<Measure>, Box<Measure>) -> Measure| {
        sum(of(
            Width::W64,
            Box::new(Measure::Column(0)),
            Box::new(Measure::Column(1)),
        ))
    };
    let none: AnyResult<Vec<(usize, CodePredicate)>> = Ok(vec![]);
    let queries = [
        (
            "1.1",
            StarJoin::new(
                vec![probe(DATE, days(1993..=1993, false)?)],
                vec![PRICE, DISCOUNT],
                pair(Measure::Multiply),
            )?,
            vec![
                within(segment, DISCOUNT, 1, 3)?,
                within(segment, QUANTITY, 0, 24)?,
            ],
        ),
        (
            "2.1",
            StarJoin::new(
                vec![
                    probe(DATE, days(1992..=1998, true)?),
                    probe(PART, keys(800_000, 25, 40)?),
                    probe(SUPP, keys(20_000, 5, 1)?),
                ],
                vec![REVENUE],
                column(),
            )?,
            none?,
        ),
        (
            "2.3",
            StarJoin::new(
                vec![
                    probe(DATE, days(1992..=1998, true)?),
                    probe(PART, keys(800_000, 1000, 1)?),
                    probe(SUPP, keys(20_000, 5, 1)?),
                ],
                vec![REVENUE],
                column(),
            )?,
            vec![],
        ),
        (
            "3.1",
            StarJoin::new(
                vec![
                    probe(CUST, keys(300_000, 5, 5)?),
                    probe(SUPP, keys(20_000, 5, 5)?),
                    probe(DATE, days(1992..=1997, true)?),
                ],
                vec![REVENUE],
                column(),
            )?,
            vec![],
        ),
        (
            "3.3",
            StarJoin::new(
                vec![
                    probe(CUST, keys(300_000, 125, 2)?),
                    probe(SUPP, keys(20_000, 125, 2)?),
                    probe(DATE, days(1992..=1997, true)?),
                ],
                vec![REVENUE],
                column(),
            )?,
            vec![],
        ),
        (
            "4.1",
            StarJoin::new(
                vec![
                    probe(DATE, days(1992..=1998, true)?),
                    probe(CUST, keys(300_000, 5, 5)?),
                    probe(SUPP, keys(20_000, 5, 1)?),
                    probe(PART, keys(800_000, 2, 1)?),
                ],
                vec![REVENUE, COST],
                pair(Measure::Subtract),
            )?,
            vec![],
        ),
    ];
    for (name, join, conditions) in queries {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mut times = Vec::new();
        let mut answer = 0;
        let mut passed = Vec::new();
        let mut on_device = None;
        for _ in 0..9 {
            let watch = Watch::start(device.as_ref());
            let (groups, stats) = join.run(
                &[(segment, conditions.clone())],
                &[],
                threads,
                &AtomicBool::new(false),
            )?;
            let lap = watch.lap();
            times.push(lap.time.as_secs_f64() * 1e3);
            on_device = device.is_some().then(|| {
                (
                    lap.waited / threads as u32,
                    lap.overrun,
                    lap.counts.calls,
                    lap.counts.units,
                )
            });
            answer = (0..groups.len()).filter_map(|group| groups.value(group, 0)).sum();
            passed = stats.order.iter().copied().zip(stats.passed).collect();
        }
        times.sort_by(f64::total_cmp);
        let blocks = segment.rows() as f64 / 1024.0;
        println!(
            "{name}: {:.1} ms, best {:.1}, {:.2} us a block; {answer} {passed:?}",
            times[times.len() / 2],
            times[0],
            times[0] * 1e3 * threads as f64 / blocks
        );
        if let Some((waited, overrun, calls, units)) = on_device {
            println!("  a thread waited {waited:.1?}, ran over {overrun:.1?}; {calls} calls, {units} units");
        }
    }
    Ok(())
}
