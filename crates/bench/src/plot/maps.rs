//! Maps of cells side by side, one for each series, coloured by the logarithm of their value.

use plotters::prelude::*;

use super::{FONT, Plot, centred, label};
use crate::BenchError;
use crate::quantity::short;

const CELL: (u32, u32) = (58, 44);
const MARGIN: (u32, u32) = (90, 110);

impl Plot {
    /// Returns the plot as maps, all with the same axes and colours.
    pub(crate) fn maps(&self) -> Result<String, BenchError> {
        let (columns, rows, maps) = (self.places.len(), self.rows.len(), self.series.len().max(1));
        let map = MARGIN.0 + CELL.0 * columns.max(2) as u32;
        let width = (map * maps as u32).max(480);
        let height = MARGIN.1 + 30 + CELL.1 * rows.max(2) as u32;
        let has_cell = |value: f64| value > 0.0 && value.is_finite();
        let values = self.series.iter().flat_map(|(_, values)| values).copied();
        let values = values.filter(|value| has_cell(*value));
        let least = values.clone().fold(f64::INFINITY, f64::min).ln();
        let most = values.fold(0.0, f64::max).ln();
        self.framed((width, height), |area| {
            for ((name, values), area) in self.series.iter().zip(area.split_evenly((1, maps))) {
                let mut chart = ChartBuilder::on(&area)
                    .caption(name, (FONT, 14))
                    .margin(8)
                    .x_label_area_size(44)
                    .y_label_area_size(64)
                    .build_cartesian_2d(0.0..columns.max(1) as f64, 0.0..rows.max(1) as f64)?;
                chart
                    .configure_mesh()
                    .disable_mesh()
                    .x_labels(0)
                    .y_labels(0)
                    .x_desc(&self.x)
                    .y_desc(&self.y)
                    .axis_desc_style((FONT, 12))
                    .draw()?;
                let pixel = |x: f64, y: f64| chart.plotting_area().map_coordinate(&(x, y));
                let cells = values.iter().copied().enumerate();
                for (at, value) in cells.filter(|(_, value)| has_cell(*value)) {
                    let share = if most > least {
                        (value.ln() - least) / (most - least)
                    } else {
                        0.5
                    };
                    let (x, y) = ((at % columns) as f64, (at / columns) as f64);
                    let (left, above) = area.get_base_pixel();
                    let corners = [pixel(x, y), pixel(x + 1.0, y + 1.0)];
                    let corners = corners.map(|(x, y)| (x - left, y - above));
                    area.draw(&Rectangle::new(corners, shade(share).filled()))?;
                    let ink = if share > 0.55 { &WHITE } else { &BLACK };
                    let style = centred(11).color(ink);
                    label(&area, short(value), pixel(x + 0.5, y + 0.5), style)?;
                }
                for (column, name) in self.places.iter().enumerate() {
                    let (x, y) = pixel(column as f64 + 0.5, 0.0);
                    label(&area, name.clone(), (x, y + 11), centred(11))?;
                }
                for (row, name) in self.rows.iter().enumerate() {
                    let (x, y) = pixel(0.0, row as f64 + 0.5);
                    label(&area, name.clone(), (x - 24, y), centred(11))?;
                }
            }
            Ok(())
        })
    }
}

/// Returns the colour of a share, from nearly white at 0 to dark blue at 1.
fn shade(share: f64) -> RGBColor {
    let part = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    RGBColor(part(240.0, 8.0), part(246.0, 60.0), part(252.0, 120.0))
}
