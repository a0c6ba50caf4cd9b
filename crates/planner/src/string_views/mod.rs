//! Strings that are collected: views are copied from the buffers that they share with others.
//!
//! A view refers to a buffer, which many batches may share: those of a scan, those that an exchange divides,
//! and those that a merge puts together. Who collects such batches counts each buffer once for each batch,
//! and keeps all of it for a few rows. DataFusion's node for running windows joins the rows that it keeps
//! with each batch, so that it keeps all buffers of its input, and passes the list on with each batch.
//!
//! So [`StringViewsRule`] copies the strings below nodes that collect, where a buffer is much larger than
//! what is read of it, and passes strings of other types through running windows. It changes nothing where
//! the estimate says that the input is small.

mod compact;
mod exec;
mod rule;
mod window;

pub use compact::compacted;
pub use exec::{StringsExec, plain};
pub use rule::StringViewsRule;
