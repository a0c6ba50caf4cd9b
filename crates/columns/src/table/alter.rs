//! Changing a table without writing rows: making, emptying and renaming it, deleting rows.
//!
//! Every function changes the transaction's table only; the commit publishes it. What a table keeps, it
//! shares with its earlier versions: nothing is copied.

use crate::error::damaged;
use crate::format::meta::{TableMeta, object_name};
use crate::table::defaults::DefaultMeta;
use crate::table::deletions;
use crate::table::table_edit::TableEdit;
use crate::write::writer::storable;
use crate::{ColumnsError, Result, TableEncoding};
use arrow_array::ArrayRef;
use arrow_schema::Schema;
use halocline_pool::Txn;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// Properties of a table beside its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Names of the columns by which rows are sorted when they are written, the first one first.
    pub cluster: Option<Vec<String>>,
    /// How its values are stored.
    pub encoding: TableEncoding,
}

/// Makes a table without rows.
///
/// # Errors
/// [`ColumnsError::TableExists`], [`ColumnsError::UnsupportedType`], [`ColumnsError::DuplicateColumn`],
/// [`ColumnsError::NoSuchColumn`] (of the clustering), [`ColumnsError::Pool`].
pub fn create_table(txn: &Txn, name: &str, schema: &Schema, properties: &TableProperties) -> Result<()> {
    check_free(txn, name)?;
    let mut edit = TableEdit::new(name, TableMeta::new(&storable(schema))?);
    edit.cluster_by(properties.cluster.as_deref())?;
    edit.meta.set_encoding(properties.encoding);
    edit.put(txn)
}

/// Sets or takes away the columns by which rows are sorted when they are written. Rows that are there stay
/// where they are until a compaction.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::NoSuchColumn`], [`ColumnsError::DuplicateColumn`],
/// [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
pub fn set_cluster(txn: &Txn, name: &str, cluster: Option<&[String]>) -> Result<()> {
    let mut edit = TableEdit::load(txn, name)?;
    edit.cluster_by(cluster)?;
    edit.put(txn)
}

/// Takes all rows of a table away, and leaves the table.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
pub fn truncate(txn: &Txn, name: &str) -> Result<()> {
    let mut edit = TableEdit::load(txn, name)?;
    edit.segments.clear();
    edit.put(txn)
}

/// Gives a table another name; its uid stays.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::TableExists`], [`ColumnsError::Damaged`],
/// [`ColumnsError::Pool`].
pub fn rename_table(txn: &Txn, from: &str, to: &str) -> Result<()> {
    let edit = TableEdit::load(txn, from)?;
    check_free(txn, to)?;
    edit.renamed(to).put(txn)?;
    Ok(txn.remove(&object_name(from))?)
}

/// Gives a column another name, also in the clustering.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::NoSuchColumn`], [`ColumnsError::DuplicateColumn`],
/// [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
pub fn rename_column(txn: &Txn, table: &str, from: &str, to: &str) -> Result<()> {
    let mut edit = TableEdit::load(txn, table)?;
    let column = edit.column(from)?;
    edit.check_new_column(to)?;
    edit.meta.columns[column].name = to.into();
    let cluster = edit.meta.cluster.iter_mut().flatten();
    for name in cluster.filter(|name| *name == from) {
        *name = to.into();
    }
    edit.put(txn)
}

/// A column of a table after [`redefine_columns`].
#[derive(Debug, Clone)]
pub struct ColumnRedefinition {
    /// Its name.
    pub name: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// Its default, as [`set_default`](crate::set_default) takes it.
    pub default: Option<ArrayRef>,
}

/// Gives the columns of a table other names, also in the clustering, and other defaults, and decides which
/// ones may be NULL. `columns` are all columns in their order. The caller has looked whether rows that are
/// there, the deleted ones among them, are NULL in a column that is to be NOT NULL.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::DuplicateColumn`], [`ColumnsError::TypeMismatch`],
/// [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
///
/// # Panics
/// If `columns` are not as many as those of the table, or a default is not of length 1.
pub fn redefine_columns(txn: &Txn, table: &str, columns: &[ColumnRedefinition]) -> Result<()> {
    let mut edit = TableEdit::load(txn, table)?;
    let schema = edit.schema()?;
    assert_eq!(columns.len(), edit.meta.columns.len(), "one for each column");
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Err(ColumnsError::DuplicateColumn {
                column: column.name.clone(),
            });
        }
        let default = column.default.as_ref();
        let default = default.map(|value| DefaultMeta::from_array(schema.field(at), value));
        let meta = &mut edit.meta.columns[at];
        meta.name.clone_from(&column.name);
        meta.nullable = column.nullable;
        meta.default = default.transpose()?.flatten();
    }
    for name in edit.meta.cluster.iter_mut().flatten() {
        if let Ok(at) = schema.index_of(name) {
            name.clone_from(&columns[at].name);
        }
    }
    edit.put(txn)
}

/// Deletes rows, given for each segment id. Returns how many were not deleted before. A segment without rows
/// left goes. O(segments + deleted rows): the rows stay where they are until a compaction.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::NoSuchSegment`], [`ColumnsError::NoSuchRow`],
/// [`ColumnsError::Damaged`], [`ColumnsError::Pool`]; the transaction's table is as before.
pub fn delete_rows(txn: &Txn, name: &str, rows: &BTreeMap<u64, RoaringBitmap>) -> Result<u64> {
    let mut edit = TableEdit::load(txn, name)?;
    let mut newly = 0;
    for (&id, deleted) in rows {
        let position = edit.position(id)?;
        let segment = &mut edit.segments[position];
        if let Some(row) = deleted.max().filter(|&row| u64::from(row) >= segment.meta.rows) {
            return Err(ColumnsError::NoSuchRow {
                table: name.into(),
                segment: id,
                row: row.into(),
                rows: segment.meta.rows,
            });
        }
        let before = match segment.extents.last() {
            Some(extent) if segment.meta.deleted > 0 => {
                let place = format!("table `{name}`, segment {id}");
                let bytes = txn.extent(extent)?;
                if crate::format::checksum(&bytes) != extent.checksum {
                    return Err(damaged(place, "the deleted rows do not match their checksum"));
                }
                deletions::parse(&place, &bytes, segment.meta.rows, segment.meta.deleted)?
            }
            _ => RoaringBitmap::new(),
        };
        let mut all = &before | deleted;
        if all.len() == before.len() {
            continue;
        }
        newly += all.len() - before.len();
        if segment.meta.deleted > 0 {
            segment.extents.pop();
        }
        segment.meta.deleted = all.len();
        if all.len() == segment.meta.rows {
            edit.segments.remove(position);
        } else {
            all.optimize();
            segment.extents.push(deletions::write(txn, &all)?);
        }
    }
    if newly > 0 {
        edit.put(txn)?;
    }
    Ok(newly)
}

fn check_free(txn: &Txn, name: &str) -> Result<()> {
    match txn.get(&object_name(name)) {
        Some(_) => Err(ColumnsError::TableExists { name: name.into() }),
        None => Ok(()),
    }
}

impl TableEdit {
    fn cluster_by(&mut self, cluster: Option<&[String]>) -> Result<()> {
        let cluster = cluster.filter(|columns| !columns.is_empty());
        for (i, name) in cluster.iter().copied().flatten().enumerate() {
            self.column(name)?;
            if cluster.is_some_and(|columns| columns[..i].contains(name)) {
                return Err(ColumnsError::DuplicateColumn { column: name.clone() });
            }
        }
        self.meta.cluster = cluster.map(<[String]>::to_vec);
        Ok(())
    }

    /// Checks that the table has no column `name`.
    ///
    /// # Errors
    /// [`ColumnsError::DuplicateColumn`].
    pub(crate) fn check_new_column(&self, name: &str) -> Result<()> {
        if self.meta.columns.iter().any(|column| column.name == name) {
            return Err(ColumnsError::DuplicateColumn { column: name.into() });
        }
        Ok(())
    }
}
