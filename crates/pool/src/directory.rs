//! The directory: every object of one generation, as a map in memory and as immutable bytes in the pool.
//!
//! Bytes: header, objects sorted by name, extents, heap of names and metadata. What [`Directory::decode`] accepts is
//! consistent: every range it names lies in the pool's data, so that nothing that is read through it can go out of range.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{
    BLOCK, DATA_START, DIRECTORY_MAGIC, DirectoryHeader, ExtentEntry, FORMAT_VERSION, FORMAT_WITH_LOGS,
    FORMAT_WITHOUT_LOGS, MAX_META, MAX_NAME, ObjectEntry, SLAB_HEAD, SlabMeta, blocks,
};
use crate::log::Tail;

/// What an object is; but for logs and slabs, the pool itself does not care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind(pub u32);

impl ObjectKind {
    /// A table: columns in extents.
    pub const TABLE: ObjectKind = ObjectKind(1);
    /// An index on a table.
    pub const INDEX: ObjectKind = ObjectKind(2);
    /// A log: one extent that is appended to. Only [`Txn::put_log`](crate::Txn::put_log) makes one.
    pub const LOG: ObjectKind = ObjectKind(3);
    /// A slab: extents of nodes that are changed where they lie. Only [`Pool::create_slab`](crate::Pool::create_slab)
    /// makes one.
    pub const SLAB: ObjectKind = ObjectKind(4);

    /// Whether its extents change while they are published.
    pub(crate) fn is_mutable(self) -> bool {
        self == ObjectKind::LOG || self == ObjectKind::SLAB
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ObjectKind::TABLE => f.write_str("table"),
            ObjectKind::INDEX => f.write_str("index"),
            ObjectKind::LOG => f.write_str("log"),
            ObjectKind::SLAB => f.write_str("slab"),
            ObjectKind(other) => write!(f, "object of kind {other}"),
        }
    }
}

/// Where immutable bytes lie in the pool, and what they must sum to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtentRef {
    /// First byte, from the start of the pool; a multiple of 4 KiB.
    pub offset: u64,
    /// Length in bytes. The extent takes whole blocks of 4 KiB, and none when it is empty.
    pub len: u64,
    /// xxh3-64 of the bytes; of a log, the number its chain of records starts from; of a slab, 0.
    pub checksum: u64,
}

impl ExtentRef {
    /// The blocks the extent takes.
    pub(crate) fn space(&self) -> Range<u64> {
        self.offset..self.offset + blocks(self.len)
    }
}

/// One object: all that a directory says about it but its name.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) kind: ObjectKind,
    pub(crate) meta: Box<[u8]>,
    pub(crate) extents: Box<[ExtentRef]>,
    /// For each extent, whether its checksum has been found right since the record was read.
    pub(crate) verified: Box<[AtomicBool]>,
    /// Of a log, what is known of its records.
    pub(crate) tail: Tail,
}

impl Record {
    pub(crate) fn new(kind: ObjectKind, meta: Box<[u8]>, extents: Box<[ExtentRef]>) -> Record {
        let verified = extents.iter().map(|_| AtomicBool::new(false)).collect();
        Record {
            kind,
            meta,
            extents,
            verified,
            tail: Tail::default(),
        }
    }

    /// Of a log in this extent, whose checksum is the log's start.
    pub(crate) fn log(extent: ExtentRef) -> Record {
        Record::new(ObjectKind::LOG, Box::default(), Box::new([extent]))
    }
}

/// The objects of a generation by name. Cheap to clone but for the map's nodes.
pub(crate) type Objects = BTreeMap<Arc<str>, Arc<Record>>;

/// One published generation.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) generation: u64,
    /// Shared with the transactions that build on it, until they change it.
    pub(crate) objects: Arc<Objects>,
    /// The directory's own bytes.
    pub(crate) extent: ExtentRef,
}

impl Directory {
    /// Every extent the generation needs, its own included; shared ones as often as they are named.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &ExtentRef> {
        let objects = self.objects.values().flat_map(|record| record.extents.iter());
        objects.chain(std::iter::once(&self.extent))
    }

    /// The extents of its logs. Linear in the number of objects.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &ExtentRef> {
        let logs = self
            .objects
            .values()
            .filter(|record| record.kind == ObjectKind::LOG);
        logs.flat_map(|record| record.extents.iter())
    }

    /// The extents of its logs and slabs. Linear in the number of objects.
    pub(crate) fn mutable(&self) -> impl Iterator<Item = &ExtentRef> {
        let mutable = self.objects.values().filter(|record| record.kind.is_mutable());
        mutable.flat_map(|record| record.extents.iter())
    }

    /// Reads the bytes of a directory whose checksum was right.
    ///
    /// # Errors
    /// What contradicts itself, as a phrase. A right checksum makes that unlikely, not impossible.
    pub(crate) fn decode(
        bytes: &[u8],
        extent: ExtentRef,
        generation: u64,
        file_len: u64,
    ) -> Result<Directory, &'static str> {
        let (header, rest) = DirectoryHeader::read_from_prefix(bytes).map_err(|_| "it is too short")?;
        if header.magic != DIRECTORY_MAGIC {
            return Err("it does not start like a directory");
        }
        if header.generation.get() > generation {
            return Err("it belongs to a later generation");
        }
        let (entries, rest) = split::<ObjectEntry>(rest, header.object_count.get())?;
        let (extents, heap) = split::<ExtentEntry>(rest, header.extent_count.get())?;
        if heap.len() as u64 != header.heap_len.get() {
            return Err("its parts do not add up to its length");
        }
        let mut objects: Vec<(Arc<str>, Arc<Record>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = heap_range(heap, entry.name_offset.get(), entry.name_len.get())?;
            let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
            if objects.last().is_some_and(|(before, _)| &**before >= name) {
                return Err("its names are not in order");
            }
            let meta = heap_range(heap, entry.meta_offset.get(), entry.meta_len.get())?;
            let first = usize::try_from(entry.first_extent.get()).ok();
            let count = usize::try_from(entry.extent_count.get()).ok();
            let own = first
                .zip(count)
                .and_then(|(first, count)| extents.get(first..first.checked_add(count)?));
            let own = own.ok_or("an object's extents are out of range")?;
            let own = own
                .iter()
                .map(|entry| extent_of(entry, file_len))
                .collect::<Result<Box<[_]>, _>>()?;
            let kind = ObjectKind(entry.kind.get());
            let log_len = own.first().map_or(0, |extent| extent.len);
            if kind == ObjectKind::LOG && (own.len() != 1 || log_len == 0 || !log_len.is_multiple_of(BLOCK)) {
                return Err("a log is not one extent of whole blocks");
            }
            if kind == ObjectKind::SLAB && !is_slab(meta, &own) {
                return Err("a slab is not chunks of whole blocks, or does not say what it holds");
            }
            objects.push((name.into(), Arc::new(Record::new(kind, meta.into(), own))));
        }
        Ok(Directory {
            generation,
            objects: Arc::new(objects.into_iter().collect()),
            extent,
        })
    }
}

/// Whether metadata and extents are those of a slab.
fn is_slab(meta: &[u8], extents: &[ExtentRef]) -> bool {
    let Ok(meta) = SlabMeta::read_from_bytes(meta) else {
        return false;
    };
    let node_size = u64::from(meta.node_size.get());
    node_size > 0
        && extents.first().is_some_and(|first| first.len >= SLAB_HEAD)
        && extents
            .iter()
            .all(|extent| extent.len.is_multiple_of(BLOCK) && extent.len >= node_size)
}

/// The version of the format that a pool with these objects has.
pub(crate) fn version_of(objects: &Objects) -> u32 {
    let version = |record: &Arc<Record>| match record.kind {
        ObjectKind::SLAB => FORMAT_VERSION,
        ObjectKind::LOG => FORMAT_WITH_LOGS,
        _ => FORMAT_WITHOUT_LOGS,
    };
    objects.values().map(version).max().unwrap_or(FORMAT_WITHOUT_LOGS)
}

/// The bytes of a directory.
pub(crate) fn encode(generation: u64, objects: &Objects) -> Vec<u8> {
    let extent_count: usize = objects.values().map(|record| record.extents.len()).sum();
    let heap_len: usize = objects
        .iter()
        .map(|(name, record)| name.len() + record.meta.len())
        .sum();
    let tables = objects.len() * size_of::<ObjectEntry>() + extent_count * size_of::<ExtentEntry>();
    let mut bytes = Vec::with_capacity(size_of::<DirectoryHeader>() + tables + heap_len);
    let header = DirectoryHeader {
        magic: DIRECTORY_MAGIC,
        generation: U64::new(generation),
        object_count: U64::new(objects.len() as u64),
        extent_count: U64::new(extent_count as u64),
        heap_len: U64::new(heap_len as u64),
        reserved: [0; 24],
    };
    bytes.extend_from_slice(header.as_bytes());
    let (mut heap, mut first_extent) = (0, 0);
    for (name, record) in objects {
        let entry = ObjectEntry {
            name_offset: U64::new(heap),
            meta_offset: U64::new(heap + name.len() as u64),
            name_len: U32::new(name.len() as u32),
            meta_len: U32::new(record.meta.len() as u32),
            kind: U32::new(record.kind.0),
            reserved: U32::new(0),
            first_extent: U64::new(first_extent),
            extent_count: U64::new(record.extents.len() as u64),
        };
        bytes.extend_from_slice(entry.as_bytes());
        heap += (name.len() + record.meta.len()) as u64;
        first_extent += record.extents.len() as u64;
    }
    for extent in objects.values().flat_map(|record| record.extents.iter()) {
        let entry = ExtentEntry {
            offset: U64::new(extent.offset),
            len: U64::new(extent.len),
            checksum: U64::new(extent.checksum),
            reserved: U64::new(0),
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    for (name, record) in objects {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&record.meta);
    }
    bytes
}

/// Whether an extent's blocks lie in the data of a pool of this length.
pub(crate) fn in_bounds(offset: u64, len: u64, file_len: u64) -> bool {
    let end = len
        .checked_next_multiple_of(BLOCK)
        .and_then(|space| offset.checked_add(space));
    offset >= DATA_START && offset.is_multiple_of(BLOCK) && end.is_some_and(|end| end <= file_len)
}

fn extent_of(entry: &ExtentEntry, file_len: u64) -> Result<ExtentRef, &'static str> {
    let extent = ExtentRef {
        offset: entry.offset.get(),
        len: entry.len.get(),
        checksum: entry.checksum.get(),
    };
    if in_bounds(extent.offset, extent.len, file_len) {
        Ok(extent)
    } else {
        Err("an extent is outside of the file")
    }
}

fn split<T>(bytes: &[u8], count: u64) -> Result<(&[T], &[u8]), &'static str>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let count = usize::try_from(count).map_err(|_| "it is too short")?;
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| "it is too short")
}

fn heap_range(heap: &[u8], offset: u64, len: u32) -> Result<&[u8], &'static str> {
    let start = usize::try_from(offset).ok();
    let end = start.and_then(|start| start.checked_add(len as usize));
    start
        .zip(end)
        .and_then(|(start, end)| heap.get(start..end))
        .ok_or("a name or metadata is out of range")
}

const _: () = assert!(MAX_META <= u32::MAX as usize && MAX_NAME <= MAX_META);
