//! Appends, deletions and merges of TPC-H lineitem: their rates, and the DRAM that they take.
//!
//! `cargo bench -p halocline-columns --bench change_speed -- [SCALE [MEMORY_MIB [POOL]]]`, by default scale
//! factor 0.1, 128 MiB of memory, and a pool in a temporary folder.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use arrow_array::RecordBatch;
use halocline_columns::compact::{CompactionPolicy, MergeOptions, merge, plan};
use halocline_columns::{
    Table, TableOptions, TableProperties, TableWriter, create_table, delete_rows, set_cluster,
};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::TpchTable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Appends that make the table.
const APPENDS: usize = 100;

/// Anonymous memory of this process in bytes.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Runs `work`, and prints its duration and the peak of the anonymous memory that it added.
fn measure<T>(what: &str, rows: u64, work: impl FnOnce() -> AnyResult<T>) -> AnyResult<T> {
    let before = anonymous();
    let (start, done) = (Instant::now(), AtomicBool::new(false));
    let (result, peak) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = before;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous());
                std::thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, watch.join().unwrap_or(0))
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {seconds:.2} s, {:.2} M rows/s, at most {:.1} MiB more DRAM",
        rows as f64 / seconds / 1e6,
        peak.saturating_sub(before) as f64 / (1 << 20) as f64
    );
    result
}

fn main() -> AnyResult {
    // `cargo bench` passes `--bench`; `cargo test` does not, and uses small data.
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let measured = !flags.is_empty();
    let mut arguments = rest.into_iter().peekable();
    if arguments.next_if(|first| first == "merge").is_some() {
        let path = arguments.next().ok_or("no pool")?;
        return merges(&path, arguments.next().ok_or("no memory")?.parse()?);
    }
    let scale: f64 = arguments
        .next()
        .map_or(Ok(if measured { 0.1 } else { 0.002 }), |scale| scale.parse())?;
    let memory: usize = arguments.next().map_or(Ok(128), |mib| mib.parse())? << 20;
    let folder = tempfile::tempdir()?;
    let path = match arguments.next() {
        Some(path) => path.into(),
        None => folder.path().join("change_speed.pool"),
    };
    let _ = std::fs::remove_file(&path);
    let pool = Pool::create(&path, &PoolOptions::default())?;
    let mut options = TableOptions::default();
    options.memory = memory;

    let batches: Vec<RecordBatch> = TpchTable::Lineitem
        .reader(scale, 0, 1)
        .collect::<Result<_, _>>()?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    println!("{rows} rows, {} MiB of memory", memory >> 20);
    measure("one load", rows as u64, || {
        let txn = pool.begin()?;
        let mut writer = TableWriter::new(&txn, "one", batches[0].schema(), options.clone())?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()?;
        Ok(txn.commit()?)
    })?;
    let txn = pool.begin()?;
    create_table(&txn, "t", &batches[0].schema(), &TableProperties::default())?;
    txn.commit()?;
    measure("a hundred appends", rows as u64, || {
        for group in batches.chunks(batches.len().div_ceil(APPENDS)) {
            let txn = pool.begin()?;
            let mut writer = TableWriter::append(&txn, "t", options.clone())?;
            group.iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()?;
            txn.commit()?;
        }
        Ok(())
    })?;
    drop((batches, pool));
    // In a process of its own, whose memory holds nothing of the above.
    let me = std::env::current_exe()?;
    let status = std::process::Command::new(me)
        .arg("merge")
        .arg(&path)
        .arg(memory.to_string())
        .status()?;
    std::fs::remove_file(&path)?;
    if status.success() {
        Ok(())
    } else {
        Err("the merges failed".into())
    }
}

/// Deletes rows of the table of appends, and merges it twice.
fn merges(path: &str, memory: usize) -> AnyResult {
    let pool = Pool::open(path, &PoolOptions::default())?;
    let rows = Table::open(&pool.snapshot()?, "t")?.rows();
    measure("every tenth row deleted", rows / 10, || {
        let table = Table::open(&pool.snapshot()?, "t")?;
        let rows = table.segments().iter();
        let rows = rows.map(|segment| (segment.id(), (0..segment.rows() as u32).step_by(10).collect()));
        let txn = pool.begin()?;
        delete_rows(&txn, "t", &rows.collect())?;
        Ok(txn.commit()?)
    })?;
    for clustered in [false, true] {
        let txn = pool.begin()?;
        if clustered {
            set_cluster(&txn, "t", Some(&["l_shipdate".into(), "l_quantity".into()]))?;
        }
        let table = Table::open_in(&txn, "t")?;
        let ids: Vec<u64> = table.segments().iter().map(|segment| segment.id()).collect();
        let found = plan(&table, &CompactionPolicy::default()).len();
        let what = format!(
            "{} segments merged (planned: {found} groups), sorted: {clustered}",
            ids.len()
        );
        let stats = measure(&what, table.live_rows(), || {
            let mut options = MergeOptions::default();
            options.memory = memory;
            Ok(merge(&txn, "t", &ids, &options)?)
        })?;
        println!("  {stats:?}");
        txn.commit()?;
    }
    let errors = Table::open(&pool.snapshot()?, "t")?.check();
    println!("check: {errors:?}");
    Ok(())
}
