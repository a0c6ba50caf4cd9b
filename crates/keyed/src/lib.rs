//! Tables with a primary key, whose rows are in the key-value stores of a pool.
//!
//! A row is a pair of a store: its key columns are encoded such that keys order as rows do ([`KeyedTable`]
//! says how), the other columns are the value. The definitions of the tables are in a store of their own.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
//! use halocline_keyed::{KeyedTables, KeyedView, TableDefinition};
//! use halocline_store::Stores;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! let stores = Stores::open(&pool)?;
//! let tables = KeyedTables::open(&stores)?;
//! let cities = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int32Array::from(vec![2, 1])) as ArrayRef),
//!     ("name", Arc::new(StringViewArray::from(vec!["Lyon", "Paris"])) as ArrayRef),
//! ])?;
//! let table = tables.create(TableDefinition::new("cities", &cities.schema(), &["id"])?)?;
//! for row in table.encode(&cities)? {
//!     table.store().put(row.key, row.value)?;
//! }
//! let mut rows = table.scan(&KeyedView::Snapshot(stores.snapshot()), table.ranges(&[])?, &[1]);
//! let names = rows.next_batch(100)?.expect("two rows");
//! assert_eq!(names.column(0).as_ref(), &StringViewArray::from(vec!["Paris", "Lyon"]));
//! # Ok(())
//! # }
//! ```

mod column_builder;
mod column_values;
mod definition;
mod error;
mod key;
mod key_changes;
mod kind;
mod load;
mod ranges;
mod redefinition;
mod replacement;
mod rewrite;
mod row;
mod scan;
mod table;
mod tables;
mod unique;
mod unpublished;
mod view;

pub use definition::TableDefinition;
pub use error::{KeyedError, Result};
pub use load::KeyedLoad;
pub use ranges::{KeyBounds, KeyCondition, KeyRanges};
pub use redefinition::KeyedRedefinition;
pub use replacement::Replacements;
pub use rewrite::{KeyedRewrite, RewriteRule, RewrittenRows};
pub use scan::KeyedScan;
pub use table::{KeyedRow, KeyedTable};
pub use tables::KeyedTables;
pub use unique::UniqueColumns;
pub use unpublished::UnpublishedTable;
pub use view::KeyedView;
