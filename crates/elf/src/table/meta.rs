//! Metadata of an index's object: JSON, and the extents of each segment of the table.

use crate::table::Order;
use crate::{ElfError, Layout, Result};
use halocline_columns::{Table, uid_of_version_1};
use halocline_pool::{ExtentRef, Object, ObjectKind, Txn};
use serde::{Deserialize, Serialize};
use std::ops::Range;

const VERSION: u32 = 2;

/// An index's metadata.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IndexMeta {
    v: u32,
    pub(super) table: String,
    /// Identity of the table, whatever its name.
    #[serde(default)]
    pub(super) table_uid: u64,
    /// Positions in the table's schema, in the order of the tree's dimensions.
    pub(super) columns: Vec<usize>,
    pub(super) layout: Layout,
    /// Rule by which the order was chosen.
    #[serde(default)]
    pub(super) order: Order,
    /// Version 1: a hash over the table's extents, instead of `table_uid`.
    #[serde(default, skip_serializing)]
    table_hash: u64,
    pub(super) segments: Vec<IndexSegmentMeta>,
    /// Requested placement in its text form; `None` for slow-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) placement: Option<String>,
    /// Limit in bytes of DRAM for the placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dram: Option<u64>,
}

/// The field of the metadata that every version has.
#[derive(Debug, Deserialize)]
struct MetaVersion {
    v: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct IndexSegmentMeta {
    /// Id of the table's segment.
    #[serde(default)]
    pub(super) segment: u64,
    pub(super) rows: u64,
    /// Dimensions whose dictionary follows the Elf, in the order of the extents.
    pub(super) dictionaries: Vec<DictionaryMeta>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct DictionaryMeta {
    pub(super) dim: usize,
    pub(super) has_null: bool,
}

/// Returns the name of an index's object in the pool.
pub(super) fn object_name(index: &str) -> String {
    format!("index/{index}")
}

pub(super) fn damaged(index: &str, reason: impl Into<String>) -> ElfError {
    ElfError::DamagedMeta {
        name: index.into(),
        reason: reason.into(),
    }
}

impl IndexMeta {
    /// Creates the metadata of an index without segments.
    pub(super) fn new(
        table: &str,
        table_uid: u64,
        columns: Vec<usize>,
        layout: Layout,
        order: Order,
    ) -> Self {
        Self {
            v: VERSION,
            table: table.into(),
            table_uid,
            columns,
            layout,
            order,
            table_hash: 0,
            segments: vec![],
            placement: None,
            dram: None,
        }
    }

    /// Reads the metadata of index `name` from its object.
    ///
    /// # Errors
    /// [`ElfError::NoSuchIndex`], [`ElfError::NewerVersion`], [`ElfError::DamagedMeta`].
    pub(super) fn of_object(object: Option<Object>, name: &str) -> Result<(Object, Self)> {
        let object = object
            .filter(|object| object.kind() == ObjectKind::INDEX)
            .ok_or_else(|| ElfError::NoSuchIndex { name: name.into() })?;
        let wrong = |error: serde_json::Error| damaged(name, error.to_string());
        let MetaVersion { v } = serde_json::from_slice(object.meta()).map_err(wrong)?;
        if v > VERSION {
            return Err(ElfError::NewerVersion {
                found: v as u16,
                supported: VERSION as u16,
            });
        }
        let mut meta: Self = serde_json::from_slice(object.meta()).map_err(wrong)?;
        if v < 2 {
            // Version 1 identified the table by a hash, and numbered its segments from 0.
            meta.table_uid = uid_of_version_1(&meta.table, meta.table_hash);
            meta.order = Order::Given;
            (0u64..)
                .zip(&mut meta.segments)
                .for_each(|(id, segment)| segment.segment = id);
        }
        if meta.columns.is_empty() {
            return Err(damaged(name, "it has no columns"));
        }
        meta.v = VERSION;
        Ok((object, meta))
    }

    /// Checks that the index is on this table and names columns that it has.
    ///
    /// # Errors
    /// [`ElfError::Stale`], [`ElfError::DamagedMeta`].
    pub(super) fn check_table(&self, name: &str, table: &Table) -> Result<()> {
        if table.uid() != self.table_uid {
            return Err(ElfError::Stale {
                name: name.into(),
                table: self.table.clone(),
            });
        }
        let columns = table.schema().fields().len();
        if self.columns.iter().any(|&column| column >= columns) {
            Err(damaged(name, "a column is beyond the table's schema"))
        } else {
            Ok(())
        }
    }

    /// Returns the range of the object's extents that each segment has: its Elf, then its dictionaries.
    ///
    /// # Errors
    /// [`ElfError::DamagedMeta`].
    pub(super) fn extent_ranges(&self, name: &str, extents: usize) -> Result<Vec<Range<usize>>> {
        let mut end = 0;
        let ranges = self.segments.iter().map(|segment| {
            let start = end;
            end += 1 + segment.dictionaries.len();
            start..end
        });
        let ranges = ranges.collect();
        if end != extents {
            return Err(damaged(name, "it does not name all of its extents, or more"));
        }
        Ok(ranges)
    }

    /// Puts the index into the transaction.
    ///
    /// # Errors
    /// [`ElfError::Pool`].
    pub(super) fn put(&self, txn: &Txn, name: &str, extents: Vec<ExtentRef>) -> Result<()> {
        let meta = serde_json::to_vec(self).map_err(|error| ElfError::Write(error.into()))?;
        Ok(txn.put(&object_name(name), ObjectKind::INDEX, &meta, extents)?)
    }
}
