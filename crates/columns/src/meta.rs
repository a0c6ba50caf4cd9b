//! A table's durable description: the metadata of its pool object, JSON.

use crate::error::damaged;
use crate::types::{parse_type, type_name};
use crate::{ColumnsError, Result};
use arrow_schema::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version this program writes, and the newest it reads.
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TableMeta {
    pub(crate) v: u32,
    pub(crate) columns: Vec<ColumnMeta>,
    pub(crate) segments: Vec<SegmentMeta>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ColumnMeta {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) data_type: String,
    pub(crate) nullable: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SegmentMeta {
    pub(crate) rows: u64,
    /// Extents of the object that are this segment's: its directory, then its parts.
    pub(crate) extents: usize,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: u32,
}

impl TableMeta {
    /// The description of an empty table.
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
            let data_type = type_name(field.data_type()).ok_or_else(|| ColumnsError::UnsupportedType {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
            })?;
            columns.push(ColumnMeta {
                name: field.name().clone(),
                data_type,
                nullable: field.is_nullable(),
            });
        }
        Ok(Self {
            v: VERSION,
            columns,
            segments: Vec::new(),
        })
    }

    pub(crate) fn parse(table: &str, bytes: &[u8]) -> Result<Self> {
        let wrong = |error: serde_json::Error| damaged(format!("table `{table}`"), error.to_string());
        let VersionOnly { v } = serde_json::from_slice(bytes).map_err(wrong)?;
        if v > VERSION {
            return Err(ColumnsError::NewerFormat {
                name: table.into(),
                version: v,
                supported: VERSION,
            });
        }
        serde_json::from_slice(bytes).map_err(wrong)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data always serialises")
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
}
