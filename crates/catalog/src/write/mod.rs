//! Rows on their way into a table: literals as arrays, values as the table's types, batches into segments.

mod batch_task;
mod condition;
mod fit;
mod literals;
mod row_rules;
mod stream;
mod writer;
mod written_table;

pub use batch_task::{BatchTask, QueuedBatches};
pub use condition::RowCondition;
pub use fit::{BatchFitter, arrange};
pub use literals::literals;
pub use row_rules::RowRules;
pub use stream::{StoredRows, inserts, store};
pub use writer::TableWriteTask;
pub use written_table::WrittenTable;
