//! Tables as encoded, zone-mapped columns in extents.
//!
//! A table is one pool object. Its rows lie in *segments*; a segment stores each column in *chunks* of 65,536 rows,
//! bit-packed, with smallest and largest value per chunk. Values are stored as *codes* that sort like the values
//! ([`CodeSpace`]), so that predicates ([`CodePredicate`]) are evaluated without decoding anything.
#![allow(clippy::todo)]

mod error;
mod predicate;
mod space;
mod table;

pub use error::{ColumnsError, Result};
pub use predicate::CodePredicate;
pub use space::CodeSpace;
pub use table::{Column, Segment, Table};

/// A row of a segment, counted from 0.
pub type RowId = u32;
