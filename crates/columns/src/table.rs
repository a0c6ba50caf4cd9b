//! Reading tables: [`Table`] and its [`Segment`]s.
//!
//! Opening reads the object's metadata, and of each segment the headers of its directory extent: a few cache lines
//! per column, whatever the size of the table. Everything else is checked when it is read.

use crate::column::{Column, ColumnParts};
use crate::error::damaged;
use crate::format::{BLOCK, ColumnHeader, SEGMENT_MAGIC, SegmentHeader, checksum};
use crate::meta::TableMeta;
use crate::writer::object_name;
use crate::{ColumnsError, Result};
use arrow_schema::SchemaRef;
use halocline_media::Medium;
use halocline_pool::{ExtentBytes, Object, ObjectKind, Snapshot, Txn};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// An open table of one snapshot. Cheap to clone; keeps what it reads mapped.
#[derive(Debug, Clone)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    schema: SchemaRef,
    segments: Vec<Segment>,
    rows: u64,
    stored_bytes: u64,
}

impl Table {
    /// Opens the table `name` of a snapshot. O(columns x segments), no matter how many rows.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`], [`ColumnsError::NewerFormat`], [`ColumnsError::Damaged`],
    /// [`ColumnsError::Pool`].
    pub fn open(snapshot: &Snapshot, name: &str) -> Result<Self> {
        Self::of_object(snapshot.get(&object_name(name)), name)
    }

    /// Opens the table `name` as a transaction sees it: also one that the transaction itself has written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in<M: Medium>(txn: &Txn<M>, name: &str) -> Result<Self> {
        Self::of_object(txn.get(&object_name(name)), name)
    }

    /// Names of all tables of a snapshot, sorted as the pool sorts them.
    pub fn names(snapshot: &Snapshot) -> Vec<String> {
        let objects = snapshot
            .objects()
            .filter(|object| object.kind() == ObjectKind::TABLE);
        objects
            .filter_map(|object| Some(object.name().strip_prefix(&object_name(""))?.to_owned()))
            .collect()
    }

    fn of_object(object: Option<Object>, name: &str) -> Result<Self> {
        let object = object
            .filter(|object| object.kind() == ObjectKind::TABLE)
            .ok_or_else(|| ColumnsError::NoSuchTable { name: name.into() })?;
        let meta = TableMeta::parse(name, object.meta())?;
        let schema = meta.schema(name)?;
        let mut extents = 0..0;
        let mut segments = Vec::with_capacity(meta.segments.len());
        for (number, segment) in meta.segments.iter().enumerate() {
            let place = || format!("table `{name}`, segment {number}");
            let end = extents.end + segment.extents.min(object.extent_count() + 1);
            extents = extents.end..end;
            if segment.extents == 0 || extents.end > object.extent_count() {
                return Err(damaged(place(), "lacks extents"));
            }
            let bytes = extents
                .clone()
                .map(|i| Ok(object.extent(i)?))
                .collect::<Result<Vec<_>>>()?;
            segments.push(Segment::open(&place(), &schema, segment.rows, bytes)?);
        }
        if extents.end != object.extent_count() {
            return Err(damaged(
                format!("table `{name}`"),
                "has extents that no segment names",
            ));
        }
        let rows = segments.iter().map(|segment| segment.rows() as u64).sum();
        let inner = Inner {
            name: name.into(),
            schema,
            segments,
            rows,
            stored_bytes: object.bytes(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Rows in all segments.
    pub fn rows(&self) -> u64 {
        self.inner.rows
    }

    /// Its segments, in the order in which they were written; none if there is no row.
    pub fn segments(&self) -> &[Segment] {
        &self.inner.segments
    }

    /// Bytes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.stored_bytes
    }
}

/// Rows that were written together: every column of them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Segment {
    rows: usize,
    chunk_rows: usize,
    columns: Arc<[Column]>,
}

impl Segment {
    fn open(place: &str, schema: &SchemaRef, rows: u64, mut extents: Vec<ExtentBytes>) -> Result<Self> {
        let parts: Arc<[ExtentBytes]> = extents.split_off(1).into();
        let directory = extents.remove(0);
        let wrong = |what: &str| Err(damaged(place, what));
        let Ok((header, rest)) = SegmentHeader::read_from_prefix(&directory) else {
            return wrong("directory is shorter than its header");
        };
        if header.magic != SEGMENT_MAGIC {
            return wrong("directory has a foreign header");
        }
        let columns = header.columns as usize;
        let Ok((headers, _)) = <[ColumnHeader]>::ref_from_prefix_with_elems(rest, columns) else {
            return wrong("directory is shorter than its column headers");
        };
        let blank = SegmentHeader {
            checksum: 0,
            ..header
        };
        if checksum(&[blank.as_bytes(), headers.as_bytes()].concat()) != header.checksum {
            return wrong("directory does not match its checksum");
        }
        if columns != schema.fields().len() || header.parts as usize != parts.len() || header.rows != rows {
            return wrong("directory does not match the table's description");
        }
        let chunk_rows = header.chunk_rows as usize;
        if rows == 0 || rows > 1 << 31 || chunk_rows == 0 || !chunk_rows.is_multiple_of(BLOCK) {
            return wrong("directory has impossible row counts");
        }
        let open = |(field, header): (&Arc<arrow_schema::Field>, &ColumnHeader)| {
            Column::open(ColumnParts {
                place: format!("{place}, column `{}`", field.name()),
                field: Arc::clone(field),
                header: *header,
                directory: directory.clone(),
                parts: Arc::clone(&parts),
                rows: rows as usize,
                chunk_rows,
            })
        };
        let columns = schema
            .fields()
            .iter()
            .zip(headers)
            .map(open)
            .collect::<Result<_>>()?;
        Ok(Self {
            rows: rows as usize,
            chunk_rows,
            columns,
        })
    }

    /// Rows, at least one.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows per chunk: good bounds for morsels of a parallel scan are multiples of this.
    pub fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    /// Column `index` of the table's schema.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, index: usize) -> &Column {
        &self.columns[index]
    }

    /// All columns, in the order of the schema.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn check_rows(&self, rows: &Range<usize>) -> Result<()> {
        check_rows(rows, self.rows)
    }
}

/// Whether `rows` lie within `0..total`.
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
