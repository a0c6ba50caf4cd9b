//! Statements: parsing, and execution of those that DataFusion does not run.

mod advise;
mod alter;
mod compact;
mod create_index;
mod create_table;
mod defaults;
mod drop;
mod insert;
mod kept_indexes;
mod keyed_changes;
mod keyed_create_as;
mod keyed_import;
mod keyed_load;
mod keyed_rows;
mod keyed_tables;
mod lexer;
mod literal_expr;
mod modify;
mod parameters;
mod parse;
mod place_index;
mod prepared;
mod row_errors;
mod run;
mod show_indexes;
mod space;
mod split;
#[cfg(test)]
mod tests;
mod unsupported;
mod upsert;

pub use compact::{CompactOptions, CompactProgress, CompactReport};
pub(crate) use compact::{compact, compact_group};
pub(crate) use create_index::{build_index, rebuild};
pub(crate) use create_table::TableSpec;
pub(crate) use drop::{drop_indexes, drop_tables};
pub(crate) use insert::insert_batch;
pub(crate) use keyed_import::{import_keyed, insert_keyed_batch};
pub(crate) use keyed_rows::find_keyed;
pub use lexer::{SqlPart, SqlParts, trim_sql};
pub(crate) use parameters::{bind as bind_parameters, bind_some};
pub(crate) use parse::{InsertSource, Statement, classify, parse, parse_unbound};
pub(crate) use place_index::{PlacementSpec, place_now, set_placement};
pub(crate) use run::{TextRun, run, run_boxed};
pub(crate) use space::{AFTER_LARGE, WHEN_QUIET, give_back};
pub(crate) use split::{split, split_located};
