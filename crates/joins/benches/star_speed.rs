//! The star joins of some queries of the Star Schema Benchmark over lineorder, without SQL: dimensions are
//! made up, with as many rows and groups as those of scale factor 10.
//!
//! `cargo bench -p halocline-joins --bench star_speed`. By default lineorder is generated at scale factor
//! 0.1. Environment variables change the setup:
//!
//! - `HALOCLINE_BENCH_SCALE`: the scale factor;
//! - `HALOCLINE_BENCH_POOL`: a pool with the table `lineorder`, instead of a generated one;
//! - `HALOCLINE_BENCH_MEDIUM`: `emulated:PROFILE`, the medium on which that pool is taken to be;
//! - `HALOCLINE_BENCH_THREADS`: the number of threads (1).

use std::env;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use divan::Bencher;
use divan::counter::ItemsCount;
use halocline_columns::{CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_emulator::{Device, EmulatedSpec};
use halocline_joins::star::{
    Aggregate, Dimension, DimensionBuilder, Function, Measure, MeasureSource, Probe, StarJoin, Width,
};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SsbTable;

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    divan::main();
}

/// Returns a dimension of the keys from 1 to `most`, of which one of `part` stays, in `groups` groups.
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

/// Returns a dimension of the days of some years as yyyymmdd, grouped by year if asked.
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

/// Returns the condition that a column is within bounds.
fn within(segment: &Segment, column: usize, low: i64, high: i64) -> AnyResult<(usize, CodePredicate)> {
    let space = segment.column(column).code_space().ok_or("codes")?;
    let base = space.integer_base().ok_or("whole numbers")?;
    Ok((
        column,
        CodePredicate::range((low - base).max(0) as u64, (high - base) as u64),
    ))
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table().expect("a pool with lineorder"));

fn table() -> AnyResult<Table> {
    let options = PoolOptions::default();
    let Ok(path) = env::var("HALOCLINE_BENCH_POOL") else {
        return generated_table();
    };
    let pool = match env::var("HALOCLINE_BENCH_MEDIUM") {
        Ok(medium) => {
            let device = Device::new(&medium.parse::<EmulatedSpec>()?)?;
            Pool::open_wrapped(path, &options, |medium| device.emulate(medium))?
        }
        Err(_) => Pool::open(path, &options)?,
    };
    Ok(Table::open(&pool.snapshot()?, "lineorder")?)
}

/// Imports lineorder into a pool whose file is removed: the table keeps it mapped.
fn generated_table() -> AnyResult<Table> {
    // `cargo test` runs every benchmark once, without this argument.
    let measured = env::args().any(|argument| argument == "--bench");
    let scale = env::var("HALOCLINE_BENCH_SCALE")
        .map_or_else(|_| Ok(if measured { 0.1 } else { 0.002 }), |scale| scale.parse())?;
    let folder = tempfile::tempdir()?;
    let pool = Pool::create(folder.path().join("star_speed.pool"), &PoolOptions::default())?;
    let txn = pool.begin()?;
    let lineorder = SsbTable::Lineorder;
    let mut writer = TableWriter::new(&txn, "lineorder", lineorder.schema(), TableOptions::default())?;
    for batch in lineorder.reader(scale, 0, 1) {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    txn.commit()?;
    Ok(Table::open(&pool.snapshot()?, "lineorder")?)
}

fn probe(column: usize, dimension: Arc<Dimension>) -> Probe {
    Probe {
        columns: vec![column],
        dimension,
    }
}

fn sum(measure: Measure) -> Vec<Aggregate> {
    vec![Aggregate {
        function: Function::Sum,
        measure,
        filter: None,
    }]
}

/// Returns the sum of an operation on the first two measured columns.
fn sum_of_pair(operation: fn(Width, Box<Measure>, Box<Measure>) -> Measure) -> Vec<Aggregate> {
    let [first, second] = [0, 1].map(|column| Box::new(Measure::Column(column)));
    sum(operation(Width::W64, first, second))
}

const QUERIES: [&str; 6] = ["1.1", "2.1", "2.3", "3.1", "3.3", "4.1"];

/// Returns the probes of one of [`QUERIES`].
fn probes(query: &str) -> AnyResult<Vec<Probe>> {
    Ok(match query {
        "1.1" => vec![probe(DATE, days(1993..=1993, false)?)],
        "2.1" => vec![
            probe(DATE, days(1992..=1998, true)?),
            probe(PART, keys(800_000, 25, 40)?),
            probe(SUPP, keys(20_000, 5, 1)?),
        ],
        "2.3" => vec![
            probe(DATE, days(1992..=1998, true)?),
            probe(PART, keys(800_000, 1000, 1)?),
            probe(SUPP, keys(20_000, 5, 1)?),
        ],
        "3.1" => vec![
            probe(CUST, keys(300_000, 5, 5)?),
            probe(SUPP, keys(20_000, 5, 5)?),
            probe(DATE, days(1992..=1997, true)?),
        ],
        "3.3" => vec![
            probe(CUST, keys(300_000, 125, 2)?),
            probe(SUPP, keys(20_000, 125, 2)?),
            probe(DATE, days(1992..=1997, true)?),
        ],
        _ => vec![
            probe(DATE, days(1992..=1998, true)?),
            probe(CUST, keys(300_000, 5, 5)?),
            probe(SUPP, keys(20_000, 5, 1)?),
            probe(PART, keys(800_000, 2, 1)?),
        ],
    })
}

/// Returns the join of one of [`QUERIES`].
fn join(query: &str) -> AnyResult<StarJoin> {
    let (columns, aggregates) = match query {
        "1.1" => (vec![PRICE, DISCOUNT], sum_of_pair(Measure::Multiply)),
        "4.1" => (vec![REVENUE, COST], sum_of_pair(Measure::Subtract)),
        _ => (vec![REVENUE], sum(Measure::Column(0))),
    };
    let columns = columns.into_iter().map(MeasureSource::Fact).collect();
    Ok(StarJoin::new(probes(query)?, columns, aggregates)?)
}

/// Returns the conditions of one of [`QUERIES`] on lineorder itself.
fn conditions(query: &str, segment: &Segment) -> AnyResult<Vec<(usize, CodePredicate)>> {
    Ok(match query {
        "1.1" => vec![
            within(segment, DISCOUNT, 1, 3)?,
            within(segment, QUANTITY, 0, 24)?,
        ],
        _ => vec![],
    })
}

/// The items are rows of lineorder.
#[divan::bench(args = QUERIES, sample_count = 9, sample_size = 1)]
fn star_join(bencher: Bencher<'_, '_>, query: &str) {
    let segment = &TABLE.segments()[0];
    let join = join(query).expect("a star join");
    let parts = [(segment, conditions(query, segment).expect("columns of lineorder"))];
    let threads = env::var("HALOCLINE_BENCH_THREADS")
        .map_or(1, |threads| threads.parse().expect("a number of threads"));
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let cancelled = AtomicBool::new(false);
        join.run(&parts, &[], threads, &cancelled).expect("a sound table")
    });
}
