//! The shell's own commands, named as in psql (`\dt`), and as in SQLite and DuckDB (`.tables`).
//!
//! A command is an entry of the list [`COMMANDS`], from which its help and its completion follow.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use halocline_terminal::CliError;
use halocline_terminal::output::AnswerFormat;

use super::shell::{Flow, Shell};
use super::{copy, describe, edit, script};

/// The function of a command; it takes the text after the name.
type RunCommand = fn(&mut Shell<'_>, &str) -> Result<Flow, CliError>;

/// A command.
pub(super) struct ShellCommand {
    /// Its names; help shows the first one and the first one with a dot.
    pub(super) names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
    run: RunCommand,
}

/// All commands, in the order of the help.
pub(super) static COMMANDS: [ShellCommand; 15] = [
    ShellCommand {
        names: &["\\d"],
        arguments: "[TABLE]",
        help: "tables, views and indexes of the pool, or the columns of a table and its indexes",
        run: |shell, argument| describe::all(&shell.session, argument),
    },
    ShellCommand {
        names: &["\\dt", ".tables"],
        arguments: "",
        help: "tables and views",
        run: |shell, _| describe::tables(&shell.session),
    },
    ShellCommand {
        names: &["\\di", ".indexes"],
        arguments: "",
        help: "indexes",
        run: |shell, _| describe::indexes(&shell.session),
    },
    ShellCommand {
        names: &["\\schema", ".schema"],
        arguments: "[TABLE]",
        help: "the statements that create the tables, indexes and views anew",
        run: |shell, argument| describe::schema(&shell.session, argument),
    },
    ShellCommand {
        names: &["\\i", ".read", "\\include"],
        arguments: "FILE",
        help: "run the statements and commands of a file",
        run: include,
    },
    ShellCommand {
        names: &["\\copy"],
        arguments: "TABLE|(QUERY) FROM|TO FILE",
        help: "COPY, whose file needs no quotes",
        run: |shell, argument| {
            shell.run_statement(&copy::statement(argument)?)?;
            Ok(Flow::Continue)
        },
    },
    ShellCommand {
        names: &["\\e", "\\edit", ".edit"],
        arguments: "",
        help: "edit the last statement in the program that VISUAL or EDITOR names",
        run: |shell, _| edit::edit(shell),
    },
    ShellCommand {
        names: &["\\x"],
        arguments: "[on|off]",
        help: "print each value in a line of its own, for rows with many columns",
        run: |shell, argument| toggle(shell, AnswerFormat::Expanded, argument),
    },
    ShellCommand {
        names: &["\\chart"],
        arguments: "[on|off|QUERY]",
        help: "draw a bar for each row: of a column of labels, and one of numbers",
        run: chart,
    },
    ShellCommand {
        names: &["\\format", ".mode"],
        arguments: "FORMAT",
        help: "print answers as table, csv, json, expanded or chart",
        run: format,
    },
    ShellCommand {
        names: &["\\o", ".output", "\\out"],
        arguments: "[FILE]",
        help: "write answers to a file, or to the terminal again",
        run: output,
    },
    ShellCommand {
        names: &["\\timing", ".timer"],
        arguments: "[on|off]",
        help: "print how long each statement takes, or stop it",
        run: timing,
    },
    ShellCommand {
        names: &["\\echo", ".print"],
        arguments: "TEXT",
        help: "print a text, to tell answers apart",
        run: |shell, argument| say(shell, argument),
    },
    ShellCommand {
        names: &["\\help", ".help", "\\h", "\\?", "help"],
        arguments: "",
        help: "this text",
        run: |shell, _| say(shell, &help()),
    },
    ShellCommand {
        names: &["\\q", ".quit", "\\quit", "\\exit", ".exit", "quit", "exit"],
        arguments: "",
        help: "end (also exit, quit and Ctrl-D)",
        run: |_, _| Ok(Flow::End),
    },
];

/// The part of the help that is on statements.
const STATEMENTS: &str = "\
Statements end with a semicolon. Besides SELECT:
  CREATE TABLE t (a int NOT NULL, b text)  CREATE TABLE t AS SELECT …
  INSERT INTO t VALUES (1, 'x'), …         INSERT INTO t SELECT …
  UPDATE t SET b = 'y' WHERE a = 1         DELETE FROM t WHERE a = 1
  COPY t FROM 'data.csv'                   COPY t TO 'data.parquet'
  ALTER TABLE t ADD COLUMN c int DEFAULT 0 ALTER TABLE t RENAME COLUMN c TO d
  TRUNCATE t                               DROP TABLE t
  CREATE VIEW v AS SELECT …                DROP VIEW v
  BEGIN                                    COMMIT or ROLLBACK
  VACUUM                                   merges segments, gives space back
  CREATE INDEX i ON t USING elf (a, b)     DROP INDEX i
  SHOW INDEXES                             with what of them is in DRAM
  ALTER INDEX i SET (placement = 'static', dram = '64MiB')
  EXPLAIN SELECT …                         shows whether an index is used, and why not
  EXPLAIN ANALYZE SELECT …                 runs the query, and shows the time and rows of each step
  ADVISE INDEXES FOR (SELECT …)            proposes indexes, and says why none pays
  SET halocline.index = off | auto | force
  SET halocline.compaction = off | auto
  SET halocline.dram_budget = '256MiB'     for the copies of all indexes
  SET halocline.verify = lazy | off | always   checksums of what queries read
  SET halocline.scrub = '10MiB/s' | off    verifies everything in the background
  SET halocline.lock_wait = '5s'           how long to wait for another writer
Files are read in place: SELECT * FROM 'data.parquet'";

/// Runs the command of a line.
pub(super) fn run(shell: &mut Shell<'_>, line: &str) -> Result<Flow, CliError> {
    let line = line.trim();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_end_matches(';');
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut commands = COMMANDS.iter();
    let found = commands.find(|command| {
        let mut names = command.names.iter();
        names.any(|known| *known == name || is_word && known.eq_ignore_ascii_case(name))
    });
    match found {
        Some(command) => (command.run)(shell, argument.trim()),
        None => Err(CliError::Usage {
            message: format!("there is no command `{line}`"),
            hint: "\\help lists the commands".to_owned(),
        }),
    }
}

/// Returns the text of the help.
fn help() -> String {
    let usages = COMMANDS.iter().map(|command| {
        let dotted = command.names.iter().skip(1).find(|name| name.starts_with('.'));
        let names = [Some(&command.names[0]), dotted].into_iter().flatten();
        let names = names.copied().collect::<Vec<_>>().join(", ");
        (format!("{names} {}", command.arguments), command.help)
    });
    let mut text = String::new();
    for (usage, help) in usages {
        if usage.chars().count() > USAGE_WIDTH {
            text += &format!("{usage}\n{:USAGE_WIDTH$} {help}\n", "");
        } else {
            text += &format!("{usage:USAGE_WIDTH$} {help}\n");
        }
    }
    format!("{text}\n{STATEMENTS}")
}

/// Characters for the names and arguments of a command in the help.
const USAGE_WIDTH: usize = 24;

/// Returns an argument without the semicolon behind it and the quotes around it.
pub(super) fn plain(argument: &str) -> &str {
    let argument = argument.trim_end_matches(';').trim_end();
    let inner = argument
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    inner.unwrap_or(argument)
}

/// Reads `on` or `off`; without either, the state changes.
fn switched(is_on: bool, argument: &str) -> Result<bool, CliError> {
    match plain(argument) {
        "" => Ok(!is_on),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(CliError::Usage {
            message: format!("`{other}` is neither on nor off"),
            hint: "without on or off, the command changes from one to the other".to_owned(),
        }),
    }
}

fn say(shell: &Shell<'_>, text: &str) -> Result<Flow, CliError> {
    let mut out = shell.session.out();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(Flow::Continue)
}

fn toggle(shell: &mut Shell<'_>, format: AnswerFormat, argument: &str) -> Result<Flow, CliError> {
    let style = &mut shell.session.style;
    if switched(style.format == format, argument)? {
        style.format = format;
    } else if style.format == format {
        style.format = AnswerFormat::Table;
    }
    Ok(Flow::Continue)
}

fn chart(shell: &mut Shell<'_>, argument: &str) -> Result<Flow, CliError> {
    if matches!(plain(argument), "" | "on" | "off") {
        return toggle(shell, AnswerFormat::Chart, argument);
    }
    let before = std::mem::replace(&mut shell.session.style.format, AnswerFormat::Chart);
    let result = shell.run_statement(argument.trim_end_matches(';'));
    shell.session.style.format = before;
    result.map(|()| Flow::Continue)
}

fn format(shell: &mut Shell<'_>, argument: &str) -> Result<Flow, CliError> {
    let name = plain(argument);
    shell.session.style.format = AnswerFormat::from_str(name, true).map_err(|_| CliError::Usage {
        message: format!("there is no output format `{name}`"),
        hint: "choose table, csv, json, expanded or chart".to_owned(),
    })?;
    Ok(Flow::Continue)
}

fn output(shell: &mut Shell<'_>, argument: &str) -> Result<Flow, CliError> {
    let file = plain(argument);
    if file.is_empty() || file == "stdout" {
        shell.session.output = None;
        return Ok(Flow::Continue);
    }
    if !shell.may_write_files {
        return Err(CliError::with_hint(
            "\\o writes files, which a session that was opened read-only does not",
            "allow it with --allow-writing-files",
        ));
    }
    if file.starts_with('|') {
        return Err(CliError::with_hint(
            "\\o writes to files, and runs no programs",
            "write to a file, or pass the statements to `halocline sql POOL` in a pipeline",
        ));
    }
    let opened =
        File::create(file).map_err(|error| CliError::failed(format!("cannot write {file}: {error}")))?;
    shell.session.output = Some(Arc::new(opened));
    Ok(Flow::Continue)
}

fn timing(shell: &mut Shell<'_>, argument: &str) -> Result<Flow, CliError> {
    shell.session.timing = switched(shell.session.timing, argument)?;
    let state = if shell.session.timing { "on" } else { "off" };
    say(shell, &format!("timing is {state}"))
}

fn include(shell: &mut Shell<'_>, argument: &str) -> Result<Flow, CliError> {
    match plain(argument) {
        "" => Err(CliError::Usage {
            message: "there is no file to read".to_owned(),
            hint: "name one, as in `\\i script.sql`".to_owned(),
        }),
        file => script::include(shell, Path::new(file)).map(|()| Flow::Continue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_in_the_help() {
        let text = help();
        let mut names = BTreeSet::new();
        for command in &COMMANDS {
            assert!(
                text.contains(command.names[0]) && text.contains(command.help),
                "{text}"
            );
            for name in command.names {
                assert!(names.insert(name), "{name} stands twice");
            }
        }
    }

    #[test]
    fn the_document_has_every_name() {
        let document = include_str!("../../../../docs/shell.md");
        for name in COMMANDS.iter().flat_map(|command| command.names) {
            let is_there = [format!("`{name}`"), format!("`{name} ")];
            assert!(
                is_there.iter().any(|text| document.contains(text)),
                "{name} is not in docs/shell.md"
            );
        }
    }

    #[test]
    fn arguments() {
        assert_eq!(plain("'a file.sql';"), "a file.sql");
        assert_eq!(plain("t ;"), "t");
        assert!(switched(false, "").unwrap() && !switched(true, "off;").unwrap());
        assert!(switched(true, "maybe").is_err());
    }
}
