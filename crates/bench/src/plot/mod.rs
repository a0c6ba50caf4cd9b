//! Figures of an experiment as SVG files: grouped columns, lines over a logarithmic axis, maps of cells.
//!
//! Every figure says what its axes are and in which unit, and has a line at its foot with the configuration
//! it comes from.

mod columns;
mod lines;
mod map;

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::BenchError;

pub use columns::GroupedColumns;
pub use lines::{Line, Lines};
pub use map::{Maps, Panel};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const FONT: &str = "sans-serif";
const FOOT: u32 = 18;
/// Width of a legend.
const LEGEND: u32 = 210;
/// Characters that a line of the foot has room for, by pixel of width.
const FOOT_CHARACTERS: f64 = 0.17;

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

/// Returns the colour of the `index`-th series.
fn color(index: usize) -> RGBAColor {
    let opacity = [1.0, 0.55, 0.3][index / COLORS.len() % 3];
    COLORS[index % COLORS.len()].mix(opacity)
}

/// Title, axis labels and footer of a figure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Title.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The configuration.
    pub foot: String,
}

/// A figure.
pub trait Figure {
    /// Renders the figure as the text of an SVG file.
    ///
    /// # Errors
    /// There is nothing to draw, or it cannot be drawn.
    fn svg(&self) -> Result<String, BenchError>;
}

/// Writes the text of a figure to `NAME.svg` in a directory, which is made if it is not there. Returns the
/// path.
///
/// # Errors
/// The file cannot be written.
pub fn write(directory: &Path, name: &str, svg: &str) -> Result<std::path::PathBuf, BenchError> {
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("{name}.svg"));
    fs::write(&path, svg)?;
    Ok(path)
}

/// Draws with the frame's title above and its configuration below; `draw` gets what lies between.
fn framed(
    frame: &Frame,
    (width, height): (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, BenchError> {
    let mut text = String::new();
    let foot = wrapped(&frame.foot, (f64::from(width) * FOOT_CHARACTERS) as usize);
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
        draw(&inner.titled(&frame.title, (FONT, 18))?)?;
        root.present()?;
        Ok(())
    };
    match drawn_or(drawn) {
        Ok(()) => Ok(text),
        Err(reason) => Err(BenchError::Figure {
            title: frame.title.clone(),
            reason,
        }),
    }
}

fn drawn_or(draw: impl FnOnce() -> Drawn) -> Result<(), String> {
    draw().map_err(|error| error.to_string())
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

/// Draws the names of the series with their colours, from top to bottom.
fn legend<'a>(area: &Area<'_>, names: impl Iterator<Item = &'a str>) -> Drawn {
    for (index, name) in names.enumerate() {
        let y = 24 + 20 * index as i32;
        let mark = Rectangle::new([(4, y - 5), (22, y + 5)], color(index).filled());
        area.draw(&mark)?;
        area.draw(&Text::new(name.to_owned(), (28, y - 7), (FONT, 12)))?;
    }
    Ok(())
}

/// Returns a style for text that is centred at its position.
fn centred(size: u32) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Center))
}

/// Formats a number with about three digits and a suffix for thousands (`k`), millions (`M`) or billions
/// (`G`).
pub(crate) fn short(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (12.34, "12.3"),
            (1500.0, "1.5k"),
            (100_000.0, "100k"),
            (23_400_000.0, "23.4M"),
            (0.0012, "0.0012"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn the_foot_is_broken_between_words() {
        assert_eq!(wrapped("aa bb cc d", 5), ["aa bb", "cc d"]);
        assert_eq!(wrapped("much-too-long", 5), ["much-too-long"]);
        assert!(wrapped("", 5).is_empty());
    }

    #[test]
    fn a_figure_becomes_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let columns = GroupedColumns {
            frame: Frame::default(),
            groups: vec!["a".into()],
            series: vec![("one".into(), vec![1.0])],
        };
        let svg = columns.svg().unwrap();
        let path = write(&directory.path().join("new"), "figure", &svg).unwrap();
        assert!(fs::read_to_string(path).unwrap().starts_with("<svg"));
    }
}
