//! Tables over files that are read in place: CSV, Parquet.

mod csv_file;
mod csv_format;
mod csv_scan;
mod parquet_format;

pub use csv_file::{FileTables, external_csv};
pub use csv_format::CsvFiles;
pub use csv_scan::{CsvTable, ScanState};
pub use parquet_format::ParquetFiles;
