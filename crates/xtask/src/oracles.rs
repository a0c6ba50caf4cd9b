//! Random queries compared with DuckDB, SQLite and the engine itself: `tools/oracles`.

use std::path::Path;
use std::process::Command;

use crate::{cargo, run};

/// Builds the program unless another one is named, and runs the comparison with these arguments.
pub(crate) fn compare(root: &Path, arguments: &[String]) -> Result<(), String> {
    let named = |argument: &String| argument == "--program" || argument.starts_with("--program=");
    let needs_none = ["--help", "-h", "--list"].map(str::to_owned);
    if !arguments
        .iter()
        .any(|argument| named(argument) || needs_none.contains(argument))
    {
        cargo(
            "program",
            &["build", "--locked", "--package", "halocline-cli"],
            &[],
        )?;
    }
    let mut python = Command::new("python3");
    python.arg(root.join("tools/oracles")).args(arguments);
    run("oracles", &mut python)
}
