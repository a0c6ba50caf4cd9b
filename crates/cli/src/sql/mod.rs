//! The `sql` command: statements from the command line, a file, a pipe, or a shell.

mod building;
mod meta;
mod repl;
mod run;
mod statements;
mod timer;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;
use std::thread;

use halocline_engine::{Compaction, Database, EngineError};
use halocline_media::address_space_left;
use halocline_terminal::output::Style;
use halocline_terminal::{CliError, interrupt};
use tokio::runtime::Runtime;

use crate::args::SqlArgs;
use crate::opening;

use run::Session;
use statements::split;

/// Runs the command.
pub(crate) fn sql(args: &SqlArgs) -> Result<(), CliError> {
    let script = script(args)?;
    let creates = args.create
        || script
            .as_ref()
            .is_some_and(|statements| statements.iter().any(|text| statements::creates_table(text)));
    // It ends with the last statement at the latest, and begins a moment after a change: a single one never
    // waits for it.
    let options = opening::options(&args.open, args.read_only)
        .with_compaction(Compaction::Auto)
        .with_medium(args.medium.as_deref().cloned())
        .with_allow_writing_files(args.allow_writing_files);
    let opened = if creates && !args.read_only {
        opening::open_or_create(&args.pool, &options)?
    } else {
        opening::OpenedDatabase::existing(opening::open(&args.pool, &options)?)
    };
    // After the database: it decides, by its memory, how the threads that are started from here on allocate.
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            opened.discard_if_empty();
            return Err(error);
        }
    };
    let result = run_all(&runtime, opened.database.clone(), args, script);
    if result.is_err() && !args.create {
        opened.discard_if_empty();
    }
    // A query that was interrupted may still be at work on other threads: do not wait for it.
    runtime.shutdown_background();
    result
}

fn run_all(
    runtime: &Runtime,
    database: Database,
    args: &SqlArgs,
    script: Option<Vec<String>>,
) -> Result<(), CliError> {
    let mut session = Session {
        database,
        style: Style {
            format: args.output,
            max_rows: args.max_rows,
        },
        timing: args.timing,
        repeat: args.repeat,
    };
    if script.is_some() || !io::stdin().is_terminal() {
        interrupt::exit_when_late();
    }
    let mut failures = Failures {
        keep_going: args.keep_going,
        count: 0,
    };
    match script {
        Some(statements) => {
            for text in &statements {
                failures.check(runtime.block_on(session.run(text)))?;
            }
        }
        None if io::stdin().is_terminal() => repl::repl(runtime, &mut session, args)?,
        None => piped(runtime, &mut session, &mut failures)?,
    }
    runtime.block_on(end(&session.database))?;
    failures.end()
}

/// The statements that have failed, if the others are to be run all the same.
struct Failures {
    keep_going: bool,
    count: u64,
}

impl Failures {
    /// Reports the failure of a statement if the next one is to be run.
    fn check(&mut self, result: Result<(), CliError>) -> Result<(), CliError> {
        match result {
            Err(error @ CliError::Failed { .. }) if self.keep_going => {
                self.count += 1;
                Ok(write!(io::stderr(), "{}", error.report())?)
            }
            other => other,
        }
    }

    /// Fails if a statement has failed.
    fn end(&self) -> Result<(), CliError> {
        match self.count {
            0 => Ok(()),
            1 => Err(CliError::failed("1 statement failed".to_owned())),
            count => Err(CliError::failed(format!("{count} statements failed"))),
        }
    }
}

/// Ends a transaction that the statements have left open, which takes back what it did, and says so.
async fn end(database: &Database) -> Result<(), CliError> {
    match database.sql("ROLLBACK").await {
        Err(EngineError::NoTransaction { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(CliError::with_hint(
            "the transaction that BEGIN opened was not committed; nothing of it is stored",
            "end it with COMMIT, or with ROLLBACK if that is meant",
        )),
    }
}

/// Returns the statements given with the command, or `None` if they are to be read from stdin one by one.
fn script(args: &SqlArgs) -> Result<Option<Vec<String>>, CliError> {
    let text = match (&args.query, &args.file) {
        (Some(query), _) => query.clone(),
        (None, Some(file)) if file == Path::new("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        }
        (None, Some(file)) => fs::read_to_string(file)
            .map_err(|error| CliError::failed(format!("cannot read {}: {error}", file.display())))?,
        (None, None) => return Ok(None),
    };
    let (mut statements, rest) = split(&text);
    statements.extend(statements::has_content(&rest).then_some(rest));
    if statements.is_empty() {
        return Err(CliError::Usage {
            message: "there is no statement to run".to_owned(),
            hint: "pass one, as in `halocline sql POOL \"SELECT 1\"`, or none at all for a shell".to_owned(),
        });
    }
    Ok(Some(statements))
}

/// Runs statements and shell commands from a pipe, each as soon as its semicolon arrives. Stops at the
/// first failure, unless the remaining statements are to be run regardless.
fn piped(runtime: &Runtime, session: &mut Session, failures: &mut Failures) -> Result<(), CliError> {
    let mut pending = String::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if !statements::has_content(&pending) && line.trim_start().starts_with('\\') {
            if !meta::run(session, line.trim())? {
                return Ok(());
            }
            continue;
        }
        pending.push_str(&line);
        pending.push('\n');
        let (statements, rest) = split(&pending);
        pending = rest;
        for text in statements {
            failures.check(runtime.block_on(session.run(&text)))?;
        }
    }
    if statements::has_content(&pending) {
        failures.check(runtime.block_on(session.run(&pending)))?;
    }
    Ok(())
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
