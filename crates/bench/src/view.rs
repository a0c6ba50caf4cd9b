//! Tables of measured values, declared as data: an experiment emits values, a [`TableView`] says which of
//! them become the rows and columns of a table, for the terminal or for a page of results.

use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use crate::quantity::{displayed, quantity, ratio};
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
pub(crate) struct Grid {
    pub(crate) title: String,
    header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of columns at the left that name the row.
    names: usize,
}

impl TableView {
    /// Returns the tables of the measurements; none if there is no value for them.
    pub(crate) fn grids(&self, measurements: &[Measurement]) -> Vec<Grid> {
        let parts = parts(measurements, self.metrics, self.split);
        parts
            .iter()
            .map(|(part, shown)| self.grid(part, shown, measurements))
            .collect()
    }

    fn grid(&self, part: &[String], shown: &[&Measurement], all: &[Measurement]) -> Grid {
        let columns = distinct(shown.iter().map(|value| field(value, self.columns)));
        let base = self.base.and_then(|base| base_of(base, &columns));
        let mut header: Vec<String> = self.rows.iter().map(|name| (*name).to_owned()).collect();
        for column in &columns {
            header.push(displayed(column));
            let over = base.filter(|base| base != column);
            header.extend(over.map(|base| format!("over {base}")));
        }
        let rows = grouped(shown.iter().copied(), |value| fields(value, self.rows));
        let row = |(name, values): (Vec<String>, Vec<&Measurement>)| {
            let of = |column: &str| values.iter().rfind(|value| field(value, self.columns) == column);
            let mut cells: Vec<String> = name.iter().map(|name| displayed(name)).collect();
            for column in &columns {
                let value = of(column);
                cells.push(value.map_or_else(String::new, |value| cell(value, all)));
                if let Some(base) = base.filter(|base| base != column) {
                    let quotient = value.zip(of(base)).map(|(value, base)| value.value / base.value);
                    cells.push(quotient.map_or_else(String::new, ratio));
                }
            }
            cells
        };
        let of = self.split.iter().zip(part).filter(|(_, value)| !value.is_empty());
        let of = of.map(|(name, value)| format!("{name} {}", displayed(value)));
        Grid {
            title: title_of(self.title, of.collect()),
            header,
            rows: rows.into_iter().map(row).collect(),
            names: self.rows.len(),
        }
    }
}

impl Grid {
    /// Returns the table with its row `geomean` only, if it has one.
    pub(crate) fn summary(mut self) -> Self {
        let is_mean = |row: &Vec<String>| row.first().is_some_and(|name| name == "geomean");
        if self.rows.iter().any(is_mean) {
            self.rows.retain(is_mean);
        }
        self
    }

    /// Returns the table as text in the style of a preset of [`comfy_table`]: the columns that name the row
    /// to the left, the others to the right.
    pub(crate) fn to_text(&self, preset: &str) -> String {
        let mut table = Table::new();
        table
            .load_preset(preset)
            .set_header(&self.header)
            .add_rows(&self.rows);
        for column in table.column_iter_mut().skip(self.names) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
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

/// Returns true if the metric of the value is among `metrics`, of which one may end in `*`. Extremes are only
/// named in full.
fn matches(metrics: &[&str], value: &Measurement) -> bool {
    let is_spread = value.metric.ends_with(".min") || value.metric.ends_with(".max");
    metrics.iter().any(|metric| match metric.strip_suffix('*') {
        Some(prefix) => value.metric.starts_with(prefix) && !is_spread,
        None => value.metric == *metric,
    })
}

/// Returns the values of the metrics in groups that have the same values of the names in `split`. These
/// values come with each group.
pub(crate) fn parts<'a>(
    measurements: &'a [Measurement],
    metrics: &[&str],
    split: &[&str],
) -> Vec<(Vec<String>, Vec<&'a Measurement>)> {
    let shown = measurements.iter().filter(|value| matches(metrics, value));
    grouped(shown, |value| fields(value, split))
}

/// Returns values in groups of the same key, in the order in which the keys first come.
pub(crate) fn grouped<K: PartialEq, V>(
    values: impl Iterator<Item = V>,
    key: impl Fn(&V) -> K,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for value in values {
        let key = key(&value);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

fn fields(value: &Measurement, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| field(value, name)).collect()
}

/// Returns what a name stands for in a value, as text; nothing if it has no such name.
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
pub(crate) fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let groups = grouped(values, String::clone);
    groups.into_iter().map(|(value, _)| value).collect()
}

#[cfg(test)]
mod tests {
    use comfy_table::presets;

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
        let markdown = grids[1].to_text(presets::ASCII_MARKDOWN);
        assert!(markdown.starts_with("| system |"));
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
}
