//! Relocation of extents from the end of the file into free space before them, so that the file can be
//! shortened.
//!
//! Invariants: the copies are published under the same names as one generation, with all logs unchanged.
//! Until then, and while readers of the previous generation remain, the old locations keep their bytes. An
//! extent is copied only if its bytes match its checksum: damage stays where it is. Slabs and logs with
//! records, which change without a publish, do not move.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::PoolError;
use crate::directory::ObjectRecord;
use crate::layout::{SUMMED_FROM, blocks};
use crate::object::{ExtentRef, ObjectKind};
use crate::space::Space;
use crate::txn::Txn;
use crate::writer::ExtentWriter;

/// Divisor: the file must become shorter by this part of its length for relocation to pay off.
const MIN_GAIN_DIVISOR: u64 = 16;
/// Bytes copied between two checks for cancellation.
const PIECE: usize = 1 << 20;

impl Txn {
    /// Copies extents towards the start if the file could then be considerably shorter. Returns true if the
    /// transaction should be committed for that. Setting `cancel` stops the relocation; completed copies
    /// are kept.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`].
    pub(crate) fn relocate(&self, cancel: &AtomicBool) -> Result<bool, PoolError> {
        let base = self.base().directory();
        // Extents written before format 4 have no room for block checksums.
        let old = base
            .extents()
            .filter(|extent| extent.len > SUMMED_FROM && !extent.sums);
        let logs = self.empty_logs();
        let fixed = base.mutable().filter(|extent| !logs.contains(extent));
        let mut fixed: BTreeSet<u64> = fixed.chain(old).map(|extent| extent.offset).collect();
        let (moves, before, len) = {
            let mut writer = self.inner.writer();
            let Some(space) = &mut writer.space else {
                return Ok(false);
            };
            let before = space.used_end();
            let reserve = space.lower_reserve();
            let (moves, end) = space.moves_down(&fixed);
            let worth = self.inner.geometry.growth.max(space.len() / MIN_GAIN_DIVISOR);
            if before.saturating_sub(end) < worth || !self.has_blocks_of_reserve(space)? {
                space.restore_reserve(&reserve);
                return Ok(false);
            }
            (moves, before, space.len())
        };
        tracing::debug!(extents = moves.len(), before, len, "moving extents");
        // Every publish rewrites the directory anyway.
        fixed.insert(base.extent.offset);
        let mut moved: HashMap<ExtentRef, ExtentRef> = HashMap::new();
        for (extent, to) in moves
            .into_iter()
            .filter(|(extent, _)| !fixed.contains(&extent.offset))
        {
            let copy = if logs.contains(&extent) {
                self.log_at(&extent, to)?
            } else {
                self.copy_to(&extent, to, cancel)?
            };
            match copy {
                Some(copy) => _ = moved.insert(extent, copy),
                None => break,
            }
        }
        self.rename_extents(&moved);
        let mut state = self.state();
        state.keeps_logs = logs.is_empty();
        state.republishes = true;
        Ok(true)
    }

    /// Allocates the blocks of the reserve, or returns false if the disk is full.
    fn has_blocks_of_reserve(&self, space: &mut Space) -> Result<bool, PoolError> {
        for range in space.reserve() {
            match self.inner.back(space, &range) {
                Err(PoolError::DiskFull { .. }) => return Ok(false),
                other => other?,
            }
        }
        Ok(true)
    }

    /// Returns the extents of all logs if none of them holds records, so that empty logs can replace them;
    /// otherwise none.
    fn empty_logs(&self) -> Vec<ExtentRef> {
        let empty = self.base().logs().all(|log| log.end().is_ok_and(|end| end == 0));
        let records = self.base().directory().objects.values();
        let logs = records.filter(|record| empty && record.kind == ObjectKind::LOG);
        logs.map(|record| record.extents[0]).collect()
    }

    /// Creates an empty log at `to`, or returns `None` if the space is taken.
    fn log_at(&self, extent: &ExtentRef, to: u64) -> Result<Option<ExtentRef>, PoolError> {
        let space = blocks(extent.len);
        let free = self.reserve_at(to..to + space)?;
        Ok(free.then(|| self.empty_log(to, extent.len)))
    }

    /// Copies an extent. Returns `None` if it is damaged, if the space is taken, or if `cancel` was set.
    fn copy_to(
        &self,
        extent: &ExtentRef,
        to: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<ExtentRef>, PoolError> {
        let space = extent.space();
        if !self.reserve_at(to..to + (space.end - space.start))? {
            return Ok(None);
        }
        let mut writer = ExtentWriter::new(self, to, extent.len);
        let mut piece = vec![0; PIECE.min(blocks(extent.len) as usize)];
        let (mut at, end) = (extent.offset, extent.offset + extent.len);
        while at < end {
            if cancel.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let piece = &mut piece[..(end - at).min(PIECE as u64) as usize];
            self.medium().load(at, piece);
            writer.append(piece);
            at += piece.len() as u64;
        }
        let copy = writer.finish(extent.len)?;
        if copy.checksum != extent.checksum {
            self.trim(to, 0);
            return Ok(None);
        }
        Ok(Some(copy))
    }

    /// Updates all objects to refer to the copies.
    fn rename_extents(&self, moved: &HashMap<ExtentRef, ExtentRef>) {
        let mut state = self.state();
        let names_one =
            |record: &ObjectRecord| record.extents.iter().any(|extent| moved.contains_key(extent));
        let objects: Vec<_> = state
            .objects
            .iter()
            .filter(|(_, record)| names_one(record))
            .map(|(name, record)| {
                let extents = record
                    .extents
                    .iter()
                    .map(|extent| *moved.get(extent).unwrap_or(extent));
                let extents: Box<[ExtentRef]> = extents.collect();
                let record = match record.kind {
                    ObjectKind::LOG => ObjectRecord::log(extents[0]),
                    kind => ObjectRecord::new(kind, record.meta.clone(), extents),
                };
                (Arc::clone(name), Arc::new(record))
            })
            .collect();
        for (name, record) in objects {
            state.put_moved(name, record);
        }
    }
}
