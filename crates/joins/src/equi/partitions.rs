//! The rows of one side by partitions of their hashes, in DRAM or spilled.
//!
//! Each thread collects rows in a *chunk* per partition. A full chunk is handed to the partition if that is
//! in DRAM, else written to spill space. Memory for chunks is taken from the budget, and with it that of the
//! hash table that they will become.
//!
//! Invariant: a partition that is marked as spilled has no chunk in DRAM but those of writers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use halocline_costs::join::TABLE_ROW_BYTES;

use super::bloom::Bloom;
use super::budget::BudgetShare;
use super::hash::Level;
use super::layout::RowLayout;
use super::piece_gate::PieceGate;
use super::plan::EquiPlan;
use super::sizing::Sizing;
use super::spill::SpilledBlock;
use crate::{JoinError, JoinResult};

/// Bytes of variable-length values in one partition in DRAM, above which it counts as too large: positions
/// there have 32 bits.
const MAX_VALUE_BYTES: usize = 1 << 30;

/// Bytes of that filter per row above which it does not become better.
const FILTER_ROW_BYTES: usize = 2;

/// Part of the limit that a join that spills leaves to the heap, in which buffers of many sizes are
/// allocated and freed: one over this,
const RESERVE_SHARE: usize = 5;
/// less this, which may be taken beyond the limit,
const MIN_RESERVE: usize = 1 << 20;
/// at most this.
const MAX_RESERVE: usize = 6 << 20;

/// Share of the memory for the filter of spilled rows.
const FILTER_SHARE: usize = 16;

/// Some rows in DRAM.
pub(super) struct RowChunk {
    pub(super) words: Vec<u64>,
    /// Words that it was made for.
    pub(super) room: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) memory: BudgetShare,
}

#[derive(Default)]
struct Partition<'p> {
    chunks: Vec<RowChunk>,
    rows: usize,
    /// Reserved bytes of the chunks.
    bytes: usize,
    /// Bytes of variable-length values.
    value_bytes: usize,
    blocks: Vec<SpilledBlock<'p>>,
}

/// The reaction to memory running out.
#[derive(Clone, Copy)]
pub(super) enum WhenFull<'p> {
    /// The join fails.
    Fail,
    /// A partition is spilled.
    Spill,
    /// The threads wait until the rows so far have been joined.
    Wait(&'p PieceGate),
    /// Memory has been taken for all buffers; every partition is spilled.
    Prepaid,
}

/// Partitioned rows of one side.
pub(super) struct Partitions<'p> {
    pub(super) plan: &'p EquiPlan<'p>,
    pub(super) layout: &'p RowLayout,
    pub(super) level: Level,
    pub(super) sizing: Sizing,
    pub(super) when_full: WhenFull<'p>,
    parts: Vec<Mutex<Partition<'p>>>,
    spilled: Vec<AtomicBool>,
    /// Number of spilled partitions.
    spills: AtomicUsize,
    /// True if a partition has too many bytes of values.
    crowded: AtomicBool,
    /// Held while a partition is spilled: memory that is left to the heap from the first time on.
    eviction: Mutex<Option<BudgetShare>>,
    /// Most bytes of the filter.
    filter_bytes: usize,
    filter: OnceLock<Option<Bloom>>,
}

impl<'p> Partitions<'p> {
    pub(super) fn new(
        plan: &'p EquiPlan<'p>,
        layout: &'p RowLayout,
        level: Level,
        sizing: Sizing,
        when_full: WhenFull<'p>,
    ) -> Partitions<'p> {
        Partitions {
            plan,
            layout,
            level,
            sizing,
            when_full,
            parts: (0..sizing.parts).map(|_| Mutex::default()).collect(),
            spilled: (0..sizing.parts).map(|_| AtomicBool::new(false)).collect(),
            spills: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            eviction: Mutex::default(),
            filter_bytes: usize::MAX,
            filter: OnceLock::new(),
        }
    }

    /// Makes the filter of spilled rows large enough for this number of rows at most.
    pub(super) fn with_rows(mut self, rows: Option<u64>) -> Partitions<'p> {
        if let Some(rows) = rows {
            self.filter_bytes = (rows as usize)
                .saturating_mul(FILTER_ROW_BYTES)
                .max(FILTER_ROW_BYTES * 64);
        }
        self
    }

    /// Marks all partitions as spilled.
    pub(super) fn spill_all(&self) {
        for part in 0..self.sizing.parts {
            self.mark_spilled(part);
        }
    }

    fn mark_spilled(&self, part: usize) {
        if !self.spilled[part].swap(true, Ordering::AcqRel) {
            self.spills.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn is_spilled(&self, part: usize) -> bool {
        self.spilled[part].load(Ordering::Acquire)
    }

    /// Returns the number of spilled partitions.
    pub(super) fn spills(&self) -> usize {
        self.spills.load(Ordering::Relaxed)
    }

    fn part(&self, part: usize) -> MutexGuard<'_, Partition<'p>> {
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of the largest partition in DRAM.
    pub(super) fn largest(&self) -> usize {
        (0..self.sizing.parts)
            .map(|part| self.part(part).bytes)
            .max()
            .unwrap_or(0)
    }

    /// Returns the number of rows in DRAM that writers have handed over.
    pub(super) fn resident_rows(&self) -> usize {
        (0..self.sizing.parts).map(|part| self.part(part).rows).sum()
    }

    /// Takes the chunks of a partition and their number of rows.
    pub(super) fn take_chunks(&self, part: usize) -> (Vec<RowChunk>, usize) {
        let mut part = self.part(part);
        (part.bytes, part.value_bytes) = (0, 0);
        (std::mem::take(&mut part.chunks), std::mem::take(&mut part.rows))
    }

    /// Takes the spilled rows of a partition.
    pub(super) fn take_blocks(&self, part: usize) -> Vec<SpilledBlock<'p>> {
        std::mem::take(&mut self.part(part).blocks)
    }

    /// Returns the filter of spilled rows if there is one.
    pub(super) fn filter(&self) -> Option<&Bloom> {
        self.filter.get()?.as_ref()
    }

    /// Returns true if partitions may be spilled.
    pub(super) fn can_spill(&self) -> bool {
        matches!(self.when_full, WhenFull::Spill)
    }

    /// Spills the largest partition in DRAM. Returns false if there is none.
    ///
    /// # Errors
    /// Those of the spill space.
    pub(super) fn evict_one(&self, scratch: &mut Vec<u8>) -> JoinResult<bool> {
        let largest = (0..self.sizing.parts)
            .filter(|part| !self.is_spilled(*part))
            .map(|part| (self.part(part).bytes, part))
            .max();
        let Some((bytes, part)) = largest else {
            return Ok(false);
        };
        if bytes == 0 {
            return Ok(false);
        }
        self.mark_spilled(part);
        let (chunks, _) = self.take_chunks(part);
        for chunk in chunks {
            self.plan.workers.check()?;
            self.write(part, &chunk, scratch)?;
        }
        Ok(true)
    }

    /// Writes a chunk to the spill space.
    fn write(&self, part: usize, chunk: &RowChunk, scratch: &mut Vec<u8>) -> JoinResult<()> {
        if let WhenFull::Spill = self.when_full {
            let filter = self.filter.get_or_init(|| {
                let budget = &self.plan.context.budget;
                let bytes = (budget.limit() / FILTER_SHARE).min(self.filter_bytes);
                Some(Bloom::new(self.level, budget.try_take(bytes)?))
            });
            if let Some(filter) = filter {
                let rows = chunk.words.chunks_exact(self.layout.stride);
                rows.for_each(|row| filter.insert(self.layout.hash(row)));
            }
        }
        let block = self
            .plan
            .spiller
            .write(self.layout, (&chunk.words, &chunk.bytes), scratch)?;
        self.part(part).blocks.push(block);
        Ok(())
    }

    /// Adds a chunk to a partition. Returns it if its rows have been spilled.
    ///
    /// # Errors
    /// Those of the spill space.
    pub(super) fn add(
        &self,
        part: usize,
        mut chunk: RowChunk,
        scratch: &mut Vec<u8>,
    ) -> JoinResult<Option<RowChunk>> {
        if !self.is_spilled(part) {
            let rows = chunk.words.len() / self.layout.stride;
            chunk.words.shrink_to_fit();
            chunk.bytes.shrink_to_fit();
            let bytes = size_of_val(&*chunk.words) + chunk.bytes.len() + rows * TABLE_ROW_BYTES;
            let mut of_part = self.part(part);
            // Eviction sets the mark before it takes the chunks under this lock.
            if !self.is_spilled(part) {
                chunk.memory.shrink(bytes);
                of_part.rows += rows;
                of_part.bytes += bytes;
                of_part.value_bytes += chunk.bytes.len();
                if of_part.value_bytes > MAX_VALUE_BYTES || of_part.rows > u32::MAX as usize / 2 {
                    self.crowded.store(true, Ordering::Relaxed);
                }
                of_part.chunks.push(chunk);
                return Ok(None);
            }
            drop(of_part);
            self.write(part, &chunk, scratch)?;
            return Ok(None);
        }
        self.write(part, &chunk, scratch)?;
        Ok(Some(chunk))
    }

    /// Returns true if a partition has too many bytes of variable-length values to grow.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Makes room for a chunk. Returns true if that has to be allocated beyond the budget.
    ///
    /// # Errors
    /// [`JoinError::JoinMemory`], [`JoinError::Interrupted`], those of the spill space.
    pub(super) fn make_room(&self, bytes: usize, scratch: &mut Vec<u8>) -> JoinResult<bool> {
        match self.when_full {
            WhenFull::Fail => Err(JoinError::JoinMemory {
                bytes,
                limit: self.plan.context.budget.limit(),
            }),
            WhenFull::Spill => {
                // One thread makes room; the others find it.
                let mut reserve = self.eviction.lock().unwrap_or_else(PoisonError::into_inner);
                if reserve.is_none() {
                    let budget = &self.plan.context.budget;
                    let left = (budget.limit() / RESERVE_SHARE)
                        .saturating_sub(MIN_RESERVE)
                        .min(MAX_RESERVE);
                    while budget.available() < left && self.evict_one(scratch)? {}
                    *reserve = budget.try_take(left);
                }
                let is_crowded = self.crowded.swap(false, Ordering::Relaxed);
                if !is_crowded && self.plan.context.budget.available() >= bytes {
                    return Ok(false);
                }
                Ok(!self.evict_one(scratch)?)
            }
            WhenFull::Wait(gate) => {
                // Other joins hold the memory: this one goes on with a chunk per partition.
                if self.resident_rows() == 0 {
                    return Ok(true);
                }
                self.crowded.store(false, Ordering::Relaxed);
                gate.wait(&self.plan.workers)?;
                Ok(false)
            }
            WhenFull::Prepaid => Ok(true),
        }
    }
}
