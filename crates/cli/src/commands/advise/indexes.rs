//! `advise` without an index: which indexes there should be.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use comfy_table::CellAlignment;
use halocline_engine::{Database, IndexSetAdvice, IndexSetOptions, WorkloadQuery};
use halocline_terminal::output::{Sink, Style, plain_table};
use halocline_terminal::size::display;
use halocline_terminal::{CliError, progress};

use super::{no_query, read, time};
use crate::args::{AdviseArgs, OutputFormat};
use crate::sql;

pub(super) fn advise(
    database: &Database,
    args: &AdviseArgs,
    queries: &Path,
    space: u64,
) -> Result<(), CliError> {
    let workload = WorkloadQuery::read_script(&read(queries)?, &queries.display().to_string())?;
    if workload.is_empty() {
        return Err(no_query(queries));
    }
    let options = IndexSetOptions::new(space)
        .with_dram(args.dram)
        .with_medium(args.medium.as_deref().cloned());
    let spinner = progress::spinner(&format!("comparing indexes for {} queries", workload.len()));
    let advice = sql::runtime()?.block_on(database.advise_indexes(&workload, &options));
    spinner.finish_and_clear();
    let advice = advice?;
    match args.output {
        OutputFormat::Table => print(&advice, &mut io::stdout()),
        format => {
            let batch = advice.to_batch()?;
            let style = Style::new(format, 0);
            let mut sink = Sink::new(style, batch.schema(), BufWriter::new(io::stdout()));
            sink.write(&batch)?;
            sink.finish()
        }
    }
}

fn print(advice: &IndexSetAdvice, out: &mut impl Write) -> Result<(), CliError> {
    let bytes: u64 = advice.proposed.iter().map(|index| index.bytes).sum();
    if advice.proposed.is_empty() {
        writeln!(out, "no index pays")?;
    } else {
        let mut table = plain_table(5);
        table.set_header(["index", "columns", "size", "queries", "saves"]);
        align(&mut table, 2, 3);
        for index in &advice.proposed {
            table.add_row([
                index.name.clone(),
                format!("{} ({})", index.table, index.columns.join(", ")),
                display(index.bytes),
                index.queries.to_string(),
                time(index.gain),
            ]);
        }
        writeln!(out, "{table}")?;
    }
    let mut table = plain_table(5);
    table.set_header(["query", "weight", "before", "after", "note"]);
    align(&mut table, 1, 3);
    for query in &advice.queries {
        table.add_row([
            query.label.clone(),
            query.weight.to_string(),
            time(query.before),
            time(query.after),
            query.note(),
        ]);
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "of a query: how long it takes to find and read its rows on one thread (predicted)"
    )?;
    writeln!(
        out,
        "sum      {} before, {} after, by the weights",
        time(advice.before),
        time(advice.after)
    )?;
    writeln!(out, "space    {} of {}", display(bytes), display(advice.space))?;
    for index in &advice.proposed {
        writeln!(out, "apply    {};", index.statement)?;
    }
    for index in &advice.unused {
        let why = if index.is_replaced {
            "not used beside the proposed indexes"
        } else {
            "no query uses it"
        };
        writeln!(
            out,
            "unused   {}; -- {}, {why}",
            index.statement,
            display(index.bytes)
        )?;
    }
    Ok(())
}

fn align(table: &mut comfy_table::Table, first: usize, count: usize) {
    for column in table.column_iter_mut().skip(first).take(count) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
