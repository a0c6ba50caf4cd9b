//! A table's durable description: the metadata of its pool object, JSON.
//!
//! Invariants: segment ids are distinct and below `next_segment`, so that no id is ever given twice; the uid
//! is not 0.

use crate::error::damaged;
use crate::format::{FORMAT_MARKED, FORMAT_PACKED, FORMAT_WIDE};
use crate::table::defaults::DefaultMeta;
use crate::table::rules::{StoredRules, TableRule};
use crate::types::{parse_type, type_name};
use crate::{ColumnsError, Result, TableEncoding};
use arrow_array::ArrayRef;
use arrow_schema::{Field, Schema, SchemaRef};
use halocline_pool::{Object, ObjectKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;
use xxhash_rust::xxh3::Xxh3;

/// The newest version this program reads: that of tables with rules for their rows.
pub(crate) const VERSION: u32 = 7;
/// Version of other tables with decimals of more than 64 bits, in segments of the fourth format or as a
/// default.
const WIDE: u32 = 6;
/// Version of other tables with segments of the third format.
const MARKED: u32 = 5;
/// Version of other tables with segments of a format beyond the first, or an encoding.
const ENCODED: u32 = 4;
/// Version of other tables with defaults.
const WITH_DEFAULTS: u32 = 3;
/// Version of all others.
const PLAIN: u32 = 2;

/// Returns the name of a table's object in the pool.
pub(crate) fn object_name(table: &str) -> String {
    format!("table/{table}")
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TableMeta {
    pub(crate) v: u32,
    /// Tells tables apart, whatever their names.
    #[serde(default)]
    pub(crate) uid: u64,
    /// Id of the segment that is written next.
    #[serde(default)]
    pub(crate) next_segment: u64,
    pub(crate) columns: Vec<ColumnMeta>,
    /// Columns by which rows are sorted when they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<Vec<String>>,
    /// How values are stored, if not as chosen chunk by chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// Rules that the rows obey.
    #[serde(default, skip_serializing_if = "StoredRules::is_empty")]
    pub(crate) rules: StoredRules,
    pub(crate) segments: Vec<SegmentMeta>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ColumnMeta {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) data_type: String,
    pub(crate) nullable: bool,
    /// The default value, for statements that give none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<DefaultMeta>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SegmentMeta {
    #[serde(default)]
    pub(crate) id: u64,
    pub(crate) rows: u64,
    /// Extents of the object that are this segment's: its directory, its parts, and its deleted rows if
    /// there are any.
    pub(crate) extents: usize,
    /// Rows that are deleted.
    #[serde(default)]
    pub(crate) deleted: u64,
    /// A `FORMAT_` constant: which encodings its chunks may have, and how decimals may be stored.
    #[serde(default = "packed", skip_serializing_if = "is_packed")]
    pub(crate) format: u32,
}

fn packed() -> u32 {
    FORMAT_PACKED
}

fn is_packed(format: &u32) -> bool {
    *format == FORMAT_PACKED
}

/// Greatest number that the next segment may have: ids are never used again, so that they must not run out.
const MAX_SEGMENT: u64 = u64::MAX / 2;

#[derive(Deserialize)]
struct VersionOnly {
    v: u32,
}

impl ColumnMeta {
    /// Creates the description of a column without a default.
    ///
    /// # Errors
    /// [`ColumnsError::UnsupportedType`].
    pub(crate) fn new(field: &Field) -> Result<Self> {
        let data_type = type_name(field.data_type()).ok_or_else(|| ColumnsError::UnsupportedType {
            column: field.name().clone(),
            data_type: field.data_type().clone(),
        })?;
        Ok(Self {
            name: field.name().clone(),
            data_type,
            nullable: field.is_nullable(),
            default: None,
        })
    }
}

impl TableMeta {
    /// Creates the description of an empty table, with a new uid.
    ///
    /// # Errors
    /// [`ColumnsError::UnsupportedType`], [`ColumnsError::DuplicateColumn`].
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        let mut columns: Vec<ColumnMeta> = Vec::new();
        for field in schema.fields() {
            if columns.iter().any(|column| column.name == *field.name()) {
                return Err(ColumnsError::DuplicateColumn {
                    column: field.name().clone(),
                });
            }
            columns.push(ColumnMeta::new(field)?);
        }
        Ok(Self {
            v: PLAIN,
            uid: new_uid(),
            next_segment: 0,
            columns,
            cluster: None,
            encoding: None,
            rules: StoredRules::default(),
            segments: Vec::new(),
        })
    }

    /// Parses the description of table `name` from its object, and returns both.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`], [`ColumnsError::NewerFormat`], [`ColumnsError::Damaged`].
    pub(crate) fn of_object(object: Option<Object>, name: &str) -> Result<(Object, Self)> {
        let object = object
            .filter(|object| object.kind() == ObjectKind::TABLE)
            .ok_or_else(|| ColumnsError::NoSuchTable { name: name.into() })?;
        let meta = Self::parse(name, &object)?;
        Ok((object, meta))
    }

    fn parse(table: &str, object: &Object) -> Result<Self> {
        let place = || format!("table `{table}`");
        let wrong = |error: serde_json::Error| damaged(place(), error.to_string());
        let VersionOnly { v } = serde_json::from_slice(object.meta()).map_err(wrong)?;
        if v > VERSION {
            return Err(ColumnsError::NewerFormat {
                name: table.into(),
                version: v,
                supported: VERSION,
            });
        }
        let mut meta: Self = serde_json::from_slice(object.meta()).map_err(wrong)?;
        if v < 2 {
            meta.uid = uid_of_version_1(table, extents_hash(object));
            meta.next_segment = meta.segments.len() as u64;
            (0u64..)
                .zip(&mut meta.segments)
                .for_each(|(id, segment)| segment.id = id);
        }
        if let Some(segment) = meta.segments.iter().find(|segment| segment.format > FORMAT_WIDE) {
            let what = format!("segment {} has the unknown format {}", segment.id, segment.format);
            return Err(damaged(place(), what));
        }
        meta.encoding().map_err(|what| damaged(place(), what))?;
        let ids: BTreeSet<u64> = meta.segments.iter().map(|segment| segment.id).collect();
        let above = ids.last().is_some_and(|&last| last >= meta.next_segment);
        let no_more = meta.next_segment > MAX_SEGMENT;
        if meta.uid == 0 || above || no_more || ids.len() != meta.segments.len() {
            return Err(damaged(place(), "its numbers contradict each other"));
        }
        Ok(meta)
    }

    /// Encodes the description in the oldest version that can express all of it, and sets `v` to that
    /// version. Older programs that do not know defaults would lose them, or write rows that disobey the
    /// rules; those that do not know an encoding, or decimals stored as strings, would report damage.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        let has_default = self.columns.iter().any(|column| column.default.is_some());
        let defaults = self.columns.iter().filter_map(|column| column.default.as_ref());
        let mut defaults = defaults.map(DefaultMeta::is_wide);
        let newest = self.segments.iter().map(|segment| segment.format).max();
        self.v = match newest.unwrap_or(FORMAT_PACKED) {
            _ if !self.rules.is_empty() => VERSION,
            FORMAT_WIDE.. => WIDE,
            _ if defaults.any(|wide| wide) => WIDE,
            FORMAT_MARKED => MARKED,
            format if format > FORMAT_PACKED || self.encoding.is_some() => ENCODED,
            _ if has_default => WITH_DEFAULTS,
            _ => PLAIN,
        };
        serde_json::to_vec(self).expect("plain data always serialises")
    }

    /// Returns how values are stored.
    ///
    /// # Errors
    /// If the encoding is unknown, which [`of_object`](Self::of_object) rules out.
    pub(crate) fn encoding(&self) -> std::result::Result<TableEncoding, String> {
        let name = self.encoding.as_deref();
        name.map_or(Ok(TableEncoding::default()), str::parse)
    }

    /// Decides how values are stored from now on.
    pub(crate) fn set_encoding(&mut self, encoding: TableEncoding) {
        self.encoding = (encoding != TableEncoding::default()).then(|| encoding.name().to_owned());
    }

    /// Decodes the rules that the rows obey.
    ///
    /// # Errors
    /// [`ColumnsError::NewerFormat`] if this program does not know one.
    pub(crate) fn rules(&self, table: &str) -> Result<Vec<TableRule>> {
        self.rules.decode().ok_or_else(|| ColumnsError::NewerFormat {
            name: table.into(),
            version: self.v + 1,
            supported: VERSION,
        })
    }

    pub(crate) fn schema(&self, table: &str) -> Result<SchemaRef> {
        let fields = self.columns.iter().map(|column| {
            let data_type = parse_type(&column.data_type).ok_or_else(|| {
                damaged(
                    format!("table `{table}`, column `{}`", column.name),
                    format!("unknown type `{}`", column.data_type),
                )
            })?;
            Ok(Field::new(&column.name, data_type, column.nullable))
        });
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }

    /// Decodes the default of each column, as [`Table::default_value`](crate::Table::default_value) returns
    /// it. `schema` is the table's own.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn defaults(&self, table: &str, schema: &Schema) -> Result<Vec<Option<ArrayRef>>> {
        let of_column = |(column, field): (&ColumnMeta, &Arc<Field>)| {
            let place = || format!("table `{table}`, column `{}`", column.name);
            let default = column.default.as_ref();
            default
                .map(|default| default.value(&place(), field.data_type()))
                .transpose()
        };
        self.columns.iter().zip(schema.fields()).map(of_column).collect()
    }

    /// Returns the range of the object's `extents` extents that belongs to each segment.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn extent_ranges(&self, table: &str, extents: usize) -> Result<Vec<Range<usize>>> {
        let mut end = 0;
        let mut ranges = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            let start = end;
            end = start + segment.extents.min(extents + 1);
            let needed = 1 + usize::from(segment.deleted > 0);
            if segment.extents < needed || end > extents {
                return Err(damaged(
                    format!("table `{table}`, segment {}", segment.id),
                    "lacks extents",
                ));
            }
            ranges.push(start..end);
        }
        if end != extents {
            return Err(damaged(
                format!("table `{table}`"),
                "has extents that no segment names",
            ));
        }
        Ok(ranges)
    }
}

/// Generates a nonzero table identifier, unique with overwhelming probability.
fn new_uid() -> u64 {
    RandomState::new()
        .hash_one((std::process::id(), SystemTime::now()))
        .max(1)
}

/// Computes the xxh3 hash of the length and checksum of each extent of an object.
fn extents_hash(object: &Object) -> u64 {
    let mut hash = Xxh3::new();
    for i in 0..object.extent_count() {
        let extent = object.extent_ref(i);
        hash.update(&extent.len.to_le_bytes());
        hash.update(&extent.checksum.to_le_bytes());
    }
    hash.digest()
}

/// Returns the identifier of a table that a version 1 program wrote: `hash` is the xxh3 hash of the length
/// and checksum of each of its extents, as version 1 indexes store it.
pub fn uid_of_version_1(name: &str, hash: u64) -> u64 {
    let bytes = [name.as_bytes(), &hash.to_le_bytes()].concat();
    crate::format::checksum(&bytes).max(1)
}
