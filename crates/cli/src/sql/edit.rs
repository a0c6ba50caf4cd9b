//! `\e`: editing a statement in a program of the user's.

use std::env;
use std::fs;
use std::process::Command;

use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;

use super::shell::{Flow, Shell};

/// The editor where none is named.
const DEFAULT_EDITOR: &str = "vi";

/// Opens the last statement, or the one that is not finished, in an editor, and returns what it was saved as.
pub(super) fn edit(shell: &Shell<'_>) -> Result<Flow, CliError> {
    if !shell.is_interactive {
        return Err(CliError::with_hint(
            "\\e edits statements in a shell, and this is a script",
            "edit the script",
        ));
    }
    let failed = |what: String, error: std::io::Error| CliError::failed(format!("{what}: {error}"));
    let directory =
        tempfile::tempdir().map_err(|error| failed("cannot make a temporary directory".to_owned(), error))?;
    let file = directory.path().join("statement.sql");
    let in_file = |what: &str| format!("cannot {what} {}", file.display());
    fs::write(&file, &shell.draft).map_err(|error| failed(in_file("write"), error))?;
    let editor = editor();
    // While the editor has the terminal, Ctrl-C is for it.
    let guard = Guard::new();
    // The name of an editor may have arguments, which the system's shell separates.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(&file)
        .status()
        .map_err(|error| failed(format!("cannot run {editor}"), error))?;
    drop(guard);
    if !status.success() {
        return Err(CliError::with_hint(
            format!("the editor {editor} ended with an error; the statement is as it was"),
            "name an editor by the variable VISUAL or EDITOR",
        ));
    }
    let text = fs::read_to_string(&file).map_err(|error| failed(in_file("read"), error))?;
    Ok(Flow::Edited(text.trim_end().to_owned()))
}

fn editor() -> String {
    let named = ["VISUAL", "EDITOR"].iter().filter_map(|name| env::var(name).ok());
    let mut named = named.filter(|editor| !editor.trim().is_empty());
    named.next().unwrap_or_else(|| DEFAULT_EDITOR.to_owned())
}
