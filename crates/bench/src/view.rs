//! Tables of measured values, declared as data: an experiment emits values, a [`TableView`] says which of
//! them become the rows and columns of a table, for the terminal or for a page of results.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::report::Measurement;

/// A table of measured values.
#[derive(Debug, Clone, Copy)]
pub struct TableView {
    /// The title, a noun phrase.
    pub title: &'static str,
    /// The metrics shown; one that ends in `*` stands for all that begin so.
    pub metrics: &'static [&'static str],
    /// The names in the configuration whose values make one table each. Here and below, `system` and
    /// `metric` are names, too.
    pub split: &'static [&'static str],
    /// The names whose values begin a row.
    pub rows: &'static [&'static str],
    /// The name whose values are the columns.
    pub columns: &'static str,
    /// The column that the others are divided by, where it is one of them; each of the others then has
    /// another column with the ratio. Without a column of that name it is the first one with an addition to
    /// the name, as in `volatile, emulated DRAM`.
    pub base: Option<&'static str>,
}

/// A table with its title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// The title.
    pub title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of columns at the left that name the row.
    names: usize,
}

impl TableView {
    /// Returns the tables of the measurements; empty if there is no value for them.
    #[must_use]
    pub fn grids(&self, measurements: &[Measurement]) -> Vec<Grid> {
        let parts = parts(measurements, self.metrics, self.split);
        parts
            .iter()
            .map(|(part, shown)| self.grid(part, shown, measurements))
            .collect()
    }

    fn grid(&self, part: &[String], shown: &[&Measurement], all: &[Measurement]) -> Grid {
        let column_of = |value: &Measurement| field(value, self.columns);
        let columns = distinct(shown.iter().map(|value| column_of(value)));
        let names = distinct(shown.iter().map(|value| fields(value, self.rows)));
        let base = self.base.and_then(|base| base_of(base, &columns));
        let mut header: Vec<String> = self.rows.iter().map(|name| (*name).to_owned()).collect();
        for column in &columns {
            header.push(displayed(column));
            if let Some(base) = base.filter(|base| base != column) {
                header.push(format!("over {base}"));
            }
        }
        let row = |name: &Vec<String>| {
            let of_row = |column: &str| {
                let mut values = shown.iter().rev();
                values.find(|value| fields(value, self.rows) == *name && column_of(value) == column)
            };
            let mut cells: Vec<String> = name.iter().map(|name| displayed(name)).collect();
            for column in &columns {
                let value = of_row(column);
                cells.push(value.map_or_else(String::new, |value| cell(value, all)));
                if let Some(base) = base.filter(|base| base != column) {
                    let ratio = value
                        .zip(of_row(base))
                        .map(|(value, base)| value.value / base.value);
                    cells.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x")));
                }
            }
            cells
        };
        let of = self.split.iter().zip(part).filter(|(_, value)| !value.is_empty());
        let of = of.map(|(name, value)| format!("{name} {}", displayed(value)));
        let title = title_of(self.title, of.collect());
        Grid {
            title,
            header,
            rows: names.iter().map(row).collect(),
            names: self.rows.len(),
        }
    }
}

impl Grid {
    /// Returns the table for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.render(presets::UTF8_FULL_CONDENSED)
    }

    /// Returns the table in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        self.render(presets::ASCII_MARKDOWN)
    }

    /// Returns the table with its row `geomean` only, if it has one.
    #[must_use]
    pub fn summary(mut self) -> Self {
        let is_mean = |row: &Vec<String>| row.first().is_some_and(|name| name == "geomean");
        if self.rows.iter().any(is_mean) {
            self.rows.retain(is_mean);
        }
        self
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn render(&self, preset: &str) -> String {
        let header = self.header.iter().map(String::as_str).collect::<Vec<_>>();
        table(preset, &header, self.rows.clone(), self.names)
    }
}

/// Returns a table as text: the first `names` columns to the left, the others to the right.
pub(crate) fn table(preset: &str, header: &[&str], rows: Vec<Vec<String>>, names: usize) -> String {
    let mut table = Table::new();
    table.load_preset(preset).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Returns a title with what the table or figure is of, if that is anything.
pub(crate) fn title_of(title: &str, of: Vec<String>) -> String {
    if of.is_empty() {
        title.to_owned()
    } else {
        format!("{title} ({})", of.join(", "))
    }
}

/// Returns a value with its unit and, if it is a median, half the distance between the extremes.
fn cell(value: &Measurement, all: &[Measurement]) -> String {
    let extreme = |end: &str| {
        let name = format!("{}.{end}", value.metric);
        let same = |other: &&Measurement| {
            other.metric == name && other.system == value.system && other.config == value.config
        };
        all.iter().find(same).map(|found| found.value)
    };
    let text = quantity(value.value, &value.unit);
    match extreme("min").zip(extreme("max")) {
        Some((min, max)) if max > min => {
            format!("{text} ±{:.0} %", (max - min) / 2.0 / value.value * 100.0)
        }
        _ => text,
    }
}

/// Returns a value in a unit of which it has a few.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    let scaled = |value: f64, steps: &[(f64, &str)]| {
        let (factor, name) = steps
            .iter()
            .find(|(factor, _)| value.abs() >= *factor)
            .unwrap_or(&steps[steps.len() - 1]);
        let scaled = value / factor;
        let digits = match scaled.abs() {
            v if v >= 100.0 => 0,
            v if v >= 10.0 => 1,
            _ => 2,
        };
        format!("{scaled:.digits$} {name}")
    };
    const TIME: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    const BYTES: [(f64, &str); 4] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    match unit {
        "s" | "s/query" => scaled(value, &TIME),
        "ms" => scaled(value / 1e3, &TIME),
        "bytes" => scaled(value, &BYTES),
        "bytes/s" => format!("{}/s", scaled(value, &BYTES)),
        "1/s" | "rows/s" => format!("{}/s", crate::plot::short(value)),
        "%" => format!("{value:+.0} %"),
        "percent" => format!("{value:.0} %"),
        "x" | "ratio" => format!("{value:.2}x"),
        _ => crate::plot::short(value),
    }
}

/// Returns true if the metric of the value is among `metrics`, of which one may end in `*`. Extremes are only
/// named in full.
fn matches(metrics: &[&str], value: &Measurement) -> bool {
    let is_spread = value.metric.ends_with(".min") || value.metric.ends_with(".max");
    let matches = |metric: &&str| match metric.strip_suffix('*') {
        Some(prefix) => value.metric.starts_with(prefix) && !is_spread,
        None => value.metric == **metric,
    };
    metrics.iter().any(matches)
}

/// Returns the values of the metrics in groups that have the same values of the names in `split`. These
/// values come with each group.
pub(crate) fn parts<'a>(
    measurements: &'a [Measurement],
    metrics: &[&str],
    split: &[&str],
) -> Vec<(Vec<String>, Vec<&'a Measurement>)> {
    let mut parts: Vec<(Vec<String>, Vec<&Measurement>)> = Vec::new();
    for value in measurements.iter().filter(|value| matches(metrics, value)) {
        let part = fields(value, split);
        match parts.iter_mut().find(|(other, _)| *other == part) {
            Some((_, values)) => values.push(value),
            None => parts.push((part, vec![value])),
        }
    }
    parts
}

fn fields(value: &Measurement, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| field(value, name)).collect()
}

pub(crate) fn field(value: &Measurement, name: &str) -> String {
    match name {
        "system" => value.system.clone(),
        "metric" => value.metric.clone(),
        name => match value.config.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        },
    }
}

/// Returns a value of the configuration as it is displayed: numbers with a fraction have three digits.
fn displayed(value: &str) -> String {
    let fraction = value.parse::<f64>().ok().filter(|_| value.contains(['.', 'e']));
    let Some(number) = fraction.filter(|number| number.is_finite()) else {
        return value.to_owned();
    };
    let rounded = format!("{number:.2e}").parse::<f64>().unwrap_or(number);
    match rounded.abs() {
        small if small > 0.0 && small < 1e-3 => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// Returns the name that a base stands for: the same one, or else the first with an addition after a comma.
pub(crate) fn base_of<'a>(base: &str, names: &'a [String]) -> Option<&'a str> {
    let has_addition = |name: &&String| {
        name.strip_prefix(base)
            .is_some_and(|addition| addition.starts_with(", "))
    };
    let same = names.iter().find(|name| *name == base);
    same.or_else(|| names.iter().find(has_addition))
        .map(String::as_str)
}

/// Returns the different values in the order in which they first come.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn measured(system: &str, question: &str, metric: &str, value: f64, unit: &str) -> Measurement {
        Measurement {
            experiment: "x".into(),
            system: system.into(),
            config: config! {"question": question},
            metric: metric.into(),
            value,
            unit: unit.into(),
        }
    }

    #[test]
    fn values_become_rows_and_columns() {
        let values = [
            measured("ours", "exact", "time", 2e-6, "s/query"),
            measured("ours", "exact", "time.min", 1e-6, "s/query"),
            measured("ours", "exact", "time.max", 3e-6, "s/query"),
            measured("theirs", "exact", "time", 3e-6, "s/query"),
            measured("ours", "range", "time", 0.5, "s/query"),
            measured("ours", "range", "rows", 12_000.0, "1/query"),
        ];
        let view = TableView {
            title: "time of a query",
            metrics: &["time"],
            split: &[],
            rows: &["question"],
            columns: "system",
            base: Some("ours"),
        };
        let grids = view.grids(&values);
        assert_eq!(grids.len(), 1);
        assert_eq!(grids[0].header, ["question", "ours", "theirs", "over ours"]);
        assert_eq!(grids[0].rows[0], ["exact", "2.00 us ±50 %", "3.00 us", "1.50x"]);
        assert_eq!(grids[0].rows[1], ["range", "500 ms", "", ""]);
        let all = TableView {
            metrics: &["t*", "rows"],
            split: &["question"],
            rows: &["system"],
            columns: "metric",
            base: None,
            ..view
        };
        let grids = all.grids(&values);
        assert_eq!(grids[1].title, "time of a query (question range)");
        assert_eq!(grids[1].rows, [["ours", "500 ms", "12k"]]);
        assert!(grids[1].to_markdown().starts_with("| system |"));
        assert!(view.grids(&values[5..]).is_empty());
    }

    #[test]
    fn the_summary_is_the_mean() {
        let mut values = vec![measured("ours", "exact", "time", 1.0, "s")];
        let view = TableView {
            title: "time",
            metrics: &["time"],
            split: &[],
            rows: &["question"],
            columns: "system",
            base: None,
        };
        let summary = |values: &[Measurement]| view.grids(values).remove(0).summary().rows;
        assert_eq!(summary(&values), [["exact", "1.00 s"]]);
        values.push(measured("ours", "geomean", "time", 2.0, "s"));
        assert_eq!(summary(&values), [["geomean", "2.00 s"]]);
    }

    #[test]
    fn a_base_may_have_an_addition() {
        let names = ["slow", "volatility", "volatile, emulated", "volatile, host"].map(str::to_owned);
        assert_eq!(base_of("volatile", &names), Some("volatile, emulated"));
        assert_eq!(base_of("slow", &names), Some("slow"));
        assert_eq!(base_of("hybrid", &names), None);
        let names = ["volatile, host", "volatile"].map(str::to_owned);
        assert_eq!(base_of("volatile", &names), Some("volatile"));
    }

    #[test]
    fn numbers_of_the_configuration_are_rounded() {
        for (value, text) in [
            ("0.9858988554817649", "0.986"),
            ("7.831747404483925e-6", "7.83e-6"),
            ("4.0", "4"),
            ("0.5", "0.5"),
            ("123456", "123456"),
            ("lb, not moved", "lb, not moved"),
        ] {
            assert_eq!(displayed(value), text);
        }
    }

    #[test]
    fn quantities_have_three_digits() {
        for (value, unit, text) in [
            (0.0123, "s", "12.3 ms"),
            (8.24e6, "1/s", "8.24M/s"),
            (1.05e8, "bytes", "105 MB"),
            (8.5e9, "bytes/s", "8.50 GB/s"),
            (203.4, "%", "+203 %"),
            (98.6, "percent", "99 %"),
            (250.0, "ms", "250 ms"),
            (0.0, "s", "0.00 ns"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }
}
