//! Indexes of tables, as objects of a pool.
//!
//! An index is one object `index/NAME`: JSON metadata and extents. Each segment of the table has an Elf in an
//! extent of its own, followed by one extent for each of its columns that is stored without codes (plain
//! strings): their sorted dictionary. The other columns' code spaces are the table's own. Segments are
//! identified by their ids, so an index stays correct when its table gains or loses segments: it then lacks
//! some, or has some that are ignored.
//!
//! The object of a volatile index has no extents; its trees are in DRAM (volatile.rs).

mod build;
mod cancel;
mod extent;
mod keep;
mod memory;
mod meta;
mod place;
mod placement;
mod refresh;
mod residency;
mod rows;
mod volatile;

pub use build::{IndexOptions, IndexStats, Order, index_table};
pub use keep::KeptCopies;
pub use placement::place_index;
pub use refresh::{RefreshStats, indexed_table, rebuild_index, refresh_index, rename_index_table};
pub use volatile::{KeptTrees, VolatileTrees, define_index};

use crate::table::meta::{IndexMeta, damaged, object_name};
use crate::{Elf, ElfError, Layout, PlaceOptions, Result};
use halocline_cache::CacheError;
use halocline_columns::{CodeSpace, Dictionary, Segment, Table};
use halocline_pool::{ExtentBytes, ExtentRef, Object, ObjectKind, Snapshot, Txn};
use std::ops::Range;
use std::sync::Arc;

/// An open index of a table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TableIndex {
    inner: Arc<IndexState>,
}

#[derive(Debug, Clone)]
struct IndexState {
    name: String,
    table: String,
    table_uid: u64,
    columns: Vec<usize>,
    layout: Layout,
    order: Order,
    rows: u64,
    stored_bytes: u64,
    complete: bool,
    wanted: std::result::Result<PlaceOptions, CacheError>,
    segments: Vec<IndexSegment>,
}

/// The index of one segment of the table.
#[derive(Debug, Clone)]
pub struct IndexSegment {
    id: u64,
    /// Location and checksum of the tree's bytes; `None` if they are in DRAM.
    extent: Option<ExtentRef>,
    elf: Elf<ExtentBytes>,
    spaces: Vec<CodeSpace>,
}

impl IndexSegment {
    /// Returns the id of the table's segment.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the tree; its TIDs are row numbers of the segment, including deleted rows.
    pub fn elf(&self) -> &Elf<ExtentBytes> {
        &self.elf
    }

    /// Returns the code space of a dimension, in the order of the tree.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn space(&self, dim: usize) -> &CodeSpace {
        &self.spaces[dim]
    }

    /// Returns the code spaces of all dimensions, in the order of the tree.
    pub fn spaces(&self) -> &[CodeSpace] {
        &self.spaces
    }
}

impl TableIndex {
    /// Opens index `name` with its table. Reads headers only: O(segments * columns).
    ///
    /// # Errors
    /// [`ElfError::NoSuchIndex`], [`ElfError::DamagedMeta`], [`ElfError::NewerVersion`], [`ElfError::Stale`]
    /// if the table was replaced since, [`ElfError::Damaged`], [`ElfError::Pool`], [`ElfError::Columns`].
    pub fn open(snapshot: &Snapshot, name: &str) -> Result<Self> {
        let (object, meta) = IndexMeta::of_object(snapshot.get(&object_name(name)), name)?;
        let table = Table::open(snapshot, &meta.table)?;
        Self::of_object(name, &object, meta, &table)
    }

    /// Opens index `name` with its table as a transaction sees them, including its own writes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in(txn: &Txn, name: &str) -> Result<Self> {
        let (object, meta) = IndexMeta::of_object(txn.get(&object_name(name)), name)?;
        let table = Table::open_in(txn, &meta.table)?;
        Self::of_object(name, &object, meta, &table)
    }

    fn of_object(name: &str, object: &Object, meta: IndexMeta, table: &Table) -> Result<Self> {
        meta.check_table(name, table)?;
        let ranges = meta.extent_ranges(name, object.extent_count())?;
        let mut segments = vec![];
        let volatile = meta.is_volatile();
        let stored = if volatile { &[] } else { table.segments() };
        for of_table in stored {
            let position = meta.segments.iter().position(|s| s.segment == of_table.id());
            if let Some(position) = position {
                let extents = ranges[position].clone();
                segments.push(IndexSegment::open(
                    name, object, &meta, position, extents, of_table,
                )?);
            }
        }
        Ok(Self {
            inner: Arc::new(IndexState {
                name: name.into(),
                rows: if volatile {
                    table.rows()
                } else {
                    segments.iter().map(|segment| segment.elf.rows()).sum()
                },
                complete: segments.len() == table.segments().len(),
                stored_bytes: object.bytes(),
                wanted: meta.wanted(),
                table: meta.table,
                table_uid: meta.table_uid,
                columns: meta.columns,
                layout: meta.layout,
                order: meta.order,
                segments,
            }),
        })
    }

    /// Returns the names of all indexes of a snapshot.
    pub fn names(snapshot: &Snapshot) -> Vec<String> {
        let indexes = snapshot
            .objects()
            .filter(|object| object.kind() == ObjectKind::INDEX);
        indexes
            .filter_map(|object| Some(object.name().strip_prefix("index/")?.to_owned()))
            .collect()
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the name of its table.
    pub fn table(&self) -> &str {
        &self.inner.table
    }

    /// Returns the indexed columns as positions in the table's schema, in the order of the tree's dimensions.
    pub fn columns(&self) -> &[usize] {
        &self.inner.columns
    }

    /// Returns the layout of the lists.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Returns the rows of all indexed segments (of all segments, if the index is volatile), including
    /// deleted rows.
    pub fn rows(&self) -> u64 {
        self.inner.rows
    }

    /// Returns the bytes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.stored_bytes
    }

    /// Returns true if every segment of the table is indexed. A volatile index is complete once its trees are
    /// built.
    pub fn is_complete(&self) -> bool {
        self.inner.complete
    }

    /// Returns true if the rows of every indexed segment are in the order of the index, so that selections
    /// are ranges of rows.
    pub fn is_clustered(&self) -> bool {
        let mut segments = self.segments().iter();
        !self.segments().is_empty() && segments.all(|segment| segment.elf.is_clustered())
    }

    /// Returns the indexes of the table's segments in the order of the table: one for each of
    /// [`Table::segments`] if the index [is complete](Self::is_complete).
    pub fn segments(&self) -> &[IndexSegment] {
        &self.inner.segments
    }

    /// Returns the index of the table's segment with this id. O(segments).
    pub fn segment(&self, id: u64) -> Option<&IndexSegment> {
        self.segments().iter().find(|segment| segment.id == id)
    }

    /// Verifies every invariant of every segment's index. Reads everything.
    ///
    /// # Errors
    /// [`ElfError::Damaged`] with the first damage; [`ElfError::Columns`] for a damaged dictionary.
    pub fn check(&self) -> Result<()> {
        for segment in self.segments() {
            segment.elf.check()?;
            for dictionary in segment.spaces.iter().filter_map(CodeSpace::dictionary) {
                dictionary.check()?;
            }
        }
        Ok(())
    }
}

impl IndexSegment {
    fn open(
        name: &str,
        object: &Object,
        meta: &IndexMeta,
        position: usize,
        mut extents: Range<usize>,
        of_table: &Segment,
    ) -> Result<Self> {
        let tree = extents.start;
        let mut extent = || -> Result<ExtentBytes> {
            let next = extents
                .next()
                .ok_or_else(|| damaged(name, "extents are missing"))?;
            Ok(object.extent(next)?)
        };
        let segment = &meta.segments[position];
        let elf = Elf::open(extent()?)?;
        if elf.rows() != segment.rows || elf.dims() != meta.columns.len() {
            return Err(damaged(name, "rows or columns differ from the index's bytes"));
        }
        let mut own = vec![None; elf.dims()];
        for dictionary in &segment.dictionaries {
            let bytes = extent()?;
            let len = bytes.len();
            let slot = own
                .get_mut(dictionary.dim)
                .ok_or_else(|| damaged(name, "a dictionary has no column"))?;
            let place = format!("index `{name}`, dictionary of dimension {}", dictionary.dim);
            *slot = Some((Dictionary::open_at(bytes, 0..len, place)?, dictionary.has_null));
        }
        let extent = Some(object.extent_ref(tree));
        Self::of_tree(name, of_table, &meta.columns, elf, own, extent)
    }

    /// Creates the index of a segment from its tree and, for each dimension, the dictionary made for it, if
    /// there is one.
    fn of_tree(
        name: &str,
        of_table: &Segment,
        columns: &[usize],
        elf: Elf<ExtentBytes>,
        own: Vec<Option<OwnDictionary>>,
        extent: Option<ExtentRef>,
    ) -> Result<Self> {
        if elf.rows() != of_table.rows() as u64 {
            return Err(damaged(name, "rows of the table differ from those of the index"));
        }
        let columns = columns.iter().zip(own);
        let spaces = columns.map(|(&column, own)| space(of_table, column, own));
        let spaces = spaces.collect::<Result<Vec<_>>>()?;
        let mut dims = spaces.iter().enumerate();
        if dims.any(|(dim, space)| space.max_code() > elf.max_code(dim)) {
            return Err(damaged(name, "codes of the table are beyond those of the index"));
        }
        Ok(Self {
            id: of_table.id(),
            extent,
            elf,
            spaces,
        })
    }
}

/// A dictionary made for the index, and a flag that is true if the column has NULLs.
type OwnDictionary = (Dictionary, bool);

fn space(segment: &Segment, column: usize, own: Option<OwnDictionary>) -> Result<CodeSpace> {
    let column = segment.column(column);
    match (own, column.code_space()) {
        (Some((dictionary, has_null)), _) => Ok(CodeSpace::from_dictionary(
            column.data_type(),
            dictionary,
            has_null,
        )?),
        (None, Some(space)) => Ok(space.clone()),
        (None, None) => Err(ElfError::NotIndexable {
            column: column.name().into(),
            reason: "the table has no codes for it and the index no dictionary",
        }),
    }
}
