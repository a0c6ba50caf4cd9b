//! `elf-layout`: the layouts of the Elf against each other, on a uniform table in DRAM.
//!
//! Queries run on one thread; query points are rows drawn with Zipf skew 0.5. The builds are those one would compare:
//! `packed` on all threads asked for, `published` on one.

mod data;
mod measure;

use halocline_elf::Layout;

use crate::{BenchError, Config, Reporter, Samples, Settings, config};

use data::Dataset;
use measure::{Built, Question};

const DIMS: usize = 10;
const CARDINALITY: u32 = 100;
const THETA: f64 = 0.5;
const PERCENT: f64 = 2.0;

/// How many times better `packed` is to be, by what is measured; the size is to be at most this part.
const SIZE_BAR: f64 = 0.35;
const BUILD_BAR: f64 = 3.0;

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let rows = settings
        .rows
        .unwrap_or(if settings.quick { 20_000 } else { 10_000_000 });
    let threads = settings.threads();
    report.set("rows", rows);
    report.set("dims", DIMS);
    report.set("cardinality", CARDINALITY);
    report.set("theta", THETA);
    report.set("seed", settings.seed);
    report.set("medium", "DRAM");
    report.line(&format!(
        "uniform table, {rows} rows x {DIMS} dimensions x {CARDINALITY} values, seed {}",
        settings.seed
    ))?;
    let data = Dataset::generate(rows, settings);

    let built = measure::build(&data, threads, settings.repetitions(3))?;
    let mut lines = vec![build_line(report, &built, threads)?, size_line(report, &built)?];
    for question in Question::ALL {
        let samples = measure::answer(question, &data, &built, settings.repetitions(5))?;
        lines.push(question_line(report, question, &samples, data.count(question))?);
    }
    report.table(&["", "packed", "published", "ratio", "bar", ""], lines)
}

fn build_line(report: &mut Reporter<'_>, built: &Built, threads: usize) -> Result<Vec<String>, BenchError> {
    let (packed, published) = (&built.packed_seconds, &built.published_seconds);
    report.samples("packed", &config! {"threads": threads}, "build", packed, "s")?;
    report.samples("published", &config! {"threads": 1}, "build", published, "s")?;
    let ratio = published.median() / packed.median();
    report.value(
        "packed",
        &config! {"threads": threads, "against": "published"},
        "build.ratio",
        ratio,
        "x",
    )?;
    Ok(vec![
        format!("build, s ({threads} and 1 threads)"),
        format!("{:.2} {}", packed.median(), spread(packed)),
        format!("{:.2} {}", published.median(), spread(published)),
        format!("{ratio:.2}x"),
        format!(">= {BUILD_BAR}x"),
        verdict(ratio >= BUILD_BAR),
    ])
}

fn size_line(report: &mut Reporter<'_>, built: &Built) -> Result<Vec<String>, BenchError> {
    let (packed, published) = (built.packed.size() as f64, built.published.size() as f64);
    report.value("packed", &Config::new(), "size", packed, "bytes")?;
    report.value("published", &Config::new(), "size", published, "bytes")?;
    let ratio = packed / published;
    report.value(
        "packed",
        &config! {"against": "published"},
        "size.ratio",
        ratio,
        "x",
    )?;
    Ok(vec![
        "size, MB".to_owned(),
        format!("{:.1}", packed / 1e6),
        format!("{:.1}", published / 1e6),
        format!("{ratio:.3}x"),
        format!("<= {SIZE_BAR}x"),
        verdict(ratio <= SIZE_BAR),
    ])
}

fn question_line(
    report: &mut Reporter<'_>,
    question: Question,
    samples: &[(Layout, Samples)],
    queries: usize,
) -> Result<Vec<String>, BenchError> {
    let name = question.name();
    let config = config! {"threads": 1, "queries": queries, "percent": PERCENT};
    let mut medians = Vec::new();
    let mut cells = Vec::new();
    for (layout, samples) in samples {
        report.samples(&layout.to_string(), &config, name, samples, "1/s")?;
        medians.push(samples.median());
        cells.push(format!("{} {}", rate(samples.median()), spread(samples)));
    }
    let ratio = medians[0] / medians[1];
    report.value(
        "packed",
        &config! {"against": "published"},
        &format!("{name}.ratio"),
        ratio,
        "x",
    )?;
    Ok(vec![
        format!("{name}, queries/s"),
        cells[0].clone(),
        cells[1].clone(),
        format!("{ratio:.2}x"),
        format!(">= {}x", question.bar()),
        verdict(ratio >= question.bar()),
    ])
}

fn verdict(reached: bool) -> String {
    if reached { "reached" } else { "missed" }.to_owned()
}

/// Half the distance between the extremes, relative to the median.
fn spread(samples: &Samples) -> String {
    format!(
        "±{:.0} %",
        (samples.max() - samples.min()) / 2.0 / samples.median() * 100.0
    )
}

fn rate(per_second: f64) -> String {
    if per_second >= 1e6 {
        format!("{:.2} M", per_second / 1e6)
    } else {
        format!("{:.2} k", per_second / 1e3)
    }
}
