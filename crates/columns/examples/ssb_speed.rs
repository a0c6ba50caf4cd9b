//! Measures import, size and decoding of lineorder of the Star Schema Benchmark:
//! `cargo run --release -p halocline-columns --example ssb_speed -- 1`.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use halocline_columns::{Code, CodePredicate, Segment, Table, TableOptions, TableWriter};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SsbTable;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Seconds of the fastest of some runs.
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
    let path = std::env::args().nth(2).unwrap_or_else(|| "ssb_speed.pool".into());
    let _ = std::fs::remove_file(&path);
    let pool = Pool::create(&path, &PoolOptions::default())?;
    let txn = pool.begin()?;
    let table = SsbTable::Lineorder;
    let mut writer = TableWriter::new(&txn, "lineorder", table.schema(), TableOptions::default())?;
    let (mut seconds, mut generating) = (0.0, 0.0);
    // In parts, so that generating is not measured and little of it is in memory.
    let parts = (scale * 10.0).ceil().max(1.0) as u32;
    for part in 0..parts {
        let start = Instant::now();
        let batches = table.reader(scale, part, parts).collect::<Result<Vec<_>, _>>()?;
        generating += start.elapsed().as_secs_f64();
        let start = Instant::now();
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    let stats = writer.finish()?;
    txn.commit()?;
    seconds += start.elapsed().as_secs_f64();
    let rows = stats.rows as f64;
    println!(
        "import: {rows} rows in {seconds:.2} s, {:.2} M rows/s (generated {:.2} M rows/s); {:.1} MB, {:.2} bytes a row",
        rows / seconds / 1e6,
        rows / generating / 1e6,
        stats.stored_bytes as f64 / 1e6,
        stats.stored_bytes as f64 / rows
    );
    let table = Table::open_in(&pool.begin()?, "lineorder")?;
    columns(&table)?;
    drop((table, pool));
    std::fs::remove_file(&path)?;
    Ok(())
}

fn columns(table: &Table) -> AnyResult {
    for (i, field) in table.schema().fields().iter().enumerate() {
        let segment = &table.segments()[0];
        let column = segment.column(i);
        let mut encodings: BTreeMap<String, usize> = BTreeMap::new();
        for chunk in 0..column.chunks() {
            let info = column.chunk_info(chunk)?;
            *encodings.entry(format!("{:?}", info.encoding)).or_default() += 1;
        }
        let bits = column.code_bits()?;
        let seconds = match bits {
            0..=8 => decode::<u8>(segment, i),
            9..=16 => decode::<u16>(segment, i),
            17..=32 => decode::<u32>(segment, i),
            _ => decode::<u64>(segment, i),
        };
        let max_code = column.code_space().ok_or("codes")?.max_code();
        let below = [(i, CodePredicate::range(max_code / 4, max_code / 2))];
        let counting = best_of(5, || segment.count(&below, 0..segment.rows()));
        let rows = segment.rows() as f64;
        println!(
            "{:18} {bits:2} bits, {:5.2} stored; decode {:5.2} G codes/s, {:5.1} GB/s; count {:5.2} G rows/s; {encodings:?}",
            field.name(),
            column.stored_bytes() as f64 * 8.0 / rows,
            rows / seconds / 1e9,
            rows * f64::from(bits.next_multiple_of(8).next_power_of_two().max(8)) / 8.0 / seconds / 1e9,
            rows / counting / 1e9,
        );
    }
    Ok(())
}

/// Seconds that it takes to read all codes of a column.
fn decode<C: Code>(segment: &Segment, column: usize) -> f64 {
    best_of(5, || {
        let column = segment.column(column);
        let mut reader = column.code_reader::<C>().expect("codes");
        let mut codes = [C::default(); 1024];
        for row in (0..segment.rows()).step_by(1024) {
            let (chunk, block) = (row / column.chunk_rows(), row % column.chunk_rows() / 1024);
            reader.read(chunk, block, &mut codes).expect("sound");
            black_box(&codes);
        }
    })
}
