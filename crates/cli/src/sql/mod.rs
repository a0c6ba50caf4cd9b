//! The `sql` command: statements from the command line, a file, a pipe, or a shell.

mod building;
mod commands;
mod copy;
mod describe;
mod edit;
mod helper;
mod plan;
mod repl;
mod run;
mod script;
mod shell;
mod statements;
mod timer;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::thread;

use halocline_engine::{Compaction, Database};
use halocline_media::address_space_left;
use halocline_terminal::output::Style;
use halocline_terminal::{CliError, interrupt};
use tokio::runtime::Runtime;

use crate::args::{IN_MEMORY, SqlArgs};
use crate::opening::{self, OpenedDatabase};

use run::Session;
use script::StdinItems;
use shell::{Failures, Shell};
use statements::{PlacedItem, ScriptItem, creates_table};

/// Where statements come from.
enum Source {
    /// A text that is there; errors name the file that it is from.
    Script {
        name: Option<String>,
        items: Vec<PlacedItem>,
    },
    /// A pipe, of which some items were read ahead.
    Stdin {
        ahead: Vec<PlacedItem>,
        rest: StdinItems,
    },
    Terminal,
}

/// Runs the command.
pub(crate) fn sql(args: &SqlArgs) -> Result<(), CliError> {
    let source = source(args)?;
    let creates = args.create
        || match &source {
            Source::Script { items, .. } | Source::Stdin { ahead: items, .. } => {
                items.iter().any(creates_a_table)
            }
            Source::Terminal => false,
        };
    let opened = open(args, creates)?;
    // After the database: it decides, by its memory, how the threads that are started from here on allocate.
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            opened.discard_if_empty();
            return Err(error);
        }
    };
    let result = run_all(&runtime, opened.database.clone(), args, source);
    if result.is_err() && !args.create {
        opened.discard_if_empty();
    }
    // A query that was interrupted may still be at work on other threads: do not wait for it.
    runtime.shutdown_background();
    result
}

fn open(args: &SqlArgs, creates: bool) -> Result<OpenedDatabase, CliError> {
    // Compaction ends with the last statement at the latest, and begins a moment after a change: a single
    // statement never waits for it.
    let options = opening::options(&args.open, args.read_only)
        .with_compaction(Compaction::Auto)
        .with_medium(args.medium.as_deref().cloned())
        .with_allow_writing_files(args.allow_writing_files);
    if is_in_memory(args) {
        return Ok(OpenedDatabase::existing(Database::in_memory(&options)?));
    }
    if creates && !args.read_only {
        opening::open_or_create(&args.pool, &options)
    } else {
        Ok(OpenedDatabase::existing(opening::open(&args.pool, &options)?))
    }
}

fn is_in_memory(args: &SqlArgs) -> bool {
    args.pool == Path::new(IN_MEMORY)
}

fn run_all(runtime: &Runtime, database: Database, args: &SqlArgs, source: Source) -> Result<(), CliError> {
    let session = Session {
        database,
        style: Style::new(args.output, args.max_rows),
        timing: args.timing,
        repeat: args.repeat,
        output: None,
    };
    let mut shell = Shell {
        runtime,
        session,
        is_interactive: matches!(source, Source::Terminal),
        is_atomic: args.atomic,
        may_write_files: !args.read_only || args.allow_writing_files,
        failures: Failures {
            keep_going: args.keep_going,
            count: 0,
        },
        depth: 0,
        draft: String::new(),
    };
    if !shell.is_interactive {
        interrupt::exit_when_late();
    }
    if shell.is_atomic {
        shell.run_silently("BEGIN")?;
    }
    match source {
        Source::Script { name, items } => {
            script::run(&mut shell, name.as_deref(), items.into_iter().map(Ok))?;
        }
        Source::Stdin { ahead, rest } => {
            script::run(&mut shell, Some("stdin"), ahead.into_iter().map(Ok).chain(rest))?;
        }
        Source::Terminal => repl::repl(&mut shell, args)?,
    }
    if shell.is_atomic {
        return shell.run_silently("COMMIT");
    }
    shell.end()?;
    shell.failures.end()
}

/// Finds out where the statements come from.
fn source(args: &SqlArgs) -> Result<Source, CliError> {
    let from_stdin = args.file.as_deref() == Some(Path::new("-"));
    let (name, text) = match (&args.query, &args.file) {
        (Some(query), _) => (None, query.clone()),
        (None, Some(file)) if !from_stdin => (Some(file.display().to_string()), script::read(file)?),
        (None, None) if io::stdin().is_terminal() => {
            if args.atomic {
                return Err(CliError::Usage {
                    message: "--atomic is for scripts, and there is none".to_owned(),
                    hint: "pass statements or -f FILE; in a shell, type BEGIN and COMMIT".to_owned(),
                });
            }
            return Ok(Source::Terminal);
        }
        (None, _) => return read_ahead(args),
    };
    let items = script::items(&text);
    if items.is_empty() {
        return Err(CliError::Usage {
            message: "there is no statement to run".to_owned(),
            hint: "pass one, as in `halocline sql POOL \"SELECT 1\"`, or none at all for a shell".to_owned(),
        });
    }
    Ok(Source::Script { name, items })
}

/// Reads stdin up to the statement that creates the first table, if there is no pool yet.
fn read_ahead(args: &SqlArgs) -> Result<Source, CliError> {
    let (mut ahead, mut rest) = (Vec::new(), StdinItems::default());
    if args.create || args.read_only || is_in_memory(args) || args.pool.exists() {
        return Ok(Source::Stdin { ahead, rest });
    }
    for item in rest.by_ref() {
        ahead.push(item?);
        if ahead.last().is_some_and(creates_a_table) {
            break;
        }
    }
    Ok(Source::Stdin { ahead, rest })
}

fn creates_a_table(placed: &PlacedItem) -> bool {
    matches!(&placed.item, ScriptItem::Statement(text) if creates_table(text))
}

/// Least address space for the threads and the heap of a runtime, in bytes. Where a thread cannot be mapped,
/// the runtime panics.
const LEAST_ADDRESSES: u64 = 128 << 20;

/// Creates the runtime with the threads that queries run on.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    let failed = |reason: &str| {
        CliError::with_hint(
            format!("cannot start threads: {reason}"),
            "raise the limits of processes and open files (ulimit -u, ulimit -n)",
        )
    };
    if !interrupt::can_open_files() {
        return Err(failed("too many open files"));
    }
    if let Some(left) = address_space_left().filter(|left| *left < LEAST_ADDRESSES) {
        return Err(CliError::with_hint(
            format!(
                "cannot start threads: the limit of addresses leaves {} MiB",
                left >> 20
            ),
            format!(
                "raise the limit by {} MiB or more (ulimit -v)",
                (LEAST_ADDRESSES - left).div_ceil(1 << 20)
            ),
        ));
    }
    // The number is given so that TOKIO_WORKER_THREADS is not read, whose wrong values end the process.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| failed(&error.to_string()))
}
