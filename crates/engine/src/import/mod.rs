//! Files into tables: Parquet, CSV, `.tbl` and Arrow IPC, all or nothing.

mod diagnose;
mod dialect;
mod error;
mod files;
mod infer;
mod input;
mod ipc;
mod options;
mod parquet;
mod run;
mod sql_types;
mod text;
mod value;

pub use error::{ImportError, ImportFault, Place};
pub use options::{Format, ImportOptions, ImportProgress, ImportReport};

pub(crate) use run::run;
pub(crate) use sql_types::{data_type, read_columns, read_field};
pub(crate) use value::sql_name;

#[cfg(test)]
mod tests;
