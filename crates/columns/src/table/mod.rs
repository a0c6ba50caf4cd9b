//! Reading tables: [`Table`].
//!
//! Opening reads the object's metadata, and of each segment the headers of its directory extent: a few cache
//! lines per column, whatever the size of the table. Everything else is checked when it is read.
//!
//! Damaged bytes give an error or a wrong value, never a panic, and codes never exceed `max_code`.
//! `Table::check` verifies everything and names table, segment, column and chunk.

pub(crate) mod accept;
pub(crate) mod add_column;
pub(crate) mod alter;
pub(crate) mod check;
pub(crate) mod cluster;
pub mod compact;
pub(crate) mod defaults;
pub(crate) mod deletions;
pub(crate) mod live;
pub(crate) mod rules;
pub(crate) mod shares;
pub(crate) mod table_edit;

use crate::Result;
use crate::TableEncoding;
use crate::format::meta::{TableMeta, object_name};
use crate::read::segment::Segment;
use crate::table::deletions::Deletions;
use crate::table::rules::TableRules;
use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use halocline_pool::{Object, ObjectKind, Snapshot, Txn};
use std::sync::Arc;

/// An open table of one snapshot. Cheap to clone; keeps what it reads mapped.
#[derive(Debug, Clone)]
pub struct Table {
    inner: Arc<TableInner>,
}

#[derive(Debug)]
struct TableInner {
    name: String,
    uid: u64,
    schema: SchemaRef,
    /// One for each column.
    defaults: Arc<[Option<ArrayRef>]>,
    cluster: Option<Vec<String>>,
    encoding: TableEncoding,
    rules: Arc<TableRules>,
    segments: Vec<Segment>,
    rows: u64,
    stored_bytes: u64,
}

/// The definition of a table and the number of its rows, read from the metadata of its object alone: it is
/// there even if extents of the table are damaged.
#[derive(Debug, Clone)]
pub struct TableHead {
    /// The table's [`uid`](Table::uid).
    pub uid: u64,
    /// Its columns.
    pub schema: SchemaRef,
    /// Rows in all segments, the deleted ones among them.
    pub rows: u64,
    /// Segments.
    pub segments: usize,
}

impl TableHead {
    /// Reads the head from a table's object.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`](crate::ColumnsError::NoSuchTable) if there is no object or it is
    /// something else, [`ColumnsError::NewerFormat`](crate::ColumnsError::NewerFormat),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    pub fn of_object(object: Option<Object>, name: &str) -> Result<Self> {
        let (_, meta) = TableMeta::of_object(object, name)?;
        Ok(Self {
            uid: meta.uid,
            schema: meta.schema(name)?,
            rows: meta
                .segments
                .iter()
                .fold(0, |rows, segment| segment.rows.saturating_add(rows)),
            segments: meta.segments.len(),
        })
    }
}

impl Table {
    /// Opens the table `name` of a snapshot. O(columns x segments), no matter how many rows.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`](crate::ColumnsError::NoSuchTable),
    /// [`ColumnsError::NewerFormat`](crate::ColumnsError::NewerFormat),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged),
    /// [`ColumnsError::Pool`](crate::ColumnsError::Pool).
    pub fn open(snapshot: &Snapshot, name: &str) -> Result<Self> {
        Self::of_object(snapshot.get(&object_name(name)), name)
    }

    /// Opens the table `name` as a transaction sees it: also one that the transaction itself has written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in(txn: &Txn, name: &str) -> Result<Self> {
        Self::of_object(txn.get(&object_name(name)), name)
    }

    /// Returns the names of all tables of a snapshot, sorted as the pool sorts them.
    pub fn names(snapshot: &Snapshot) -> Vec<String> {
        let objects = snapshot
            .objects()
            .filter(|object| object.kind() == ObjectKind::TABLE);
        objects
            .filter_map(|object| Some(object.name().strip_prefix(&object_name(""))?.to_owned()))
            .collect()
    }

    fn of_object(object: Option<Object>, name: &str) -> Result<Self> {
        let (object, meta) = TableMeta::of_object(object, name)?;
        let schema = meta.schema(name)?;
        let ranges = meta.extent_ranges(name, object.extent_count())?;
        let mut segments = Vec::with_capacity(ranges.len());
        for (segment, mut range) in meta.segments.iter().zip(ranges) {
            let place = format!("table `{name}`, segment {}", segment.id);
            let deletions = (segment.deleted > 0).then(|| {
                range.end -= 1;
                let (rows, count) = (segment.rows, segment.deleted);
                Deletions::stored(place.clone(), object.clone(), range.end, rows, count)
            });
            let extents = range.map(|i| Ok(object.extent(i)?)).collect::<Result<Vec<_>>>()?;
            segments.push(Segment::open(&place, &schema, segment, extents, deletions)?);
        }
        Ok(Self::new(TableInner {
            name: name.into(),
            uid: meta.uid,
            defaults: meta.defaults(name, &schema)?.into(),
            schema,
            encoding: meta.encoding().unwrap_or_default(),
            rules: Arc::new(meta.rules(name)?.into()),
            cluster: meta.cluster,
            rows: segments.iter().map(|segment| segment.rows() as u64).sum(),
            segments,
            stored_bytes: object.bytes(),
        }))
    }

    fn new(inner: TableInner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the identifier that distinguishes the table from every other one, including earlier tables of
    /// the same name. It is assigned when the table is created, and survives appends, deletions, compaction
    /// and renaming.
    pub fn uid(&self) -> u64 {
        self.inner.uid
    }

    /// Returns its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Returns the default of a column, for statements that give no value for it: an array of length 1 of its
    /// type, or `None` for NULL.
    ///
    /// # Panics
    /// If there is no column of this number.
    pub fn default_value(&self, column: usize) -> Option<&ArrayRef> {
        self.inner.defaults[column].as_ref()
    }

    /// Returns the names of the columns by which the rows of a segment are sorted when they are written;
    /// `None` if rows keep the order in which they arrive.
    pub fn cluster(&self) -> Option<&[String]> {
        self.inner.cluster.as_deref()
    }

    /// Returns how its values are stored.
    pub fn encoding(&self) -> TableEncoding {
        self.inner.encoding
    }

    /// Returns the rules that its rows obey.
    pub fn rules(&self) -> &Arc<TableRules> {
        &self.inner.rules
    }

    /// Returns the number of rows in all segments, including deleted ones.
    pub fn rows(&self) -> u64 {
        self.inner.rows
    }

    /// Returns the number of rows that are not deleted. O(segments).
    pub fn live_rows(&self) -> u64 {
        self.segments().iter().map(Segment::live_rows).sum()
    }

    /// Returns its segments, in the order in which they were written; empty if there is no row.
    pub fn segments(&self) -> &[Segment] {
        &self.inner.segments
    }

    /// Returns the position in [`segments`](Self::segments) of the segment with this id. O(segments).
    pub fn segment_position(&self, id: u64) -> Option<usize> {
        self.segments().iter().position(|segment| segment.id() == id)
    }

    /// Returns a copy of this table with other segments, for readers that apply deletions not yet stored in
    /// the pool.
    ///
    /// # Panics
    /// If the number of segments changes.
    #[must_use]
    pub fn with_segments(&self, segments: Vec<Segment>) -> Self {
        let TableInner {
            name,
            uid,
            schema,
            defaults,
            cluster,
            encoding,
            rules,
            rows,
            stored_bytes,
            ..
        } = &*self.inner;
        assert_eq!(segments.len(), self.segments().len(), "a segment for each");
        Self::new(TableInner {
            name: name.clone(),
            uid: *uid,
            schema: Arc::clone(schema),
            defaults: Arc::clone(defaults),
            cluster: cluster.clone(),
            encoding: *encoding,
            rules: Arc::clone(rules),
            segments,
            rows: *rows,
            stored_bytes: *stored_bytes,
        })
    }

    /// Returns this table for a caller that stores what it reads, such as a copy, a merge or an index; see
    /// [`Column::for_copying`](crate::Column::for_copying).
    #[must_use]
    pub fn for_copying(&self) -> Self {
        self.with_segments(self.segments().iter().map(Segment::for_copying).collect())
    }

    /// Returns its size in bytes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.stored_bytes
    }
}
