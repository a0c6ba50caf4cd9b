//! Writes of tables: from record batches to segments of encoded chunks.

pub(crate) mod blob;
pub(crate) mod build;
pub(crate) mod column_writer;
pub(crate) mod dictionary_writer;
pub(crate) mod interner;
pub(crate) mod physical;
pub(crate) mod ranking;
pub(crate) mod segment_writer;
pub(crate) mod writer;
