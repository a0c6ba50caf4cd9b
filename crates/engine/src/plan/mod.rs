//! From a table reference with filters to a plan node: what an index answers, what the scan kernels answer, what is
//! left to an expression, and which way is cheaper.

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
