//! The buffers through which a thread adds rows to partitions.
//!
//! The first buffer of a partition is small, and each one twice as large as the one before, up to the size
//! that the partitions were planned with: a build side may be smaller than was expected. What is spilled is
//! written in buffers of full size.

use std::io::ErrorKind;

use halocline_costs::join::TABLE_ROW_BYTES;
use halocline_media::MediaError;

use super::layout::Span;
use super::partitions::{Partitions, RowChunk, WhenFull};
use super::rows::RowBlock;
use crate::JoinResult;

/// The chunks that one thread fills.
pub(super) struct PartitionWriter<'w, 'p> {
    partitions: &'w Partitions<'p>,
    open: Vec<Option<RowChunk>>,
    /// Rows of the next buffer of each partition.
    next: Vec<usize>,
    scratch: Vec<u8>,
}

impl<'w, 'p> PartitionWriter<'w, 'p> {
    pub(super) fn new(partitions: &'w Partitions<'p>) -> PartitionWriter<'w, 'p> {
        PartitionWriter {
            partitions,
            open: (0..partitions.sizing.parts).map(|_| None).collect(),
            next: vec![partitions.sizing.first_rows(partitions.layout.row_bytes()); partitions.sizing.parts],
            scratch: Vec::new(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`JoinError::JoinMemory`], [`JoinError::Interrupted`], those of the spill space.
    pub(super) fn push(&mut self, block: &RowBlock) -> JoinResult<()> {
        let (layout, level) = (self.partitions.layout, self.partitions.level);
        let (stride, parts) = (layout.stride, self.partitions.sizing.parts);
        let rows = block.words.chunks_exact(stride).zip(&block.hashes);
        if layout.spans.is_empty() {
            for (row, hash) in rows {
                let part = level.part(*hash, parts);
                match &mut self.open[part] {
                    Some(chunk) if chunk.words.len() < chunk.room => push_row(&mut chunk.words, row),
                    _ => push_row(&mut self.renew(part, 0)?.words, row),
                }
            }
            return Ok(());
        }
        for (row, hash) in rows {
            self.push_values(level.part(*hash, parts), row, &block.bytes)?;
        }
        Ok(())
    }

    /// Adds a row with variable-length values.
    fn push_values(&mut self, part: usize, row: &[u64], bytes: &[u8]) -> JoinResult<()> {
        let layout = self.partitions.layout;
        let needed: usize = layout.spans.iter().map(|&word| Span(row[word]).len()).sum();
        let has_room = self.open[part].as_ref().is_some_and(|chunk| {
            chunk.words.len() < chunk.room && chunk.bytes.len() + needed <= chunk.bytes.capacity()
        });
        let chunk = match &mut self.open[part] {
            Some(chunk) if has_room => chunk,
            _ => self.renew(part, needed)?,
        };
        let start = chunk.words.len();
        chunk.words.extend_from_slice(row);
        for &word in &layout.spans {
            let value = Span(row[word]).slice(bytes);
            chunk.words[start + word] = Span::new(chunk.bytes.len(), value.len()).0;
            chunk.bytes.extend_from_slice(value);
        }
        Ok(())
    }

    /// Hands over the chunk of a partition and opens another one, with room for a row with `value_bytes`.
    #[cold]
    fn renew(&mut self, part: usize, value_bytes: usize) -> JoinResult<&mut RowChunk> {
        self.partitions.plan.workers.check()?;
        let full = self.partitions.sizing.chunk_rows * self.partitions.layout.stride;
        let mut chunk = match self.close(part)? {
            Some(chunk) if chunk.room == full && chunk.bytes.capacity() >= value_bytes => chunk,
            unfit => {
                drop(unfit);
                self.allocate(part, value_bytes)?
            }
        };
        chunk.words.clear();
        chunk.bytes.clear();
        Ok(self.open[part].insert(chunk))
    }

    fn allocate(&mut self, part: usize, value_bytes: usize) -> JoinResult<RowChunk> {
        let partitions = self.partitions;
        let (layout, full) = (partitions.layout, partitions.sizing.chunk_rows);
        let rows = if partitions.is_spilled(part) {
            full
        } else {
            self.next[part]
        };
        self.next[part] = (rows * 2).min(full);
        let values = if layout.spans.is_empty() {
            0
        } else {
            (rows * layout.row_bytes()).max(value_bytes)
        };
        let bytes = rows * (layout.row_bytes() + TABLE_ROW_BYTES) + values;
        let budget = &partitions.plan.context.budget;
        let mut memory = match partitions.when_full {
            WhenFull::Prepaid => Some(budget.force(0)),
            _ => None,
        };
        while memory.is_none() {
            if !partitions.is_crowded() {
                memory = budget.try_take(bytes);
            }
            if memory.is_none() {
                if let WhenFull::Wait(_) = partitions.when_full {
                    self.close_all()?;
                }
                if partitions.make_room(bytes, &mut self.scratch)? {
                    memory = Some(budget.force(bytes));
                }
            }
        }
        let memory = memory.unwrap_or_else(|| budget.force(bytes));
        Ok(RowChunk {
            words: buffer(rows * layout.stride)?,
            room: rows * layout.stride,
            bytes: buffer(values)?,
            memory,
        })
    }

    /// Hands over the chunk of a partition. Returns it, empty or not, if it can be used again.
    fn close(&mut self, part: usize) -> JoinResult<Option<RowChunk>> {
        match self.open[part].take() {
            Some(chunk) if !chunk.words.is_empty() => self.partitions.add(part, chunk, &mut self.scratch),
            other => Ok(other),
        }
    }

    fn close_all(&mut self) -> JoinResult<()> {
        for part in 0..self.open.len() {
            self.close(part)?;
        }
        Ok(())
    }

    /// Hands over all rows.
    ///
    /// # Errors
    /// Those of the spill space.
    pub(super) fn finish(mut self) -> JoinResult<()> {
        self.close_all()
    }
}

/// Appends a row to words that have room for it.
#[inline(always)]
fn push_row(words: &mut Vec<u64>, row: &[u64]) {
    row.iter().for_each(|word| words.push(*word));
}

/// Returns an empty buffer for `len` values. Buffers come from the heap, where the next one finds the memory
/// of the one before: mapping and unmapping each would take longer than filling it.
fn buffer<T>(len: usize) -> JoinResult<Vec<T>> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(len);
    reserved.map_err(|_| MediaError::OutOfMemory {
        bytes: len.saturating_mul(size_of::<T>()) as u64,
        source: ErrorKind::OutOfMemory.into(),
    })?;
    Ok(buffer)
}
