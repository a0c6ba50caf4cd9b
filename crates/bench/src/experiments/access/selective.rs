//! `access-selective`: the time to read every j-th 4-byte value of a column. It falls once the distance
//! between values that are read passes the access unit of the medium.

use halocline_calibrate::kernels;

use super::sequential::column_bytes;
use super::{ensure_same, in_parallel, media};
use crate::{BenchError, Chart, Reporter, Samples, Settings, TableView};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "time to read every j-th 4-byte value of a column, by bytes from one to the next",
    metrics: &["time"],
    split: &[],
    rows: &["stride_bytes"],
    columns: "system",
    base: None,
}];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    title: "time to read every j-th value of a column",
    metrics: &["time"],
    x: "stride_bytes",
    x_label: "bytes from one value read to the next",
    y_label: "ms",
    scale: 1e3,
    ..Chart::LINES
}];

/// Bytes that a thread takes at once.
const MORSEL: u64 = 64 << 10;
/// Distances from all values to one in each page.
const STRIDES: std::ops::RangeInclusive<u32> = 2..=12;

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let bytes = column_bytes(settings);
    let media = media(settings, bytes, report)?;
    let threads = settings.threads();
    report.set("rows", bytes / 4);
    for stride in STRIDES.map(|bits| 1_u64 << bits) {
        let mut samples = vec![Samples::default(); media.len()];
        for repetition in 0..=settings.repetitions(5) {
            let mut answers = Vec::new();
            for (medium, samples) in media.iter().zip(&mut samples) {
                let (sum, time) = in_parallel(medium, threads, bytes / MORSEL, &|part| {
                    u64::from(kernels::sum_strided(&medium.medium, part * MORSEL, MORSEL, stride).1)
                });
                answers.push(sum);
                // The first pass warms up.
                if repetition > 0 {
                    samples.push(time.as_secs_f64());
                }
            }
            ensure_same("the sum of the values read", &media, &answers)?;
        }
        for (medium, samples) in media.iter().zip(&samples) {
            let config = medium.config_with(threads, "stride_bytes", stride);
            report.samples(&medium.label.name, &config, "time", samples, "s")?;
        }
    }
    Ok(())
}
