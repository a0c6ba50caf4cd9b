//! Records in DRAM, to be sorted: the bytes in blocks that never move, and one small entry per record.

use super::codec::key;
use rayon::prelude::*;

/// Bytes of a block; a longer record has one of its own.
const BLOCK: usize = 1 << 20;

/// Where a record is, and the start of its key.
#[derive(Debug, Clone, Copy)]
struct Entry {
    prefix: u64,
    block: u32,
    at: u32,
}

/// Records in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct SortedRun {
    blocks: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    record_bytes: u64,
}

impl SortedRun {
    /// Appends the record that `write` appends to the bytes it gets.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // A record rarely is longer than those before it: a block is left when most of it is used.
        if self
            .blocks
            .last()
            .is_none_or(|block| block.len() > BLOCK - BLOCK / 16)
        {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let at = block.len();
        write(block);
        let record = &block[at..];
        self.record_bytes += record.len() as u64;
        let mut prefix = [0; 8];
        let key = key(record);
        let len = key.len().min(8);
        prefix[..len].copy_from_slice(&key[..len]);
        self.entries.push(Entry {
            prefix: u64::from_be_bytes(prefix),
            block: number as u32,
            at: at as u32,
        });
    }

    /// Returns the approximate number of bytes used in DRAM.
    pub(super) fn bytes(&self) -> usize {
        // Up to a sixteenth of a block is left unused.
        let records = self.record_bytes as usize;
        records + records / 16 + self.entries.capacity() * size_of::<Entry>()
    }

    /// Returns the total size in bytes of all records.
    pub(super) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// Sorts the records by their keys, equal ones by their order. O(n log n), on all threads.
    pub(super) fn sorted(mut self) -> Sorted {
        let blocks = &self.blocks;
        self.entries.par_sort_unstable_by(|a, b| {
            let whole = || key(record(blocks, *a)).cmp(key(record(blocks, *b)));
            let order = a.prefix.cmp(&b.prefix).then_with(whole);
            order.then_with(|| (a.block, a.at).cmp(&(b.block, b.at)))
        });
        Sorted(self)
    }
}

fn record(blocks: &[Vec<u8>], entry: Entry) -> &[u8] {
    let bytes = &blocks[entry.block as usize][entry.at as usize..];
    &bytes[..super::codec::len(bytes)]
}

/// Records in the order of their keys.
pub(super) struct Sorted(SortedRun);

impl Sorted {
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let SortedRun { blocks, entries, .. } = &self.0;
        entries.iter().map(|entry| record(blocks, *entry))
    }
}
