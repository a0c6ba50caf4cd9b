//! Statements: parsing and execution, one file for each kind.
//!
//! A text is parsed once, by the kind in the [list] that recognises it, and its statement is then run. What
//! depends on the kind of a table is behind the traits of [`table_kind`].

mod advise;
mod alter_index;
mod alter_table;
mod assignments;
mod build_index;
mod columns;
mod compact;
mod conflict_target;
mod constraints;
mod copy_from;
mod copy_to;
mod create_external_table;
mod create_index;
mod create_macro;
mod create_table;
mod create_table_as;
mod create_temporary_table;
mod create_view;
mod defaults;
mod delete;
mod distinct_names;
mod draft_rows;
mod drop_index;
mod drop_macro;
mod drop_plan;
mod drop_table;
mod drop_view;
mod dropped;
mod insert;
mod insert_rows;
mod kept_indexes;
mod keyed_alter;
mod keyed_changes;
mod keyed_create_as;
mod keyed_definition;
mod keyed_import;
mod keyed_load;
mod keyed_rows;
mod keyed_spill;
mod keyed_table;
mod list;
mod modify;
mod parsing;
mod place_index;
mod plain_alter;
mod plain_create;
mod plain_drop;
mod plain_table;
mod pool_targets;
mod pragma;
mod prepared;
mod row_errors;
mod run;
mod select;
mod set;
mod show_create;
mod show_indexes;
mod space;
mod statement_kind;
mod table_changes;
mod table_definition;
mod table_draft;
mod table_kind;
mod temporary_table;
#[cfg(test)]
mod tests;
mod transaction;
mod truncate;
mod truncate_plan;
mod update;
mod upsert;
mod vacuum;

pub(crate) use build_index::{build_index, rebuild};
pub use compact::{CompactOptions, CompactProgress, CompactReport};
pub(crate) use compact::{compact, compact_group};
#[cfg(test)]
pub(crate) use create_index::CreateIndexStatement;
pub(crate) use drop_index::drop_indexes;
pub(crate) use drop_table::drop_any_tables;
#[cfg(test)]
pub(crate) use insert_rows::insert_batch;
pub(crate) use list::STATEMENT_KINDS;
pub(crate) use parsing::{from_tree, parse, parse_unbound};
pub(crate) use place_index::{place_now, set_placement};
pub(crate) use plain_create::{is_needed, make};
pub(crate) use run::{TextRun, run};
pub(crate) use space::{AFTER_LARGE, WHEN_QUIET, give_back};
pub(crate) use statement_kind::{BoxedStatement, StatementQuery};
pub(crate) use table_kind::find_table;
