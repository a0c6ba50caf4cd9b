//! The four copies of the superblock: reading, choosing, writing.
//!
//! A publish overwrites the older of copies 0 and 1, a sync the older of copies 2 and 3, so that a torn write
//! never hits the copy that is needed if the write fails. A copy counts if its checksum matches. The newest
//! generation among all four is the pool's; of several copies of it, the one with the shortest file length
//! counts. Magic, version and checksum keep their offsets in every version of the format.

use std::cmp::Reverse;
use std::path::Path;

use halocline_media::Medium;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use crate::PoolError;
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{
    DATA_START, FORMAT_VERSION, FORMAT_WITH_LOGS, FORMAT_WITH_SLABS, FORMAT_WITHOUT_LOGS, MAGIC, SLOT_SIZE,
    SLOTS, SUPERBLOCK_SUMMED, Superblock, checksum,
};
use crate::object::{ExtentRef, in_bounds};

/// Attempts to read the publish copies before both count as damaged: a writer in another process may publish
/// twice during a read, so both can appear torn.
const READ_ATTEMPTS: usize = 100;

impl Superblock {
    /// Creates the superblock of a publish, without its checksum.
    pub(crate) fn new(
        version: u32,
        uuid: [u8; 16],
        boot_id: [u8; 16],
        generation: u64,
        file_len: u64,
        directory: &ExtentRef,
    ) -> Superblock {
        Superblock {
            magic: MAGIC,
            version: U32::new(version),
            reserved_a: U32::new(0),
            uuid,
            generation: U64::new(generation),
            synced_generation: U64::new(0),
            boot_id,
            file_len: U64::new(file_len),
            directory_offset: U64::new(directory.offset),
            directory_len: U64::new(directory.len),
            directory_checksum: U64::new(directory.checksum),
            incompatible: U64::new(0),
            read_compatible: U64::new(0),
            compatible: U64::new(0),
            checksum: U64::new(0),
        }
    }

    pub(crate) fn directory(&self) -> ExtentRef {
        ExtentRef::plain(
            self.directory_offset.get(),
            self.directory_len.get(),
            self.directory_checksum.get(),
        )
    }

    /// Returns true if the generation names logs or slabs, which change without a publish.
    pub(crate) fn has_logs(&self) -> bool {
        match self.version.get() {
            FORMAT_WITHOUT_LOGS => false,
            FORMAT_WITH_LOGS | FORMAT_WITH_SLABS => true,
            _ => Features::from_superblock(self).has(Features::IN_PLACE),
        }
    }

    /// Returns true if the generation survives power loss because its publish or a sync has made it durable.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced_generation == self.generation
    }

    fn sum(&self) -> u64 {
        checksum(&self.as_bytes()[..SUPERBLOCK_SUMMED])
    }

    /// Stores the superblock to a copy: visible, not flushed.
    pub(crate) fn store(mut self, medium: &Medium, slot: usize) {
        self.checksum = U64::new(self.sum());
        medium.store(slot_offset(slot), self.as_bytes());
    }

    /// Stores the superblock to a copy and flushes it; the next fence makes it durable.
    pub(crate) fn write(self, medium: &Medium, slot: usize) {
        self.store(medium, slot);
        medium.flush(slot_offset(slot), size_of::<Superblock>() as u64);
    }
}

/// The content of one copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SuperblockCopy {
    /// Never written.
    Empty,
    /// A superblock of a known format version.
    Valid(Superblock),
    /// A superblock of a newer version.
    Newer(u32),
    /// A superblock that is torn or damaged.
    Damaged,
    /// Bytes that never were a superblock.
    Foreign,
}

/// All copies of the superblock.
#[derive(Debug)]
pub(crate) struct SuperblockCopies([SuperblockCopy; SLOTS]);

impl SuperblockCopies {
    pub(crate) fn read(medium: &Medium) -> SuperblockCopies {
        SuperblockCopies(std::array::from_fn(|slot| read_slot(medium, slot)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SuperblockCopy> {
        self.0.iter()
    }

    /// Returns all valid copies with their indexes.
    pub(crate) fn valid(&self) -> impl Iterator<Item = (usize, &Superblock)> {
        self.0.iter().enumerate().filter_map(|(index, slot)| match slot {
            SuperblockCopy::Valid(superblock) => Some((index, superblock)),
            _ => None,
        })
    }

    /// Returns the union of the features of all generations that a copy leads to.
    pub(crate) fn features(&self) -> Features {
        self.valid().fold(Features::NONE, |all, (_, superblock)| {
            all | Features::from_superblock(superblock)
        })
    }

    /// Returns the newest generation that survives power loss, or 0 if there is none.
    pub(crate) fn synced_generation(&self) -> u64 {
        let synced = self.valid().filter(|(_, superblock)| superblock.is_synced());
        synced
            .map(|(_, superblock)| superblock.generation.get())
            .max()
            .unwrap_or(0)
    }

    /// Returns the newest generation that a sync has written, or 0 if there is none.
    pub(crate) fn sync_copy_generation(&self) -> u64 {
        self.valid()
            .filter(|(slot, _)| *slot >= 2)
            .map(|(_, superblock)| superblock.generation.get())
            .max()
            .unwrap_or(0)
    }

    /// Returns the index of the copy that the next publish writes: the damaged or older one.
    pub(crate) fn publish_target(&self) -> usize {
        self.older(0) ^ usize::from(injected(PoolFault::OverwriteNewest))
    }

    /// Returns the index of the copy that the next sync writes.
    pub(crate) fn sync_target(&self) -> usize {
        self.older(2)
    }

    fn older(&self, first: usize) -> usize {
        let generation = |slot: usize| match &self.0[slot] {
            SuperblockCopy::Valid(superblock) => superblock.generation.get(),
            _ => 0,
        };
        if generation(first) <= generation(first + 1) {
            first
        } else {
            first + 1
        }
    }
}

/// Reads the newest superblock of the pool. Can run beside a publish.
///
/// # Errors
/// [`PoolError::NotAPool`], [`PoolError::Truncated`], [`PoolError::DamagedSuperblock`],
/// [`PoolError::NewerFormat`], [`PoolError::UnknownFeature`].
pub(crate) fn read_newest(medium: &Medium, path: &Path) -> Result<Superblock, PoolError> {
    if medium.len() < DATA_START {
        return Err(too_short(medium, path));
    }
    let mut slots = SuperblockCopies::read(medium);
    for _ in 1..READ_ATTEMPTS {
        if slots.valid().any(|(slot, _)| slot < 2) {
            break;
        }
        std::thread::yield_now();
        slots = SuperblockCopies::read(medium);
    }
    for slot in slots.iter() {
        if let SuperblockCopy::Newer(found) = *slot {
            return Err(PoolError::NewerFormat {
                path: path.to_owned(),
                found,
                supported: FORMAT_VERSION,
            });
        }
    }
    slots.features().check_readable(path)?;
    if !slots.valid().any(|(slot, _)| slot < 2) {
        return Err(
            if slots.iter().all(|slot| matches!(slot, SuperblockCopy::Empty)) {
                PoolError::NotAPool {
                    path: path.to_owned(),
                    reason: "it is empty",
                }
            } else if slots
                .iter()
                .all(|slot| matches!(slot, SuperblockCopy::Empty | SuperblockCopy::Foreign))
            {
                PoolError::NotAPool {
                    path: path.to_owned(),
                    reason: "it does not start like a pool",
                }
            } else {
                PoolError::DamagedSuperblock {
                    path: path.to_owned(),
                }
            },
        );
    }
    let newest = slots
        .valid()
        .map(|(_, superblock)| *superblock)
        .max_by_key(|superblock| (superblock.generation.get(), Reverse(superblock.file_len.get())));
    let newest = newest.ok_or_else(|| PoolError::DamagedSuperblock {
        path: path.to_owned(),
    })?;
    check_reach(&newest, medium, path)?;
    Ok(newest)
}

/// Checks that the medium is long enough for everything that the superblock's generation names.
///
/// # Errors
/// [`PoolError::Truncated`], [`PoolError::DamagedDirectory`].
pub(crate) fn check_reach(superblock: &Superblock, medium: &Medium, path: &Path) -> Result<(), PoolError> {
    let expected = superblock.file_len.get();
    let actual = if medium.len() < expected {
        medium.refresh()?
    } else {
        medium.len()
    };
    if actual < expected {
        return Err(PoolError::Truncated {
            path: path.to_owned(),
            expected,
            actual,
        });
    }
    let directory = superblock.directory();
    if !in_bounds(directory.offset, directory.len, expected) {
        let generation = superblock.generation.get();
        return Err(PoolError::DamagedDirectory {
            path: path.to_owned(),
            generation,
            reason: "it is outside of the file".into(),
        });
    }
    Ok(())
}

fn too_short(medium: &Medium, path: &Path) -> PoolError {
    let mut start = [0; MAGIC.len()];
    if medium.len() >= start.len() as u64 {
        medium.load(0, &mut start);
    }
    match start == MAGIC {
        true => PoolError::Truncated {
            path: path.to_owned(),
            expected: DATA_START,
            actual: medium.len(),
        },
        false if medium.is_empty() => PoolError::NotAPool {
            path: path.to_owned(),
            reason: "it is empty",
        },
        false => PoolError::NotAPool {
            path: path.to_owned(),
            reason: "it is too short",
        },
    }
}

fn slot_offset(slot: usize) -> u64 {
    slot as u64 * SLOT_SIZE
}

fn read_slot(medium: &Medium, slot: usize) -> SuperblockCopy {
    let mut superblock = Superblock::new_zeroed();
    medium.load(slot_offset(slot), superblock.as_mut_bytes());
    if superblock.magic != MAGIC {
        let empty = superblock.as_bytes().iter().all(|byte| *byte == 0);
        // The checksum of the rest distinguishes a damaged magic from a foreign file.
        let damaged = Superblock {
            magic: MAGIC,
            ..superblock
        }
        .sum()
            == superblock.checksum.get();
        return if empty {
            SuperblockCopy::Empty
        } else if damaged {
            SuperblockCopy::Damaged
        } else {
            SuperblockCopy::Foreign
        };
    }
    if superblock.sum() != superblock.checksum.get() {
        return SuperblockCopy::Damaged;
    }
    match superblock.version.get() {
        FORMAT_WITHOUT_LOGS..=FORMAT_VERSION => SuperblockCopy::Valid(superblock),
        newer if newer > FORMAT_VERSION => SuperblockCopy::Newer(newer),
        _ => SuperblockCopy::Damaged,
    }
}
