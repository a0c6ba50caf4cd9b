//! Steps that need a process of their own: to keep memory apart, or to be a real restart.

use std::io::{self, Write};

use halocline_measure::reopen;
use halocline_terminal::{CliError, progress};
use halocline_workloads::{ParquetOptions, TpchTable, write_tpch_parquet};

use crate::args::InternalCommand;
use crate::demo;

pub(crate) fn run(command: &InternalCommand) -> Result<(), CliError> {
    match command {
        InternalCommand::Generate { sf, file } => {
            let table = TpchTable::Lineitem;
            let bar = progress::steps(table.approximate_rows(*sf));
            bar.set_message("generating lineitem");
            let options = ParquetOptions {
                row_group_rows: 1 << 17,
                ..ParquetOptions::default()
            };
            let rows = write_tpch_parquet(file, table, *sf, &options, |rows| bar.set_position(rows))
                .map_err(|error| CliError::failed(format!("generating {}: {error}", file.display())))?;
            bar.finish_and_clear();
            Ok(writeln!(io::stdout(), "{rows}")?)
        }
        InternalCommand::Append { pool, last } => demo::append_forever(pool, *last),
        InternalCommand::Reopen { pool, query } => {
            let measured =
                reopen::measure(pool, query, None).map_err(|error| CliError::failed(error.to_string()))?;
            let text =
                serde_json::to_string(&measured).map_err(|error| CliError::failed(error.to_string()))?;
            Ok(writeln!(io::stdout(), "{text}")?)
        }
    }
}
