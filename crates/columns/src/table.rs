//! Reading tables.

use crate::{CodePredicate, CodeSpace, Result, RowId};
use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use roaring::RoaringBitmap;
use std::ops::Range;

/// An open table.
#[derive(Debug, Clone)]
pub struct Table {
    schema: SchemaRef,
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        todo!()
    }
    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    /// Rows in all segments.
    pub fn rows(&self) -> u64 {
        todo!()
    }
    /// Its segments.
    pub fn segments(&self) -> &[Segment] {
        todo!()
    }
    /// Bytes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        todo!()
    }
}

/// Rows that were written together.
#[derive(Debug, Clone)]
pub struct Segment {}

impl Segment {
    /// Rows.
    pub fn rows(&self) -> usize {
        todo!()
    }
    /// Column `index` of the schema.
    pub fn column(&self, _index: usize) -> &Column {
        todo!()
    }
    /// Rows within `rows` that match all of `predicates` (column, condition).
    pub fn select(
        &self,
        _predicates: &[(usize, CodePredicate)],
        _rows: Range<usize>,
    ) -> Result<RoaringBitmap> {
        todo!()
    }
    /// How many rows within `rows` match.
    pub fn count(&self, _predicates: &[(usize, CodePredicate)], _rows: Range<usize>) -> Result<u64> {
        todo!()
    }
}

/// One column of one segment.
#[derive(Debug, Clone)]
pub struct Column {}

impl Column {
    /// The map between values and codes; `None` for strings stored as they are.
    pub fn code_space(&self) -> Option<&CodeSpace> {
        todo!()
    }
    /// Rows.
    pub fn rows(&self) -> usize {
        todo!()
    }
    /// Rows per chunk.
    pub fn chunk_rows(&self) -> usize {
        todo!()
    }
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        todo!()
    }
    /// Smallest and largest code of a chunk.
    pub fn zone(&self, _chunk: usize) -> Result<(u64, u64)> {
        todo!()
    }
    /// Appends the codes of `rows`.
    pub fn read_codes(&self, _rows: Range<usize>, _codes: &mut Vec<u64>) -> Result<()> {
        todo!()
    }
    /// The values of `rows`.
    pub fn scan(&self, _rows: Range<usize>) -> Result<ArrayRef> {
        todo!()
    }
    /// The values of `rows` (any order, quickest sorted).
    pub fn gather(&self, _rows: &[RowId]) -> Result<ArrayRef> {
        todo!()
    }
}
