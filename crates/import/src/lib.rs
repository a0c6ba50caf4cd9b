//! Files into tables: Parquet, CSV, `.tbl` and Arrow IPC, all or nothing.
//!
//! All files of an import are one transaction. Text is split by a reader of our own, which knows the line of
//! each record and whether a field was quoted. Decoders of Arrow and Parquet are guarded: a panic is an
//! error, and declared lengths and sizes are checked against the file and the memory before anything is
//! allocated.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

mod csv_file;
mod csv_rows;
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
mod temporary_files;
mod text;
mod tpch;
mod value;

pub use error::{ImportError, ImportFault, SourceLocation};
pub use options::{ImportFormat, ImportOptions, QuoteOption};
pub use report::{DecidingValue, DialectReport, ImportProgress, ImportReport, InferredColumn};

pub use csv_file::{CsvColumns, CsvRead, CsvSource};
pub use csv_rows::{CsvRows, CsvStyle};
pub use files::Files;
pub use guard::guarded;
pub use input::{fault, total_length};
pub use ipc_bounds::check_batch_in;
pub use parquet_metadata::sound_metadata;
pub use temporary_files::TemporaryFiles;
pub use value::text_of_bytes;

#[cfg(test)]
mod tests;
