//! Indexes of tables, as objects of a pool.
//!
//! An index is one object `index/NAME`: JSON metadata ([`Meta`]) and extents. Each segment of the table has an Elf in an
//! extent of its own, followed by one extent for each of its columns that is stored without codes (plain strings): their
//! sorted dictionary. The other columns' code spaces are the table's own.

mod build;
mod extent;
mod rows;

pub use build::{IndexOptions, IndexStats, Order, index_table};

use crate::{Elf, ElfError, Layout, Result};
use halocline_columns::{CodeSpace, Dictionary, Segment, Table};
use halocline_pool::{ExtentBytes, Object, ObjectKind, Snapshot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

const META_VERSION: u32 = 1;

/// What the object's metadata says.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    v: u32,
    table: String,
    /// Positions in the table's schema, in the order of the tree's dimensions.
    columns: Vec<usize>,
    layout: Layout,
    /// Tells versions of the table apart: a hash over the checksums of its extents.
    table_hash: u64,
    segments: Vec<SegmentMeta>,
}

/// The part of the metadata that every version has.
#[derive(Debug, Deserialize)]
struct Version {
    v: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct SegmentMeta {
    rows: u64,
    /// Dimensions whose dictionary follows the Elf, in the order of the extents.
    dictionaries: Vec<DictionaryMeta>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct DictionaryMeta {
    dim: usize,
    has_null: bool,
}

fn object_name(index: &str) -> String {
    format!("index/{index}")
}

fn table_hash(object: &Object) -> u64 {
    let mut hash = Xxh3::new();
    for i in 0..object.extent_count() {
        let extent = object.extent_ref(i);
        hash.update(&extent.len.to_le_bytes());
        hash.update(&extent.checksum.to_le_bytes());
    }
    hash.digest()
}

/// An open index of a table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TableIndex {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    table: String,
    columns: Vec<usize>,
    layout: Layout,
    rows: u64,
    stored_bytes: u64,
    segments: Vec<IndexSegment>,
}

/// The index of one segment of the table.
#[derive(Debug)]
pub struct IndexSegment {
    elf: Elf<ExtentBytes>,
    spaces: Vec<CodeSpace>,
}

impl IndexSegment {
    /// The tree; its TIDs are row numbers of the segment.
    pub fn elf(&self) -> &Elf<ExtentBytes> {
        &self.elf
    }

    /// The code space of a dimension, in the order of the tree.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn space(&self, dim: usize) -> &CodeSpace {
        &self.spaces[dim]
    }

    /// The code spaces of all dimensions, in the order of the tree.
    pub fn spaces(&self) -> &[CodeSpace] {
        &self.spaces
    }
}

impl TableIndex {
    /// Opens index `name` with its table. Nothing is read but headers: O(segments * columns).
    ///
    /// # Errors
    /// [`ElfError::NoSuchIndex`], [`ElfError::DamagedMeta`], [`ElfError::NewerVersion`], [`ElfError::Stale`] if the table
    /// was replaced since, [`ElfError::Damaged`], [`ElfError::Pool`], [`ElfError::Columns`].
    pub fn open(snapshot: &Snapshot, name: &str) -> Result<Self> {
        let object = snapshot
            .get(&object_name(name))
            .filter(|object| object.kind() == ObjectKind::INDEX)
            .ok_or_else(|| ElfError::NoSuchIndex { name: name.into() })?;
        let damaged = |reason: &str| ElfError::DamagedMeta {
            name: name.into(),
            reason: reason.into(),
        };
        let damaged_json = |error: serde_json::Error| damaged(&error.to_string());
        let Version { v } = serde_json::from_slice(object.meta()).map_err(damaged_json)?;
        if v > META_VERSION {
            return Err(ElfError::NewerVersion {
                found: v as u16,
                supported: META_VERSION as u16,
            });
        }
        let meta: Meta = serde_json::from_slice(object.meta()).map_err(damaged_json)?;
        let table = Table::open(snapshot, &meta.table)?;
        let stale = || ElfError::Stale {
            name: name.into(),
            table: meta.table.clone(),
        };
        let table_object = snapshot.get(&format!("table/{}", meta.table)).ok_or_else(stale)?;
        if table_hash(&table_object) != meta.table_hash || table.segments().len() != meta.segments.len() {
            return Err(stale());
        }
        if meta
            .columns
            .iter()
            .any(|&column| column >= table.schema().fields().len())
        {
            return Err(damaged("a column is beyond the table's schema"));
        }
        let mut extents = 0..object.extent_count();
        let mut extent = || -> Result<ExtentBytes> {
            Ok(object.extent(extents.next().ok_or_else(|| damaged("extents are missing"))?)?)
        };
        let mut segments = vec![];
        for (segment, of_table) in meta.segments.iter().zip(table.segments()) {
            let elf = Elf::open(extent()?)?;
            if elf.rows() != segment.rows
                || segment.rows != of_table.rows() as u64
                || elf.dims() != meta.columns.len()
            {
                return Err(damaged("rows or columns differ from the index's bytes"));
            }
            let mut own = vec![None; elf.dims()];
            for dictionary in &segment.dictionaries {
                let bytes = extent()?;
                let len = bytes.len();
                let slot = own
                    .get_mut(dictionary.dim)
                    .ok_or_else(|| damaged("a dictionary has no column"))?;
                *slot = Some((Dictionary::open(bytes, 0..len)?, dictionary.has_null));
            }
            let spaces = meta
                .columns
                .iter()
                .zip(own)
                .map(|(&column, own)| space(of_table, column, own));
            let spaces = spaces.collect::<Result<Vec<_>>>()?;
            if spaces
                .iter()
                .enumerate()
                .any(|(dim, space)| space.max_code() > elf.max_code(dim))
            {
                return Err(damaged("codes of the table are beyond those of the index"));
            }
            segments.push(IndexSegment { elf, spaces });
        }
        Ok(Self {
            inner: Arc::new(Inner {
                name: name.into(),
                rows: meta.segments.iter().map(|segment| segment.rows).sum(),
                stored_bytes: object.bytes(),
                table: meta.table,
                columns: meta.columns,
                layout: meta.layout,
                segments,
            }),
        })
    }

    /// Names of all indexes of a snapshot.
    pub fn names(snapshot: &Snapshot) -> Vec<String> {
        let indexes = snapshot
            .objects()
            .filter(|object| object.kind() == ObjectKind::INDEX);
        indexes
            .filter_map(|object| Some(object.name().strip_prefix("index/")?.to_owned()))
            .collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Name of its table.
    pub fn table(&self) -> &str {
        &self.inner.table
    }

    /// The indexed columns as positions in the table's schema, in the order of the tree's dimensions.
    pub fn columns(&self) -> &[usize] {
        &self.inner.columns
    }

    /// How the lists are laid out.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Rows of all segments.
    pub fn rows(&self) -> u64 {
        self.inner.rows
    }

    /// Bytes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.stored_bytes
    }

    /// One index for each segment of the table, in the same order.
    pub fn segments(&self) -> &[IndexSegment] {
        &self.inner.segments
    }

    /// Verifies every invariant of every segment's index; reads everything.
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

fn space(segment: &Segment, column: usize, own: Option<(Dictionary, bool)>) -> Result<CodeSpace> {
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
