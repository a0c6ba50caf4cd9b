//! Planning and execution of table references: which filters an index answers, which ones the scan kernels,
//! which ones remain for an expression, and which access path is cheaper.
//!
//! `ElfScan` and `PoolScan` differ in their morsels only: parts of a selection, or runs of 65,536 rows (of
//! those that an index finds if they are many), handed to partitions by a counter. Rows of the delta are
//! morsels of both, with every condition as an expression. No statistic but the number of rows is exact once
//! rows are deleted. A limit is claimed from a counter that the partitions share.
//!
//! Conditions of a morsel are evaluated in this order: predicates on codes, predicates on strings, and the
//! remaining expressions on the rows that are left. Batches end with a block of 1,024 rows, unless it alone
//! has more rows than a batch, so that each block of a column is decoded once.

mod access_path;
mod coded_column;
mod conditions;
mod cost;
mod delta_rows;
mod dynamic;
mod estimate;
mod expected_reads;
mod found_rows;
mod index_search;
mod morsel_order;
mod morsels;
mod morsels_before;
mod narrowing;
mod path_cost;
mod ranges;
mod recorder;
mod scan_node;
mod spec;
mod table;
mod what_if;
mod worker;

pub use access_path::{AccessPath, PathReads, ScanRequest};
pub use coded_column::{CodedColumn, SharedKeys};
pub use conditions::{Filters, ScanPredicate};
pub use cost::segment_selection;
pub use delta_rows::DeltaRows;
pub use dynamic::{BuildKeys, DynamicFilters, KeyFilter};
pub use narrowing::{Narrowing, narrowed};
pub use recorder::{RecordedScan, ScanRecorder, record, recorder};
pub use scan_node::PoolScan;
pub use spec::{ADDRESS, segment_and_row};
pub use table::PoolTable;
pub use what_if::{WhatIf, column_share};
