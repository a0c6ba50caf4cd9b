//! Measures import, scans, selections and gathers of TPC-H lineitem: `cargo run --release --example
//! scan_speed -- 1`.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use arrow_array::{Array, Date32Array, Decimal128Array, RecordBatch, RecordBatchReader, StringViewArray};
use halocline_columns::{CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::TpchTable;
use std::hint::black_box;
use std::ops::Bound;
use std::time::Instant;

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> AnyResult {
    let scale: f64 = std::env::args().nth(1).map_or(Ok(0.1), |scale| scale.parse())?;
    let path = std::env::args()
        .nth(2)
        .unwrap_or_else(|| "scan_speed.pool".into());
    let reader = TpchTable::Lineitem.reader(scale, 0, 1);
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>()?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();

    let _ = std::fs::remove_file(&path);
    let pool = Pool::create(&path, &PoolOptions::default())?;
    let start = Instant::now();
    let txn = pool.begin()?;
    let mut writer = TableWriter::new(&txn, "lineitem", schema, TableOptions::default())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    let stats = writer.finish()?;
    txn.commit()?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "import: {rows} rows in {seconds:.2} s, {:.2} M rows/s; {stats:?}",
        rows as f64 / seconds / 1e6
    );
    drop(batches);
    pool.sync()?;
    drop(pool);

    let start = Instant::now();
    let pool = Pool::open(&path, &PoolOptions::default())?;
    let table = Table::open(&pool.snapshot()?, "lineitem")?;
    println!("open: {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    let segment = &table.segments()[0];
    scans(&table, segment)?;
    selections(&table, segment)?;
    gathers(&table, segment)?;
    let start = Instant::now();
    let errors = table.check();
    println!(
        "check: {} errors in {:.2} s",
        errors.len(),
        start.elapsed().as_secs_f64()
    );
    drop((table, pool));
    std::fs::remove_file(&path)?;
    Ok(())
}

fn scans(table: &Table, segment: &Segment) -> AnyResult {
    for (i, field) in table.schema().fields().iter().enumerate() {
        let column = segment.column(i);
        let seconds = best_of(2, || {
            let morsels = (0..segment.rows()).step_by(8192);
            morsels
                .map(|row| {
                    column
                        .scan(row..(row + 8192).min(segment.rows()))
                        .expect("sound")
                        .len()
                })
                .sum::<usize>()
        });
        let codes = column
            .code_space()
            .map(|space| (space.max_code(), space.distinct_estimate()));
        println!(
            "scan {:16} {:20} {:6.1} MB {:7.1} M values/s  max code, distinct {codes:?}",
            field.name(),
            field.data_type().to_string(),
            column.stored_bytes() as f64 / 1e6,
            segment.rows() as f64 / seconds / 1e6
        );
    }
    Ok(())
}

fn selections(table: &Table, segment: &Segment) -> AnyResult {
    let index = |name: &str| table.schema().index_of(name);
    let between = |name: &str, lo: &dyn Array, hi: &dyn Array| -> AnyResult<(usize, CodePredicate)> {
        let space = segment.column(index(name)?).code_space().ok_or("no codes")?;
        Ok((
            index(name)?,
            space.range(Bound::Included(lo), Bound::Included(hi))?,
        ))
    };
    let decimal = |value: i128| Decimal128Array::from(vec![value]).with_precision_and_scale(15, 2);
    let date = |days: i32| Date32Array::from(vec![days]);
    let quantity = between("l_quantity", &decimal(100)?, &decimal(2399)?)?;
    let discount = between("l_discount", &decimal(5)?, &decimal(7)?)?;
    let shipdate = between("l_shipdate", &date(8766), &date(9130))?;
    let price = between("l_extendedprice", &decimal(1_000_000)?, &decimal(1_100_000)?)?;
    let modes = StringViewArray::from(vec!["AIR", "RAIL", "SHIP"]);
    let mode_at = index("l_shipmode")?;
    let mode = (
        mode_at,
        segment
            .column(mode_at)
            .code_space()
            .ok_or("no codes")?
            .set(&modes)?,
    );
    let keys = arrow_array::Int64Array::from_iter_values((0..500).map(|i| i * 397 + 1));
    let part = index("l_partkey")?;
    let parts = (
        part,
        segment.column(part).code_space().ok_or("no codes")?.set(&keys)?,
    );
    for (name, predicates) in [
        ("l_discount 5-7", vec![discount.clone()]),
        ("l_quantity < 24", vec![quantity.clone()]),
        ("l_shipdate 1994", vec![shipdate.clone()]),
        ("l_extendedprice", vec![price]),
        ("l_shipmode in 3", vec![mode]),
        ("l_partkey in 500", vec![parts]),
        ("TPC-H Q6", vec![shipdate, discount, quantity]),
    ] {
        let count = segment.count(&predicates, 0..segment.rows())?;
        let counting = best_of(5, || segment.count(&predicates, 0..segment.rows()));
        let selecting = best_of(3, || segment.select(&predicates, 0..segment.rows()));
        println!(
            "select {name:18} {count:9} rows  count {:6.2} ms ({:5.2} G rows/s)  bitmap {:6.2} ms",
            counting * 1e3,
            segment.rows() as f64 / counting / 1e9,
            selecting * 1e3
        );
    }
    Ok(())
}

fn gathers(table: &Table, segment: &Segment) -> AnyResult {
    for share in [1000, 30, 10, 3] {
        let rows: Vec<u32> = (0..segment.rows() as u32)
            .filter(|row| row.wrapping_mul(2_654_435_761) % share == 0)
            .collect();
        for name in ["l_discount", "l_extendedprice", "l_shipmode", "l_comment"] {
            let column = segment.column(table.schema().index_of(name)?);
            let seconds = best_of(3, || column.gather(&rows).expect("sound").len());
            println!(
                "gather 1 row of {share:4} {name:16} {:6.1} ns/row",
                seconds * 1e9 / rows.len() as f64
            );
        }
    }
    Ok(())
}
