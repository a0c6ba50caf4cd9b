//! Statements: which are ours, which are DataFusion's, and which are not offered.

mod change;
mod create_index;
mod parse;
mod split;
#[cfg(test)]
mod tests;
mod unsupported;
mod write;

pub(crate) use change::{drop_indexes, drop_tables};
pub(crate) use create_index::build_index;
pub(crate) use parse::{Statement, parse};
pub(crate) use split::split;
pub(crate) use write::{CreateTable, begin, create_table_as, has_table};
