//! Reads of tables: the providers of a version's tables, access paths and their costs, estimates, and the plan
//! nodes that scan.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

pub mod damaged;
pub mod estimate;
pub mod files;
pub mod keyed;
pub mod leaf;
pub mod plan;
pub mod provider;
pub mod views;
