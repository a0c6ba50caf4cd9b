//! Lines over a logarithmic horizontal axis.

use plotters::prelude::*;

use super::{FONT, Figure, Frame, LEGEND, color, framed, legend, short};
use crate::BenchError;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the series.
    pub name: String,
    /// Its points, by rising x above 0.
    pub points: Vec<(f64, f64)>,
}

/// Lines; the horizontal axis is logarithmic, the vertical one starts at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Title, axes, configuration.
    pub frame: Frame,
    /// The lines.
    pub lines: Vec<Line>,
}

const SIZE: (u32, u32) = (980, 520);

impl Figure for Lines {
    fn svg(&self) -> Result<String, BenchError> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let last = points().map(|point| point.0).fold(0.0, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let (first, last) = if first > 0.0 && first < last {
            (first, last)
        } else {
            (1.0, 10.0)
        };
        let top = if top > 0.0 { top * 1.08 } else { 1.0 };
        framed(&self.frame, SIZE, |area| {
            let (plot, names) = area.split_horizontally(SIZE.0 - LEGEND);
            let mut chart = ChartBuilder::on(&plot)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d((first..last * 1.02).log_scale(), 0.0..top)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_desc(&self.frame.x)
                .y_desc(&self.frame.y)
                .x_label_formatter(&|value| short(*value))
                .y_label_formatter(&|value| short(*value))
                .label_style((FONT, 12))
                .axis_desc_style((FONT, 13))
                .draw()?;
            for (index, line) in self.lines.iter().enumerate() {
                let style = color(index);
                chart.draw_series(LineSeries::new(
                    line.points.iter().copied(),
                    style.stroke_width(2),
                ))?;
                let dots = line.points.iter();
                chart.draw_series(dots.map(|point| Circle::new(*point, 2, style.filled())))?;
            }
            legend(&names, self.lines.iter().map(|line| line.name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names_and_axes() {
        let svg = Lines {
            frame: Frame {
                title: "Warm-up".into(),
                x: "queries run".into(),
                y: "queries/s".into(),
                foot: "theta 0.5".into(),
            },
            lines: vec![
                Line {
                    name: "dynamic:lla".into(),
                    points: vec![(1e3, 1e5), (1e4, 2e5), (1e6, 3e5)],
                },
                Line {
                    name: "volatile".into(),
                    points: vec![(1e3, 4e5), (1e6, 4e5)],
                },
            ],
        }
        .svg()
        .unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "Warm-up",
            "queries run",
            "queries/s",
            "theta 0.5",
            "dynamic:lla",
            "volatile",
            "10k",
            "100k",
        ] {
            assert!(svg.contains(text), "`{text}` is not in\n{svg}");
        }
    }

    #[test]
    fn one_point_and_none_are_figures_too() {
        for points in [vec![], vec![(5.0, 1.0)]] {
            let lines = Lines {
                frame: Frame::default(),
                lines: vec![Line {
                    name: "a".into(),
                    points,
                }],
            };
            assert!(lines.svg().is_ok());
        }
    }
}
