//! Optimizer rules and operators above scans: unnesting, join order, star joins, and joins, aggregates and
//! windows that spill.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

pub mod coded_join;
pub mod count;
pub mod dynamic;
pub mod equi_keys;
pub mod file_column;
pub mod first_of_groups;
pub mod first_rows;
pub mod join_order;
pub mod key_runs;
pub mod large_limits;
pub mod late;
pub mod materialized;
pub mod nested_loops;
pub mod plan_estimate;
mod row_size;
pub mod sort_aggregate;
pub mod spill_join;
pub mod spill_window;
pub mod star;
pub mod string_views;
mod unary_node;
pub mod unnest;
