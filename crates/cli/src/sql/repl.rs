//! The SQL shell: history, statements over several lines, Ctrl-C drops the line or ends the query.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use halocline_terminal::CliError;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use super::commands;
use super::helper::ShellHelper;
use super::shell::{Flow, Shell};
use super::statements::{ScriptItem, ScriptReader, ends_quoted, has_content, is_command};
use crate::args::{IN_MEMORY, SqlArgs};

const PROMPT: &str = "halocline> ";
const CONTINUED: &str = "        -> ";

/// Statements and commands that the history holds.
const HISTORY_ENTRIES: usize = 1000;

type LineEditor = Editor<ShellHelper, DefaultHistory>;

/// Reads and runs statements until `\q` or Ctrl-D. A statement that fails is reported, and the shell goes on.
pub(super) fn repl(shell: &mut Shell<'_>, args: &SqlArgs) -> Result<(), CliError> {
    let mut editor = editor(shell).map_err(failed)?;
    let history = history_file();
    if let Some(file) = &history {
        let _ = editor.load_history(file); // there is none at first
    }
    greet(args)?;
    let mut reader = ScriptReader::default();
    let mut edited: Option<String> = None;
    loop {
        let prompt = if has_content(reader.rest()) {
            CONTINUED
        } else {
            PROMPT
        };
        let line = match edited.take() {
            Some(text) => editor.readline_with_initial(prompt, (text.as_str(), "")),
            None => editor.readline(prompt),
        };
        match line {
            Ok(text) => match feed(shell, &mut editor, &mut reader, &text)? {
                Flow::Continue => {}
                Flow::End => break,
                Flow::Edited(text) => edited = Some(text),
            },
            Err(ReadlineError::Interrupted) => reader.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        }
    }
    if let Some(file) = &history {
        save(&mut editor, file);
    }
    Ok(())
}

fn failed(error: ReadlineError) -> CliError {
    CliError::failed(error.to_string())
}

fn editor(shell: &Shell<'_>) -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = LineEditor::with_config(config)?;
    let helper = ShellHelper::new(shell.runtime.handle(), &shell.session.database);
    editor.set_helper(Some(helper));
    Ok(editor)
}

fn greet(args: &SqlArgs) -> Result<(), CliError> {
    let mut out = io::stdout();
    if args.pool == Path::new(IN_MEMORY) {
        writeln!(
            out,
            "a pool in memory, which ends with the shell: \\help for help, \\q to end"
        )?;
    } else {
        writeln!(out, "{}: \\help for help, \\q to end", args.pool.display())?;
    }
    if let Some(medium) = &args.medium {
        writeln!(out, "the medium is {medium}: times are those of its profile")?;
    }
    Ok(())
}

/// Adds what was typed or pasted, and runs what is complete with it. After a failure the rest is dropped.
fn feed(
    shell: &mut Shell<'_>,
    editor: &mut LineEditor,
    reader: &mut ScriptReader,
    text: &str,
) -> Result<Flow, CliError> {
    for line in text.lines() {
        let is_within = is_command_within(reader.rest(), line);
        let items = if is_within {
            reader.rest().trim().clone_into(&mut shell.draft);
            vec![ScriptItem::Command(line.trim().to_owned())]
        } else {
            reader.push(&format!("{line}\n"));
            std::iter::from_fn(|| reader.next())
                .map(|placed| placed.item)
                .collect()
        };
        for item in items {
            let entry = match &item {
                ScriptItem::Statement(text) => format!("{text};"),
                ScriptItem::Command(text) => text.clone(),
            };
            let _ = editor.add_history_entry(entry);
            if let Some(helper) = editor.helper_mut() {
                helper.forget_names();
            }
            match run(shell, &item) {
                Ok(Flow::Continue) => {}
                Ok(flow) => {
                    reader.clear();
                    return Ok(flow);
                }
                Err(error) => {
                    if !is_within {
                        reader.clear();
                    }
                    report(error)?;
                    return Ok(Flow::Continue);
                }
            }
        }
    }
    Ok(Flow::Continue)
}

/// Returns true if a line is a command although a statement is not finished: `\q` and `quit` end the shell
/// then, too. Within quotes it is a part of the text.
fn is_command_within(open: &str, line: &str) -> bool {
    has_content(open) && is_command(line) && !line.trim_start().starts_with('.') && !ends_quoted(open)
}

fn run(shell: &mut Shell<'_>, item: &ScriptItem) -> Result<Flow, CliError> {
    match item {
        ScriptItem::Statement(text) => shell.run_statement(text).map(|()| Flow::Continue),
        ScriptItem::Command(line) => commands::run(shell, line),
    }
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
fn save(editor: &mut LineEditor, file: &Path) {
    if let Some(directory) = file.parent() {
        let _ = fs::create_dir_all(directory);
    }
    let _ = editor.save_history(file);
}
