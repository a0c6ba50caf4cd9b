//! Grouped columns from zero: one group for each place on the horizontal axis, with one column for each
//! series.

use plotters::prelude::*;

use super::{FONT, LEGEND, Plot, centred, color, label, top};
use crate::BenchError;
use crate::quantity::short;

/// The part of a group's width that its columns fill.
const FILLED: f64 = 0.84;
const HEIGHT: u32 = 460;

impl Plot {
    /// Returns the plot as grouped columns.
    pub(crate) fn columns(&self) -> Result<String, BenchError> {
        let top = top(self.series.iter().flat_map(|(_, values)| values).copied(), 1.12);
        let columns = self.places.len() * self.series.len();
        let width = (200 + 20 * columns as u32).clamp(720, 2400) + LEGEND;
        let height = HEIGHT.max(60 + 20 * self.series.len() as u32);
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
}
