//! `generate`: tables of public benchmarks as Parquet files.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use halocline_terminal::size::{display, grouped};
use halocline_terminal::{CliError, progress};
use halocline_workloads::{ParquetOptions, SsbTable, TpchTable, write_ssb_parquet, write_tpch_parquet};

use crate::args::{Benchmark, GenerateArgs};

pub(crate) fn generate(args: &GenerateArgs) -> Result<(), CliError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        CliError::failed(format!("generating {}: {error}", path.display()))
    };
    fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, &error))?;
    let options = ParquetOptions::default();
    match args.benchmark {
        Benchmark::Ssb => {
            for table in chosen(&args.tables, &SsbTable::ALL)? {
                write(
                    args,
                    table.name(),
                    table.approximate_rows(args.sf),
                    |path, progress| {
                        write_ssb_parquet(path, table, args.sf, &options, progress)
                            .map_err(|error| failed(path, &error))
                    },
                )?;
            }
        }
        Benchmark::Tpch => {
            for table in chosen(&args.tables, &TpchTable::ALL)? {
                write(
                    args,
                    table.name(),
                    table.approximate_rows(args.sf),
                    |path, progress| {
                        write_tpch_parquet(path, table, args.sf, &options, progress)
                            .map_err(|error| failed(path, &error))
                    },
                )?;
            }
        }
    }
    Ok(())
}

/// Returns the tables with the given names, or all if there are no names.
fn chosen<T: FromStr<Err = String> + Copy + std::fmt::Display>(
    names: &[String],
    all: &[T],
) -> Result<Vec<T>, CliError> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let tables: Vec<String> = all.iter().map(T::to_string).collect();
    let parse = |name: &String| {
        name.trim().parse().map_err(|message| CliError::Usage {
            message,
            hint: format!("its tables are {}", tables.join(", ")),
        })
    };
    names.iter().map(parse).collect()
}

/// Has one file written, and says what it holds.
fn write(
    args: &GenerateArgs,
    table: &str,
    about: u64,
    write: impl FnOnce(&Path, &mut dyn FnMut(u64)) -> Result<u64, CliError>,
) -> Result<(), CliError> {
    let path = args.dir.join(format!("{table}.parquet"));
    let bar = progress::steps(about);
    bar.set_message(format!("generating {table}"));
    let start = Instant::now();
    let rows = write(&path, &mut |rows| bar.set_position(rows))?;
    bar.finish_and_clear();
    writeln!(
        io::stdout(),
        "{}: {} rows, {}, {:.1} s",
        path.display(),
        grouped(rows),
        display(fs::metadata(&path)?.len()),
        start.elapsed().as_secs_f64()
    )?;
    Ok(())
}
