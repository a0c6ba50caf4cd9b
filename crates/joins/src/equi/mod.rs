//! Equi-joins over Arrow record batches, whose build side may be larger than the memory that they get.
//!
//! The rows of one input, the *build side*, are collected; those of the other one, the *probe side*, look for
//! partners with equal keys among them. What does not fit the [`JoinBudget`] goes to a [`SpillSpace`].
//! Several [algorithms](Algorithm) return the same rows.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use halocline_joins::equi::{
//!     Algorithm, BatchSource, EquiJoin, FileSpillSpace, JoinContext, JoinKind, JoinBudget,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! let name: ArrayRef = Arc::new(StringArray::from(vec!["ada", "bob", "cleo"]));
//! let people = RecordBatch::try_from_iter([("id", id), ("name", name)])?;
//! let person: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(1), Some(3)]));
//! let orders = RecordBatch::try_from_iter([("person", person)])?;
//!
//! let spill = FileSpillSpace::new(std::env::temp_dir());
//! let cancelled = AtomicBool::new(false);
//! let context = JoinContext {
//!     threads: NonZeroUsize::MIN,
//!     budget: JoinBudget::new(64 << 20),
//!     spill: &spill,
//!     writers: NonZeroUsize::MIN,
//!     cancelled: &cancelled,
//! };
//! let join = EquiJoin::new(JoinKind::Inner, vec![0], vec![0]).with_output(vec![1], vec![0]);
//! let people = BatchSource::new(people.schema(), vec![people]);
//! let orders = BatchSource::new(orders.schema(), vec![orders]);
//! let rows = AtomicUsize::new(0);
//! join.run(Algorithm::Hybrid, &people, &orders, &context, &|batch| {
//!     rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
//!     Ok(())
//! })?;
//! assert_eq!(rows.into_inner(), 3);
//! # Ok(())
//! # }
//! ```

mod array;
mod bloom;
mod budget;
mod codes;
mod collect;
mod emit;
mod hash;
mod input;
mod join;
mod key;
mod kind;
mod layout;
mod nested;
mod partition_writer;
mod partitioned;
mod partitions;
mod piece_gate;
mod plan;
mod prober;
mod rows;
mod run;
mod sizing;
mod source;
mod spill;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod workers;

pub use array::{ArrayRows, DenseKeyMap, RandomRows, TableRows};
pub use budget::{JoinBudget, MemorySource};
pub use codes::KeyCodes;
pub use halocline_costs::join::Algorithm;
pub use join::{EquiJoin, JoinContext, OUTPUT_ROWS, PairFilter, Residual, RowSink};
pub use kind::JoinKind;
pub use source::{BatchSource, EachBatch, JoinSource, TableSource};
pub use spill::{FileSpillSpace, PoolSpillSpace, SpillRange, SpillSpace};
