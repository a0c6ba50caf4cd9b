//! `info`: what is in a pool.

use std::io::{self, BufWriter, Write};

use halocline_engine::{DatabaseOptions, Info};

use crate::args::InfoArgs;
use crate::error::CliError;
use crate::opening;
use crate::output::plain_table;
use crate::size::{display, grouped};

pub(crate) fn info(args: &InfoArgs) -> Result<(), CliError> {
    let options = DatabaseOptions {
        read_only: true,
        ..DatabaseOptions::default()
    };
    let info = opening::open(&args.pool, &options)?.info()?;
    let mut out = BufWriter::new(io::stdout());
    if args.json {
        let text = serde_json::to_string(&info).map_err(|error| CliError::failed(error.to_string()))?;
        writeln!(out, "{text}")?;
    } else {
        print(&info, &mut out)?;
    }
    Ok(out.flush()?)
}

fn print(info: &Info, out: &mut impl Write) -> Result<(), CliError> {
    let pool = &info.pool;
    if let Some(path) = &pool.path {
        writeln!(out, "pool        {}", path.display())?;
    }
    writeln!(out, "medium      {}", pool.medium)?;
    writeln!(
        out,
        "size        {} ({} used, {} free)",
        display(pool.bytes),
        display(pool.used_bytes),
        display(pool.free_bytes)
    )?;
    writeln!(
        out,
        "generation  {} (survives power loss: {})",
        pool.generation, pool.synced_generation
    )?;
    writeln!(out, "format      {}, uuid {}", pool.format_version, pool.uuid)?;
    writeln!(
        out,
        "DRAM        {} for the open tables and indexes",
        display(info.dram_bytes)
    )?;
    for table in &info.tables {
        writeln!(
            out,
            "\ntable {}: {} rows, {}",
            table.name,
            grouped(table.rows),
            display(table.bytes)
        )?;
        let mut columns = plain_table(5);
        columns.set_header(["column", "type", "null", "encoding", "in the pool"]);
        for column in &table.columns {
            columns.add_row([
                column.name.clone(),
                column.r#type.clone(),
                if column.nullable { "yes" } else { "no" }.to_owned(),
                column.encoding.clone(),
                display(column.bytes),
            ]);
        }
        writeln!(out, "{columns}")?;
    }
    for index in &info.indexes {
        writeln!(
            out,
            "\nindex {} on {} ({}): {} layout, {} rows, {}",
            index.name,
            index.table,
            index.columns.join(", "),
            index.layout,
            grouped(index.rows),
            display(index.bytes)
        )?;
    }
    if info.tables.is_empty() {
        writeln!(out, "\nno tables; `halocline import POOL TABLE FILE…` makes one")?;
    }
    Ok(())
}
