//! What is asked of the engine, and whether it was reached, as far as the variants of a run tell.

use halocline_engine::TableEncoding;

use super::Results;
use super::system::System;
use super::variant::Variant;
use crate::{Backing, BenchError, Reporter, config};

/// Emulated Optane against DRAM, both as chosen.
const OPTANE: f64 = 1.25;
/// Emulated Optane, as chosen, against plain columns in DRAM.
const OPTANE_TO_PLAIN: f64 = 1.0;
/// Ten times the rows take so many times as long.
const ROWS: f64 = 10.5;
/// Two threads are so many times as fast as one.
const THREADS: f64 = 1.7;
/// The pool's lineorder against that of the Parquet files.
const SIZE: f64 = 1.0;
/// Rows a second of an import.
const IMPORT: f64 = 1e6;
/// Bytes of DRAM beyond the mapped pool.
const DRAM: f64 = 64e6;

struct Bar {
    what: String,
    wanted: String,
    measured: f64,
    unit: &'static str,
    reached: bool,
}

/// All of a run.
pub(super) struct Bars(Vec<Bar>);

impl Bars {
    pub(super) fn of(results: &Results, systems: &[System]) -> Self {
        let mut bars = Self(vec![]);
        let variants = &results.variants;
        for (at, variant) in variants.iter().enumerate() {
            if !variant.star || !systems[at].is_real() || variant.stored.encoding != TableEncoding::Chosen {
                continue;
            }
            let label = variant.label(variants);
            let beside = |change: &dyn Fn(&mut Variant)| {
                let mut other = variant.clone();
                change(&mut other);
                let other = variants.iter().position(|variant| *variant == other)?;
                Some((
                    results.mean(at) / results.mean(other),
                    variants[other].label(variants),
                ))
            };
            if variant.backing == Backing::Emulated {
                if let Some((ratio, other)) = beside(&|other| other.backing = Backing::Dram) {
                    bars.most(format!("{label} to {other}, geomean"), OPTANE, ratio, "x");
                }
                let plain = |other: &mut Variant| {
                    other.backing = Backing::Dram;
                    other.stored.encoding = TableEncoding::Plain;
                };
                if let Some((ratio, other)) = beside(&plain) {
                    bars.most(
                        format!("{label} to {other}, geomean"),
                        OPTANE_TO_PLAIN,
                        ratio,
                        "x",
                    );
                }
            }
            let tenth = |other: &mut Variant| other.stored.scale_factor /= 10.0;
            if let Some((ratio, other)) = beside(&tenth) {
                bars.most(format!("{label} to {other}, geomean"), ROWS, ratio, "x");
            }
            if variant.threads == 1
                && let Some((ratio, other)) = beside(&|other| other.threads = 2)
            {
                bars.least(format!("{label} to {other}, geomean"), THREADS, ratio, "x");
            }
        }
        bars.files(results);
        bars
    }

    fn files(&mut self, results: &Results) {
        let chosen = results
            .stored
            .iter()
            .filter(|sizes| sizes.stored.encoding == TableEncoding::Chosen);
        for sizes in chosen {
            let ratio = sizes.lineorder as f64 / sizes.parquet_lineorder as f64;
            self.most(
                format!("{}: lineorder to zstd Parquet", sizes.stored),
                SIZE,
                ratio,
                "x",
            );
            if let Some(seconds) = sizes.import {
                let rate = sizes.rows as f64 / seconds;
                self.least(format!("{}: import", sizes.stored), IMPORT, rate, "rows/s");
            }
        }
        for peak in &results.dram {
            self.most(
                format!("{}: DRAM of a process with all queries", peak.stored),
                DRAM,
                peak.all as f64,
                "bytes",
            );
        }
    }

    fn most(&mut self, what: String, most: f64, measured: f64, unit: &'static str) {
        self.push(
            what,
            format!("<= {most} {unit}"),
            measured,
            unit,
            measured <= most,
        );
    }

    fn least(&mut self, what: String, least: f64, measured: f64, unit: &'static str) {
        self.push(
            what,
            format!(">= {least} {unit}"),
            measured,
            unit,
            measured >= least,
        );
    }

    fn push(&mut self, what: String, wanted: String, measured: f64, unit: &'static str, reached: bool) {
        self.0.push(Bar {
            what,
            wanted,
            measured,
            unit,
            reached,
        });
    }

    pub(super) fn report(&self, report: &mut Reporter<'_>) -> Result<(), BenchError> {
        let mut lines = vec![];
        for bar in &self.0 {
            let config = config! {"bar": bar.wanted, "reached": bar.reached};
            report.value("bars", &config, &bar.what, bar.measured, bar.unit)?;
            let digits = if bar.unit == "x" { 2 } else { 0 };
            lines.push(vec![
                bar.what.clone(),
                bar.wanted.clone(),
                format!("{:.digits$} {}", bar.measured, bar.unit),
                if bar.reached { "yes" } else { "no" }.to_owned(),
            ]);
        }
        report.table(&["", "bar", "measured", "reached"], lines)
    }
}
