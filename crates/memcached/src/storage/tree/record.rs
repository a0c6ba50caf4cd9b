//! A record: an item in a node of a slab, or in several if it is large.
//!
//! A record is written before anything leads to it and does not change afterwards, except for the link to the
//! next record whose key has the same hash. That link has a checksum of its own, so that it can be replaced
//! by one atomic store of 8 bytes. The checksum of the head has the offset of the record as its seed, so that
//! a wrong link is noticed.

use halocline_media::Medium;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::StoredItem;

/// Sizes of the nodes of records in bytes: those of the slabs.
pub(super) const CLASSES: [u32; 16] = [
    256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536,
];
/// The class of records with several nodes, all of which belong to it.
const LARGEST_CLASS: usize = CLASSES.len() - 1;
const LARGEST_NODE: usize = CLASSES[LARGEST_CLASS] as usize;
/// Bytes that are read at once: the least node.
const FIRST_READ_BYTES: usize = CLASSES[0] as usize;
/// Most nodes after the first one.
const MAX_PARTS: usize = 32;

const VERSION: u8 = 1;
/// There is no time of expiry.
const NEVER: u64 = 0;

/// Unit of offsets in a link, and the number of its bits that have one.
const UNIT: u64 = 256;
const LINK_BITS: u32 = 40;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ItemRecordHeader {
    head_sum: U64,
    next: U64,
    data_sum: U64,
    expires: U64,
    value_len: U32,
    key_len: U16,
    parts: U16,
    version: u8,
    reserved: [u8; 7],
}

const HEADER: usize = 48;
/// Offset of the fields that the checksum of the head covers, besides the parts and the key.
const SUMMED: usize = 16;
/// Offset of the link.
const NEXT: u64 = 8;
const _: () = {
    assert!(size_of::<ItemRecordHeader>() == HEADER);
    assert!(std::mem::offset_of!(ItemRecordHeader, next) == NEXT as usize);
    assert!(std::mem::offset_of!(ItemRecordHeader, data_sum) == SUMMED);
};

/// The nodes that a record needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSize {
    /// The class of all its nodes.
    pub(super) class: usize,
    /// Number of nodes after the first one.
    pub(super) parts: usize,
}

impl RecordSize {
    /// Returns the size of a record with a key and a value of these lengths.
    pub(super) fn for_lengths(key: usize, value: usize) -> RecordSize {
        let single = HEADER + key + value;
        if let Some(class) = CLASSES.iter().position(|size| single <= *size as usize) {
            return RecordSize { class, parts: 0 };
        }
        // Each part takes a node's bytes, of which its offset in the first node costs 8.
        let parts = (single - LARGEST_NODE).div_ceil(LARGEST_NODE - size_of::<u64>());
        RecordSize {
            class: LARGEST_CLASS,
            parts,
        }
    }

    /// Returns the bytes of all nodes.
    pub(super) fn bytes(self) -> u64 {
        u64::from(CLASSES[self.class]) * (self.parts as u64 + 1)
    }
}

/// The head of a record that was read and verified.
#[derive(Debug, Clone)]
pub(super) struct ItemRecordHead {
    pub(super) offset: u64,
    pub(super) next: Option<u64>,
    pub(super) expires: Option<u64>,
    pub(super) key: Vec<u8>,
    pub(super) value_len: usize,
    /// Offsets of the nodes after the first one.
    pub(super) parts: Vec<u64>,
    data_sum: u64,
}

/// Returns the link of the record at `offset` to another one, with its checksum.
fn link(offset: u64, next: Option<u64>) -> u64 {
    let units = next.map_or(0, |next| next / UNIT) & ((1 << LINK_BITS) - 1);
    units | xxh3_64_with_seed(&units.to_le_bytes(), offset) << LINK_BITS
}

fn head_sum(offset: u64, head: &[u8]) -> u64 {
    xxh3_64_with_seed(&head[SUMMED..], offset)
}

/// Stores a record, which has no next one, to its nodes and flushes it. The caller fences.
pub(super) fn store(medium: &Medium, nodes: &[u64], key: &[u8], value: &[u8], expires: Option<u64>) {
    let [offset, parts @ ..] = nodes else {
        return;
    };
    let head_len = HEADER + size_of_val(parts) + key.len();
    let within = value.len().min(LARGEST_NODE - head_len);
    let mut image = Vec::with_capacity(head_len + within);
    let header = ItemRecordHeader {
        head_sum: U64::new(0),
        next: U64::new(link(*offset, None)),
        data_sum: U64::new(xxh3_64(value)),
        // 0 stands for none; an item that expires then has expired 1 ms later as well.
        expires: U64::new(expires.map_or(NEVER, |expires| expires.max(1))),
        value_len: U32::new(value.len() as u32),
        key_len: U16::new(key.len() as u16),
        parts: U16::new(parts.len() as u16),
        version: VERSION,
        reserved: [0; 7],
    };
    image.extend_from_slice(header.as_bytes());
    parts
        .iter()
        .for_each(|part| image.extend_from_slice(&part.to_le_bytes()));
    image.extend_from_slice(key);
    let sum = head_sum(*offset, &image);
    image[..size_of::<u64>()].copy_from_slice(&sum.to_le_bytes());
    image.extend_from_slice(&value[..within]);
    let write = |at: u64, bytes: &[u8]| {
        medium.store(at, bytes);
        medium.flush(at, bytes.len() as u64);
    };
    write(*offset, &image);
    for (part, bytes) in parts.iter().zip(value[within..].chunks(LARGEST_NODE)) {
        write(*part, bytes);
    }
}

/// Stores and flushes the link of a record to the next one, by one atomic store. The caller fences.
pub(super) fn store_next(medium: &Medium, offset: u64, next: Option<u64>) {
    medium.store_u64(offset + NEXT, link(offset, next));
    medium.flush(offset + NEXT, size_of::<u64>() as u64);
}

/// Reads and verifies the head of the record at an offset.
///
/// # Errors
/// A description of the damage.
pub(super) fn load_head(medium: &Medium, offset: u64) -> Result<ItemRecordHead, &'static str> {
    let end = medium.len();
    if offset == 0 || !offset.is_multiple_of(UNIT) || offset > end - (FIRST_READ_BYTES as u64).min(end) {
        return Err("there is no node");
    }
    let mut first = [0; FIRST_READ_BYTES];
    medium.load(offset, &mut first);
    let (header, _) = ItemRecordHeader::read_from_prefix(&first).map_err(|_| "it has no header")?;
    if header.version != VERSION {
        return Err("its header is none");
    }
    let (key_len, value_len) = (usize::from(header.key_len.get()), header.value_len.get() as usize);
    let parts = usize::from(header.parts.get());
    let size = RecordSize::for_lengths(key_len, value_len);
    if size.parts != parts || parts > MAX_PARTS || offset > end - u64::from(CLASSES[size.class]).min(end) {
        return Err("its lengths contradict each other");
    }
    let head_len = HEADER + parts * size_of::<u64>() + key_len;
    if head_len > CLASSES[size.class] as usize {
        return Err("its lengths contradict each other");
    }
    let mut longer = Vec::new();
    let head = match first.get(..head_len) {
        Some(head) => head,
        None => {
            longer.resize(head_len, 0);
            medium.load(offset, &mut longer);
            &longer
        }
    };
    if head_sum(offset, head) != header.head_sum.get() {
        return Err("its head contradicts its checksum");
    }
    let units = header.next.get() & ((1 << LINK_BITS) - 1);
    let next = (units != 0).then_some(units * UNIT);
    if link(offset, next) != header.next.get() {
        return Err("its link contradicts its checksum");
    }
    let (parts, key) = head[HEADER..].split_at(parts * size_of::<u64>());
    let expires = header.expires.get();
    Ok(ItemRecordHead {
        offset,
        next,
        expires: (expires != NEVER).then_some(expires),
        key: key.to_vec(),
        value_len,
        parts: parts
            .as_chunks()
            .0
            .iter()
            .map(|part| u64::from_le_bytes(*part))
            .collect(),
        data_sum: header.data_sum.get(),
    })
}

impl ItemRecordHead {
    /// Returns the nodes of the record.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.offset).chain(self.parts.iter().copied())
    }

    pub(super) fn size(&self) -> RecordSize {
        RecordSize::for_lengths(self.key.len(), self.value_len)
    }

    /// Returns the bytes of key and value.
    pub(super) fn bytes(&self) -> u64 {
        (self.key.len() + self.value_len) as u64
    }

    /// Reads and verifies the value.
    ///
    /// # Errors
    /// A description of the damage.
    pub(super) fn load(&self, medium: &Medium) -> Result<StoredItem, &'static str> {
        let head_len = HEADER + self.parts.len() * size_of::<u64>() + self.key.len();
        let within = self.value_len.min(LARGEST_NODE - head_len);
        let mut value = vec![0; self.value_len];
        medium.load(self.offset + head_len as u64, &mut value[..within]);
        for (part, bytes) in self.parts.iter().zip(value[within..].chunks_mut(LARGEST_NODE)) {
            if part
                .checked_add(bytes.len() as u64)
                .is_none_or(|end| end > medium.len())
            {
                return Err("one of its nodes is not in the pool");
            }
            medium.load(*part, bytes);
        }
        if xxh3_64(&value) != self.data_sum {
            return Err("its value contradicts its checksum");
        }
        Ok(StoredItem {
            value,
            expires: self.expires,
        })
    }
}

#[cfg(test)]
mod tests {
    use halocline_media::Dram;

    use super::*;

    /// Compares the header with its table in `docs/format/stores.md`.
    #[test]
    fn the_header_is_as_documented() {
        use crate::documented;
        use std::mem::offset_of;
        let fields = [
            (offset_of!(ItemRecordHeader, head_sum), 8, "head_sum"),
            (offset_of!(ItemRecordHeader, next), 8, "next"),
            (offset_of!(ItemRecordHeader, data_sum), 8, "data_sum"),
            (offset_of!(ItemRecordHeader, expires), 8, "expires"),
            (offset_of!(ItemRecordHeader, value_len), 4, "value_len"),
            (offset_of!(ItemRecordHeader, key_len), 2, "key_len"),
            (offset_of!(ItemRecordHeader, parts), 2, "parts"),
            (offset_of!(ItemRecordHeader, version), 1, "version"),
            (offset_of!(ItemRecordHeader, reserved), 7, "reserved"),
        ];
        documented::assert_fields(&format!("### Record of an item ({HEADER} bytes)"), &fields);
        let sizes = CLASSES.map(|size| size.to_string()).join(", ");
        assert!(documented::FORMAT.contains(&sizes), "the sizes of nodes {sizes}");
    }

    #[test]
    fn records_of_all_sizes_are_read_as_they_were_written() {
        let medium = Medium::from(Dram::new(64 << 20).unwrap());
        let largest = 1 << 20;
        for value_len in [
            0, 1, 150, 151, 200, 208, 209, 5000, 65_000, 65_478, 65_479, 200_000, largest,
        ] {
            for key_len in [1, 10, 250] {
                let size = RecordSize::for_lengths(key_len, value_len);
                let nodes: Vec<u64> = (1..=size.parts as u64 + 1)
                    .map(|node| node * u64::from(CLASSES[size.class]))
                    .collect();
                let key = vec![7; key_len];
                let value: Vec<u8> = (0..value_len).map(|at| (at * 31 + at / 256) as u8).collect();
                store(&medium, &nodes, &key, &value, Some(5));
                store_next(&medium, nodes[0], Some(UNIT * 77));
                let head = load_head(&medium, nodes[0]).unwrap();
                assert_eq!((&head.key, head.next), (&key, Some(UNIT * 77)));
                assert!(head.nodes().eq(nodes.iter().copied()));
                assert_eq!(
                    head.load(&medium).unwrap(),
                    StoredItem {
                        value,
                        expires: Some(5)
                    }
                );
            }
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let medium = Medium::from(Dram::new(1 << 20).unwrap());
        let (offset, len) = (4096, HEADER + 3 + 5);
        store(&medium, &[offset], b"key", b"value", None);
        let whole = |medium: &Medium| load_head(medium, offset).and_then(|head| head.load(medium));
        assert_eq!(whole(&medium).unwrap().value, b"value");
        for at in offset..offset + len as u64 {
            let mut byte = [0];
            medium.load(at, &mut byte);
            medium.store(at, &[byte[0] ^ 4]);
            assert!(whole(&medium).is_err(), "byte {}", at - offset);
            medium.store(at, &byte);
        }
        assert!(load_head(&medium, offset + UNIT).is_err());
        assert!(load_head(&medium, medium.len()).is_err());
    }
}
