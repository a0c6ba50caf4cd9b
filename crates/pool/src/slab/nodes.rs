//! Which nodes of a slab are in use: bits in DRAM, found anew at each opening.

use super::SlabStats;

/// The nodes of one extent.
#[derive(Debug)]
struct Chunk {
    /// Offset of its first node.
    start: u64,
    count: u64,
    /// One bit a node, set if it is in use; those behind the last node are set.
    bits: Vec<u64>,
}

/// All nodes of a slab.
#[derive(Debug)]
pub(super) struct Nodes {
    node_size: u64,
    /// In ascending order of their offsets.
    chunks: Vec<Chunk>,
    bytes: u64,
    used: u64,
    capacity: u64,
    /// Nodes given back, the last one first to go; one that was taken by the cursor meanwhile is skipped.
    freed: Vec<u64>,
    /// The chunk (by its start) and the word of its bits before which none is free, but for those in `freed`.
    cursor: Option<(u64, usize)>,
}

impl Nodes {
    pub(super) fn new(node_size: u64) -> Nodes {
        Nodes {
            node_size,
            chunks: Vec::new(),
            bytes: 0,
            used: 0,
            capacity: 0,
            freed: Vec::new(),
            cursor: None,
        }
    }

    /// Adds a chunk of `bytes` bytes whose nodes are from `start` up to `end`.
    pub(super) fn add(&mut self, start: u64, end: u64, bytes: u64) {
        let count = (end - start) / self.node_size;
        let mut bits = vec![0; count.div_ceil(64) as usize];
        if let Some(last) = bits.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = u64::MAX << (count % 64);
        }
        let at = self.chunks.partition_point(|chunk| chunk.start < start);
        self.chunks.insert(at, Chunk { start, count, bits });
        self.bytes += bytes;
        self.capacity += count;
        if count > 0 {
            self.cursor.get_or_insert((start, 0));
        }
    }

    pub(super) fn take(&mut self) -> Option<u64> {
        while let Some(offset) = self.freed.pop() {
            if self.set(offset) {
                return Some(offset);
            }
        }
        if self.used == self.capacity {
            return None;
        }
        let (start, word) = self.cursor?;
        let first = self.chunks.partition_point(|chunk| chunk.start < start);
        let chunks = self.chunks.len();
        for turn in 0..=chunks {
            let chunk = &mut self.chunks[(first + turn) % chunks];
            let from = if turn == 0 { word } else { 0 };
            let found = chunk.bits[from..].iter().position(|bits| *bits != u64::MAX);
            if let Some(word) = found.map(|word| word + from) {
                let bit = chunk.bits[word].trailing_ones();
                chunk.bits[word] |= 1 << bit;
                self.used += 1;
                self.cursor = Some((chunk.start, word));
                return Some(chunk.start + (word as u64 * 64 + u64::from(bit)) * self.node_size);
            }
        }
        None
    }

    /// Gives a node back; false if it is not in use.
    pub(super) fn give(&mut self, offset: u64) -> bool {
        let Some((chunk, word, bit)) = self.locate(offset) else {
            return false;
        };
        let bits = &mut self.chunks[chunk].bits[word];
        if *bits & bit == 0 {
            return false;
        }
        *bits &= !bit;
        self.used -= 1;
        self.freed.push(offset);
        true
    }

    /// Takes note that a node is in use; false if that was known, or if there is no such node.
    pub(super) fn set(&mut self, offset: u64) -> bool {
        let Some((chunk, word, bit)) = self.locate(offset) else {
            return false;
        };
        let bits = &mut self.chunks[chunk].bits[word];
        let fresh = *bits & bit == 0;
        *bits |= bit;
        self.used += u64::from(fresh);
        fresh
    }

    /// Takes note that all nodes are in use.
    pub(super) fn set_all(&mut self) {
        for chunk in &mut self.chunks {
            chunk.bits.fill(u64::MAX);
        }
        self.used = self.capacity;
    }

    pub(super) fn is_node(&self, offset: u64) -> bool {
        self.locate(offset).is_some()
    }

    /// The node in which an offset lies.
    pub(super) fn node_at(&self, offset: u64) -> Option<u64> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let chunk = &self.chunks[after.checked_sub(1)?];
        let node = (offset - chunk.start) / self.node_size;
        (node < chunk.count).then_some(chunk.start + node * self.node_size)
    }

    pub(super) fn has_free(&self) -> bool {
        self.used < self.capacity
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn stats(&self) -> SlabStats {
        SlabStats {
            node_size: self.node_size,
            used: self.used,
            capacity: self.capacity,
            chunks: self.chunks.len() as u64,
            bytes: self.bytes,
        }
    }

    fn locate(&self, offset: u64) -> Option<(usize, usize, u64)> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let chunk = after.checked_sub(1)?;
        let distance = offset - self.chunks[chunk].start;
        let node = distance / self.node_size;
        (distance.is_multiple_of(self.node_size) && node < self.chunks[chunk].count).then_some((
            chunk,
            (node / 64) as usize,
            1 << (node % 64),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_node_is_handed_out_once() {
        let mut nodes = Nodes::new(256);
        nodes.add(1 << 20, (1 << 20) + 70 * 256, 70 * 256);
        nodes.add(4096, 4096 + 3 * 256 + 100, 4096);
        assert!(nodes.set(4096 + 256) && !nodes.set(4096 + 256));
        assert_eq!(nodes.node_at(4096 + 3 * 256 - 1), Some(4096 + 2 * 256));
        assert_eq!((nodes.node_at(4096 + 3 * 256), nodes.node_at(4095)), (None, None));
        assert!(!nodes.set(4096 + 3 * 256) && !nodes.set(4097) && !nodes.set(0));
        let mut taken = BTreeSet::new();
        while let Some(offset) = nodes.take() {
            assert!(taken.insert(offset), "{offset} twice");
        }
        assert_eq!(taken.len(), 72);
        assert!(!nodes.has_free());
        for offset in taken.iter().step_by(3) {
            assert!(nodes.give(*offset) && !nodes.give(*offset));
        }
        let again: BTreeSet<u64> = std::iter::from_fn(|| nodes.take()).collect();
        assert_eq!(again, taken.iter().copied().step_by(3).collect());
        nodes.add(1 << 30, (1 << 30) + 256, 4096);
        assert_eq!(nodes.take(), Some(1 << 30));
        assert_eq!(nodes.take(), None);
        assert_eq!(nodes.stats().used, 74);
    }
}
