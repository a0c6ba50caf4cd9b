//! Files into tables: Parquet, CSV, `.tbl` and Arrow IPC, all or nothing.

mod error;
mod options;

pub use error::{ImportError, ImportFault, Place};
pub use options::{Format, ImportOptions, ImportProgress, ImportReport};
