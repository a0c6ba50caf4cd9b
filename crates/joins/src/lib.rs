//! Joins: the fused star join over encoded columns, and equi-joins larger than memory.
//!
//! A *star join* aggregates the rows of one large table, the *fact table*, that match rows of small ones, the
//! *dimensions*, by attributes of these. Dimensions become arrays in DRAM ([`star::Dimension`]). The fact
//! table is read once, block by block, without intermediate results: rows that pass all probes go directly
//! into the aggregates ([`star::StarJoin`]).
//!
//! All other joins by equal keys are in [`equi`]: they take Arrow record batches, and a build side of any
//! size.

pub mod equi;
mod error;
pub mod star;

pub use error::{JoinError, JoinResult};
