//! Joins over encoded columns: the fused star join.
//!
//! A *star join* aggregates the rows of one large table, the *fact table*, that match rows of small ones, the
//! *dimensions*, by attributes of these. Dimensions become arrays in DRAM ([`star::Dimension`]). The fact
//! table is read once, block by block, without intermediate results: rows that pass all probes go directly
//! into the aggregates ([`star::StarJoin`]).

mod error;
pub mod star;

pub use error::{JoinError, JoinResult};
