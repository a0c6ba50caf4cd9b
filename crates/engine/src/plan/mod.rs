//! Planning and execution of table references: which filters an index answers, which ones the scan kernels,
//! which ones remain for an expression, and which access path is cheaper.
//!
//! `ElfScan` and `PoolScan` differ in their morsels only: parts of a selection, or runs of 65,536 rows (of
//! those that an index finds if they are many), handed to partitions by a counter. Rows of the delta are
//! morsels of both, with every condition as an expression. No statistic but the number of rows is exact once
//! rows are deleted. A limit is claimed from a counter that the partitions share.

mod access_path;
mod conditions;
mod cost;
mod count;
mod delta_rows;
mod dynamic;
mod estimate;
mod expected_reads;
mod first_of_groups;
mod first_rows;
mod found_rows;
mod index_search;
mod large_limits;
mod late;
mod leaf;
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

pub(crate) use access_path::{AccessPath, PathReads, ScanRequest};
pub(crate) use conditions::{Filters, ScanPredicate};
pub(crate) use cost::IndexSelection;
pub(crate) use count::CountRule;
pub(crate) use delta_rows::DeltaRows;
pub(crate) use dynamic::{DynamicFilterRule, KeyFilter};
pub(crate) use first_of_groups::FirstOfGroupsRule;
pub(crate) use first_rows::FirstRowsRule;
pub(crate) use large_limits::LargeLimitRule;
pub(crate) use late::{LateMaterializationRule, position, relocated};
pub(crate) use leaf::{LeafExec, LeafPlan};
pub(crate) use recorder::{RecordedScan, ScanRecorder};
pub(crate) use scan_node::PoolScan;
pub(crate) use spec::{ADDRESS, external};
pub(crate) use table::PoolTable;
pub(crate) use what_if::{WhatIf, column_share};
