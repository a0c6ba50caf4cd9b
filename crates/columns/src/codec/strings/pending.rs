//! Strings on their way into a [chunk](super::chunk), and the layout of its sections.

use super::{StoredStrings, StringList, encode};
use crate::codec::bit_packed::pack_block;
use crate::codec::encode::Encoded;
use crate::format::{
    BLOCK, BLOCK_BYTES_PER_BIT, CODEC_RAW_STRINGS, ChunkEntry, StringsHeader, align_up, checksum,
};
use crate::kernel::width_of;
use zerocopy::IntoBytes;

const HEADER: usize = size_of::<StringsHeader>();

/// Returns the first eight bytes as a big-endian number, padded with zeros. It sorts like the strings, as far
/// as their first eight bytes differ.
pub(crate) fn prefix_key(string: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = string.len().min(8);
    bytes[..len].copy_from_slice(&string[..len]);
    u64::from_be_bytes(bytes)
}

/// Strings on their way into a chunk.
#[derive(Debug, Default)]
pub(crate) struct PendingStrings {
    bytes: Vec<u8>,
    /// End of each string in `bytes`.
    ends: Vec<u64>,
    /// Rows that are NULL, sorted.
    nulls: Vec<u32>,
}

impl PendingStrings {
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total size in bytes of all strings.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u64);
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.ends.len() as u32);
        self.ends.push(self.bytes.len() as u64);
    }

    /// Encodes the strings as one chunk and empties this.
    ///
    /// # Panics
    /// If there is no string.
    pub(crate) fn encode(&mut self) -> Encoded {
        let rows = self.rows();
        let mut entry = ChunkEntry {
            rows: rows as u32,
            nulls: self.nulls.len() as u32,
            encoding: CODEC_RAW_STRINGS,
            ..Default::default()
        };
        if self.nulls.len() == rows {
            self.clear();
            return Encoded {
                entry,
                words: Vec::new(),
            };
        }
        let list = StringList {
            bytes: &self.bytes,
            ends: &self.ends,
        };
        (entry.min, entry.max) = prefix_bounds(&list.strings(), &self.nulls);
        let (codec, stored) = encode(&list);
        entry.encoding = codec;
        let words = self.lay_out(&stored);
        entry.len = (words.len() * 8) as u64;
        entry.checksum = checksum(words.as_bytes());
        self.clear();
        Encoded { entry, words }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.nulls.clear();
    }

    /// Returns the sections of a chunk.
    fn lay_out(&self, stored: &StoredStrings<'_>) -> Vec<u64> {
        let (table, bytes, ends) = (&stored.table, &stored.bytes, &stored.ends);
        let rows = ends.len();
        let blocks = rows.div_ceil(BLOCK);
        let start = |row: usize| if row == 0 { 0 } else { ends[row - 1] };
        let bases: Vec<u64> = (0..blocks)
            .map(|block| start(block * BLOCK))
            .chain([bytes.len() as u64])
            .collect();
        let longest = bases.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        let width = width_of(longest);

        let bases_at = HEADER + align_up(table.len());
        let offsets_at = bases_at + align_up(bases.len() * 8);
        let validity_at = offsets_at + align_up(blocks * width * BLOCK_BYTES_PER_BIT);
        let has_nulls = !self.nulls.is_empty();
        let bytes_at = validity_at + if has_nulls { align_up(rows.div_ceil(8)) } else { 0 };
        let header = StringsHeader {
            symbols: stored.symbols as u32,
            offset_width: width as u32,
            bases_at: bases_at as u64,
            offsets_at: offsets_at as u64,
            validity_at: if has_nulls { validity_at as u64 } else { 0 },
            bytes_at: bytes_at as u64,
            bytes_len: bytes.len() as u64,
            reserved: [0; 2],
        };

        let mut words = vec![0u64; offsets_at / 8];
        let out = words.as_mut_bytes();
        out[..HEADER].copy_from_slice(header.as_bytes());
        out[HEADER..][..table.len()].copy_from_slice(table);
        out[bases_at..][..bases.len() * 8].copy_from_slice(bases.as_bytes());
        let mut starts = [0; BLOCK];
        for (block, base) in bases[..blocks].iter().enumerate() {
            let rows = block * BLOCK..((block + 1) * BLOCK).min(rows);
            starts
                .iter_mut()
                .zip(rows.clone())
                .for_each(|(out, row)| *out = start(row) - base);
            pack_block(width, &starts[..rows.len()], &mut words);
        }
        words.resize((bytes_at + bytes.len()).div_ceil(8), 0);
        let out = words.as_mut_bytes();
        if has_nulls {
            let validity = &mut out[validity_at..][..rows.div_ceil(8)];
            validity.fill(0xFF);
            self.nulls
                .iter()
                .for_each(|&row| validity[row as usize / 8] &= !(1 << (row % 8)));
        }
        out[bytes_at..][..bytes.len()].copy_from_slice(bytes);
        words
    }
}

fn prefix_bounds(strings: &[&[u8]], nulls: &[u32]) -> (u64, u64) {
    let mut nulls = nulls.iter().peekable();
    let (mut min, mut max) = (u64::MAX, 0);
    for (row, string) in (0u32..).zip(strings) {
        if nulls.next_if_eq(&&row).is_none() {
            let key = prefix_key(string);
            (min, max) = (min.min(key), max.max(key));
        }
    }
    (min, max)
}
