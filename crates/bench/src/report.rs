//! Measured values: JSON Lines for programs, and tables for people.

use std::fs;
use std::io::Write;
use std::path::Path;

use comfy_table::presets;
use halocline_measure::machine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BenchError, Chart, RecordingFile, Samples, TableView};

/// The configuration of a measured value, by name: all that is needed to measure it again.
pub type Config = Map<String, Value>;

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The experiment.
    pub experiment: String,
    /// The system that was measured.
    pub system: String,
    /// The configuration.
    pub config: Config,
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// A sink for the measured values of one run of an experiment.
pub struct Reporter<'a> {
    experiment: &'static str,
    out: &'a mut dyn Write,
    json: Option<RecordingFile>,
    base: Config,
    measurements: Vec<Measurement>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter that prints tables to `out`.
    pub fn new(experiment: &'static str, out: &'a mut dyn Write) -> Self {
        let build = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        let base = config! {
            "cpu": machine::cpu(),
            "cpus": machine::cpus(),
            "date": machine::date(),
            "command": machine::command(),
            // Unless an experiment says otherwise: pools are opened with the default.
            "verify": "lazy",
            "version": env!("CARGO_PKG_VERSION"),
            "build": build,
        };
        Self {
            experiment,
            out,
            json: None,
            base,
            measurements: Vec::new(),
        }
    }

    /// Adds each measured value to `json` too.
    #[must_use]
    pub fn with_json(mut self, json: RecordingFile) -> Self {
        self.json = Some(json);
        self
    }

    /// Adds to the configuration of all values from here on.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.base.insert(name.to_owned(), value.into());
    }

    /// Records one value. The configuration of the run, as [`set`](Self::set), is added to `config`. A value
    /// that is not a number is left out: a rate or a ratio of times on a virtual clock that are 0.
    ///
    /// # Errors
    /// The JSON file cannot be written.
    pub fn value(
        &mut self,
        system: &str,
        config: &Config,
        metric: &str,
        value: f64,
        unit: &str,
    ) -> Result<(), BenchError> {
        if !value.is_finite() {
            return Ok(());
        }
        let mut all = self.base.clone();
        all.extend(config.clone());
        let measurement = Measurement {
            experiment: self.experiment.to_owned(),
            system: system.to_owned(),
            config: all,
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
        };
        if let Some(json) = &mut self.json {
            json.add(&measurement)?;
        }
        self.measurements.push(measurement);
        Ok(())
    }

    /// Records the median of repeated measurements as `metric`, and the extremes as `metric.min` and
    /// `metric.max`.
    ///
    /// # Errors
    /// The JSON file cannot be written.
    pub fn samples(
        &mut self,
        system: &str,
        config: &Config,
        metric: &str,
        samples: &Samples,
        unit: &str,
    ) -> Result<(), BenchError> {
        let config = config! {..config.clone(), "repetitions": samples.len()};
        self.value(system, &config, metric, samples.median(), unit)?;
        self.value(system, &config, &format!("{metric}.min"), samples.min(), unit)?;
        self.value(system, &config, &format!("{metric}.max"), samples.max(), unit)
    }

    /// Prints a line for people.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn line(&mut self, text: &str) -> Result<(), BenchError> {
        writeln!(self.out, "{text}")?;
        // A long experiment is read while it runs.
        Ok(self.out.flush()?)
    }

    /// Ends the run: prints the tables of the views, and writes the charts to files in `plots`, which is made
    /// if it is not there.
    ///
    /// # Errors
    /// The JSON file, a figure or the output cannot be written.
    pub fn finish(
        mut self,
        views: &[TableView],
        charts: &[Chart],
        plots: Option<&Path>,
    ) -> Result<(), BenchError> {
        let measurements = std::mem::take(&mut self.measurements);
        for grid in views.iter().flat_map(|view| view.grids(&measurements)) {
            self.line(&grid.title)?;
            self.line(&grid.to_text(presets::UTF8_FULL_CONDENSED))?;
        }
        if let Some(directory) = plots {
            for chart in charts {
                for (name, svg) in chart.figures(self.experiment, &measurements)? {
                    fs::create_dir_all(directory)?;
                    let path = directory.join(format!("{name}.svg"));
                    fs::write(&path, svg)?;
                    self.line(&format!("figure: {}", path.display()))?;
                }
            }
        }
        if let Some(json) = self.json {
            json.finish()?;
        }
        Ok(self.out.flush()?)
    }
}

/// A configuration from names and values, added to those of another one after `..`.
macro_rules! config {
    (..$base:expr, $($name:literal : $value:expr),* $(,)?) => {{
        let mut config: $crate::Config = $base;
        config.extend($crate::config! {$($name : $value),*});
        config
    }};
    ($($name:literal : $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "a configuration may be empty")]
        let mut config = $crate::Config::new();
        $(config.insert($name.to_owned(), ::serde_json::json!($value));)*
        config
    }};
}

pub(crate) use config;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_value_is_one_json_object_with_all_of_its_configuration() {
        let (mut out, directory) = (Vec::new(), tempfile::tempdir().unwrap());
        let path = directory.path().join("x.jsonl");
        let json = RecordingFile::append_to(&path).unwrap();
        let mut reporter = Reporter::new("x", &mut out).with_json(json);
        reporter.set("seed", 42);
        let config = config! {"rows": 10};
        reporter
            .samples("ours", &config, "time", &Samples::new(vec![1.0, 3.0, 2.0]), "ms")
            .unwrap();
        let view = TableView {
            title: "what takes how long",
            metrics: &["time"],
            split: &[],
            rows: &["rows"],
            columns: "system",
            base: None,
        };
        reporter.finish(&[view], &[], None).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let rows: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0]["experiment"], "x");
        assert_eq!(rows[0]["system"], "ours");
        assert_eq!(rows[0]["metric"], "time");
        assert_eq!(rows[0]["value"], 2.0);
        assert_eq!(rows[0]["unit"], "ms");
        for (name, value) in [
            ("date", json!(machine::date())),
            ("command", json!(machine::command())),
            ("rows", json!(10)),
            ("seed", json!(42)),
            ("repetitions", json!(3)),
        ] {
            assert_eq!(rows[2]["config"][name], value);
        }
        assert_eq!(rows[2]["metric"], "time.max");
        assert!(String::from_utf8(out).unwrap().contains("what takes"));
    }
}
