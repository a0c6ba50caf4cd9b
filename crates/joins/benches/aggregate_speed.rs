//! Aggregates over columns of lineitem, without joins and SQL: the pipeline of TPC-H's first and sixth query,
//! and groups by columns with few and with many values.
//!
//! `cargo bench -p halocline-joins --bench aggregate_speed`. Environment variables change the setup:
//!
//! - `HALOCLINE_BENCH_SCALE`: the scale factor (0.1);
//! - `HALOCLINE_BENCH_THREADS`: the number of threads (1).

use std::env;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use divan::Bencher;
use divan::counter::ItemsCount;
use halocline_columns::{CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_joins::star::{
    Aggregate, Function, GroupCodes, GroupColumn, Measure, MeasureSource, SegmentRows, StarJoin, Width,
};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::TpchTable;

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    divan::main();
}

/// Columns of lineitem that are stored.
const COLUMNS: [usize; 9] = [0, 1, 4, 5, 6, 7, 8, 9, 10];
const ORDER: usize = 0;
const PART: usize = 1;
const QUANTITY: usize = 2;
const PRICE: usize = 3;
const DISCOUNT: usize = 4;
const TAX: usize = 5;
const RETURN_FLAG: usize = 6;
const STATUS: usize = 7;
const SHIP_DATE: usize = 8;

/// Days from 1970 to 1994, 1995 and 2 September 1998.
const DAYS: [i64; 3] = [8766, 9131, 10471];

static TABLE: LazyLock<Table> = LazyLock::new(|| table().expect("a pool with lineitem"));

/// Imports lineitem into a pool whose file is removed: the table keeps it mapped.
fn table() -> AnyResult<Table> {
    // `cargo test` runs every benchmark once, without this argument.
    let measured = env::args().any(|argument| argument == "--bench");
    let scale = env::var("HALOCLINE_BENCH_SCALE")
        .map_or_else(|_| Ok(if measured { 0.1 } else { 0.002 }), |scale| scale.parse())?;
    let folder = tempfile::tempdir()?;
    let pool = Pool::create(
        folder.path().join("aggregate_speed.pool"),
        &PoolOptions::default(),
    )?;
    let txn = pool.begin()?;
    let schema = TpchTable::Lineitem.schema().project(&COLUMNS)?.into();
    let mut writer = TableWriter::new(&txn, "lineitem", schema, TableOptions::default())?;
    for batch in TpchTable::Lineitem.reader(scale, 0, 1) {
        writer.write(&batch?.project(&COLUMNS)?)?;
    }
    writer.finish()?;
    txn.commit()?;
    Ok(Table::open(&pool.snapshot()?, "lineitem")?)
}

fn within(segment: &Segment, column: usize, low: i64, high: i64) -> AnyResult<(usize, CodePredicate)> {
    let space = segment.column(column).code_space().ok_or("codes")?;
    let base = space.integer_base().ok_or("whole numbers")?;
    let code = |value: i64| (value - base).max(0) as u64;
    Ok((column, CodePredicate::range(code(low), code(high))))
}

fn group(segment: &Segment, column: usize) -> AnyResult<GroupColumn> {
    let space = segment.column(column).code_space().ok_or("codes")?;
    let codes = GroupCodes::Shifted {
        shift: 0,
        has_null: false,
    };
    Ok(GroupColumn {
        column,
        size: space.max_code() + 1,
        codes: vec![codes],
    })
}

fn sum(measure: Measure) -> Aggregate {
    Aggregate {
        function: Function::Sum,
        measure,
        filter: None,
    }
}

fn column(number: usize) -> Box<Measure> {
    Box::new(Measure::Column(number))
}

const QUERIES: [&str; 7] = [
    "q1",
    "q6",
    "sums by order",
    "sums by part",
    "sums by part and quantity",
    "counts by part and order",
    "four sums",
];

/// Returns one of [`QUERIES`].
fn query(name: &str, segment: &Segment) -> AnyResult<(StarJoin, Vec<(usize, CodePredicate)>)> {
    let fits = Width::Fits;
    let hundred = || Box::new(Measure::Literal(100));
    let sums = |columns: usize| (0..columns).map(|number| sum(Measure::Column(number))).collect();
    let (measured, aggregates, groups, conditions): (Vec<usize>, Vec<Aggregate>, Vec<usize>, Vec<_>) =
        match name {
            "q1" => {
                let left = Measure::Subtract(fits, hundred(), column(2));
                let price = Measure::Multiply(fits, column(1), Box::new(left));
                let taxed = Measure::Add(fits, hundred(), column(3));
                let charge = Measure::Multiply(fits, Box::new(price.clone()), Box::new(taxed));
                let mut aggregates: Vec<Aggregate> = sums(3);
                aggregates.extend([sum(price), sum(charge)]);
                let until = within(segment, SHIP_DATE, 0, DAYS[2])?;
                (
                    vec![QUANTITY, PRICE, DISCOUNT, TAX],
                    aggregates,
                    vec![RETURN_FLAG, STATUS],
                    vec![until],
                )
            }
            "q6" => {
                let conditions = vec![
                    within(segment, SHIP_DATE, DAYS[0], DAYS[1] - 1)?,
                    within(segment, DISCOUNT, 5, 7)?,
                    within(segment, QUANTITY, 0, 2399)?,
                ];
                let product = Measure::Multiply(fits, column(0), column(1));
                (vec![PRICE, DISCOUNT], vec![sum(product)], vec![], conditions)
            }
            "sums by order" => (vec![QUANTITY], sums(1), vec![ORDER], vec![]),
            "sums by part" => (vec![QUANTITY], sums(1), vec![PART], vec![]),
            "sums by part and quantity" => (vec![PRICE], sums(1), vec![PART, QUANTITY], vec![]),
            "counts by part and order" => (vec![], vec![], vec![PART, ORDER], vec![]),
            _ => (vec![QUANTITY, PRICE, DISCOUNT, TAX], sums(4), vec![], vec![]),
        };
    let mut columns = Vec::with_capacity(groups.len());
    for column in groups {
        columns.push(group(segment, column)?);
    }
    let measured = measured.into_iter().map(MeasureSource::Fact).collect();
    let join = StarJoin::new(vec![], measured, aggregates)?.group_by(columns)?;
    Ok((join, conditions))
}

/// The items are rows of lineitem.
#[divan::bench(args = QUERIES, sample_count = 9, sample_size = 1)]
fn aggregate(bencher: Bencher<'_, '_>, name: &str) {
    let segment = &TABLE.segments()[0];
    let (join, conditions) = query(name, segment).expect("columns of lineitem");
    let parts: [SegmentRows<'_>; 1] = [(segment, conditions)];
    let threads = env::var("HALOCLINE_BENCH_THREADS")
        .map_or(1, |threads| threads.parse().expect("a number of threads"));
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let cancelled = AtomicBool::new(false);
        join.run(&parts, &[], threads, &cancelled).expect("a sound table")
    });
}
