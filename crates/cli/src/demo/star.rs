//! Step 3: star queries of the Star Schema Benchmark, beside DataFusion over the same Parquet files.

use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};

use halocline_engine::Database;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};
use halocline_workloads::{ParquetOptions, SsbTable, ssb_queries, write_ssb_parquet};

use super::systems::{ComparedSystem, MEDIANS, compare};
use super::{aligned_table, load, times};
use crate::args::DemoArgs;

/// The queries: joins of lineorder with two to four dimensions.
const QUERIES: [&str; 3] = ["2.1", "3.1", "4.1"];

/// Scale factor of lineitem over that of the star schema.
const SMALLER: f64 = 3.0;

/// Generates and imports the tables, then measures and prints the queries.
pub(crate) fn run(
    args: &DemoArgs,
    directory: &Path,
    database: &Database,
    out: &mut Stdout,
) -> Result<(), CliError> {
    let scale_factor = (args.sf / SMALLER * 1e4).ceil() / 1e4;
    let mut files: Vec<(&str, PathBuf)> = vec![];
    let (mut rows, mut seconds) = (0, 0.0);
    for table in SsbTable::ALL {
        let file = directory.join(format!("{table}.parquet"));
        generate(table, scale_factor, &file)?;
        let imported = load::import(database, table.name(), &file)?;
        // The last one is lineorder, by far the largest.
        rows = imported.rows;
        seconds += imported.elapsed.as_secs_f64();
        files.push((table.name(), file));
    }
    let systems = [
        ComparedSystem::pool("Halocline", database, "auto")?,
        ComparedSystem::datafusion(&files, args.open.threads)?,
    ];
    writeln!(
        out,
        "\n3. Star Schema Benchmark at scale factor {scale_factor}: {} rows of lineorder, five tables imported \
         in {seconds:.1} s",
        grouped(rows)
    )?;
    writeln!(
        out,
        "   DataFusion: default settings but decimal literals, over the imported Parquet files. {MEDIANS}"
    )?;
    let mut table = aligned_table(&[
        "query",
        "rows",
        "Halocline, ms",
        "DataFusion, ms",
        "DataFusion : Halocline",
    ]);
    let bar = progress::steps(QUERIES.len() as u64);
    bar.set_message("comparing star queries");
    for query in ssb_queries().iter().filter(|query| QUERIES.contains(&query.name)) {
        let compared = compare(query.sql, &[], &systems)?;
        let [pool_ms, datafusion_ms] = compared.milliseconds;
        table.add_row([
            format!("SSB {}", query.name),
            grouped(compared.answer.len() as u64),
            format!("{pool_ms:.2}"),
            format!("{datafusion_ms:.2}"),
            times(datafusion_ms / pool_ms),
        ]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(writeln!(out, "{table}")?)
}

fn generate(table: SsbTable, scale_factor: f64, file: &Path) -> Result<(), CliError> {
    let bar = progress::steps(table.approximate_rows(scale_factor));
    bar.set_message(format!("generating {table}"));
    let written = write_ssb_parquet(file, table, scale_factor, &ParquetOptions::default(), |rows| {
        bar.set_position(rows);
    });
    bar.finish_and_clear();
    written
        .map(drop)
        .map_err(|error| CliError::failed(format!("generating {}: {error}", file.display())))
}
