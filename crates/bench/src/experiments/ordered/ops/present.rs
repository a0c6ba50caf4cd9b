//! Values, tables and figure of the measurements.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::place::Place;
use super::{Contender, Operation, Row, paper};
use crate::plot::{self, Frame, GroupedColumns};
use crate::{Backing, BenchError, Reporter, Settings};

pub(super) fn values(
    report: &mut Reporter<'_>,
    contenders: &[Contender],
    measured: &[Row],
    rows: usize,
) -> Result<(), BenchError> {
    for row in measured {
        let results = row.rates.iter().zip(&row.charges);
        for (contender, (rates, charge)) in contenders.iter().zip(results) {
            if rates.is_empty() {
                continue;
            }
            let mut config = contender.config.clone();
            config.insert("operation".to_owned(), json!(row.operation.name()));
            config.insert("operations".to_owned(), json!(row.operation.count(rows)));
            config.insert("threads".to_owned(), json!(row.threads));
            if let (Some(call_ns), Some(off)) = (charge.call_ns, charge.off()) {
                config.insert("call_ns".to_owned(), json!(call_ns));
                config.insert("dram_emulated_over_dram".to_owned(), json!(off));
            }
            report.samples(&contender.name, &config, "rate", rates, "Mop/s")?;
        }
    }
    Ok(())
}

fn rate(rate: f64) -> String {
    match rate.is_finite() {
        true => format!("{rate:.3}"),
        false => String::new(),
    }
}

pub(super) fn tables(
    report: &mut Reporter<'_>,
    place: &Place,
    contenders: &[Contender],
    measured: &[Row],
) -> Result<(), BenchError> {
    let threads: BTreeSet<usize> = measured.iter().map(|row| row.threads).collect();
    for threads in threads {
        let columns: Vec<&Row> = measured.iter().filter(|row| row.threads == threads).collect();
        let mut header = vec!["Mop/s"];
        header.extend(columns.iter().map(|row| row.operation.name()));
        let mut lines: Vec<Vec<String>> = vec![];
        for (at, contender) in contenders.iter().enumerate() {
            let mut cells = vec![contender.name.clone()];
            cells.extend(columns.iter().map(|row| rate(row.rates[at].median())));
            lines.push(cells);
        }
        if threads == 1 && place.medium == Backing::Dax {
            for public in &paper::ALL {
                let mut cells = vec![format!("({})", public.name)];
                let rates = columns.iter().map(|row| public.rate(row.operation));
                cells.extend(rates.map(|public| rate(public.unwrap_or(f64::NAN))));
                lines.push(cells);
            }
        }
        let many = if threads == 1 { "thread" } else { "threads" };
        report.line(&format!("{}, {threads} {many}", place.name()))?;
        report.table(&header, lines)?;
        charged(report, contenders, &columns)?;
        if threads > 1 {
            scaling(report, contenders, measured, threads)?;
        }
    }
    if place.medium == Backing::Dax {
        report.line("in brackets: public programs on another machine, for scale; not run here")?;
    }
    Ok(())
}

/// Prints the cost of the emulation's calls to the trees, which is not in the rates.
fn charged(report: &mut Reporter<'_>, contenders: &[Contender], columns: &[&Row]) -> Result<(), BenchError> {
    let mut header = vec!["ns a call"];
    header.extend(columns.iter().map(|row| row.operation.name()));
    let emulated = contenders
        .iter()
        .enumerate()
        .filter(|(_, contender)| contender.twins.is_some());
    let lines = emulated.map(|(at, contender)| {
        let cell = |row: &&Row| {
            let charge = row.charges[at];
            let found = charge.call_ns.zip(charge.off());
            found.map_or_else(String::new, |(call, off)| {
                format!("{call:.1} ({:+.0} %)", off * 100.0)
            })
        };
        std::iter::once(contender.name.clone())
            .chain(columns.iter().map(cell))
            .collect()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    report.line("what a call of the emulation costs its caller, taken off, and how far a device like this host's DRAM is then off a file in DRAM:")?;
    report.table(&header, lines)
}

/// How many times as fast several threads are as one.
fn scaling(
    report: &mut Reporter<'_>,
    contenders: &[Contender],
    measured: &[Row],
    threads: usize,
) -> Result<(), BenchError> {
    let mut header = vec![format!("{threads} threads over 1")];
    header.extend(Operation::ROUND.map(|operation| operation.name().to_owned()));
    let of = |operation: Operation, threads: usize, at: usize| {
        let mut rows = measured.iter();
        let row = rows.find(|row| row.operation == operation && row.threads == threads);
        row.map_or(f64::NAN, |row| row.rates[at].median())
    };
    let lines = contenders.iter().enumerate().map(|(at, contender)| {
        let mut cells = vec![contender.name.clone()];
        cells.extend(Operation::ROUND.map(|operation| {
            let times = of(operation, threads, at) / of(operation, 1, at);
            match times.is_finite() {
                true => format!("{times:.2}x"),
                false => String::new(),
            }
        }));
        cells
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    report.table(&header, lines.collect())
}

pub(super) fn figure(
    report: &mut Reporter<'_>,
    settings: &Settings,
    place: &Place,
    contenders: &[Contender],
    measured: &[Row],
    rows: usize,
) -> Result<(), BenchError> {
    let Some(directory) = &settings.tiers.plots else {
        return Ok(());
    };
    let one: Vec<&Row> = measured.iter().filter(|row| row.threads == 1).collect();
    let groups = one.iter().map(|row| row.operation.name().to_owned());
    let series = contenders.iter().enumerate().map(|(at, contender)| {
        let rates = one.iter().map(|row| row.rates[at].median());
        (contender.name.clone(), rates.collect())
    });
    let columns = GroupedColumns {
        frame: Frame {
            title: "Operations of ordered trees".to_owned(),
            x: "operation".to_owned(),
            y: "millions a second".to_owned(),
            foot: format!(
                "{rows} random keys by inserts, keys and values of 8 bytes, {}, one thread, seed {}, median of {} rounds in turn",
                place.name(),
                settings.seed,
                settings.repetitions(3)
            ),
        },
        groups: groups.collect(),
        series: series.collect(),
    };
    let path = plot::write(directory, &format!("tree-ops-{}", place.medium), &columns)?;
    report.line(&format!("figure: {}", path.display()))
}
