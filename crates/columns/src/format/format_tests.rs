//! `docs/format/tables.md` says what the code does: every table of this crate's structures, row by row.

use crate::format::{ChunkEntry, ColumnHeader, DictionaryHeader, KeysHeader, SegmentHeader, StringsHeader};
use std::mem::offset_of;

const DOCUMENT: &str = include_str!("../../../../docs/format/tables.md");

/// Returns the first three cells of each row of the table after a heading.
fn rows(heading: &str) -> Vec<[String; 3]> {
    let section = DOCUMENT.lines().skip_while(|line| *line != heading);
    let rows = section
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|row| {
            let mut cells = row
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().trim_matches('`').to_owned());
            std::array::from_fn(|_| cells.next().unwrap_or_default())
        })
        .collect()
}

macro_rules! compare {
    ($structure:ty: $($field:ident),*) => {{
        let empty: $structure = zerocopy::FromZeros::new_zeroed();
        let mut end = 0;
        let fields = vec![$({
            let (offset, size) = (offset_of!($structure, $field), size_of_val(&empty.$field));
            assert_eq!(offset, end, "no gaps");
            end = offset + size;
            [offset.to_string(), size.to_string(), stringify!($field).to_owned()]
        }),*];
        assert_eq!(end, size_of::<$structure>(), "described to its end");
        assert_eq!(rows(&format!("## {} ({end} bytes)", stringify!($structure))), fields);
    }};
}

#[test]
fn structures_are_as_documented() {
    compare!(SegmentHeader: magic, checksum, rows, chunk_rows, columns, parts, sketches_len, sketches,
        sketches_checksum, reserved);
    compare!(ColumnHeader: min, max, nulls, distinct, entries, entries_checksum, bytes, dictionary_offset,
        dictionary_len, dictionary_part, chunks, kind, reserved);
    compare!(ChunkEntry: offset, len, min, max, null_marker, checksum, rows, nulls, part, encoding, width, distinct);
    compare!(KeysHeader: count, width, step, reserved);
    compare!(StringsHeader: symbols, offset_width, bases_at, offsets_at, validity_at, bytes_at, bytes_len, reserved);
    compare!(DictionaryHeader: magic, count, bytes_len, offset_bytes, reserved);
}
