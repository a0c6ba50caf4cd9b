//! Rows on their way into a table: literals as arrays, values as the table's types, batches into segments.

mod batch_task;
mod fit;
mod literals;
mod stream;
mod writer;
mod written_table;

pub(crate) use batch_task::{BatchTask, QueuedBatches};
pub(crate) use fit::{BatchFitter, arrange};
pub(crate) use literals::{is_default, literals};
pub(crate) use stream::{StoredRows, inserts, store};
pub(crate) use writer::TableWriteTask;
pub(crate) use written_table::WrittenTable;
