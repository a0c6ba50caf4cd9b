//! `elf-layout`: the layouts of the Elf against each other, on a uniform table in DRAM or on an emulated
//! medium.
//!
//! Queries run on one thread; query points are rows drawn with Zipf skew 0.5. The builds are those one would
//! compare: `packed` on all threads, `published` on one, both in DRAM.

mod data;
mod measure;

use halocline_elf::Layout;
use halocline_emulator::Device;
use halocline_media::Bytes;

use crate::medium::announce;
use crate::{BenchError, Config, Reporter, Settings, View, config};

use data::Dataset;
use measure::{Answered, Built, Opened, Question};

const DIMS: usize = 10;
const CARDINALITY: u32 = 100;
const THETA: f64 = 0.5;
const PERCENT: f64 = 2.0;

pub(super) const VIEWS: &[View] = &[
    View {
        title: "build, size and queries a second by layout",
        metrics: &[
            "build",
            "size",
            "exact",
            "exact_batch",
            "range 2 %",
            "partial 0,2,4,6,8",
            "partial 1,2",
        ],
        split: &["medium"],
        rows: &["metric"],
        columns: "system",
        base: Some("published"),
    },
    View {
        title: "lines and units of the device a query",
        metrics: &["lines", "units"],
        split: &["medium"],
        rows: &["question", "metric"],
        columns: "system",
        base: None,
    },
];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let rows = settings
        .rows
        .unwrap_or(if settings.quick { 20_000 } else { 10_000_000 });
    report.set("rows", rows);
    report.set("dims", DIMS);
    report.set("cardinality", CARDINALITY);
    report.set("theta", THETA);
    report.set("seed", settings.seed);
    report.set("medium", "DRAM");
    let medium = settings.emulated()?;
    report.line(&format!(
        "uniform table, {rows} rows x {DIMS} dimensions x {CARDINALITY} values, seed {}",
        settings.seed
    ))?;
    let data = Dataset::generate(rows, settings);

    let built = measure::build(&data, settings.threads(), settings.repetitions(3))?;
    build_values(report, &built, settings.threads())?;
    let Some(medium) = medium else {
        return questions(&data, &built.in_dram()?, settings, report);
    };
    let device = Device::new(&medium)?;
    announce(Some(&device), report)?;
    report.set("medium", device.to_string());
    questions(&data, &built.on(&medium)?, settings, report)
}

/// Asks all questions.
fn questions<B: Bytes>(
    data: &Dataset,
    indexes: &[Opened<B>; 2],
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let emulated = settings.emulated()?.is_some();
    for question in Question::ALL {
        let (name, queries) = (question.name(), data.count(question));
        let config = config! {"threads": 1, "queries": queries, "percent": PERCENT, "question": name};
        let answered = measure::answer(question, data, indexes, settings.repetitions(5))?;
        for (layout, Answered { rates, counts }) in [Layout::Packed, Layout::Published].iter().zip(answered) {
            let layout = layout.to_string();
            report.samples(&layout, &config, name, &rates, "1/s")?;
            if emulated {
                let each = |count: u64| count as f64 / queries as f64;
                report.value(&layout, &config, "lines", each(counts.lines), "lines/query")?;
                report.value(&layout, &config, "units", each(counts.units), "units/query")?;
            }
        }
    }
    Ok(())
}

fn build_values(report: &mut Reporter<'_>, built: &Built, threads: usize) -> Result<(), BenchError> {
    let (packed, published) = (built.packed.len() as f64, built.published.len() as f64);
    report.samples(
        "packed",
        &config! {"threads": threads},
        "build",
        &built.packed_seconds,
        "s",
    )?;
    report.samples(
        "published",
        &config! {"threads": 1},
        "build",
        &built.published_seconds,
        "s",
    )?;
    report.value("packed", &Config::new(), "size", packed, "bytes")?;
    report.value("published", &Config::new(), "size", published, "bytes")
}
