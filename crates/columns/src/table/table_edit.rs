//! A table's object taken apart, to be changed and put back: its description and the extents of each segment.

use crate::format::meta::{SegmentMeta, TableMeta, object_name};
use crate::{ColumnsError, Result};
use arrow_schema::SchemaRef;
use halocline_pool::{ExtentRef, ObjectKind, Txn};

/// A table that is being changed.
#[derive(Debug)]
pub(crate) struct TableEdit {
    name: String,
    /// Without segments: they are below.
    pub(crate) meta: TableMeta,
    pub(crate) segments: Vec<DraftSegment>,
}

/// A segment with its extents; the last one holds the deleted rows if there are any.
#[derive(Debug)]
pub(crate) struct DraftSegment {
    pub(crate) meta: SegmentMeta,
    pub(crate) extents: Vec<ExtentRef>,
}

impl TableEdit {
    /// Creates a table without rows.
    pub(crate) fn new(name: &str, meta: TableMeta) -> Self {
        Self {
            name: name.into(),
            meta,
            segments: Vec::new(),
        }
    }

    /// Loads the table `name` as the transaction sees it.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`], [`ColumnsError::NewerFormat`], [`ColumnsError::Damaged`].
    pub(crate) fn load(txn: &Txn, name: &str) -> Result<Self> {
        let (object, mut meta) = TableMeta::of_object(txn.get(&object_name(name)), name)?;
        let ranges = meta.extent_ranges(name, object.extent_count())?;
        let segments = std::mem::take(&mut meta.segments).into_iter().zip(ranges);
        let segments = segments.map(|(meta, range)| DraftSegment {
            meta,
            extents: range.map(|i| object.extent_ref(i)).collect(),
        });
        Ok(Self {
            name: name.into(),
            segments: segments.collect(),
            meta,
        })
    }

    /// Returns the table's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table under another name.
    pub(crate) fn renamed(self, name: &str) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// Returns its columns.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        self.meta.schema(&self.name)
    }

    /// Returns the id of the next new segment.
    pub(crate) fn next_segment(&self) -> u64 {
        self.meta.next_segment
    }

    /// Creates a segment of this format with the next id.
    pub(crate) fn new_segment(&mut self, rows: u64, format: u32, extents: Vec<ExtentRef>) -> DraftSegment {
        let id = self.meta.next_segment;
        self.meta.next_segment += 1;
        let meta = SegmentMeta {
            id,
            rows,
            format,
            extents: extents.len(),
            deleted: 0,
        };
        DraftSegment { meta, extents }
    }

    /// Returns the position of the segment with this id.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchSegment`].
    pub(crate) fn position(&self, id: u64) -> Result<usize> {
        let position = self.segments.iter().position(|segment| segment.meta.id == id);
        position.ok_or_else(|| ColumnsError::NoSuchSegment {
            table: self.name.clone(),
            segment: id,
        })
    }

    /// Returns the position of a column.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchColumn`].
    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        let position = self.meta.columns.iter().position(|column| column.name == name);
        position.ok_or_else(|| ColumnsError::NoSuchColumn {
            table: self.name.clone(),
            column: name.into(),
        })
    }

    /// Puts the table into the transaction.
    ///
    /// # Errors
    /// [`ColumnsError::Pool`].
    pub(crate) fn put(mut self, txn: &Txn) -> Result<()> {
        let mut extents = Vec::new();
        for mut segment in self.segments {
            segment.meta.extents = segment.extents.len();
            extents.append(&mut segment.extents);
            self.meta.segments.push(segment.meta);
        }
        let name = object_name(&self.name);
        txn.put(&name, ObjectKind::TABLE, &self.meta.encode(), extents)?;
        Ok(())
    }
}
