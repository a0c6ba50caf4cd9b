//! Scans of a column that is not in memory, with and without read-ahead, beside the bandwidth of the device.
//!
//! `cargo bench -p halocline-columns --bench cold_scan`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (100,000,000), `HALOCLINE_BENCH_RUNS` the turns, of which the median counts (5). The pool is in
//! `HALOCLINE_BENCH_FOLDER`, or in the folder for temporary files, which must be on a file system with a
//! device and direct I/O. Prints MB/s: of direct reads of 4 MiB by as many threads, of a filter of the column
//! as its pages are touched, and of the same filter with read-ahead.

use std::error::Error;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use halocline_columns::{CodePredicate, ScanAhead, SegmentReads, Table, TableOptions, TableWriter};
use halocline_media::HugeVec;
use halocline_pool::{Pool, PoolOptions};

type Failure = Box<dyn Error + Send + Sync>;

/// Threads of a scan.
const THREADS: usize = 2;
/// Bytes of a direct read.
const REQUEST: usize = 4 << 20;

fn number(name: &str, otherwise: usize) -> usize {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Writes three columns of numbers that no codec makes small.
fn create(path: &Path, rows: usize) -> Result<(), Failure> {
    let pool = Pool::create(path, &PoolOptions::default())?;
    let txn = pool.begin()?;
    let mut writer: Option<TableWriter<'_>> = None;
    for start in (0..rows).step_by(1 << 20) {
        let numbers = (start as u64..rows.min(start + (1 << 20)) as u64)
            .map(|row| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as i64);
        let small: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers.clone().map(|n| n as i32)));
        let large: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
        let other: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.map(|n| n ^ 0xffff)));
        let batch = RecordBatch::try_from_iter([("small", small), ("large", large), ("other", other)])?;
        if writer.is_none() {
            writer = Some(TableWriter::new(
                &txn,
                "t",
                batch.schema(),
                TableOptions::default(),
            )?);
        }
        if let Some(writer) = &mut writer {
            writer.write(&batch)?;
        }
    }
    if let Some(writer) = writer.take() {
        writer.finish()?;
    }
    drop(writer);
    txn.commit()?;
    Ok(())
}

fn evict(path: &Path) -> Result<(), Failure> {
    let file = File::open(path)?;
    file.sync_all()?;
    let len = NonZeroU64::new(file.metadata()?.len());
    rustix::fs::fadvise(&file, 0, len, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Filters a column on all threads, and returns the bytes per second.
fn scan(path: &Path, reads_ahead: bool) -> Result<f64, Failure> {
    evict(path)?;
    let pool = Pool::open(path, &PoolOptions::default())?;
    let table = Table::open(&pool.snapshot()?, "t")?;
    let conditions = vec![(0, CodePredicate::Range { lo: 0, hi: 1 << 20 })];
    let segments = table.segments();
    let reads = segments.iter().map(|segment| SegmentReads {
        segment: segment.clone(),
        columns: vec![0],
        conditions: conditions.clone(),
    });
    let ahead = reads_ahead.then(|| ScanAhead::new(reads.collect()));
    let chunks: Vec<(usize, usize)> = segments
        .iter()
        .enumerate()
        .flat_map(|(number, segment)| {
            (0..segment.rows().div_ceil(segment.chunk_rows())).map(move |chunk| (number, chunk))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<u64, Failure> {
        let mut found = 0;
        while let Some((number, chunk)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(ahead) = &ahead {
                ahead.begin(*number, *chunk);
            }
            let segment = &segments[*number];
            let start = chunk * segment.chunk_rows();
            let rows = start..segment.rows().min(start + segment.chunk_rows());
            found += segment.count(&conditions, rows)?;
        }
        Ok(found)
    };
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })?;
    let bytes: u64 = segments
        .iter()
        .map(|segment| segment.column(0).stored_bytes())
        .sum();
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// Reads `bytes` bytes of the file directly, and returns the bytes per second.
fn direct(path: &Path, bytes: usize) -> Result<f64, Failure> {
    evict(path)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc_direct())
        .open(path)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        let mut buffer = HugeVec::<u8>::zeroed(REQUEST)?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) * REQUEST;
            if at + REQUEST > bytes {
                return Ok(());
            }
            file.read_exact_at(&mut buffer, at as u64)?;
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })?;
    Ok((bytes / REQUEST * REQUEST) as f64 / start.elapsed().as_secs_f64())
}

/// Returns the flag of direct I/O.
fn libc_direct() -> i32 {
    rustix::fs::OFlags::DIRECT.bits() as i32
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failure> {
    let (rows, runs) = (
        number("HALOCLINE_BENCH_ROWS", 100_000_000),
        number("HALOCLINE_BENCH_RUNS", 5).max(1),
    );
    let temporary = tempfile::tempdir()?;
    let folder = std::env::var_os("HALOCLINE_BENCH_FOLDER");
    let folder = folder.map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let path = folder.join(format!("cold-scan-{rows}.pool"));
    if !path.exists() {
        create(&path, rows)?;
    }
    let (mut device, mut touched, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        device.push(direct(&path, rows * 4)?);
        touched.push(scan(&path, false)?);
        ahead.push(scan(&path, true)?);
    }
    let (device, touched, ahead) = (median(device), median(touched), median(ahead));
    let mut report = String::new();
    for (name, rate) in [
        ("device", device),
        ("on first touch", touched),
        ("read ahead", ahead),
    ] {
        writeln!(
            report,
            "{name:15} {:8.0} MB/s {:6.0} %",
            rate / 1e6,
            rate / device * 100.0
        )?;
    }
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
    Ok(())
}
