//! From a table reference with filters to a plan node: what an index answers, what the scan kernels answer, what is
//! left to an expression, and which way is cheaper.
//!
//! `ElfScan` and `PoolScan` differ in their morsels only: parts of a selection, or runs of 65,536 rows,
//! handed to partitions by a counter. Rows of the delta are morsels of both, with every condition as an
//! expression. No statistic but the number of rows is exact once rows are deleted. A limit is claimed from a
//! counter that the partitions share.

mod added;
mod choose;
mod conditions;
mod cost;
mod elf_scan;
mod pool_scan;
mod ranges;
mod scan;
mod search;
mod table;
mod work;
mod worker;

pub(crate) use added::AddedRows;
pub(crate) use conditions::Filters;
pub(crate) use scan::external;
pub(crate) use table::{ADDRESS, PoolTable};
