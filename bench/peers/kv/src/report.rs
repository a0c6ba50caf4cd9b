//! Measured values: JSON Lines in the form of `halocline bench --json`, and a table for people.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::Arguments;
use crate::disk;

/// The configuration of a measured value, by name.
pub(crate) type Config = Map<String, Value>;

/// One line of the JSON file. The order of the fields is that of `halocline bench`.
#[derive(Serialize)]
struct Measurement<'a> {
    experiment: &'a str,
    system: &'a str,
    config: &'a Config,
    metric: &'a str,
    value: f64,
    unit: &'a str,
}

/// A sink for the measured values of one run.
pub(crate) struct Report {
    experiment: &'static str,
    base: Config,
    json: Option<File>,
    table: Table,
}

impl Report {
    /// Creates a report whose table has the given columns, and one column for each system.
    pub(crate) fn new(
        experiment: &'static str,
        arguments: &Arguments,
        columns: &[&str],
        systems: &[&str],
    ) -> Result<Self> {
        let json = match &arguments.json {
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Some(file.with_context(|| format!("cannot open {}", path.display()))?)
            }
            None => None,
        };
        let directory = arguments.dir.display();
        let (on, medium) = if disk::is_tmpfs(&arguments.dir)? {
            ("dax", format!("file in {directory}, taken for DAX"))
        } else {
            (
                "page-cache",
                format!("file in {directory}, synced by each commit"),
            )
        };
        let mut base = Config::new();
        for (name, value) in [
            ("cpu", json!(cpu())),
            (
                "cpus",
                json!(std::thread::available_parallelism().map_or(1, usize::from)),
            ),
            ("date", json!(date())),
            ("command", json!(command())),
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            (
                "build",
                json!(if cfg!(debug_assertions) {
                    "debug"
                } else {
                    "release"
                }),
            ),
            ("on", json!(on)),
            ("medium", json!(medium)),
            ("records", json!(arguments.records)),
            ("seed", json!(arguments.seed)),
        ] {
            base.insert(name.to_owned(), value);
        }
        let mut table = Table::new();
        table
            .load_preset(presets::UTF8_FULL_CONDENSED)
            .set_header(columns.iter().chain(systems));
        for column in table.column_iter_mut().skip(columns.len()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Ok(Self {
            experiment,
            base,
            json,
            table,
        })
    }

    /// Writes one value of a system, with its name and version, to the JSON file.
    pub(crate) fn value(
        &mut self,
        (system, version): (&str, &str),
        config: &Config,
        metric: &str,
        value: f64,
        unit: &str,
    ) -> Result<()> {
        let Some(json) = &mut self.json else {
            return Ok(());
        };
        let mut all = self.base.clone();
        all.insert("system_version".to_owned(), json!(version));
        all.extend(config.clone());
        let measurement = Measurement {
            experiment: self.experiment,
            system,
            config: &all,
            metric,
            value,
            unit,
        };
        let mut line = serde_json::to_string(&measurement)?;
        line.push('\n');
        Ok(json.write_all(line.as_bytes())?)
    }

    /// Writes the median of repeated measurements as `metric`, and the extremes as `metric.min` and
    /// `metric.max`. Returns the median.
    pub(crate) fn samples(
        &mut self,
        system: (&str, &str),
        config: &Config,
        metric: &str,
        mut samples: Vec<f64>,
        unit: &str,
    ) -> Result<f64> {
        samples.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (samples.first(), samples.last()) else {
            return Ok(f64::NAN);
        };
        let middle = samples.len() / 2;
        let median = match samples.len() % 2 {
            1 => samples[middle],
            _ => (samples[middle - 1] + samples[middle]) / 2.0,
        };
        let mut config = config.clone();
        config.insert("repetitions".to_owned(), json!(samples.len()));
        self.value(system, &config, metric, median, unit)?;
        self.value(system, &config, &format!("{metric}.min"), *min, unit)?;
        self.value(system, &config, &format!("{metric}.max"), *max, unit)?;
        Ok(median)
    }

    /// Adds a row to the table.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    /// Prints the table.
    pub(crate) fn finish(self) {
        println!("{}", self.table);
    }
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    name.unwrap_or("unknown").to_owned()
}

/// Returns the command line, with the program's name in place of its path.
fn command() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once(env!("CARGO_BIN_NAME").to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the current date in UTC as `YYYY-MM-DD`.
fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    civil_date(since.as_secs() / 86_400)
}

/// Converts days since 1970-01-01 to `YYYY-MM-DD`.
fn civil_date(mut days: u64) -> String {
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(civil_date(days), date);
        }
    }
}
