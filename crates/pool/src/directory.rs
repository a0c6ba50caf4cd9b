//! The directory: every object of one generation, as a map in memory and as immutable bytes in the pool.
//!
//! Layout: header, objects sorted by name, extents, heap of names and metadata, limbo list. A directory that
//! [`Directory::decode`] accepts is consistent: every range that it names lies in the pool's data, so that
//! reads through it cannot go out of range.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::claims::SpaceClaims;
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{
    BLOCK, DIRECTORY_MAGIC, DirectoryHeader, ExtentEntry, LOG_VERSION, LogMeta, MAX_META, MAX_NAME,
    MAX_NODE_SIZE, MIN_NODE_SIZE, ObjectEntry, SLAB_HEAD, SUMMED_FROM, SUMS_FOLLOW, SlabMeta,
};
use crate::limbo::LimboList;
use crate::log::LogTail;
use crate::log_count::has_count;
use crate::object::{ExtentRef, ObjectKind, in_bounds};
use crate::txn::check_name;
use crate::verify::ExtentVerification;

/// An object as described by a directory, without its name.
#[derive(Debug)]
pub(crate) struct ObjectRecord {
    pub(crate) kind: ObjectKind,
    pub(crate) meta: Box<[u8]>,
    pub(crate) extents: Box<[ExtentRef]>,
    /// Verification state of each extent that has been requested.
    pub(crate) states: Box<[OnceLock<Arc<ExtentVerification>>]>,
    /// For a log, what is known of its records.
    pub(crate) tail: LogTail,
}

impl ObjectRecord {
    pub(crate) fn new(kind: ObjectKind, meta: Box<[u8]>, extents: Box<[ExtentRef]>) -> ObjectRecord {
        let states = extents.iter().map(|_| OnceLock::new()).collect();
        ObjectRecord {
            kind,
            meta,
            extents,
            states,
            tail: LogTail::default(),
        }
    }

    /// Creates the record of a log with a count in this extent, whose checksum is the log's start.
    pub(crate) fn log(extent: ExtentRef) -> ObjectRecord {
        let meta = LogMeta {
            version: U32::new(LOG_VERSION),
            reserved: U32::new(0),
        };
        ObjectRecord::new(ObjectKind::LOG, meta.as_bytes().into(), Box::new([extent]))
    }
}

/// The objects of a generation by name.
pub(crate) type ObjectMap = BTreeMap<Arc<str>, Arc<ObjectRecord>>;

/// One published generation.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) generation: u64,
    /// Shared with the transactions based on it, until they change it.
    pub(crate) objects: Arc<ObjectMap>,
    /// The extent of the directory itself.
    pub(crate) extent: ExtentRef,
    /// Space of older generations. `None` without the feature, or if a repair has republished the generation
    /// since.
    pub(crate) limbo: Option<LimboList>,
    /// The features in its superblock, which determine how extensions of the format are read.
    pub(crate) features: Features,
}

impl Directory {
    /// Returns every extent that the generation needs, including its own; shared ones as often as they are
    /// named.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &ExtentRef> {
        let objects = self.objects.values().flat_map(|record| record.extents.iter());
        objects.chain(std::iter::once(&self.extent))
    }

    /// Returns the extents of its logs. Linear in the number of objects.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &ExtentRef> {
        let logs = self
            .objects
            .values()
            .filter(|record| record.kind == ObjectKind::LOG);
        logs.flat_map(|record| record.extents.iter())
    }

    /// Returns the extents of its logs and slabs. Linear in the number of objects.
    pub(crate) fn mutable(&self) -> impl Iterator<Item = &ExtentRef> {
        let mutable = self.objects.values().filter(|record| record.kind.is_mutable());
        mutable.flat_map(|record| record.extents.iter())
    }

    /// Decodes the bytes of a directory whose checksum has been verified.
    ///
    /// # Errors
    /// A description of the contradiction found, which a correct checksum makes unlikely but not impossible.
    pub(crate) fn decode(
        bytes: &[u8],
        extent: ExtentRef,
        generation: u64,
        file_len: u64,
        features: Features,
    ) -> Result<Directory, Cow<'static, str>> {
        let (header, rest) = DirectoryHeader::read_from_prefix(bytes).map_err(|_| "it is too short")?;
        if header.magic != DIRECTORY_MAGIC {
            return Err("it does not start like a directory".into());
        }
        if header.generation.get() > generation {
            return Err("it belongs to a later generation".into());
        }
        let (entries, rest) = split::<ObjectEntry>(rest, header.object_count.get())?;
        let (extents, heap) = split::<ExtentEntry>(rest, header.extent_count.get())?;
        let listed = features.has(Features::LIMBO_LIST);
        let list = usize::try_from(header.heap_len.get())
            .ok()
            .filter(|len| listed || *len == heap.len())
            .and_then(|len| heap.split_at_checked(len));
        let (heap, list) = list.ok_or("its parts do not add up to its length")?;
        let limbo = if listed {
            let list = LimboList::decode(list, header.limbo_count.get(), generation)?;
            // In a republished generation, the list does not know the generations published in between.
            let own = header.generation.get() == generation || injected(PoolFault::TrustOldList);
            own.then_some(list)
        } else {
            None
        };
        let mut objects: Vec<(Arc<str>, Arc<ObjectRecord>)> = Vec::with_capacity(entries.len());
        let mut claims = SpaceClaims::default();
        claims.add_directory(&extent);
        // Each object has entries and bytes of its own, so decoded data is never larger than the directory.
        let (mut extents_left, mut heap_left) = (extents.len(), heap.len());
        for entry in entries {
            let name = heap_range(heap, entry.name_offset.get(), entry.name_len.get())?;
            let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
            check_name(name)
                .map_err(|_| format!("an object has the name {name:?}, which is not a valid one"))?;
            if objects.last().is_some_and(|(before, _)| &**before >= name) {
                return Err("its names are not in order".into());
            }
            let meta = heap_range(heap, entry.meta_offset.get(), entry.meta_len.get())?;
            let first = usize::try_from(entry.first_extent.get()).ok();
            let count = usize::try_from(entry.extent_count.get()).ok();
            let own = first
                .zip(count)
                .and_then(|(first, count)| extents.get(first..first.checked_add(count)?));
            let own = own.ok_or("an object's extents are out of range")?;
            let left = extents_left
                .checked_sub(own.len())
                .zip(heap_left.checked_sub(name.len() + meta.len()));
            (extents_left, heap_left) = left
                .ok_or_else(|| format!("'{name}' and objects before it are described by the same bytes"))?;
            let own = own
                .iter()
                .map(|entry| extent_of(entry, file_len, features))
                .collect::<Result<Box<[_]>, _>>()?;
            let kind = ObjectKind(entry.kind.get());
            let log_len = own.first().map_or(0, |extent| extent.len);
            if kind == ObjectKind::LOG && (own.len() != 1 || log_len == 0 || !log_len.is_multiple_of(BLOCK)) {
                return Err("a log is not one extent of whole blocks".into());
            }
            if kind == ObjectKind::LOG && !meta.is_empty() && !has_count(meta) {
                return Err("a log has metadata of a layout that is not known".into());
            }
            if kind == ObjectKind::SLAB && !is_slab(meta, &own) {
                return Err("a slab is not chunks of whole blocks, or does not say what it holds".into());
            }
            claims.add_object(objects.len(), &own, kind.is_mutable());
            objects.push((name.into(), Arc::new(ObjectRecord::new(kind, meta.into(), own))));
        }
        for (aged, _) in limbo.iter().flat_map(LimboList::freed) {
            claims.add_limbo(aged.range.clone());
        }
        for range in limbo.iter().flat_map(|list| &list.reserve) {
            claims.add_limbo(range.clone());
        }
        claims.check(|number| objects[number].0.to_string())?;
        Ok(Directory {
            generation,
            objects: Arc::new(objects.into_iter().collect()),
            extent,
            limbo,
            features,
        })
    }
}

/// Returns true if metadata and extents are those of a slab.
fn is_slab(meta: &[u8], extents: &[ExtentRef]) -> bool {
    let Ok(meta) = SlabMeta::read_from_bytes(meta) else {
        return false;
    };
    let node_size = meta.node_size.get();
    (MIN_NODE_SIZE..=MAX_NODE_SIZE).contains(&node_size)
        && node_size.is_multiple_of(MIN_NODE_SIZE)
        && extents.first().is_some_and(|first| first.len >= SLAB_HEAD)
        && extents
            .iter()
            .all(|extent| extent.len.is_multiple_of(BLOCK) && extent.len >= u64::from(node_size))
}

/// Returns the length of an encoded directory without its limbo list.
pub(crate) fn encoded_len(objects: &ObjectMap) -> usize {
    let of_object = |(name, record): (&Arc<str>, &Arc<ObjectRecord>)| {
        size_of::<ObjectEntry>()
            + record.extents.len() * size_of::<ExtentEntry>()
            + name.len()
            + record.meta.len()
    };
    size_of::<DirectoryHeader>() + objects.iter().map(of_object).sum::<usize>()
}

/// Encodes a directory.
pub(crate) fn encode(generation: u64, objects: &ObjectMap, limbo: Option<&LimboList>) -> Vec<u8> {
    let extent_count: usize = objects.values().map(|record| record.extents.len()).sum();
    let heap_len: usize = objects
        .iter()
        .map(|(name, record)| name.len() + record.meta.len())
        .sum();
    let list_len = limbo.map_or(0, |list| LimboList::encoded_len(list.len()));
    let mut bytes = Vec::with_capacity(encoded_len(objects) + list_len);
    let header = DirectoryHeader {
        magic: DIRECTORY_MAGIC,
        generation: U64::new(generation),
        object_count: U64::new(objects.len() as u64),
        extent_count: U64::new(extent_count as u64),
        heap_len: U64::new(heap_len as u64),
        limbo_count: U64::new(limbo.map_or(0, |list| list.len() as u64)),
        reserved: [0; 16],
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
            sums: U64::new(if extent.sums { SUMS_FOLLOW } else { 0 }),
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    for (name, record) in objects {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&record.meta);
    }
    if let Some(list) = limbo {
        list.encode(&mut bytes);
    }
    bytes
}

fn extent_of(entry: &ExtentEntry, file_len: u64, features: Features) -> Result<ExtentRef, &'static str> {
    let mut extent = ExtentRef::plain(entry.offset.get(), entry.len.get(), entry.checksum.get());
    if !in_bounds(extent.offset, extent.len, file_len) {
        return Err("an extent is outside of the file");
    }
    extent.sums = match entry.sums.get() {
        0 => false,
        // In pools without block checksums this field was reserved.
        _ if !features.has(Features::BLOCK_SUMS) => false,
        SUMS_FOLLOW if extent.len > SUMMED_FROM => true,
        _ => return Err("an extent has checksums of an unknown kind"),
    };
    if extent.space().end > file_len {
        return Err("the checksums of an extent are outside of the file");
    }
    Ok(extent)
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
