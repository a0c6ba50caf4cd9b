//! Tables as encoded, zone-mapped columns in extents.
//!
//! A table is one pool object. Its rows lie in *segments*; a segment stores each column in *chunks* of 65,536 rows,
//! bit-packed, with smallest and largest value per chunk. Values are stored as *codes* that sort like the values
//! ([`CodeSpace`]), so that predicates ([`CodePredicate`]) are evaluated without decoding anything.

mod blob;
mod build;
mod bytes_array;
mod check;
mod chunk;
mod column;
mod column_writer;
mod dictionary;
mod error;
mod format;
#[cfg(test)]
mod format_tests;
mod interner;
mod kernel;
mod mask;
mod meta;
mod physical;
mod predicate;
mod scan;
mod select;
mod sketch;
mod space;
mod strings;
mod table;
mod types;
mod writer;

pub use column::Column;
pub use dictionary::Dictionary;
pub use error::{ColumnsError, Result};
pub use predicate::CodePredicate;
pub use select::BlockMask;
pub use space::CodeSpace;
pub use table::{Segment, Table};
pub use writer::{TableOptions, TableStats, TableWriter};

/// A row of a segment, counted from 0.
pub type RowId = u32;
