//! Values of rows: the columns besides the key.
//!
//! ```text
//! u16      number of columns
//! bits     one per column, set if it is NULL, in whole bytes
//! columns  those that are not NULL: fixed widths little-endian; text and bytes after their length as a u32
//! ```
//!
//! A row that was written before a column was added has fewer columns. The encoding belongs to the format of
//! the pool.

use crate::kind::ColumnKind;

/// The columns of a value, one after the other.
pub(crate) struct RowReader<'a> {
    nulls: &'a [u8],
    rest: &'a [u8],
    columns: usize,
    next: usize,
}

/// A column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowColumn<'a> {
    Null,
    Value(&'a [u8]),
    /// The row was written before there was this column.
    Missing,
}

/// Appends the encoding of `columns`, each with its kind; none is NULL.
pub(crate) fn encode<'a>(
    columns: impl ExactSizeIterator<Item = (ColumnKind, Option<&'a [u8]>)>,
    into: &mut Vec<u8>,
) {
    let count = columns.len();
    into.extend((count as u16).to_le_bytes());
    let nulls = into.len();
    into.resize(nulls + count.div_ceil(8), 0);
    for (at, (kind, value)) in columns.enumerate() {
        let Some(value) = value else {
            into[nulls + at / 8] |= 1 << (at % 8);
            continue;
        };
        if kind.width().is_none() {
            into.extend((value.len() as u32).to_le_bytes());
        }
        into.extend_from_slice(value);
    }
}

impl<'a> RowReader<'a> {
    /// Begins to read a value. `None` if it is none.
    pub(crate) fn new(value: &'a [u8]) -> Option<Self> {
        let (columns, rest) = value.split_first_chunk()?;
        let columns = usize::from(u16::from_le_bytes(*columns));
        let (nulls, rest) = rest.split_at_checked(columns.div_ceil(8))?;
        Some(Self {
            nulls,
            rest,
            columns,
            next: 0,
        })
    }

    /// Reads the next column. `None` if the value is cut or is none.
    pub(crate) fn next(&mut self, kind: ColumnKind) -> Option<RowColumn<'a>> {
        let at = self.next;
        self.next += 1;
        if at >= self.columns {
            return Some(RowColumn::Missing);
        }
        if self.nulls[at / 8] >> (at % 8) & 1 == 1 {
            return Some(RowColumn::Null);
        }
        let width = match kind.width() {
            Some(width) => width,
            None => {
                let (len, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                u32::from_le_bytes(*len) as usize
            }
        };
        let (value, rest) = self.rest.split_at_checked(width)?;
        self.rest = rest;
        if kind == ColumnKind::Bool && value[0] > 1 {
            return None;
        }
        Some(RowColumn::Value(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ColumnKind; 4] = [
        ColumnKind::Signed(4),
        ColumnKind::Text,
        ColumnKind::Bool,
        ColumnKind::Bytes,
    ];

    fn row() -> Vec<u8> {
        let values: [Option<&[u8]>; 4] = [Some(&[1, 0, 0, 0]), None, Some(&[1]), Some(b"xyz")];
        let mut row = Vec::new();
        encode(
            KINDS.into_iter().zip(values).collect::<Vec<_>>().into_iter(),
            &mut row,
        );
        row
    }

    #[test]
    fn rows_come_back() {
        let row = row();
        let mut reader = RowReader::new(&row).unwrap();
        let columns: Vec<_> = KINDS.iter().map(|kind| reader.next(*kind).unwrap()).collect();
        assert_eq!(columns[0], RowColumn::Value(&[1, 0, 0, 0]));
        assert_eq!(columns[1], RowColumn::Null);
        assert_eq!(columns[2], RowColumn::Value(&[1]));
        assert_eq!(columns[3], RowColumn::Value(b"xyz"));
        assert_eq!(reader.next(ColumnKind::Bool), Some(RowColumn::Missing));
    }

    #[test]
    fn cut_rows_are_refused() {
        let row = row();
        for len in 0..row.len() {
            let complete = RowReader::new(&row[..len])
                .is_some_and(|mut reader| KINDS.iter().all(|kind| reader.next(*kind).is_some()));
            assert!(!complete, "{len} bytes");
        }
    }
}
