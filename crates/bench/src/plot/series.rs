//! Series with their names at the right: grouped columns from zero, one group for each place on the
//! horizontal axis; and lines over a logarithmic axis, through the places that are numbers.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, Plot, centred, label};
use crate::BenchError;
use crate::quantity::short;

/// Width of a legend.
const LEGEND: u32 = 210;
/// The part of a group's width that its columns fill.
const FILLED: f64 = 0.84;
const COLUMNS_HEIGHT: u32 = 460;
const LINES_SIZE: (u32, u32) = (770 + LEGEND, 520);

/// Colours that people with any colour vision tell apart (Okabe and Ito), and lighter ones of them.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 100, 60),
    RGBColor(60, 60, 60),
];

impl Plot {
    /// Returns the plot as grouped columns.
    pub(crate) fn columns(&self) -> Result<String, BenchError> {
        let top = top(self.series.iter().flat_map(|(_, values)| values).copied(), 1.12);
        let columns = self.places.len() * self.series.len();
        let width = (200 + 20 * columns as u32).clamp(720, 2400) + LEGEND;
        let height = COLUMNS_HEIGHT.max(60 + 20 * self.series.len() as u32);
        self.with_legend((width, height), |area| {
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..self.places.len().max(1) as f64, 0.0..top)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .x_labels(0)
                .x_desc(&self.x)
                .y_desc(&self.y)
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
                    label(area, short(value), (x, y - 7), centred(9))?;
                }
            }
            for (group, name) in self.places.iter().enumerate() {
                let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, 0.0));
                label(area, name.clone(), (x, y + 11), centred(12))?;
            }
            Ok(())
        })
    }

    /// Returns the plot as lines.
    pub(crate) fn lines(&self) -> Result<String, BenchError> {
        let line = |(_, values): &(String, Vec<f64>)| {
            let points = self.places.iter().zip(values);
            let points = points.filter_map(|(place, y)| Some((place.parse::<f64>().ok()?, *y)));
            let mut points: Vec<(f64, f64)> = points.filter(|(_, y)| y.is_finite()).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let lines: Vec<Vec<(f64, f64)>> = self.series.iter().map(line).collect();
        let places = || lines.iter().flatten().map(|point| point.0);
        let first = places().fold(f64::INFINITY, f64::min);
        let last = places().fold(0.0, f64::max);
        let (first, last) = if first > 0.0 && first < last {
            (first, last)
        } else {
            (1.0, 10.0)
        };
        let top = top(lines.iter().flatten().map(|point| point.1), 1.08);
        self.with_legend(LINES_SIZE, |area| {
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d((first..last * 1.02).log_scale(), 0.0..top)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_desc(&self.x)
                .y_desc(&self.y)
                .x_label_formatter(&|value| short(*value))
                .y_label_formatter(&|value| short(*value))
                .label_style((FONT, 12))
                .axis_desc_style((FONT, 13))
                .draw()?;
            for (index, line) in lines.iter().enumerate() {
                let style = color(index);
                let points = line.iter().copied();
                chart.draw_series(LineSeries::new(points.clone(), style.stroke_width(2)))?;
                chart.draw_series(points.map(|point| Circle::new(point, 2, style.filled())))?;
            }
            Ok(())
        })
    }

    /// Draws as [`framed`](Self::framed), with the names and colours of the series at the right.
    fn with_legend(
        &self,
        (width, height): (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Drawn,
    ) -> Result<String, BenchError> {
        self.framed((width, height), |area| {
            let (area, names) = area.split_horizontally(width - LEGEND);
            draw(&area)?;
            for (index, (name, _)) in self.series.iter().enumerate() {
                let y = 24 + 20 * index as i32;
                let mark = Rectangle::new([(4, y - 5), (22, y + 5)], color(index).filled());
                names.draw(&mark)?;
                names.draw(&Text::new(name.clone(), (28, y - 7), (FONT, 12)))?;
            }
            Ok(())
        })
    }
}

/// Returns the colour of the `index`-th series.
fn color(index: usize) -> RGBAColor {
    let opacity = [1.0, 0.55, 0.3][index / COLORS.len() % 3];
    COLORS[index % COLORS.len()].mix(opacity)
}

/// Returns the end of a vertical axis from zero: the greatest value, and some space above.
fn top(values: impl Iterator<Item = f64>, space: f64) -> f64 {
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if top > 0.0 { top * space } else { 1.0 }
}
