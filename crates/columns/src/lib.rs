//! Tables as encoded, zone-mapped columns in extents.
//!
//! A table is one pool object. Its rows lie in *segments*; a segment stores each column in *chunks* of 65,536 rows,
//! bit-packed, with smallest and largest value per chunk. Rows are deleted by a bitmap per segment ([`delete_rows`]), and
//! appended as further segments ([`TableWriter::append`]). Values are stored as *codes* that sort like the values
//! ([`CodeSpace`]), so that conditions ([`CodePredicate`]) are evaluated without decoding anything.
//!
//! ```
//! use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
//! use halocline_columns::{Table, TableOptions, TableWriter};
//! use halocline_pool::{Pool, PoolOptions};
//! use std::{ops::Bound, sync::Arc};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("example.pool");
//! let pool = Pool::create(&path, &PoolOptions::default())?;
//! let year: ArrayRef = Arc::new(Int32Array::from(vec![1994, 1995, 1996, 1995]));
//! let mode: ArrayRef = Arc::new(StringArray::from(vec![Some("AIR"), Some("RAIL"), None, Some("AIR")]));
//! let batch = RecordBatch::try_from_iter([("year", year), ("mode", mode)])?;
//!
//! let txn = pool.begin()?;
//! let mut writer = TableWriter::new(&txn, "trips", batch.schema(), TableOptions::default())?;
//! writer.write(&batch)?;
//! writer.finish()?;
//! txn.commit()?;
//!
//! let table = Table::open(&pool.snapshot()?, "trips")?;
//! let segment = &table.segments()[0];
//! let codes = |column: usize| segment.column(column).code_space().expect("integers and few strings have codes");
//! let from_1995 = codes(0).range(Bound::Included(&Int32Array::from(vec![1995])), Bound::Unbounded)?;
//! let by_air = codes(1).equal(&StringArray::from(vec!["AIR"]))?;
//! assert_eq!(codes(0).describe(&from_1995), ">= 1995");
//! let rows: Vec<u32> = segment.select(&[(0, from_1995), (1, by_air)], 0..segment.rows())?.iter().collect();
//! assert_eq!(rows, [3]);
//! assert_eq!(&segment.column(0).gather(&rows)?, &(Arc::new(Int32Array::from(vec![1995])) as ArrayRef));
//! # Ok(())
//! # }
//! ```

mod accept;
mod add_column;
mod alter;
mod bitset;
mod blob;
mod build;
mod bytes_array;
mod check;
mod chunk;
mod chunk_predicate;
mod cluster;
mod codec;
mod codes;
mod column;
mod column_writer;
pub mod compact;
mod defaults;
mod deletions;
mod dictionary;
mod dictionary_writer;
mod directory;
mod draft;
mod error;
mod filter;
mod format;
#[cfg(test)]
mod format_tests;
mod interner;
mod kernel;
mod live;
mod meta;
mod options;
mod physical;
mod predicate;
mod ranking;
mod reads;
mod scan;
mod segment;
mod segment_writer;
mod select;
mod selection;
mod shares;
mod sketch;
mod space;
mod strings;
mod strings_writer;
mod table;
mod types;
mod verified;
mod wide;
mod writer;

pub use add_column::add_column;
pub use alter::{
    TableProperties, create_table, delete_rows, rename_column, rename_table, set_cluster, truncate,
};
pub use bitset::Bitset;
pub use codes::{BLOCK_ROWS, ChunkInfo, Code, CodeReader, Encoding};
pub use column::Column;
pub use defaults::set_default;
pub use dictionary::Dictionary;
pub use error::{ColumnsError, Result};
pub use filter::CodeFilter;
pub use kernel::rows_in;
pub use meta::uid_of_version_1;
pub use options::{TableEncoding, TableOptions, TableStats};
pub use predicate::CodePredicate;
pub use ranking::{RankedStrings, rank_strings};
pub use segment::Segment;
pub use select::BlockMask;
pub use selection::Selection;
pub use space::CodeSpace;
pub use table::{Table, TableHead};
pub use wide::holds_wide_decimals;
pub use writer::TableWriter;

/// A row of a segment, counted from 0.
pub type RowId = u32;
