//! `access-random`: hash probes by size of the table, which is half full, with probe side and table on the
//! medium, beside two [models](super::model).

use halocline_emulator::Watch;
use halocline_media::kernels::ProbeTable;

use super::medium::AccessMedium;
use super::model::{ProbeModel, error_percent};
use super::sequential::read;
use super::{MORSEL, agree, in_parallel, media};
use crate::{BenchError, Chart, ChartKind, Reporter, Samples, Settings, TableView};

pub(in crate::experiments) const VIEWS: &[TableView] = &[
    TableView {
        title: "time of all probes, by bytes of the table",
        metrics: &["time"],
        split: &[],
        rows: &["table_bytes"],
        columns: "system",
        base: None,
    },
    TableView {
        title: "difference of the models from the measurement",
        metrics: &["model error", "published model error"],
        split: &["metric"],
        rows: &["table_bytes"],
        columns: "system",
        base: None,
    },
];

const fn chart(
    name: &'static str,
    title: &'static str,
    metrics: &'static [&'static str],
    split: &'static [&'static str],
    series: &'static str,
) -> Chart {
    Chart {
        name,
        title,
        kind: ChartKind::Lines,
        metrics,
        split,
        x: "table_bytes",
        series,
        base: None,
        x_label: "bytes of the table",
        y_label: "ms",
        scale: 1e3,
    }
}

pub(in crate::experiments) const CHARTS: &[Chart] = &[
    chart("", "time of all probes", &["time"], &[], "system"),
    chart(
        "models",
        "time of all probes, measured and predicted",
        &["time", "model", "published model"],
        &["system"],
        "metric",
    ),
];

/// Smallest table, in bytes.
const LEAST_TABLE: u64 = 32 << 10;
/// Bytes of the largest table for each row of the probe side.
const TABLE_BYTES_PER_ROW: u64 = 32;
/// Rows of the probe side that a thread takes at once.
const MORSEL_ROWS: u64 = 16 << 10;
/// Passes over the calibration's keys, after one that warms up.
const CALIBRATIONS: usize = 3;
/// Rows of a smoke test, and of a measurement.
const QUICK_ROWS: u64 = 64 << 10;
const ROWS: u64 = 4 << 20;

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let default = if settings.quick { QUICK_ROWS } else { ROWS };
    let rows = settings.rows.map_or(default, |rows| rows as u64);
    let rows = rows.next_power_of_two().max(QUICK_ROWS);
    let largest = rows * TABLE_BYTES_PER_ROW;
    let keys: Vec<u32> = random_keys(settings.seed, rows);
    let media = media(settings, largest + 8 * rows, report)?;
    let threads = settings.threads();
    report.set("rows", rows);
    let models: Vec<ProbeModel> = media
        .iter()
        .map(|medium| model(medium, largest, threads))
        .collect::<Result<_, _>>()?;
    let mut table_bytes = LEAST_TABLE;
    while table_bytes <= largest {
        let tables: Vec<ProbeTable<'_>> = media
            .iter()
            .map(|medium| ProbeTable::build(&medium.medium, table_bytes))
            .collect();
        // The same keys on every medium, of those in the table.
        let keys: Vec<u32> = keys
            .iter()
            .map(|key| (u64::from(*key) % tables[0].keys()) as u32)
            .collect();
        for medium in &media {
            store_probe_side(medium, largest, &keys);
        }
        let probes: Vec<f64> = media
            .iter()
            .zip(&tables)
            .map(|(medium, table)| probe_cost(medium, table, &keys))
            .collect();
        let mut samples = vec![Samples::default(); media.len()];
        for repetition in 0..=settings.repetitions(3) {
            let mut answers = Vec::new();
            for ((medium, table), samples) in media.iter().zip(&tables).zip(&mut samples) {
                let (answer, seconds) = join(medium, table, largest, rows, threads);
                answers.push(answer);
                // The first pass warms up.
                if repetition > 0 {
                    samples.push(seconds);
                }
            }
            agree("the sum over all matches", &media, &answers)?;
        }
        for (at, medium) in media.iter().enumerate() {
            let config = medium.config_with(threads, "table_bytes", table_bytes);
            let (model, measured) = (&models[at], samples[at].median());
            let (rows, bytes) = (rows as f64, table_bytes as f64);
            let predicted = model.runtime(rows, bytes, probes[at]);
            let published = model.published_runtime(rows, bytes);
            report.samples(&medium.name, &config, "time", &samples[at], "s")?;
            for (name, predicted) in [("model", predicted), ("published model", published)] {
                let error = error_percent(predicted, measured);
                report.value(&medium.name, &config, name, predicted, "s")?;
                report.value(&medium.name, &config, &format!("{name} error"), error, "%")?;
            }
        }
        table_bytes *= 2;
    }
    Ok(())
}

/// Measures what the models need of a medium, on its first bytes.
fn model(medium: &AccessMedium, bytes: u64, threads: usize) -> Result<ProbeModel, BenchError> {
    let bytes = bytes / MORSEL * MORSEL;
    let bandwidth = |threads| -> Result<f64, BenchError> {
        let mut samples = Samples::default();
        for _ in 0..=CALIBRATIONS {
            samples.push(read(medium, bytes, threads)?.1);
        }
        Ok(bytes as f64 / samples.median())
    };
    Ok(ProbeModel {
        single_bandwidth: bandwidth(1)?,
        bandwidth: bandwidth(threads)?,
        threads: threads as f64,
        unit: medium.unit() as f64,
        cache_bytes: medium.cache_bytes() as f64,
    })
}

/// Returns the seconds per probe of one thread, with keys in DRAM.
fn probe_cost(medium: &AccessMedium, table: &ProbeTable<'_>, keys: &[u32]) -> f64 {
    let mut samples = Samples::default();
    for pass in 0..=CALIBRATIONS {
        let watch = Watch::start_alone(medium.device.as_ref());
        std::hint::black_box(table.probe(keys));
        let seconds = watch.elapsed().as_secs_f64();
        if pass > 0 {
            samples.push(seconds / keys.len() as f64);
        }
    }
    samples.median()
}

/// Joins the probe side, of which every key matches, with the table, and sums the payloads of both. Returns
/// the sum, and the seconds.
fn join(
    medium: &AccessMedium,
    table: &ProbeTable<'_>,
    probe_side: u64,
    rows: u64,
    threads: usize,
) -> (u64, f64) {
    let (sum, time) = in_parallel(medium, threads, rows / MORSEL_ROWS, &|part| {
        let first = part * MORSEL_ROWS;
        let (keys, payloads) = (probe_side + 4 * first, probe_side + 4 * (rows + first));
        let (matches, sum) = table.probe_columns(keys, payloads, MORSEL_ROWS);
        sum.wrapping_add(matches)
    });
    (sum, time.as_secs_f64())
}

/// Stores the columns of the probe side: keys, then payloads, which are the numbers of the rows.
fn store_probe_side(medium: &AccessMedium, at: u64, keys: &[u32]) {
    let payloads: Vec<u32> = (0..keys.len() as u32).collect();
    let mut at = at;
    for column in [keys, &payloads] {
        for values in column.chunks(1 << 16) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            medium.medium.store(at, &bytes);
            at += bytes.len() as u64;
        }
    }
}

/// Returns random numbers (Marsaglia's xorshift64*).
fn random_keys(seed: u64, count: u64) -> Vec<u32> {
    let mut state = seed | 1 << 32;
    let next = |_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    };
    (0..count).map(next).collect()
}
