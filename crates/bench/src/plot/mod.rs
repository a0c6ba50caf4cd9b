//! Figures as SVG files: grouped columns, lines over a logarithmic axis, maps of cells.
//!
//! Every figure says what its axes are and in which unit, and has a line at its foot with the configuration
//! it comes from.

mod maps;
mod series;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::BenchError;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const FONT: &str = "sans-serif";
const FOOT: u32 = 18;
/// Characters that a line of the foot has room for, by pixel of width.
const FOOT_CHARACTERS: f64 = 0.17;

/// The contents of a figure, whatever its form.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// The horizontal axis, with its unit.
    pub(crate) x: String,
    /// The vertical axis, with its unit.
    pub(crate) y: String,
    /// The configuration.
    pub(crate) foot: String,
    /// Places on the horizontal axis.
    pub(crate) places: Vec<String>,
    /// Rows of a map, from below; columns and lines have one.
    pub(crate) rows: Vec<String>,
    /// The name of each series, and its values: those at all places of the first row, then of the next. One
    /// that is not a number is not drawn.
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

impl Plot {
    /// Draws with the title above and the configuration below; `draw` gets what lies between. Returns the
    /// text of an SVG file.
    fn framed(
        &self,
        (width, height): (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Drawn,
    ) -> Result<String, BenchError> {
        let mut text = String::new();
        let foot = wrapped(&self.foot, (f64::from(width) * FOOT_CHARACTERS) as usize);
        let height = height + FOOT * foot.len() as u32;
        let drawn = || -> Drawn {
            let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
            root.fill(&WHITE)?;
            for (line, words) in foot.iter().enumerate() {
                let y = (height - FOOT * (foot.len() - line) as u32) as i32;
                let style = (FONT, 11).into_font().color(&BLACK.mix(0.7));
                root.draw(&Text::new(words.clone(), (12, y), style))?;
            }
            let (inner, _) = root.split_vertically(height - FOOT * foot.len() as u32 - 4);
            draw(&inner.titled(&self.title, (FONT, 18))?)?;
            root.present()?;
            Ok(())
        };
        drawn().map_err(|error| BenchError::Figure {
            title: self.title.clone(),
            reason: error.to_string(),
        })?;
        Ok(text)
    }
}

/// Wraps text between words to lines of at most `most` characters. A longer word gets a line of its own.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws a text centred at a pixel of the whole figure, as a chart gives it.
fn label(area: &Area<'_>, text: String, (x, y): (i32, i32), style: TextStyle<'_>) -> Drawn {
    let (left, above) = area.get_base_pixel();
    area.draw(&Text::new(text, (x - left, y - above), style))?;
    Ok(())
}

/// Returns a style for text that is centred at its position.
fn centred(size: u32) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(places: &[&str], rows: &[&str], series: &[(&str, &[f64])]) -> Plot {
        let owned = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let series = series
            .iter()
            .map(|(name, values)| ((*name).to_owned(), values.to_vec()));
        Plot {
            title: "The title".into(),
            x: "question".into(),
            y: "time, us".into(),
            foot: "rows 10, seed 42".into(),
            places: owned(places),
            rows: owned(rows),
            series: series.collect(),
        }
    }

    #[test]
    fn figures_have_names_values_and_a_foot() {
        let two: [(&str, &[f64]); 2] = [("volatile", &[1.0, 2.0]), ("slow-only", &[3.25, f64::NAN])];
        let columns = plot(&["exact", "range <2 %>"], &[""], &two).columns();
        let rates: [(&str, &[f64]); 2] = [("volatile", &[3e5, 1e5]), ("slow-only", &[4e5, 4e5])];
        let lines = plot(&["1000000", "1000"], &[""], &rates).lines();
        let cells: [(&str, &[f64]); 2] = [
            ("volatile", &[1.0, 10.0, 100.0, f64::NAN]),
            ("slow-only", &[2.5, 25.0, 250.0, f64::NAN]),
        ];
        let maps = plot(&["2", "50"], &["16", "128"], &cells).maps();
        let columns = (columns, ["exact", "range &lt;2 %&gt;", "3.25"]);
        let lines = (lines, ["10k", "100k", "time, us"]);
        for (svg, own) in [columns, lines, (maps, ["128", "250", "50"])] {
            let svg = svg.unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            let common = [
                "The title",
                "question",
                "time, us",
                "seed 42",
                "volatile",
                "slow-only",
            ];
            for text in common.iter().chain(&own) {
                assert!(svg.contains(text), "`{text}` is not in\n{svg}");
            }
            assert!(!svg.contains("NaN"));
        }
    }

    #[test]
    fn nothing_and_one_point_are_figures_too() {
        for nothing in [Plot::default(), plot(&["5"], &[""], &[("a", &[1.0])])] {
            assert!(nothing.columns().is_ok() && nothing.lines().is_ok() && nothing.maps().is_ok());
        }
    }

    #[test]
    fn the_foot_is_broken_between_words() {
        assert_eq!(wrapped("aa bb cc d", 5), ["aa bb", "cc d"]);
        assert_eq!(wrapped("much-too-long", 5), ["much-too-long"]);
        assert!(wrapped("", 5).is_empty());
    }
}
