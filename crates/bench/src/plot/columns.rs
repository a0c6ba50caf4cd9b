//! Grouped columns: one group for each place on the horizontal axis, with one column for each series.

use plotters::prelude::*;

use super::{FONT, Figure, Frame, LEGEND, centred, color, framed, legend, short};
use crate::BenchError;

/// Grouped columns from zero. A value that is not a number has no column.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupedColumns {
    /// Title, axes, configuration.
    pub frame: Frame,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Name of each series, and its value in each group.
    pub series: Vec<(String, Vec<f64>)>,
}

/// The part of a group's width that its columns fill.
const FILLED: f64 = 0.84;
const HEIGHT: u32 = 460;

impl Figure for GroupedColumns {
    fn svg(&self) -> Result<String, BenchError> {
        let values = self.series.iter().flat_map(|(_, values)| values).copied();
        let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let top = if top > 0.0 { top * 1.12 } else { 1.0 };
        let columns = self.groups.len() * self.series.len();
        let width = (200 + 20 * columns as u32).clamp(720, 2400) + LEGEND;
        let height = HEIGHT.max(60 + 20 * self.series.len() as u32);
        framed(&self.frame, (width, height), |area| {
            let (area, names) = area.split_horizontally(width - LEGEND);
            let mut chart = ChartBuilder::on(&area)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..self.groups.len().max(1) as f64, 0.0..top)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .x_labels(0)
                .x_desc(&self.frame.x)
                .y_desc(&self.frame.y)
                .y_label_formatter(&|value| short(*value))
                .label_style((FONT, 12))
                .axis_desc_style((FONT, 13))
                .draw()?;
            let wide = FILLED / self.series.len().max(1) as f64;
            for (index, (_, values)) in self.series.iter().enumerate() {
                let style = color(index);
                let shown = values.iter().enumerate().filter(|(_, value)| value.is_finite());
                let columns = shown.clone().map(|(group, &value)| {
                    let left = group as f64 + (1.0 - FILLED) / 2.0 + index as f64 * wide;
                    Rectangle::new([(left, 0.0), (left + wide * 0.92, value)], style.filled())
                });
                chart.draw_series(columns)?;
                for (group, &value) in shown {
                    let middle = group as f64 + (1.0 - FILLED) / 2.0 + (index as f64 + 0.46) * wide;
                    let (x, y) = chart.plotting_area().map_coordinate(&(middle, value));
                    let (left, above) = area.get_base_pixel();
                    let text = Text::new(short(value), (x - left, y - above - 7), centred(9));
                    area.draw(&text)?;
                }
            }
            for (group, name) in self.groups.iter().enumerate() {
                let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, 0.0));
                let (left, above) = area.get_base_pixel();
                area.draw(&Text::new(name.clone(), (x - left, y - above + 11), centred(12)))?;
            }
            legend(&names, self.series.iter().map(|(name, _)| name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_values_and_a_foot() {
        let svg = GroupedColumns {
            frame: Frame {
                title: "The title".into(),
                x: "question".into(),
                y: "time, us".into(),
                foot: "rows 10, seed 42".into(),
            },
            groups: vec!["exact".into(), "range <2 %>".into()],
            series: vec![
                ("volatile".into(), vec![1.0, 2.0]),
                ("slow-only".into(), vec![3.25, f64::NAN]),
            ],
        }
        .svg()
        .unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "The title",
            "question",
            "time, us",
            "rows 10, seed 42",
            "exact",
            "range &lt;2 %&gt;",
            "volatile",
            "slow-only",
            "3.25",
        ] {
            assert!(svg.contains(text), "`{text}` is not in\n{svg}");
        }
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn nothing_is_a_figure_too() {
        let none = GroupedColumns {
            frame: Frame::default(),
            groups: vec![],
            series: vec![],
        };
        assert!(none.svg().is_ok());
    }
}
