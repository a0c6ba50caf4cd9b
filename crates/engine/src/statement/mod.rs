//! Statements: parsing, and execution of those that DataFusion does not run.
//!
//! A text is parsed once, and its syntax tree determines how it is run.

mod advise;
mod alter;
mod compact;
mod create_index;
mod create_table;
mod defaults;
mod drop;
mod drop_table;
mod insert;
mod kept_indexes;
mod keyed_changes;
mod keyed_create_as;
mod keyed_definition;
mod keyed_import;
mod keyed_load;
mod keyed_rows;
mod keyed_spill;
mod keyed_table;
mod modify;
mod place_index;
mod plain_table;
mod prepared;
mod row_errors;
mod run;
mod show_indexes;
mod space;
mod table_kind;
#[cfg(test)]
mod tests;
mod upsert;

pub use compact::{CompactOptions, CompactProgress, CompactReport};
pub(crate) use compact::{compact, compact_group};
pub(crate) use create_index::{build_index, rebuild};
pub(crate) use create_table::{is_needed, make};
pub(crate) use drop::drop_indexes;
pub(crate) use drop_table::drop_any_tables;
#[cfg(test)]
pub(crate) use insert::insert_batch;
pub(crate) use place_index::{place_now, set_placement};
pub(crate) use run::{TextRun, run, run_boxed};
pub(crate) use space::{AFTER_LARGE, WHEN_QUIET, give_back};
pub(crate) use table_kind::find_table;
