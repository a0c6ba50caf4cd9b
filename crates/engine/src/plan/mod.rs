//! Planning and execution of table references: which filters an index answers, which ones the scan kernels,
//! which ones remain for an expression, and which access path is cheaper.

mod access_path;
mod conditions;
mod cost;
mod delta_rows;
mod index_search;
mod leaf;
mod morsels;
mod ranges;
mod scan_node;
mod spec;
mod table;
mod worker;

pub(crate) use conditions::Filters;
pub(crate) use delta_rows::DeltaRows;
pub(crate) use leaf::{LeafExec, LeafScan};
pub(crate) use spec::external;
pub(crate) use table::{ADDRESS, PoolTable};
