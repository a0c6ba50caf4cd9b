//! Lines over a logarithmic horizontal axis; the vertical one starts at zero.

use plotters::prelude::*;

use super::{FONT, LEGEND, Plot, color, top};
use crate::BenchError;
use crate::quantity::short;

const SIZE: (u32, u32) = (770 + LEGEND, 520);

impl Plot {
    /// Returns the plot as lines through the places that are numbers.
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
        self.with_legend(SIZE, |area| {
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
}
