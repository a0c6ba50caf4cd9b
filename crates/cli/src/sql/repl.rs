//! The SQL shell: history, statements over several lines, Ctrl-C drops the line or ends the query.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use halocline_terminal::CliError;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::run::Session;
use super::statements::{has_content, split};
use super::{meta, statements};
use crate::args::SqlArgs;

const PROMPT: &str = "halocline> ";
const CONTINUED: &str = "        -> ";

/// Reads and runs statements until `\q` or Ctrl-D. A statement that fails is reported, and the shell goes on.
pub(crate) fn repl(runtime: &Runtime, session: &mut Session, args: &SqlArgs) -> Result<(), CliError> {
    let mut editor = DefaultEditor::new().map_err(|error| CliError::failed(error.to_string()))?;
    let history = history_file();
    if let Some(file) = &history {
        let _ = editor.load_history(file); // there is none at first
    }
    let mut out = io::stdout();
    writeln!(out, "{}: \\help for help, \\q to end", args.pool.display())?;
    if let Some(medium) = &args.medium {
        writeln!(out, "the medium is {medium}: times are those of its profile")?;
    }
    let mut pending = String::new();
    loop {
        let prompt = if has_content(&pending) { CONTINUED } else { PROMPT };
        match editor.readline(prompt) {
            Ok(line) if !has_content(&pending) && line.trim_start().starts_with('\\') => {
                let _ = editor.add_history_entry(line.trim());
                match meta::run(session, line.trim()) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => report(error)?,
                }
            }
            Ok(line) => {
                pending.push_str(&line);
                pending.push('\n');
                let (finished, rest) = split(&pending);
                pending = if has_content(&rest) { rest } else { String::new() };
                run_all(runtime, session, &mut editor, finished)?;
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(CliError::failed(error.to_string())),
        }
    }
    if let Some(file) = &history {
        save(&mut editor, file);
    }
    Ok(())
}

fn run_all(
    runtime: &Runtime,
    session: &Session,
    editor: &mut DefaultEditor,
    statements: Vec<String>,
) -> Result<(), CliError> {
    for text in statements {
        let _ = editor.add_history_entry(format!("{};", statements::one_line(&text)));
        if let Err(error) = runtime.block_on(session.run(&text)) {
            return report(error); // the statements after it on the line are dropped
        }
    }
    Ok(())
}

/// Tells of an error and goes on, unless there is nobody left to tell.
fn report(error: CliError) -> Result<(), CliError> {
    if matches!(error, CliError::BrokenPipe) {
        return Err(error);
    }
    Ok(write!(io::stderr(), "{}", error.report())?)
}

/// Returns the path `$XDG_STATE_HOME/halocline/history`, by default under `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("halocline").join("history"))
}

/// Saves the history. Failures are ignored, as the shell works without a history.
fn save(editor: &mut DefaultEditor, file: &Path) {
    if let Some(directory) = file.parent() {
        let _ = fs::create_dir_all(directory);
    }
    let _ = editor.save_history(file);
}
