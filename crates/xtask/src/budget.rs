//! Statements in control groups with little memory: `tools/budget`.

use std::path::Path;
use std::process::Command;

use crate::{cargo, run};

/// Builds the program unless another one is named, and runs the statements with these arguments.
pub(crate) fn measure(root: &Path, arguments: &[String]) -> Result<(), String> {
    let names_one = |argument: &String| argument == "--program" || argument.starts_with("--program=");
    let is_help = |argument: &String| argument == "--help" || argument == "-h";
    if !arguments
        .iter()
        .any(|argument| names_one(argument) || is_help(argument))
    {
        let build = ["build", "--locked", "--release", "--package", "halocline-cli"];
        cargo("program", &build, &[])?;
    }
    let mut python = Command::new("python3");
    python.arg(root.join("tools/budget")).args(arguments);
    run("budget", &mut python)
}
