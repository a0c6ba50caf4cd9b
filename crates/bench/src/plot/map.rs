//! Maps of cells side by side, coloured by the logarithm of their value.

use plotters::prelude::*;

use super::{FONT, Figure, Frame, centred, framed, short};
use crate::BenchError;

/// One map.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Title of the panel.
    pub name: String,
    /// A value per row, from below, and column. One that is not a number leaves its cell empty.
    pub cells: Vec<Vec<f64>>,
}

/// Maps with the same axes and colours.
#[derive(Debug, Clone, PartialEq)]
pub struct Maps {
    /// Title, axes, configuration.
    pub frame: Frame,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows, from the bottom.
    pub rows: Vec<String>,
    /// The maps.
    pub panels: Vec<Panel>,
}

const CELL: (u32, u32) = (58, 44);
const MARGIN: (u32, u32) = (90, 110);

impl Figure for Maps {
    fn svg(&self) -> Result<String, BenchError> {
        let panel = MARGIN.0 + CELL.0 * self.columns.len().max(2) as u32;
        let width = (panel * self.panels.len().max(1) as u32).max(480);
        let height = MARGIN.1 + 30 + CELL.1 * self.rows.len().max(2) as u32;
        let values = self
            .panels
            .iter()
            .flat_map(|panel| panel.cells.iter().flatten().copied());
        let values: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min).ln();
        let most = values.iter().copied().fold(0.0, f64::max).ln();
        framed(&self.frame, (width, height), |area| {
            for (panel, area) in self
                .panels
                .iter()
                .zip(area.split_evenly((1, self.panels.len().max(1))))
            {
                let (columns, rows) = (self.columns.len().max(1), self.rows.len().max(1));
                let mut chart = ChartBuilder::on(&area)
                    .caption(&panel.name, (FONT, 14))
                    .margin(8)
                    .x_label_area_size(44)
                    .y_label_area_size(64)
                    .build_cartesian_2d(0.0..columns as f64, 0.0..rows as f64)?;
                chart
                    .configure_mesh()
                    .disable_mesh()
                    .x_labels(0)
                    .y_labels(0)
                    .x_desc(&self.frame.x)
                    .y_desc(&self.frame.y)
                    .axis_desc_style((FONT, 12))
                    .draw()?;
                let (left, above) = area.get_base_pixel();
                let place = |x: f64, y: f64| {
                    let (x, y) = chart.plotting_area().map_coordinate(&(x, y));
                    (x - left, y - above)
                };
                for (row, cells) in panel.cells.iter().enumerate() {
                    for (column, &value) in cells.iter().enumerate() {
                        if !(value > 0.0 && value.is_finite()) {
                            continue;
                        }
                        let share = if most > least {
                            (value.ln() - least) / (most - least)
                        } else {
                            0.5
                        };
                        let (x, y) = (column as f64, row as f64);
                        let corners = [place(x, y), place(x + 1.0, y + 1.0)];
                        area.draw(&Rectangle::new(corners, shade(share).filled()))?;
                        let ink = if share > 0.55 { &WHITE } else { &BLACK };
                        let style = centred(11).color(ink);
                        area.draw(&Text::new(short(value), place(x + 0.5, y + 0.5), style))?;
                    }
                }
                for (column, name) in self.columns.iter().enumerate() {
                    let (x, y) = place(column as f64 + 0.5, 0.0);
                    area.draw(&Text::new(name.clone(), (x, y + 11), centred(11)))?;
                }
                for (row, name) in self.rows.iter().enumerate() {
                    let (x, y) = place(0.0, row as f64 + 0.5);
                    area.draw(&Text::new(name.clone(), (x - 24, y), centred(11)))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_cells_and_names() {
        let panel = |name: &str, factor: f64| Panel {
            name: name.into(),
            cells: vec![vec![factor, 10.0 * factor], vec![100.0 * factor, f64::NAN]],
        };
        let svg = Maps {
            frame: Frame {
                title: "Parallel".into(),
                x: "range size, %".into(),
                y: "cardinality".into(),
                foot: "threads 2".into(),
            },
            columns: vec!["2".into(), "50".into()],
            rows: vec!["16".into(), "128".into()],
            panels: vec![panel("sequential", 1.0), panel("chosen", 2.5)],
        }
        .svg()
        .unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "Parallel",
            "range size, %",
            "cardinality",
            "threads 2",
            "sequential",
            "chosen",
            "128",
            "250",
        ] {
            assert!(svg.contains(text), "`{text}` is not in\n{svg}");
        }
    }
}
