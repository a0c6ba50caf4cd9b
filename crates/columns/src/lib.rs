//! Tables as encoded, zone-mapped columns in extents.
//!
//! A table is one pool object. Its rows lie in *segments*; a segment stores each column in *chunks* of 65,536
//! rows, with smallest and largest value per chunk (zone map). Values are stored as *codes* that sort like
//! the values ([`CodeSpace`]), so that conditions ([`CodePredicate`]) are evaluated without decoding
//! anything. A chunk of codes is constant, bit-packed, a dictionary, deltas, runs or plain values. Strings
//! are ranks in a dictionary, or bytes if too many of them are different. Conditions on those are predicates
//! on bytes ([`StringPredicate`]).
//!
//! Rows are deleted by a bitmap per segment ([`delete_rows`]) and appended as further segments
//! ([`TableWriter::append`]); a version of a table shares everything else with the version before.
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
//! let codes = |column: usize| segment.column(column).code_space().expect("values with codes");
//! let from_1995 = codes(0).range(Bound::Included(&Int32Array::from(vec![1995])), Bound::Unbounded)?;
//! let by_air = codes(1).equal(&StringArray::from(vec!["AIR"]))?;
//! assert_eq!(codes(0).describe(&from_1995), ">= 1995");
//! let rows: Vec<u32> = segment.select(&[(0, from_1995), (1, by_air)], 0..segment.rows())?.iter().collect();
//! assert_eq!(rows, [3]);
//! assert_eq!(&segment.column(0).gather(&rows)?, &(Arc::new(Int32Array::from(vec![1995])) as ArrayRef));
//! # Ok(())
//! # }
//! ```

mod codec;
mod error;
mod format;
mod kernel;
mod options;
mod read;
mod table;
mod types;
mod write;

pub use codec::sketch::DistinctSketch;
pub use codec::{Encoding, LookupUnit};
pub use error::{ColumnsError, Result};
pub use format::meta::uid_of_version_1;
pub use format::wide::holds_wide_decimals;
pub use kernel::{BlockMask, Code, rows_in};
pub use options::{TableEncoding, TableOptions, TableStats};
pub use read::ahead::{ColumnResidency, ScanAhead, SegmentReads, column_residency};
pub use read::bitset::Bitset;
pub use read::codes::{BLOCK_ROWS, ChunkInfo, CodeReader};
pub use read::column::Column;
pub use read::dictionary::Dictionary;
pub use read::filter::CodeFilter;
pub use read::float_codes::FloatCodes;
pub use read::like::LikePattern;
pub use read::predicate::CodePredicate;
pub use read::row_selection::RowSelection;
pub use read::segment::Segment;
pub use read::selection::SelectionVector;
pub use read::space::CodeSpace;
pub use read::string_predicate::StringPredicate;
pub use table::add_column::add_column;
pub use table::alter::{
    ColumnRedefinition, TableProperties, create_table, delete_rows, redefine_columns, rename_column,
    rename_table, set_cluster, truncate,
};
pub use table::compact;
pub use table::defaults::set_default;
pub use table::rules::{StoredRules, TableRule, TableRules, set_rules};
pub use table::{Table, TableHead};
pub use types::{parse_type, type_name};
pub use write::ranking::{RankedStrings, rank_strings};
pub use write::writer::TableWriter;

/// A row of a segment, counted from 0.
pub type RowId = u32;
