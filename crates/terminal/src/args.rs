//! Values of options that several programs have.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use halocline_emulator::{EmulatedError, EmulatedSpec};
use halocline_ordered::{TreeError, TreeKind};

/// Reads an emulated medium: `emulated:PROFILE…` as [`EmulatedSpec`] says.
///
/// # Errors
/// Says what is wrong with the text.
pub fn medium(text: &str) -> Result<Box<EmulatedSpec>, String> {
    text.parse()
        .map(Box::new)
        .map_err(|error: EmulatedError| error.to_string())
}

/// Reads the scale factor of a benchmark.
///
/// # Errors
/// The text is no number above 0, or one above 10,000.
pub fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 10_000.0 => Ok(factor),
        _ => Err("a scale factor is a number above 0, as 0.1 or 10".to_owned()),
    }
}

/// Returns a parser for the names of the kinds of trees.
pub fn tree_kinds() -> impl TypedValueParser<Value = TreeKind> {
    let names = TreeKind::ALL.iter().map(|kind| kind.name());
    PossibleValuesParser::new(names)
        .try_map(|name| name.parse::<TreeKind>().map_err(|error: TreeError| error))
}
