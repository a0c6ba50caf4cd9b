//! `access-random`: hash probes by size of the table, which is half full, with probe side and table on the
//! medium, beside two [models](super::model).

use halocline_calibrate::kernels::{self, ProbeTable};

use super::medium::AccessMedium;
use super::model::{PublishedModel, error_percent};
use super::sequential::read;
use super::{ensure_same, in_parallel, media};
use crate::{BenchError, Chart, Reporter, Samples, Settings, TableView};

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
        title: "difference of the models from the fastest run",
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
        metrics,
        split,
        x: "table_bytes",
        series,
        x_label: "bytes of the table",
        y_label: "ms",
        scale: 1e3,
        ..Chart::LINES
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
const MIN_TABLE_BYTES: u64 = 32 << 10;
/// Bytes of the largest table for each row of the probe side.
const TABLE_BYTES_PER_ROW: u64 = 32;
/// Rows of the probe side that a thread takes at once.
const MORSEL_ROWS: u64 = 16 << 10;
/// Passes of the bandwidth measurement for the published model, after one that warms up.
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
    let probe_side = ProbeSide {
        at: largest,
        rows,
        threads,
    };
    let models: Vec<PublishedModel> = media
        .iter()
        .map(|medium| probe_side.published_model(medium))
        .collect::<Result<_, _>>()?;
    let mut table_bytes = MIN_TABLE_BYTES;
    while table_bytes <= largest {
        let measured = probe_side.measure(&media, table_bytes, &keys, settings.repetitions(5))?;
        for ((medium, model), times) in media.iter().zip(&models).zip(&measured) {
            let config = medium.config_with(threads, "table_bytes", table_bytes);
            report.samples(&medium.label.name, &config, "time", &times.join, "s")?;
            // Other load of the machine is no part of a model: the fastest runs count.
            let predicted = times.read.min() + times.probe.min();
            let published = model.runtime(rows as f64, table_bytes as f64);
            for (name, predicted) in [("model", predicted), ("published model", published)] {
                let error = error_percent(predicted, times.join.min());
                report.value(&medium.label.name, &config, name, predicted, "s")?;
                report.value(&medium.label.name, &config, &format!("{name} error"), error, "%")?;
            }
        }
        table_bytes *= 2;
    }
    Ok(())
}

/// Seconds on a medium.
#[derive(Debug, Clone, Default)]
struct ProbeTimes {
    /// Of the join.
    join: Samples,
    /// Of reading the probe side alone.
    read: Samples,
    /// Of the probes alone.
    probe: Samples,
}

/// The probe side of the joins: a column of keys, of which every one matches, and one of payloads.
struct ProbeSide {
    /// The offset on the medium.
    at: u64,
    rows: u64,
    threads: usize,
}

impl ProbeSide {
    /// Measures what the published model needs of a medium.
    fn published_model(&self, medium: &AccessMedium) -> Result<PublishedModel, BenchError> {
        let mut seconds = Samples::default();
        for _ in 0..=CALIBRATIONS {
            seconds.push(read(medium, self.at, self.threads)?.1);
        }
        Ok(PublishedModel {
            bandwidth: self.at as f64 / seconds.min(),
            unit: medium.unit() as f64,
            cache_bytes: medium.cache_bytes() as f64,
        })
    }

    /// Measures the join of a table of that size on all media, and its parts, in turn.
    fn measure(
        &self,
        media: &[AccessMedium],
        table_bytes: u64,
        random: &[u32],
        repetitions: usize,
    ) -> Result<Vec<ProbeTimes>, BenchError> {
        let tables: Vec<ProbeTable<'_>> = media
            .iter()
            .map(|medium| ProbeTable::build(&medium.medium, table_bytes))
            .collect();
        // The same keys on every medium, of those in the table.
        let in_table = |key: &u32| (u64::from(*key) % tables[0].keys()) as u32;
        let keys: Vec<u32> = random.iter().map(in_table).collect();
        media.iter().for_each(|medium| self.store(medium, &keys));
        let mut times = vec![ProbeTimes::default(); media.len()];
        for repetition in 0..=repetitions {
            let mut answers = Vec::new();
            for ((medium, table), times) in media.iter().zip(&tables).zip(&mut times) {
                let (answer, join) = self.join(medium, table);
                let (read, probe) = (self.read(medium), self.probe(medium, table, &keys));
                answers.push(answer);
                // The first pass warms up.
                if repetition > 0 {
                    times.join.push(join);
                    times.read.push(read);
                    times.probe.push(probe);
                }
            }
            ensure_same("the sum over all matches", media, &answers)?;
        }
        Ok(times)
    }

    /// Stores the columns: keys, then payloads, which are the numbers of the rows.
    fn store(&self, medium: &AccessMedium, keys: &[u32]) {
        let payloads: Vec<u32> = (0..keys.len() as u32).collect();
        let mut at = self.at;
        for values in keys.chunks(1 << 16).chain(payloads.chunks(1 << 16)) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            medium.medium.store(at, &bytes);
            at += bytes.len() as u64;
        }
    }

    /// Joins all rows with the table, and sums the payloads of both. Returns the sum, and the seconds.
    fn join(&self, medium: &AccessMedium, table: &ProbeTable<'_>) -> (u64, f64) {
        let (sum, time) = in_parallel(medium, self.threads, self.rows / MORSEL_ROWS, &|part| {
            let keys = self.at + 4 * part * MORSEL_ROWS;
            let (matches, sum) = table.probe_columns(keys, keys + 4 * self.rows, MORSEL_ROWS);
            sum.wrapping_add(matches)
        });
        (sum, time.as_secs_f64())
    }

    /// Reads all rows without a probe. Returns the seconds.
    fn read(&self, medium: &AccessMedium) -> f64 {
        let (_, time) = in_parallel(medium, self.threads, self.rows / MORSEL_ROWS, &|part| {
            let keys = self.at + 4 * part * MORSEL_ROWS;
            kernels::read_columns(&medium.medium, keys, keys + 4 * self.rows, MORSEL_ROWS).1
        });
        time.as_secs_f64()
    }

    /// Probes for the same keys, which are at hand in DRAM. Returns the seconds.
    fn probe(&self, medium: &AccessMedium, table: &ProbeTable<'_>, keys: &[u32]) -> f64 {
        let (_, time) = in_parallel(medium, self.threads, self.rows / MORSEL_ROWS, &|part| {
            table
                .probe(&keys[(part * MORSEL_ROWS) as usize..][..MORSEL_ROWS as usize])
                .1
        });
        time.as_secs_f64()
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
