//! Figures of measured values, declared as data: an experiment emits values, a [`Chart`] says which of them
//! become its series.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::BenchError;
use crate::page::sentence;
use crate::plot::{Figure, Frame, GroupedColumns, Line, Lines, Maps, Panel};
use crate::report::Measurement;
use crate::view::{base_of, distinct, field, parts, title_of};

/// A figure of measured values. Names are those of a configuration, `system`, or `metric`, as in
/// [`TableView`](crate::TableView).
#[derive(Debug, Clone, Copy)]
pub struct Chart {
    /// The name of its files, between that of the experiment and the values of `split`; may be empty.
    pub name: &'static str,
    /// The title, a noun phrase.
    pub title: &'static str,
    /// How values are drawn.
    pub kind: ChartKind,
    /// The metrics shown; one that ends in `*` stands for all that begin so.
    pub metrics: &'static [&'static str],
    /// The names in the configuration whose values make one figure each.
    pub split: &'static [&'static str],
    /// The name whose values are the horizontal axis. A value without it is a constant: it is drawn at every
    /// place.
    pub x: &'static str,
    /// The name whose values are the series.
    pub series: &'static str,
    /// The series whose value every other value is divided by, named as in
    /// [`TableView`](crate::TableView::base); without it there is no figure.
    pub base: Option<&'static str>,
    /// The horizontal axis, with its unit.
    pub x_label: &'static str,
    /// The vertical axis, with its unit where values are not divided by those of the base; for maps, the
    /// name of their rows.
    pub y_label: &'static str,
    /// The factor from the unit of the values to that of the axis.
    pub scale: f64,
}

/// The form of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// Groups of columns from zero.
    Columns,
    /// Lines over a logarithmic horizontal axis.
    Lines,
    /// A map of cells for each series, whose rows are the values of this name.
    Maps(&'static str),
}

/// The names in a configuration that say nothing about what is drawn.
const UNDRAWN: [&str; 4] = ["version", "date", "build", "cache_model_ways"];

impl Chart {
    /// Returns the figures of the measurements as pairs of a file name without extension and the text of an
    /// SVG file; empty if there is no value for them.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    pub fn figures(
        &self,
        experiment: &str,
        measurements: &[Measurement],
    ) -> Result<Vec<(String, String)>, BenchError> {
        let mut figures = Vec::new();
        for (part, values) in parts(measurements, self.metrics, self.split) {
            let series = distinct(values.iter().map(|value| field(value, self.series)));
            let base = self.base.and_then(|base| base_of(base, &series));
            if self.base.is_some() && base.is_none() {
                continue;
            }
            let words = [experiment, self.name].into_iter();
            let words = words.chain(part.iter().map(String::as_str)).map(slug);
            let name: Vec<String> = words.filter(|word| !word.is_empty()).collect();
            figures.push((name.join("-"), self.draw(&part, &values, (&series, base))?));
        }
        Ok(figures)
    }

    fn draw(
        &self,
        part: &[String],
        values: &[&Measurement],
        (series, base): (&[String], Option<&str>),
    ) -> Result<String, BenchError> {
        let of = part.iter().filter(|part| !part.is_empty()).cloned();
        let frame = Frame {
            title: title_of(&sentence(self.title), of.collect()),
            x: self.x_label.to_owned(),
            y: match base {
                Some(base) => format!("{}, {base} = 1", self.y_label),
                None => self.y_label.to_owned(),
            },
            foot: self.foot(values),
        };
        let places = distinct(values.iter().map(|value| field(value, self.x)));
        let places: Vec<String> = places.into_iter().filter(|place| !place.is_empty()).collect();
        match self.kind {
            ChartKind::Columns => GroupedColumns {
                frame,
                series: series
                    .iter()
                    .map(|name| {
                        let height = |place: &String| self.value(values, name, place, (None, base));
                        (name.clone(), places.iter().map(height).collect())
                    })
                    .collect(),
                groups: places,
            }
            .svg(),
            ChartKind::Lines => {
                let points = |name: &String| {
                    let point = |place: &String| {
                        let y = self.value(values, name, place, (None, base));
                        Some((place.parse().ok()?, y)).filter(|(_, y)| y.is_finite())
                    };
                    let mut points: Vec<(f64, f64)> = places.iter().filter_map(point).collect();
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    points
                };
                let lines = series.iter().map(|name| Line {
                    points: points(name),
                    name: name.clone(),
                });
                Lines {
                    frame,
                    lines: lines.collect(),
                }
                .svg()
            }
            ChartKind::Maps(rows) => {
                let names = distinct(values.iter().map(|value| field(value, rows)));
                let row = |name: &String, of: &String| {
                    let cells = places.iter();
                    cells
                        .map(|place| self.value(values, name, place, (Some((rows, of)), base)))
                        .collect()
                };
                let panels = series.iter().map(|name| Panel {
                    cells: names.iter().map(|of| row(name, of)).collect(),
                    name: name.clone(),
                });
                Maps {
                    panels: panels.collect(),
                    frame,
                    rows: names,
                    columns: places,
                }
                .svg()
            }
        }
    }

    /// Returns the last value of a series at a place, over that of the base if there is one; NaN if there is
    /// none.
    fn value(
        &self,
        values: &[&Measurement],
        series: &str,
        place: &str,
        (row, base): (Option<(&str, &str)>, Option<&str>),
    ) -> f64 {
        let of = |series: &str| {
            let at = |value: &&&Measurement| {
                let x = field(value, self.x);
                field(value, self.series) == series
                    && (x == place || x.is_empty())
                    && row.is_none_or(|(name, of)| field(value, name) == of)
            };
            values.iter().rev().find(at).map_or(f64::NAN, |value| value.value)
        };
        match base {
            Some(base) => of(series) / of(base),
            None => of(series) * self.scale,
        }
    }

    /// Returns the configuration that all values have in common.
    fn foot(&self, values: &[&Measurement]) -> String {
        let Some((first, others)) = values.split_first() else {
            return String::new();
        };
        let drawn = |name: &str| {
            let named = [self.x, self.series].contains(&name) || self.split.contains(&name);
            named || UNDRAWN.contains(&name) || matches!(self.kind, ChartKind::Maps(rows) if rows == name)
        };
        let common: BTreeMap<&String, &Value> = first
            .config
            .iter()
            .filter(|(name, value)| {
                let is_plain = !value.is_object() && !value.is_array();
                is_plain && !drawn(name) && others.iter().all(|other| other.config.get(*name) == Some(value))
            })
            .collect();
        let word = |(name, _): (&&String, &&Value)| format!("{name} {}", field(first, name));
        common.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the letters and digits of a text, in lower case, with hyphens between.
fn slug(text: &str) -> String {
    let parts = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    let parts: Vec<String> = parts
        .filter(|part| !part.is_empty())
        .map(str::to_lowercase)
        .collect();
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn measured(system: &str, share: Option<u64>, value: f64) -> Measurement {
        Measurement {
            experiment: "x".into(),
            system: system.into(),
            config: config! {"share": share, "rows": 10, "layout": "packed"},
            metric: "rate".into(),
            value,
            unit: "1/s".into(),
        }
    }

    fn chart(kind: ChartKind) -> Chart {
        Chart {
            name: "rate",
            title: "rate by share",
            kind,
            metrics: &["rate"],
            split: &["layout"],
            x: "share",
            series: "system",
            base: None,
            x_label: "share, %",
            y_label: "queries/ms",
            scale: 1e-3,
        }
    }

    #[test]
    fn every_form_is_drawn() {
        let values = [
            measured("slow", None, 1e5),
            measured("cached", Some(3), 2.5e5),
            measured("cached", Some(30), 7e5),
        ];
        for kind in [ChartKind::Columns, ChartKind::Lines, ChartKind::Maps("rows")] {
            let figures = chart(kind).figures("x", &values).unwrap();
            assert_eq!(figures.len(), 1);
            assert_eq!(figures[0].0, "x-rate-packed");
            for text in ["Rate by share (packed)", "share, %", "cached"] {
                assert!(figures[0].1.contains(text), "`{text}` is not in {kind:?}");
            }
        }
        assert!(
            chart(ChartKind::Columns).figures("x", &[]).unwrap().is_empty(),
            "a figure of nothing"
        );
    }

    #[test]
    fn a_value_without_a_place_is_everywhere_and_ratios_have_no_unit() {
        let values = [measured("slow", None, 1e5), measured("cached", Some(3), 2.5e5)];
        let values: Vec<&Measurement> = values.iter().collect();
        let chart = chart(ChartKind::Columns);
        assert_eq!(chart.value(&values, "slow", "3", (None, None)), 100.0);
        assert_eq!(chart.value(&values, "cached", "3", (None, None)), 250.0);
        assert!(chart.value(&values, "cached", "4", (None, None)).is_nan());
        let over = Chart {
            base: Some("slow"),
            ..chart
        };
        assert_eq!(over.value(&values, "cached", "3", (None, Some("slow"))), 2.5);
        assert_eq!(over.foot(&values), "rows 10");
        let values = [
            measured("slow, emulated", None, 1e5),
            measured("cached", Some(3), 2.5e5),
        ];
        let figures = over.figures("x", &values).unwrap();
        assert!(figures[0].1.contains("queries/ms, slow, emulated = 1"));
    }
}
