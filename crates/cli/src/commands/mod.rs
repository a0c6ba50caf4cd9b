//! One function per command; the larger ones have modules of their own.

mod advise;
mod calibrate;
mod check;
mod compact;
mod generate;
mod import;
mod info;
mod internal;
mod kv;
mod repair;

use std::io::{self, Write};

use clap::CommandFactory;
use halocline_engine::{IndexSpec, Layout, Order};
use halocline_memcached::MemcachedArgs;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::{display, grouped};
use halocline_terminal::{CliError, progress};

pub(crate) use info::write_keyed_columns;

use crate::args::{Cli, ColumnOrder, Command, CompletionsArgs, DropArgs, IndexArgs, IndexLayout};
use crate::{demo, external, opening, sql};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Demo(args) => demo::demo(&args),
        Command::Import(args) => import::import(&args),
        Command::Index(args) => index(&args),
        Command::Sql(args) => sql::sql(&args),
        Command::Info(args) => info::info(&args),
        Command::Check(args) => check::check(&args),
        Command::Compact(args) => compact::compact(&args),
        Command::Vacuum(args) => compact::vacuum(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Kv(args) => kv::kv(&args),
        Command::Memcached(args) => memcached(&args),
        Command::Drop(args) => drop_object(&args),
        Command::Generate(args) => generate::generate(&args),
        Command::Bench(args) => Err(external::run("bench", args.arguments)),
        Command::Completions(args) => completions(&args),
        Command::Internal(command) => internal::run(&command),
    }
}

fn index(args: &IndexArgs) -> Result<(), CliError> {
    let database = opening::open(&args.pool, &opening::options(&args.open, false))?;
    let name = args.name.clone().unwrap_or_else(|| format!("{}_elf", args.table));
    let columns = args.on.iter().map(|column| column.trim());
    let layout = match args.layout {
        IndexLayout::Packed => Layout::Packed,
        IndexLayout::Published => Layout::Published,
    };
    let order = match args.order {
        ColumnOrder::Auto => Order::Auto,
        ColumnOrder::Given => Order::Given,
    };
    let spec = IndexSpec::new(name, &args.table, columns)
        .with_layout(layout)
        .with_order(order);
    let spinner = progress::spinner(&format!("building {}", spec.name));
    let index = database.create_index(&spec)?;
    spinner.finish_and_clear();
    writeln!(
        io::stdout(),
        "index {} on {} ({}): {} rows, {}",
        index.name,
        index.table,
        index.columns.join(", "),
        grouped(index.rows),
        display(index.bytes)
    )?;
    Ok(())
}

/// Serves until a signal stops the server in order: the first Ctrl-C is for the server.
fn memcached(args: &MemcachedArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let served = args.run().map_err(|error| CliError::failed(error.to_string()));
    drop(guard);
    served
}

fn drop_object(args: &DropArgs) -> Result<(), CliError> {
    let database = opening::open(&args.pool, &Default::default())?;
    Ok(writeln!(io::stdout(), "{}", database.drop(&args.name)?)?)
}

fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "halocline", &mut script);
    Ok(io::stdout().write_all(&script)?)
}
