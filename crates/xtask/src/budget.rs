//! Statements in control groups with little memory: `tools/budget`.

use std::path::Path;
use std::process::Command;

use crate::{cargo, run};

/// Builds the programs unless others are named, and runs the statements with these arguments.
pub(crate) fn measure(root: &Path, arguments: &[String]) -> Result<(), String> {
    let names = |option: &str| {
        let is_option = |argument: &String| argument.split('=').next() == Some(option);
        arguments.iter().any(is_option)
    };
    let is_help = names("--help") || names("-h");
    let build = ["build", "--locked", "--release", "--package"];
    if !is_help && !names("--program") {
        cargo("program", &build, &["halocline-cli".to_owned()])?;
    }
    if !is_help && names("--sessions") && !names("--sessions-program") {
        let example = ["halocline-engine", "--example", "sessions"];
        cargo("sessions", &build, &example.map(str::to_owned))?;
    }
    let mut python = Command::new("python3");
    python.arg(root.join("tools/budget")).args(arguments);
    run("budget", &mut python)
}
