//! The stores of a pool in memory, taken apart as docs/format/stores.md describes them: the checkpoint, the
//! catalog, pages in use, and the frames of the log.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::image::{Image, word};

/// The name of the object.
pub(crate) const STORES: &str = "stores";
/// Bytes of a segment, a leaf, and a branch.
pub(crate) const SEGMENT: usize = 64 << 10;
pub(crate) const LEAF: usize = 1 << 10;
pub(crate) const BRANCH: usize = 4 << 10;
/// Bytes of a checkpoint, from the first copy to the second, and of what precedes the first one.
pub(crate) const CHECKPOINT: usize = 104;
const COPY: usize = 128;
const ROOT: usize = 256;
/// Bytes of the head of a catalog's segment, of a catalog, of a later part of it, and of its entries.
const CATALOG_SEGMENT: usize = 16;
const CATALOG_HEAD: usize = 16;
const CATALOG_DELTA: usize = 24;
const ENTRY: usize = 32;
/// Uses of a segment.
const KIND_LOG: u32 = 1;
const KIND_LEAVES: u32 = 2;
const KIND_BRANCHES: u32 = 3;
/// Bytes of the head of a frame, and of the shortest one of a record.
pub(crate) const FRAME: usize = 40;
const RECORD: usize = 24;
/// The flag of a frame after which the log goes on in another segment.
const LINK: u16 = 4;

/// Pages and frames to which the newest checkpoint of the stores leads.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorePages {
    /// Where the copies of the checkpoint are.
    pub(crate) checkpoints: [usize; 2],
    /// The contents of the catalog, of one segment.
    pub(crate) catalog: Range<usize>,
    /// Lengths of its parts.
    pub(crate) parts: Vec<usize>,
    /// Pages in use.
    pub(crate) leaves: Vec<usize>,
    pub(crate) branches: Vec<usize>,
    /// Segments of the log that the catalog names.
    pub(crate) log: Vec<usize>,
    /// Frames of these.
    pub(crate) frames: Vec<Frame>,
    /// Frames after the checkpoint.
    pub(crate) tail: Vec<Frame>,
    /// The number that the next new store gets.
    pub(crate) next_store: u32,
}

/// A frame of the log.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) bytes: Range<usize>,
    /// Where its records are.
    pub(crate) records: Vec<usize>,
}

impl StorePages {
    /// # Panics
    /// If the pool has no stores, or damaged ones.
    pub(crate) fn new(image: &Image) -> Self {
        let bytes = &image.bytes[..];
        let stores = image.of_kind(STORES);
        let stores = stores
            .iter()
            .find(|object| object.name == STORES)
            .expect("stores");
        let root = stores.extents[0].bytes.start + ROOT;
        let checkpoints = [root, root + COPY];
        let newest = checkpoints
            .into_iter()
            .filter(|at| bytes[*at..].starts_with(b"HLSTORES"))
            .max_by_key(|at| word(bytes, at + 16))
            .expect("a checkpoint");
        let catalog = word(bytes, newest + 72) as usize + CATALOG_SEGMENT;
        let catalog = catalog..catalog + word(bytes, newest + 80) as usize;
        assert!(
            catalog.len() <= SEGMENT - CATALOG_SEGMENT,
            "the catalog fits one segment"
        );
        let mut pages = Self {
            checkpoints,
            catalog,
            ..Self::default()
        };
        pages.read_catalog(bytes);
        let log = pages.log.clone();
        pages.frames = log.iter().flat_map(|segment| frames(bytes, *segment)).collect();
        let start = word(bytes, newest + 24) as usize;
        let first = word(bytes, newest + 40);
        let segment = word(bytes, newest + 32) as usize;
        let mut after = frames(bytes, segment);
        after.retain(|frame| frame.bytes.start >= start);
        // Frames of an earlier use of the segment have other numbers.
        let follows = (first..).zip(after);
        let follows = follows.take_while(|(number, frame)| word(bytes, frame.bytes.start + 8) == *number);
        pages.tail = follows.map(|(_, frame)| frame).collect();
        pages
    }

    /// Reads all parts of the catalog.
    fn read_catalog(&mut self, bytes: &[u8]) {
        let mut segments: BTreeMap<usize, (u32, u64)> = BTreeMap::new();
        let mut at = self.catalog.start;
        while at < self.catalog.end {
            let start = at;
            let (entries, stores) = (word(bytes, at) as usize, small(bytes, at + 8));
            let (head, dropped, next) = if self.parts.is_empty() {
                (CATALOG_HEAD, 0, small(bytes, at + 12))
            } else {
                (CATALOG_DELTA, small(bytes, at + 12), small(bytes, at + 16))
            };
            self.next_store = next;
            at += head;
            for entry in (at..at + entries * ENTRY).step_by(ENTRY) {
                let offset = word(bytes, entry) as usize;
                match small(bytes, entry + 24) {
                    0 => drop(segments.remove(&offset)),
                    kind => drop(segments.insert(offset, (kind, word(bytes, entry + 8)))),
                }
            }
            at += entries * ENTRY + dropped as usize * 4;
            for _ in 0..stores {
                at += ENTRY + (small(bytes, at + 4) as u16 as usize);
            }
            self.parts.push(at - start);
        }
        for (segment, (kind, used)) in segments {
            let pages = |size: usize| {
                let used = (0..SEGMENT / size).filter(|page| used >> page & 1 == 1);
                used.map(|page| segment + page * size).collect::<Vec<_>>()
            };
            match kind {
                KIND_LOG => self.log.push(segment),
                KIND_LEAVES => self.leaves.extend(pages(LEAF)),
                KIND_BRANCHES => self.branches.extend(pages(BRANCH)),
                _ => panic!("segments have a use"),
            }
        }
    }
}

/// Returns the frames from the start of a segment on.
fn frames(bytes: &[u8], segment: usize) -> Vec<Frame> {
    let (mut frames, mut at) = (Vec::new(), segment);
    while at + FRAME <= segment + SEGMENT {
        let len = small(bytes, at) as usize;
        if len < FRAME || at + len > segment + SEGMENT {
            break;
        }
        let (mut records, mut record) = (Vec::new(), at + FRAME);
        while records.len() < half(bytes, at + 6).into() && record + RECORD <= at + len {
            records.push(record);
            record += record_len(bytes, record).next_multiple_of(8);
        }
        let is_link = half(bytes, at + 4) & LINK != 0;
        frames.push(Frame {
            bytes: at..at + len,
            records,
        });
        if is_link {
            break;
        }
        at += len;
    }
    frames
}

/// Returns the bytes of a record: head, time of expiry, key and value.
pub(crate) fn record_len(bytes: &[u8], at: usize) -> usize {
    let flags = half(bytes, at + 2);
    let expires = if flags & 2 != 0 { 8 } else { 0 };
    record_head(flags) + expires + half(bytes, at) as usize + small(bytes, at + 4) as usize
}

/// Returns the bytes of the head of a record with these flags.
pub(crate) fn record_head(flags: u16) -> usize {
    match flags & 16 {
        0 => 32,
        _ => 24,
    }
}

/// Returns the number in 4 bytes.
pub(crate) fn small(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the number in 2 bytes.
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}
