//! Verifying every invariant of a table, with names for what is wrong.

use crate::codec::strings::pending::prefix_key;
use crate::error::damaged;
use crate::format::wide::WIDE_BYTES;
use crate::format::{ChunkEntry, KIND_STRINGS, checksum};
use crate::kernel::{Lane, with_lane};
use crate::read::bytes_array::{BytesBuilder, for_each_bytes};
use crate::read::column::Column;
use crate::write::physical::is_text;
use crate::{ColumnsError, Result, Segment, Table};
use rayon::prelude::*;
use std::convert::Infallible;
use zerocopy::IntoBytes;

impl Table {
    /// Verifies all that this crate relies on: checksums of chunk entries and chunks, row and NULL counts,
    /// zone maps (exact), codes within the column's bounds, dictionaries sorted, strings decodable and
    /// UTF-8, NOT NULL, deleted rows, sketches. Returns what is wrong, one error at most per chunk, each
    /// naming table, segment, column and chunk; nothing means the table is sound. Reads everything,
    /// columns in parallel; the checksums of whole extents are the pool's to check.
    pub fn check(&self) -> Vec<ColumnsError> {
        let columns: Vec<&Column> = self
            .segments()
            .iter()
            .flat_map(|segment| segment.columns())
            .collect();
        let mut errors: Vec<ColumnsError> = columns
            .par_iter()
            .flat_map_iter(|column| check_column(column))
            .collect();
        let deletions = self.segments().iter().map(Segment::deletions);
        errors.extend(deletions.filter_map(Result::err));
        let sketches = self.segments().iter().map(Segment::sketches);
        errors.extend(sketches.filter_map(Result::err));
        errors
    }
}

fn check_column(column: &Column) -> Vec<ColumnsError> {
    let mut errors = Vec::new();
    if let Err(error) = check_header(column) {
        errors.push(error);
    }
    let chunks = (0..column.chunks()).map(|chunk| {
        if column.header().kind == KIND_STRINGS {
            check_strings(column, chunk)
        } else {
            check_keys(column, chunk)
        }
    });
    errors.extend(chunks.filter_map(Result::err));
    errors
}

fn check_header(column: &Column) -> Result<()> {
    let header = column.header();
    let wrong = |what: &str| Err(damaged(column.place(0), what));
    if checksum(column.entries().as_bytes()) != header.entries_checksum {
        return wrong("chunk entries do not match their checksum");
    }
    let entries = column.entries().iter();
    if entries.map(|entry| u64::from(entry.nulls)).sum::<u64>() != header.nulls {
        return wrong("the column's number of NULLs is wrong");
    }
    if header.nulls > 0 && !column.nullable() {
        return wrong("a NOT NULL column holds NULLs");
    }
    let bounds = bounds(
        column
            .entries()
            .iter()
            .filter(|e| e.nulls < e.rows)
            .flat_map(|e| [e.min, e.max]),
    );
    if bounds.unwrap_or((0, 0)) != (header.min, header.max) {
        return wrong("the column's smallest or largest value is wrong");
    }
    if let Some(dictionary) = column.code_space().and_then(|space| space.dictionary()) {
        dictionary.check()?;
        let utf8 = |string: Option<&[u8]>| string.is_some_and(|string| std::str::from_utf8(string).is_ok());
        if is_text(column.data_type()) && !dictionary.iter().all(utf8) {
            return wrong("the dictionary holds a string that is not UTF-8");
        }
        let decimal = |string: Option<&[u8]>| string.is_some_and(|string| string.len() == WIDE_BYTES);
        if column.is_wide() && !dictionary.iter().all(decimal) {
            return wrong("the dictionary holds a string that is no decimal");
        }
    }
    Ok(())
}

fn bounds(keys: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    keys.fold(None, |bounds, key| {
        let (min, max) = bounds.unwrap_or((key, key));
        Some((min.min(key), max.max(key)))
    })
}

/// Compares what was found in a chunk with its entry.
fn compare(
    column: &Column,
    chunk: usize,
    entry: &ChunkEntry,
    nulls: u32,
    found: Option<(u64, u64)>,
) -> Result<()> {
    let wrong = |what: &str| Err(damaged(column.place(chunk), what));
    if checksum(column.chunk_bytes(chunk, entry)?) != entry.checksum && entry.len > 0 {
        return wrong("chunk does not match its checksum");
    }
    if nulls != entry.nulls {
        return wrong("the number of NULLs is wrong");
    }
    if found.is_some_and(|found| found != (entry.min, entry.max)) {
        return wrong("the zone map (smallest and largest value) is wrong");
    }
    Ok(())
}

fn check_keys(column: &Column, number: usize) -> Result<()> {
    let chunk = column.packed(number)?;
    let mut nulls = 0;
    let (mut min, mut max) = (u64::MAX, 0);
    with_lane!(chunk.width(), L => chunk.for_each_block::<L>(0..chunk.rows(), |values| {
        for &value in values {
            let value = value.widen();
            if Some(value) == chunk.null() {
                nulls += 1;
            } else {
                let key = chunk.key_base().wrapping_add(value);
                (min, max) = (min.min(key), max.max(key));
            }
        }
    }));
    compare(
        column,
        number,
        chunk.entry,
        nulls,
        (min <= max).then_some((min, max)),
    )
}

fn check_strings(column: &Column, number: usize) -> Result<()> {
    let chunk = column.strings(number)?;
    let entry = column.entry(number)?;
    let mut builder = BytesBuilder::new(column.data_type(), entry.rows as usize);
    let read = chunk.read(0..entry.rows as usize, &mut builder);
    read.map_err(|what| damaged(column.place(number), what))?;
    let array = builder
        .finish()
        .map_err(|error| damaged(column.place(number), error.to_string()))?;
    let (mut nulls, mut keys) = (0, Vec::with_capacity(array.len()));
    let never: Result<(), Infallible> = for_each_bytes(&array, |value| {
        match value {
            Some(value) => keys.push(prefix_key(value)),
            None => nulls += 1,
        }
        Ok(())
    });
    never.unwrap_or_else(|never| match never {});
    compare(column, number, entry, nulls, bounds(keys.into_iter()))
}
