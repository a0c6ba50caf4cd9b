//! Files into tables: Parquet, CSV, `.tbl` and Arrow IPC, all or nothing.
//!
//! All files of an import are one transaction. Text is split by a reader of our own, which knows the line of
//! each record and whether a field was quoted. Decoders of Arrow and Parquet are guarded: a panic is an
//! error, and declared lengths and sizes are checked against the file and the memory before anything is
//! allocated.

mod csv_file;
mod error;
mod files;
mod guard;
mod input;
mod ipc;
mod ipc_blocks;
mod ipc_bounds;
mod ipc_file;
mod ipc_stream;
mod options;
mod parquet;
mod parquet_metadata;
mod parquet_pages;
mod report;
mod run;
mod sql_types;
mod text;
mod value;

pub use error::{ImportError, ImportFault, SourceLocation};
pub use options::{ImportFormat, ImportOptions, QuoteOption};
pub use report::{DecidingValue, DialectReport, ImportProgress, ImportReport, InferredColumn};

pub(crate) use csv_file::{CsvColumns, CsvRead, CsvSource};
pub(crate) use files::Files;
pub(crate) use guard::guarded;
pub(crate) use input::total_length;
pub(crate) use ipc_bounds::check_batch_in;
pub(crate) use parquet_metadata::sound_metadata;
pub(crate) use run::{open, read_rows, run};
pub(crate) use sql_types::{data_type, read_columns, read_field};
pub(crate) use value::{sql_name, text_of_bytes};

#[cfg(test)]
mod tests;
