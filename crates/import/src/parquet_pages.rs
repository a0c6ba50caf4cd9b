//! Checks the sizes that a Parquet file declares against its length and the memory for an import, because the
//! decoder allocates the size that they state: a page of a few kilobytes may decompress to gigabytes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

/// Bytes of a page header that are read at once; more if it is longer.
const WINDOWS: [usize; 3] = [512, 64 << 10, 16 << 20];
/// Structures within structures that a page header may have.
const DEPTH: usize = 16;

/// Checks the columns of a row group: their bytes are in the file, and no page is larger than `limit` when
/// decompressed.
///
/// # Errors
/// A size is wrong or too large; the text is the reason.
pub(crate) fn check_row_group(
    file: &File,
    length: u64,
    group: &RowGroupMetaData,
    limit: u64,
) -> Result<(), String> {
    if group.num_rows() < 0 {
        return Err("it has a negative number of rows".into());
    }
    for column in group.columns() {
        let wrong = |what: String| format!("column {}: {what}", column.column_path().string());
        let (start, bytes) = range(column).ok_or_else(|| wrong("its place is negative".into()))?;
        if start.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(wrong("it ends past the end of the file".into()));
        }
        check_pages(file, start, start + bytes, limit).map_err(wrong)?;
    }
    Ok(())
}

fn range(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    // Some writers say 0 where there is no dictionary.
    let start = column
        .dictionary_page_offset()
        .filter(|offset| *offset != 0)
        .unwrap_or(column.data_page_offset());
    let start = u64::try_from(start).ok()?;
    u64::try_from(column.data_page_offset()).ok()?;
    Some((start, u64::try_from(column.compressed_size()).ok()?))
}

/// Checks the page headers of a column. The decoder reports other errors of format.
fn check_pages(file: &File, mut at: u64, end: u64, limit: u64) -> Result<(), String> {
    while at < end {
        let Some(page) = page_at(file, at, end).map_err(|e| e.to_string())? else {
            return Ok(());
        };
        let (Ok(stored), Ok(decoded)) = (u64::try_from(page.compressed), u64::try_from(page.uncompressed))
        else {
            return Err("a page has a negative length".into());
        };
        if decoded > limit {
            return Err(format!(
                "a page has {} MiB when decompressed, more than the {} MiB of memory for it: allow more memory, or write \
                 smaller pages",
                decoded >> 20,
                limit >> 20
            ));
        }
        at = at.saturating_add(page.header).saturating_add(stored);
    }
    Ok(())
}

struct PageHeader {
    /// Bytes of its header.
    header: u64,
    uncompressed: i32,
    compressed: i32,
}

/// Returns the page at a place; `None` if there is no header that can be read.
fn page_at(file: &File, at: u64, end: u64) -> std::io::Result<Option<PageHeader>> {
    for window in WINDOWS {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(window);
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at)?;
        if let Some(page) = page_header(&bytes) {
            return Ok(Some(page));
        }
        if length < window {
            break;
        }
    }
    Ok(None)
}

/// Reads a `PageHeader` of Parquet's Thrift definition, in the compact protocol.
fn page_header(bytes: &[u8]) -> Option<PageHeader> {
    let mut compact = ThriftReader { rest: bytes };
    let (mut uncompressed, mut compressed) = (None, None);
    let mut field = 0i16;
    loop {
        let head = compact.byte()?;
        if head == 0 {
            break;
        }
        field = match head >> 4 {
            0 => i16::try_from(compact.signed()?).ok()?,
            step => field.checked_add(i16::from(step))?,
        };
        match (field, head & 15) {
            (2, 5) => uncompressed = Some(i32::try_from(compact.signed()?).ok()?),
            (3, 5) => compressed = Some(i32::try_from(compact.signed()?).ok()?),
            (_, kind) => compact.skip(kind, false, DEPTH)?,
        }
    }
    Some(PageHeader {
        header: (bytes.len() - compact.rest.len()) as u64,
        uncompressed: uncompressed?,
        compressed: compressed?,
    })
}

/// Reads values of Thrift's compact protocol; none where the bytes end.
struct ThriftReader<'a> {
    rest: &'a [u8],
}

impl ThriftReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> Option<()> {
        self.rest = self.rest.get(length..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Skips a value; booleans have a byte only within lists.
    fn skip(&mut self, kind: u8, in_list: bool, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => self.take(usize::from(in_list)),
            3 => self.take(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.take(8),
            8 => {
                let length = usize::try_from(self.unsigned()?).ok()?;
                self.take(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => u64::from(count),
                };
                // Each element has a byte or more, so that a wrong count ends with the bytes.
                (0..count).try_for_each(|_| self.skip(head & 15, true, depth))
            }
            11 => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip(kinds >> 4, true, depth)?;
                    self.skip(kinds & 15, true, depth)
                })
            }
            12 => loop {
                let head = self.byte()?;
                if head == 0 {
                    return Some(());
                }
                if head >> 4 == 0 {
                    self.unsigned()?;
                }
                self.skip(head & 15, false, depth)?;
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_headers_are_read_to_their_end() {
        // type 0, sizes 300 and 20, a data page header with statistics, then other bytes.
        let header = [
            0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x2c, 0x15, 2, 0x15, 0, 0x3c, 0x18, 2, 1, 2, 0, 0, 0, 77,
        ];
        let page = page_header(&header).unwrap();
        assert_eq!((page.header, page.uncompressed, page.compressed), (20, 300, 20));
        for cut in 0..20 {
            assert!(page_header(&header[..cut]).is_none(), "{cut}");
        }
    }
}
