//! One [`Segment`] of a table: its columns, and which of its rows are deleted.

use crate::codec::sketch::DistinctSketch;
use crate::error::damaged;
use crate::format::directory::headers;
use crate::format::meta::SegmentMeta;
use crate::format::{ColumnHeader, SegmentHeader, sketches};
use crate::read::column::{Column, ColumnParts};
use crate::read::filter_strings::StringConditions;
use crate::read::string_predicate::StringPredicate;
use crate::table::deletions::Deletions;
use crate::{ColumnsError, Result};
use arrow_schema::{Field, SchemaRef};
use halocline_pool::ExtentBytes;
use roaring::RoaringBitmap;
use std::ops::Range;
use std::sync::Arc;

/// Rows that were written together: every column of them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Segment {
    id: u64,
    rows: usize,
    chunk_rows: usize,
    columns: Arc<[Column]>,
    deletions: Option<Deletions>,
    string_conditions: Option<Arc<StringConditions>>,
    directory: Arc<Directory>,
}

/// The directory of a segment, for what is read of it later.
#[derive(Debug)]
struct Directory {
    /// Table and segment, for error messages.
    place: String,
    header: SegmentHeader,
    bytes: ExtentBytes,
}

impl Segment {
    /// Opens a segment. `extents` has its directory, then its parts.
    pub(crate) fn open(
        place: &str,
        schema: &SchemaRef,
        meta: &SegmentMeta,
        mut extents: Vec<ExtentBytes>,
        deletions: Option<Deletions>,
    ) -> Result<Self> {
        let parts: Arc<[ExtentBytes]> = extents.split_off(1).into();
        let directory = extents.remove(0);
        let (header, headers) = headers(place, &directory)?;
        let same = headers.len() == schema.fields().len()
            && header.parts as usize == parts.len()
            && header.rows == meta.rows;
        if !same || meta.deleted >= meta.rows {
            return Err(damaged(place, "directory does not match the table's description"));
        }
        let (rows, chunk_rows) = (header.rows as usize, header.chunk_rows as usize);
        let open = |(number, (field, header)): (usize, (&Arc<Field>, &ColumnHeader))| {
            Column::open(ColumnParts {
                place: format!("{place}, column `{}`", field.name()),
                field: Arc::clone(field),
                number,
                header: *header,
                directory: directory.clone(),
                parts: Arc::clone(&parts),
                rows,
                chunk_rows,
            })
        };
        let columns = schema.fields().iter().zip(headers).enumerate().map(open);
        Ok(Self {
            id: meta.id,
            rows,
            chunk_rows,
            columns: columns.collect::<Result<_>>()?,
            deletions,
            string_conditions: None,
            directory: Arc::new(Directory {
                place: place.into(),
                header,
                bytes: directory.clone(),
            }),
        })
    }

    /// Returns its number in the table, which is never reused and stays the same until compaction replaces
    /// the segment.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of rows, including deleted ones; at least one.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of rows that are not deleted. O(1).
    pub fn live_rows(&self) -> u64 {
        self.rows as u64 - self.deletions.as_ref().map_or(0, Deletions::count)
    }

    /// Returns the deleted rows; `None` if there are none. [`select`](Self::select),
    /// [`select_into`](Self::select_into), [`select_blocks`](Self::select_blocks) and [`count`](Self::count)
    /// leave them out; reads of columns include them. The first call verifies and parses them.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
    pub fn deletions(&self) -> Result<Option<&RoaringBitmap>> {
        self.deletions.as_ref().map(Deletions::rows).transpose()
    }

    /// Returns this segment with its deleted rows treated as not deleted.
    #[must_use]
    pub fn with_deleted_rows(&self) -> Self {
        Self {
            deletions: None,
            ..self.clone()
        }
    }

    /// Returns this segment for a caller that stores what it reads; see [`Column::for_copying`].
    #[must_use]
    pub fn for_copying(&self) -> Self {
        Self {
            columns: self.columns.iter().map(Column::for_copying).collect(),
            deletions: self.deletions.as_ref().map(Deletions::for_copying),
            ..self.clone()
        }
    }

    /// Returns this segment with `rows` deleted as well, in DRAM only.
    ///
    /// # Errors
    /// [`ColumnsError::RowsOutOfRange`], and as [`deletions`](Self::deletions).
    pub fn without_rows(&self, rows: &RoaringBitmap) -> Result<Self> {
        let mut all = rows | self.deletions()?.unwrap_or(&RoaringBitmap::new());
        if let Some(last) = rows.max() {
            self.check_rows(&(0..last as usize + 1))?;
        }
        all.optimize();
        Ok(Self {
            deletions: (!all.is_empty()).then(|| Deletions::from_bitmap(all)),
            ..self.clone()
        })
    }

    /// Returns this segment with conditions on strings, pairs of column and condition:
    /// [`select`](Self::select), [`select_into`](Self::select_into), [`select_blocks`](Self::select_blocks),
    /// [`filter`](Self::filter) and [`count`](Self::count) leave out the rows that do not match all of them.
    /// They are evaluated after conditions on codes, on the stored bytes: no string is decoded further than
    /// its condition needs.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`] for a condition on a column that holds no strings or binary values,
    /// [`ColumnsError::Damaged`].
    ///
    /// # Panics
    /// If there is no such column.
    pub fn with_string_conditions(&self, predicates: &[(usize, StringPredicate)]) -> Result<Self> {
        if predicates.is_empty() {
            return Ok(self.clone());
        }
        let mut conditions = self.string_conditions.as_deref().cloned().unwrap_or_default();
        conditions.add(self, predicates)?;
        Ok(Self {
            string_conditions: Some(Arc::new(conditions)),
            ..self.clone()
        })
    }

    /// Returns true if there are conditions on strings that rows must match to be selected.
    pub fn has_string_conditions(&self) -> bool {
        self.string_conditions.is_some()
    }

    pub(crate) fn string_conditions(&self) -> Option<&StringConditions> {
        self.string_conditions.as_deref()
    }

    /// Reads the sketches of the distinct values of the columns, in the order of the schema, deleted rows
    /// included; `None` if an earlier version of this program wrote the segment. O(columns), 3 KiB each at
    /// most.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn sketches(&self) -> Result<Option<Vec<DistinctSketch>>> {
        let Directory { place, header, bytes } = &*self.directory;
        sketches::read(place, bytes, header)
    }

    /// Returns the number of rows per chunk. Morsels of a parallel scan should start and end at multiples of
    /// it.
    pub fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    /// Returns column `index` of the table's schema.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, index: usize) -> &Column {
        &self.columns[index]
    }

    /// Returns all columns, in the order of the schema.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn check_rows(&self, rows: &Range<usize>) -> Result<()> {
        check_rows(rows, self.rows)
    }
}

/// Returns true if `rows` lie within `0..total`.
pub(crate) fn check_rows(rows: &Range<usize>, total: usize) -> Result<()> {
    if rows.start <= rows.end && rows.end <= total {
        return Ok(());
    }
    Err(ColumnsError::RowsOutOfRange {
        start: rows.start as u64,
        end: rows.end as u64,
        rows: total as u64,
    })
}
