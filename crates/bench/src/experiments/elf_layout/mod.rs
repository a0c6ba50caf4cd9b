//! `elf-layout`: the layouts of the Elf against each other, on a uniform table in DRAM or on an emulated
//! medium.
//!
//! Queries run on one thread; query points are rows drawn with Zipf skew 0.5. The builds are those one would
//! compare: `packed` on all threads asked for, `published` on one, in DRAM in any case.

mod data;
mod measure;

use halocline_elf::Layout;
use halocline_emulator::Device;
use halocline_media::Bytes;

use crate::medium::announce;
use crate::{BenchError, Config, Reporter, Samples, Settings, config};

use data::Dataset;
use measure::{Answered, Built, Opened, Question};

const DIMS: usize = 10;
const CARDINALITY: u32 = 100;
const THETA: f64 = 0.5;
const PERCENT: f64 = 2.0;

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
    let medium = settings.emulated()?;
    report.line(&format!(
        "uniform table, {rows} rows x {DIMS} dimensions x {CARDINALITY} values, seed {}",
        settings.seed
    ))?;
    let data = Dataset::generate(rows, settings);

    let built = measure::build(&data, threads, settings.repetitions(3))?;
    let mut lines = vec![build_line(report, &built, threads)?, size_line(report, &built)?];
    let Some(medium) = medium else {
        lines.extend(questions(&data, &built.in_dram()?, settings, report)?);
        return report.table(&["", "packed", "published", "ratio"], lines);
    };
    report.table(&["in DRAM", "packed", "published", "ratio"], lines)?;
    let device = Device::new(&medium)?;
    announce(Some(&device), report)?;
    report.set("medium", device.to_string());
    let lines = questions(&data, &built.on(&medium)?, settings, report)?;
    let header = [
        "on the medium",
        "packed",
        "published",
        "ratio",
        "lines a query",
        "units a query",
    ];
    report.table(&header, lines)
}

/// Asks all questions; their lines of the table.
fn questions<B: Bytes>(
    data: &Dataset,
    indexes: &[Opened<B>; 2],
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<Vec<Vec<String>>, BenchError> {
    let mut lines = Vec::new();
    for question in Question::ALL {
        let answered = measure::answer(question, data, indexes, settings.repetitions(5))?;
        let emulated = settings.emulated()?.is_some();
        lines.push(question_line(
            report,
            question,
            &answered,
            data.count(question),
            emulated,
        )?);
    }
    Ok(lines)
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
    ])
}

fn size_line(report: &mut Reporter<'_>, built: &Built) -> Result<Vec<String>, BenchError> {
    let (packed, published) = (built.packed.len() as f64, built.published.len() as f64);
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
    ])
}

fn question_line(
    report: &mut Reporter<'_>,
    question: Question,
    answered: &[Answered; 2],
    queries: usize,
    emulated: bool,
) -> Result<Vec<String>, BenchError> {
    let name = question.name();
    let config = config! {"threads": 1, "queries": queries, "percent": PERCENT};
    let mut medians = Vec::new();
    let mut cells = Vec::new();
    let (mut read_lines, mut read_units) = (Vec::new(), Vec::new());
    for (layout, Answered { rates, counts }) in [Layout::Packed, Layout::Published].into_iter().zip(answered)
    {
        let layout = layout.to_string();
        report.samples(&layout, &config, name, rates, "1/s")?;
        medians.push(rates.median());
        cells.push(format!("{} {}", rate(rates.median()), spread(rates)));
        for (metric, count, cells) in [
            ("lines", counts.lines, &mut read_lines),
            ("units", counts.units, &mut read_units),
        ] {
            let each = count as f64 / queries as f64;
            if emulated {
                let full = format!("{name}.{metric}");
                report.value(&layout, &config, &full, each, &format!("{metric}/query"))?;
            }
            cells.push(format!("{each:.2}"));
        }
    }
    let ratio = medians[0] / medians[1];
    report.value(
        "packed",
        &config! {"against": "published"},
        &format!("{name}.ratio"),
        ratio,
        "x",
    )?;
    let mut line = vec![
        format!("{name}, queries/s"),
        cells[0].clone(),
        cells[1].clone(),
        format!("{ratio:.2}x"),
    ];
    if emulated {
        line.extend([read_lines.join(" | "), read_units.join(" | ")]);
    }
    Ok(line)
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
