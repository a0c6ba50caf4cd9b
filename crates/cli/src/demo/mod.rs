//! `demo`: the whole way of a table, on generated data: file, pool, index, queries both ways, restart.

mod queries;
mod steps;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::args::DemoArgs;
use crate::error::CliError;
use crate::interrupt;
use crate::size::{display, grouped};

/// Runs the demo, in a directory of its own or in the given one.
pub(crate) fn demo(args: &DemoArgs) -> Result<(), CliError> {
    match &args.dir {
        Some(directory) => {
            fs::create_dir_all(directory)?;
            run(args, directory)?;
            let pool = directory.join(steps::POOL);
            writeln!(io::stdout(), "\nGo on with: halocline sql {}", pool.display())?;
        }
        None => {
            let directory = tempfile::Builder::new().prefix("halocline-demo-").tempdir()?;
            interrupt::remove_on_exit(directory.path());
            run(args, directory.path())?;
            writeln!(
                io::stdout(),
                "\n--dir DIR keeps the files, so that you can go on with `halocline sql`."
            )?;
        }
    }
    Ok(())
}

fn run(args: &DemoArgs, directory: &Path) -> Result<(), CliError> {
    let mut out = io::stdout();
    let file = directory.join(steps::PARQUET);
    let pool = directory.join(steps::POOL);
    if pool.exists() {
        return Err(CliError::with_hint(
            format!("{} exists already", pool.display()),
            "choose another --dir, or remove that file",
        ));
    }

    let generated = steps::generate(args.sf, &file)?;
    writeln!(
        out,
        "1. TPC-H lineitem at scale factor {}: {} rows, {} of Parquet, {:.1} s",
        args.sf,
        grouped(generated.rows),
        display(generated.bytes),
        generated.seconds
    )?;

    let (database, imported) = steps::import(&args.open, &file, &pool)?;
    if imported.rows != generated.rows {
        return Err(CliError::failed(format!(
            "{} rows were generated, but {} imported",
            generated.rows, imported.rows
        )));
    }
    writeln!(
        out,
        "2. imported into a pool: {} in it, {:.1} s",
        display(imported.stored_bytes),
        imported.elapsed.as_secs_f64()
    )?;

    let (index, seconds) = steps::index(&database)?;
    writeln!(
        out,
        "3. an Elf over {} columns: {} in the pool, {seconds:.1} s",
        index.columns.len(),
        display(index.bytes)
    )?;
    writeln!(out, "   {}", index.columns.join(", "))?;

    let queries = queries::compose(&database)?;
    let answers = steps::compare(&database, &queries)?;
    writeln!(
        out,
        "4. the same queries without and with the index; both answers agree in every row"
    )?;
    steps::print_answers(&queries, &answers, &mut out)?;

    let medium = database.info()?.pool.medium;
    drop(database);
    let (query, answer) = steps::to_repeat(&queries, &answers);
    let restart = steps::restart(&pool, query)?;
    if restart.answer != answer.lines {
        return Err(CliError::failed(format!(
            "after the restart, `{}` has another answer",
            query.name
        )));
    }
    writeln!(
        out,
        "5. restart, in a new process: open {:.1} ms, `{}` {:.1} ms, once more {:.1} ms; nothing was rebuilt",
        restart.open_ms, query.name, restart.first_query_ms, restart.second_query_ms
    )?;
    writeln!(out)?;
    steps::print_bytes(&generated, &imported, &index, &pool, restart.dram_bytes, &mut out)?;
    writeln!(
        out,
        "Medium: {medium}. Emulated: nothing; every time above was measured on it."
    )?;
    Ok(())
}
