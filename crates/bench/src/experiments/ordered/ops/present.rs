//! The measured values, and their figure.

use serde_json::json;

use super::super::place::Place;
use super::{Contender, Row};
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Reporter, Settings};

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
            if let (Some(call_ns), Some(off)) = (charge.call_ns, charge.off()) {
                report.value(&contender.name, &config, "charge of a call", call_ns, "ns")?;
                report.value(
                    &contender.name,
                    &config,
                    "emulated DRAM over DRAM",
                    off * 100.0,
                    "%",
                )?;
            }
        }
    }
    Ok(())
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
