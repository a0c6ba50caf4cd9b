//! `access-sequential`: read and write bandwidth by number of threads.

use halocline_calibrate::kernels;

use super::medium::AccessMedium;
use super::{MORSEL, ensure_same, in_parallel, media, thread_counts};
use crate::{BenchError, Chart, Reporter, Samples, Settings, TableView};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "bandwidth of sequential accesses, by number of threads",
    metrics: &["read bandwidth", "write bandwidth"],
    split: &["metric"],
    rows: &["system"],
    columns: "threads",
    base: None,
}];

const fn chart(name: &'static str, title: &'static str, metrics: &'static [&'static str]) -> Chart {
    Chart {
        name,
        title,
        metrics,
        x: "threads",
        x_label: "threads",
        y_label: "GB/s",
        scale: 1e-9,
        ..Chart::LINES
    }
}

pub(in crate::experiments) const CHARTS: &[Chart] = &[
    chart("read", "sequential read bandwidth", &["read bandwidth"]),
    chart("write", "sequential write bandwidth", &["write bandwidth"]),
];

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let bytes = column_bytes(settings);
    let media = media(settings, bytes, report)?;
    report.set("rows", bytes / 4);
    for threads in thread_counts(settings) {
        let reads = bandwidths(&media, settings, bytes, |medium| read(medium, bytes, threads))?;
        for (medium, samples) in media.iter().zip(&reads) {
            let config = medium.config(threads);
            report.samples(&medium.label.name, &config, "read bandwidth", samples, "bytes/s")?;
        }
    }
    // Written last: what is written is not what the others read.
    for threads in thread_counts(settings) {
        let writes = bandwidths(&media, settings, bytes, |medium| write(medium, bytes, threads))?;
        for (medium, samples) in media.iter().zip(&writes) {
            let config = medium.config(threads);
            report.samples(&medium.label.name, &config, "write bandwidth", samples, "bytes/s")?;
        }
    }
    Ok(())
}

/// Returns the bytes of a column of 4-byte values: a power of two of at least 4 MiB.
pub(super) fn column_bytes(settings: &Settings) -> u64 {
    let rows = settings
        .rows
        .unwrap_or(if settings.quick { 1 << 20 } else { 64 << 20 });
    (rows as u64 * 4).next_power_of_two().max(4 << 20)
}

/// Measures all media in turn.
fn bandwidths(
    media: &[AccessMedium],
    settings: &Settings,
    bytes: u64,
    mut pass: impl FnMut(&AccessMedium) -> Result<(u64, f64), BenchError>,
) -> Result<Vec<Samples>, BenchError> {
    let mut samples = vec![Samples::default(); media.len()];
    for repetition in 0..=settings.repetitions(5) {
        let mut answers = Vec::new();
        for (medium, samples) in media.iter().zip(&mut samples) {
            let (answer, seconds) = pass(medium)?;
            answers.push(answer);
            // The first pass warms up.
            if repetition > 0 {
                samples.push(bytes as f64 / seconds);
            }
        }
        ensure_same("the sum of all values", media, &answers)?;
    }
    Ok(samples)
}

/// Reads all bytes once. Returns their sum and the seconds.
pub(super) fn read(medium: &AccessMedium, bytes: u64, threads: usize) -> Result<(u64, f64), BenchError> {
    let (sum, time) = in_parallel(medium, threads, bytes / MORSEL, &|part| {
        kernels::sum(&medium.medium, part * MORSEL, MORSEL)
    });
    Ok((sum, time.as_secs_f64()))
}

/// Writes all bytes once and flushes them. Returns the number of failed fences, and the seconds.
fn write(medium: &AccessMedium, bytes: u64, threads: usize) -> Result<(u64, f64), BenchError> {
    let morsel: Vec<u8> = (0..MORSEL).map(|at| (at % 251) as u8).collect();
    let (failed, time) = in_parallel(medium, threads, bytes / MORSEL, &|part| {
        medium.medium.store(part * MORSEL, &morsel);
        medium.medium.flush(part * MORSEL, MORSEL);
        u64::from(medium.medium.fence().is_err())
    });
    if failed > 0 {
        medium.medium.fence()?;
    }
    Ok((failed, time.as_secs_f64()))
}
