//! A new column of a table that has rows: the same value, or NULL, in all of them.
//!
//! Each segment gets a new directory with one column more, whose chunks are constant and take no bytes, and,
//! for strings, a part with the dictionary. Its other parts are shared with the table of before.

use crate::codec::encode::encode_packed;
use crate::codec::sketch::DistinctSketch;
use crate::error::damaged;
use crate::format::directory::{ColumnEntries, encode, headers};
use crate::format::meta::ColumnMeta;
use crate::format::{ChunkEntry, ColumnHeader, FORMAT_WIDE, KIND_DICTIONARY, KIND_KEYS, checksum};
use crate::format::{sketches, wide};
use crate::read::bytes_array::for_each_bytes;
use crate::read::dictionary::Dictionary;
use crate::table::accept::accept;
use crate::table::table_edit::{DraftSegment, TableEdit};
use crate::write::physical::{Physical, append_keys, storage_type};
use crate::{ColumnsError, Result};
use arrow_array::ArrayRef;
use arrow_schema::Field;
use halocline_pool::{ExtentRef, Txn};
use std::borrow::Cow;
use std::convert::Infallible;
use zerocopy::{FromBytes, IntoBytes};

/// Adds a column after the others. Rows that are there hold `default`, an array of length 1 of the column's
/// type (any string type for strings), or NULL. O(segments x columns x chunks), whatever the table's size in
/// bytes.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::DuplicateColumn`], [`ColumnsError::UnsupportedType`],
/// [`ColumnsError::TypeMismatch`]; [`ColumnsError::DefaultNeeded`] for a NOT NULL column
/// of a table with rows and no default but NULL; [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
///
/// # Panics
/// If `default` is not of length 1.
pub fn add_column(txn: &Txn, table: &str, field: &Field, default: Option<&ArrayRef>) -> Result<()> {
    let mut edit = TableEdit::load(txn, table)?;
    edit.check_new_column(field.name())?;
    let field = Field::new(field.name(), storage_type(field.data_type()), field.is_nullable());
    edit.meta.columns.push(ColumnMeta::new(&field)?);
    let constant = Constant::new(&field, default)?;
    let rows: u64 = edit.segments.iter().map(|segment| segment.meta.rows).sum();
    if rows > 0 && constant.key.is_none() && !field.is_nullable() {
        return Err(ColumnsError::DefaultNeeded {
            table: table.into(),
            column: field.name().clone(),
            rows,
        });
    }
    for segment in &mut edit.segments {
        let place = format!("table `{table}`, segment {}", segment.meta.id);
        constant.add_to(txn, &place, segment)?;
    }
    edit.put(txn)
}

/// The value of all rows of a column.
struct Constant {
    kind: u32,
    /// Its key (rank for strings), `None` for NULL.
    key: Option<u64>,
    /// The bytes of its dictionary, for strings and decimals without a key.
    dictionary: Option<Vec<u8>>,
    /// True for a decimal without a key.
    wide: bool,
    /// The sketch of its values.
    sketch: DistinctSketch,
}

impl Constant {
    fn new(field: &Field, default: Option<&ArrayRef>) -> Result<Self> {
        // A type without a physical form was refused before.
        let physical = Physical::from_data_type(field.data_type()).unwrap_or(Physical::Bytes);
        let null_or_value = field.clone().with_nullable(true);
        let default = default
            .map(|array| accept(&null_or_value, array, 0))
            .transpose()?;
        let default = default.as_ref().map(|plain| plain.get());
        assert!(
            default.is_none_or(|array| array.len() == 1),
            "a default is one value"
        );
        let default = default.filter(|array| array.is_valid(0));
        let wide = default.is_some_and(wide::holds_wide_decimals);
        let mut sketch = DistinctSketch::default();
        if physical == Physical::Bytes || wide {
            let mut string: Option<Vec<u8>> = None;
            if let Some(array) = default {
                let never: Result<(), Infallible> = for_each_bytes(array, |value| {
                    string = value.map(<[u8]>::to_vec);
                    Ok(())
                });
                never.unwrap_or_else(|never| match never {});
            }
            match &string {
                Some(string) if wide => sketch.add_wide_decimal(string),
                Some(string) => sketch.add_string(string),
                None => {}
            }
            return Ok(Self {
                kind: KIND_DICTIONARY,
                key: string.as_ref().map(|_| 0),
                dictionary: Some(Dictionary::encode(string.as_deref())),
                wide,
                sketch,
            });
        }
        let mut keys = Vec::new();
        if let Some(array) = default {
            append_keys(array, physical, &mut keys).expect("it has a key");
        }
        keys.iter().for_each(|key| sketch.add_key(*key));
        Ok(Self {
            kind: KIND_KEYS,
            key: keys.first().copied(),
            dictionary: None,
            wide,
            sketch,
        })
    }

    /// Gives the segment a directory with this column, too.
    fn add_to(&self, txn: &Txn, place: &str, segment: &mut DraftSegment) -> Result<()> {
        let bytes = txn.extent(&segment.extents[0])?;
        let (header, headers) = headers(place, &bytes)?;
        let kept = |header: &ColumnHeader| Ok((*header, Cow::Borrowed(entries(place, &bytes, header)?)));
        let mut columns: Vec<ColumnEntries<'_>> = headers.iter().map(kept).collect::<Result<_>>()?;
        let mut parts = header.parts;
        if parts as usize + 1 + usize::from(segment.meta.deleted > 0) != segment.extents.len() {
            return Err(damaged(place, "directory does not match the table's description"));
        }
        let (mut own, entries) = self.column(header.rows, header.chunk_rows.into());
        if let Some(dictionary) = &self.dictionary {
            (own.dictionary_part, own.dictionary_len) = (parts, dictionary.len() as u64);
            own.bytes = own.dictionary_len;
            segment
                .extents
                .insert(1 + parts as usize, write(txn, dictionary)?);
            parts += 1;
        }
        if self.wide {
            segment.meta.format = FORMAT_WIDE;
        }
        columns.push((own, Cow::Owned(entries)));
        // Without sketches of the other columns there is none of this one.
        let sketches = match sketches::decode(place, &bytes, &header)? {
            Some(mut all) => {
                all.push(self.sketch.clone());
                sketches::encode(&all)
            }
            None => Vec::new(),
        };
        let directory = encode(header.rows, header.chunk_rows, parts, &columns, &sketches);
        segment.extents[0] = write(txn, &directory)?;
        Ok(())
    }

    /// Builds the header and the chunk entries of a column of `rows` rows.
    fn column(&self, rows: u64, chunk_rows: u64) -> (ColumnHeader, Vec<ChunkEntry>) {
        let null: &[u32] = if self.key.is_none() { &[0] } else { &[] };
        let of_one_row = encode_packed(&mut [self.key.unwrap_or(0)], null).entry;
        let entry = |chunk: u64| {
            let rows = (rows - chunk * chunk_rows).min(chunk_rows) as u32;
            ChunkEntry {
                rows,
                nulls: of_one_row.nulls * rows,
                ..of_one_row
            }
        };
        let entries: Vec<ChunkEntry> = (0..rows.div_ceil(chunk_rows)).map(entry).collect();
        let header = ColumnHeader {
            min: of_one_row.min,
            max: of_one_row.max,
            nulls: if self.key.is_none() { rows } else { 0 },
            distinct: self.key.is_some().into(),
            chunks: entries.len() as u32,
            kind: self.kind,
            ..Default::default()
        };
        (header, entries)
    }
}

/// Returns the chunk entries of a column in a directory, after verifying their checksum.
fn entries<'a>(place: &str, directory: &'a [u8], header: &ColumnHeader) -> Result<&'a [ChunkEntry]> {
    let start = usize::try_from(header.entries).unwrap_or(usize::MAX);
    let len = header.chunks as usize * size_of::<ChunkEntry>();
    let bytes = start.checked_add(len).and_then(|end| directory.get(start..end));
    let entries = bytes.and_then(|bytes| <[ChunkEntry]>::ref_from_bytes(bytes).ok());
    let sound = entries.filter(|entries| checksum(entries.as_bytes()) == header.entries_checksum);
    sound.ok_or_else(|| damaged(place, "chunk entries do not match their checksum"))
}

fn write(txn: &Txn, bytes: &[u8]) -> Result<ExtentRef> {
    let mut writer = txn.alloc(bytes.len() as u64)?;
    writer.append(bytes);
    Ok(writer.finish(bytes.len() as u64)?)
}
