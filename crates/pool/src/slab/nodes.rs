//! The nodes of a slab that are in use, as bitmaps in DRAM that are rebuilt at each opening.

use halocline_media::LINE;

use crate::layout::NODE_SUM;

use super::SlabStats;
use super::doubt::ChunkDoubt;
use super::frontier::Frontier;

/// The layout of one extent of nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkLayout {
    /// Offset of its first node.
    pub(super) start: u64,
    pub(super) count: u64,
    /// Offset of the node checksums, if the extent has room for them.
    pub(super) sums: Option<u64>,
}

impl ChunkLayout {
    /// Computes the layout of nodes between `start` and `end`; checksums take the last lines.
    fn new(start: u64, end: u64, node_size: u64, with_sums: bool) -> ChunkLayout {
        let room = end - start;
        if !with_sums {
            let count = room / node_size;
            return ChunkLayout {
                start,
                count,
                sums: None,
            };
        }
        let lines = |count: u64| (count * NODE_SUM).next_multiple_of(LINE);
        let most = room / (node_size + NODE_SUM);
        let count = (0..=most)
            .rev()
            .find(|count| count * node_size + lines(*count) <= room);
        let count = count.unwrap_or(0);
        ChunkLayout {
            start,
            count,
            sums: Some(end - lines(count)),
        }
    }

    /// Returns the offset of a node's checksum, or `None` if there is no node at `offset` or no room for
    /// checksums.
    pub(super) fn sum_of(&self, offset: u64, node_size: u64) -> Option<u64> {
        let distance = offset.checked_sub(self.start)?;
        let index = distance / node_size;
        let is_node = distance.is_multiple_of(node_size) && index < self.count;
        self.sums.filter(|_| is_node).map(|sums| sums + index * NODE_SUM)
    }
}

/// The nodes of one extent.
#[derive(Debug)]
pub(super) struct NodeChunk {
    pub(super) layout: ChunkLayout,
    /// Number of chunks that the slab had when this one was added.
    pub(super) age: usize,
    /// One bit per node, set if it is in use or withheld; bits after the last node are set.
    pub(super) bits: Vec<u64>,
    /// The nodes in use that are in doubt.
    pub(super) doubt: ChunkDoubt,
    /// Bytes of the chunk in the pool.
    pub(super) bytes: u64,
    /// While the chunk is closed, the nodes that are free: their bits in `bits` are set, so that none of them
    /// is allocated.
    pub(super) held: Option<Vec<u64>>,
}

impl NodeChunk {
    /// Returns true if the node of this number in the chunk is in use.
    pub(super) fn is_used(&self, index: u64) -> bool {
        self.used_word((index / 64) as usize) >> (index % 64) & 1 == 1
    }

    /// Returns a word of the bitmap of nodes in use.
    pub(super) fn used_word(&self, word: usize) -> u64 {
        self.bits[word] & !self.held.as_ref().map_or(0, |held| held[word])
    }

    /// Returns the number of nodes in use or withheld.
    pub(super) fn used(&self) -> u64 {
        let free = |word: usize| u64::from(self.used_word(word).count_zeros());
        self.layout.count - (0..self.bits.len()).map(free).sum::<u64>()
    }
}

/// All nodes of a slab.
#[derive(Debug)]
pub(super) struct NodeAllocator {
    pub(super) node_size: u64,
    /// True if chunks have room for checksums.
    with_sums: bool,
    /// Sorted by offset.
    pub(super) chunks: Vec<NodeChunk>,
    bytes: u64,
    pub(super) used: u64,
    pub(super) capacity: u64,
    /// Number of nodes after the frontier, none of which is in use.
    pub(super) withheld: u64,
    /// Number of free nodes of closed chunks.
    pub(super) held: u64,
    /// Number of nodes in use that are in doubt.
    pub(super) doubtful: u64,
    /// The bound of the nodes that can be allocated, if the owner keeps one.
    pub(super) frontier: Option<Frontier>,
    /// Stack of freed nodes. A node that the cursor has allocated meanwhile is skipped.
    freed: Vec<u64>,
    /// The chunk (by its start) and the bitmap word before which no node is free, except those in `freed`.
    cursor: Option<(u64, usize)>,
}

impl NodeAllocator {
    pub(super) fn new(node_size: u64, with_sums: bool) -> NodeAllocator {
        NodeAllocator {
            node_size,
            with_sums,
            chunks: Vec::new(),
            bytes: 0,
            used: 0,
            capacity: 0,
            withheld: 0,
            held: 0,
            doubtful: 0,
            frontier: None,
            freed: Vec::new(),
            cursor: None,
        }
    }

    /// Returns the chunks in ascending order of their offsets.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &NodeChunk> {
        self.chunks.iter()
    }

    /// Adds a chunk of `bytes` bytes with nodes between `start` and `end`.
    pub(super) fn add(&mut self, start: u64, end: u64, bytes: u64) {
        let layout = ChunkLayout::new(start, end, self.node_size, self.with_sums);
        let count = layout.count;
        let mut bits = vec![0; count.div_ceil(64) as usize];
        if let Some(last) = bits.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = u64::MAX << (count % 64);
        }
        let at = self.chunks.partition_point(|chunk| chunk.layout.start < start);
        if self.frontier.is_some() {
            bits.fill(u64::MAX);
            self.withheld += count;
        }
        let chunk = NodeChunk {
            layout,
            age: self.chunks.len(),
            bits,
            doubt: ChunkDoubt::default(),
            bytes,
            held: None,
        };
        self.chunks.insert(at, chunk);
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
        if !self.has_free() {
            return None;
        }
        let (start, word) = self.cursor?;
        let first = self.chunks.partition_point(|chunk| chunk.layout.start < start);
        let chunks = self.chunks.len();
        for turn in 0..=chunks {
            let chunk = &mut self.chunks[(first + turn) % chunks];
            let from = if turn == 0 { word } else { 0 };
            let found = chunk.bits[from..].iter().position(|bits| *bits != u64::MAX);
            if let Some(word) = found.map(|word| word + from) {
                let bit = chunk.bits[word].trailing_ones();
                chunk.bits[word] |= 1 << bit;
                self.used += 1;
                self.cursor = Some((chunk.layout.start, word));
                return Some(chunk.layout.start + (word as u64 * 64 + u64::from(bit)) * self.node_size);
            }
        }
        None
    }

    /// Frees a node; returns false if it is not in use.
    pub(super) fn give(&mut self, offset: u64) -> bool {
        let Some((chunk, word, bit)) = self.locate(offset) else {
            return false;
        };
        let chunk = &mut self.chunks[chunk];
        if chunk.used_word(word) & bit == 0 {
            return false;
        }
        match &mut chunk.held {
            Some(held) => {
                held[word] |= bit;
                self.held += 1;
            }
            None => {
                chunk.bits[word] &= !bit;
                self.freed.push(offset);
            }
        }
        self.used -= 1;
        self.doubtful -= u64::from(chunk.doubt.forget(word, bit));
        true
    }

    /// Marks a node as in use; returns false if it already is or does not exist.
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

    pub(super) fn is_used(&self, offset: u64) -> bool {
        let located = self.locate(offset);
        located.is_some_and(|(chunk, word, bit)| self.chunks[chunk].used_word(word) & bit != 0)
    }

    /// Returns which nodes are in use, except for those `without`: for each chunk the offset of its first
    /// node, the number of nodes and the bitmap.
    pub(super) fn usage(&self, without: &[u64]) -> Vec<u64> {
        let used = |chunk: &NodeChunk| (0..chunk.bits.len()).map(|word| chunk.used_word(word)).collect();
        let mut bitmaps: Vec<Vec<u64>> = self.chunks.iter().map(used).collect();
        for (chunk, word, bit) in without.iter().filter_map(|offset| self.locate(*offset)) {
            bitmaps[chunk][word] &= !bit;
        }
        let mut words = Vec::new();
        for (chunk, bits) in self.chunks.iter().zip(&bitmaps) {
            words.extend([chunk.layout.start, chunk.layout.count]);
            words.extend(bits);
        }
        words
    }

    /// Frees all nodes that are in use and for which `keep` returns false.
    pub(super) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.reopen();
        for chunk in &mut self.chunks {
            for index in 0..chunk.layout.count {
                let offset = chunk.layout.start + index * self.node_size;
                if chunk.is_used(index) && !keep(offset) {
                    chunk.bits[(index / 64) as usize] &= !(1 << (index % 64));
                    self.used -= 1;
                }
            }
        }
    }

    /// Marks the nodes of a [`usage`](NodeAllocator::usage) and those of `with` as in use. Changes nothing
    /// and returns false if it is not one of exactly these chunks, or if one of `with` is not free.
    pub(super) fn restore(&mut self, mut words: &[u64], with: &[u64]) -> bool {
        let mut bitmaps = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let Some((head, rest)) = words.split_at_checked(2) else {
                return false;
            };
            let Some((bits, rest)) = rest.split_at_checked(chunk.bits.len()) else {
                return false;
            };
            // Bits after that of the last node are the only ones that are set now.
            let outside = chunk.bits.iter().zip(bits).any(|(now, bits)| bits & now != *now);
            if head != [chunk.layout.start, chunk.layout.count] || outside {
                return false;
            }
            bitmaps.push(bits.to_vec());
            words = rest;
        }
        for offset in with {
            match self.locate(*offset) {
                Some((chunk, word, bit)) if bitmaps[chunk][word] & bit == 0 => bitmaps[chunk][word] |= bit,
                _ => return false,
            }
        }
        if !words.is_empty() || self.used > 0 {
            return false;
        }
        for (chunk, bits) in self.chunks.iter_mut().zip(bitmaps) {
            let free: u64 = bits.iter().map(|bits| u64::from(bits.count_zeros())).sum();
            chunk.bits = bits;
            self.used += chunk.layout.count - free;
        }
        true
    }

    /// Marks all nodes as in use.
    pub(super) fn set_all(&mut self) {
        self.reopen();
        for chunk in &mut self.chunks {
            chunk.bits.fill(u64::MAX);
        }
        self.used = self.capacity;
    }

    pub(super) fn is_node(&self, offset: u64) -> bool {
        self.locate(offset).is_some()
    }

    /// Returns the offset after the last node.
    pub(super) fn nodes_end(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| {
            chunk.layout.start + chunk.layout.count * self.node_size
        })
    }

    /// Returns the node that contains an offset.
    pub(super) fn node_at(&self, offset: u64) -> Option<u64> {
        let after = self.chunks.partition_point(|chunk| chunk.layout.start <= offset);
        let ChunkLayout { start, count, .. } = self.chunks[after.checked_sub(1)?].layout;
        let node = (offset - start) / self.node_size;
        (node < count).then_some(start + node * self.node_size)
    }

    /// Returns true if a node can be allocated, other than those after the frontier.
    pub(super) fn has_free(&self) -> bool {
        self.used + self.withheld + self.held < self.capacity
    }

    /// Closes the chunk at this position: none of its nodes is allocated before it is reopened.
    pub(super) fn close(&mut self, at: usize) {
        let chunk = &mut self.chunks[at];
        if chunk.held.is_none() {
            let free: Vec<u64> = chunk.bits.iter().map(|bits| !bits).collect();
            self.held += free.iter().map(|free| u64::from(free.count_ones())).sum::<u64>();
            chunk.bits.fill(u64::MAX);
            chunk.held = Some(free);
        }
    }

    /// Reopens all closed chunks.
    pub(super) fn reopen(&mut self) {
        for chunk in &mut self.chunks {
            for (bits, held) in chunk.bits.iter_mut().zip(chunk.held.take().unwrap_or_default()) {
                *bits &= !held;
            }
        }
        self.held = 0;
    }

    /// Removes a closed chunk of which no node is in use. Chunks that were added later keep their order.
    pub(super) fn remove(&mut self, start: u64) {
        let Some(at) = self.chunks.iter().position(|chunk| chunk.layout.start == start) else {
            return;
        };
        let removed = self.chunks.remove(at);
        let used = removed.used();
        self.used -= used;
        self.held -= removed.layout.count - used;
        self.capacity -= removed.layout.count;
        self.bytes -= removed.bytes;
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.age > removed.age) {
            chunk.age -= 1;
        }
        let end = start + removed.layout.count * self.node_size;
        self.freed.retain(|freed| !(start..end).contains(freed));
        self.cursor = self.chunks.first().map(|chunk| (chunk.layout.start, 0));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn stats(&self) -> SlabStats {
        SlabStats {
            node_size: self.node_size,
            used: self.used,
            capacity: self.capacity - self.held,
            chunks: self.chunks.len() as u64,
            bytes: self.bytes,
        }
    }

    /// Returns the chunk of a node, its word in the bitmaps of the chunk, and its bit in the word.
    pub(super) fn locate(&self, offset: u64) -> Option<(usize, usize, u64)> {
        let after = self.chunks.partition_point(|chunk| chunk.layout.start <= offset);
        let chunk = after.checked_sub(1)?;
        let ChunkLayout { start, count, .. } = self.chunks[chunk].layout;
        let distance = offset - start;
        let node = distance / self.node_size;
        (distance.is_multiple_of(self.node_size) && node < count).then_some((
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
        let mut nodes = NodeAllocator::new(256, false);
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

    #[test]
    fn usage_is_restored_for_the_same_chunks_only() {
        let chunks = |ends: &[u64]| {
            let mut nodes = NodeAllocator::new(256, false);
            for (index, count) in ends.iter().enumerate() {
                let start = (index as u64 + 1) << 20;
                nodes.add(start, start + count * 256, count * 256);
            }
            nodes
        };
        let mut nodes = chunks(&[70, 3]);
        let taken: Vec<u64> = (0..72).map_while(|_| nodes.take()).collect();
        assert!(nodes.give(taken[5]) && nodes.give(taken[69]));
        let usage = nodes.usage(&[]);
        assert!(nodes.is_used(taken[4]) && !nodes.is_used(taken[5]) && !nodes.is_used(taken[4] + 8));
        let mut again = chunks(&[70, 3]);
        assert!(again.restore(&usage, &[]));
        assert_eq!((again.stats(), again.usage(&[])), (nodes.stats(), usage.clone()));
        let free: BTreeSet<u64> = std::iter::from_fn(|| again.take()).collect();
        assert_eq!(free, [taken[5], taken[69], (2 << 20) + 512].into());
        // Other chunks, words that are missing or too many, and a free node after the last one.
        for other in [&[70][..], &[70, 4], &[70, 3, 1], &[64, 3]] {
            assert!(!chunks(other).restore(&usage, &[]));
        }
        assert!(!chunks(&[70, 3]).restore(&usage[..usage.len() - 1], &[]));
        assert!(!chunks(&[70, 3]).restore(&[&usage[..], &[0]].concat(), &[]));
        let mut behind = usage.clone();
        behind[3] &= u64::MAX >> 1;
        assert!(!chunks(&[70, 3]).restore(&behind, &[]));
        assert!(!nodes.restore(&usage, &[]), "nodes are in use");
        // Without some of the nodes, and without those that are not to be kept.
        let mut fewer = chunks(&[70, 3]);
        assert!(!fewer.restore(&usage, &[taken[4]]) && !fewer.restore(&usage, &[taken[5], taken[5]]));
        assert!(fewer.restore(&nodes.usage(&taken[..5]), &[]));
        assert_eq!(fewer.stats().used, nodes.stats().used - 5);
        nodes.retain(|offset| !taken[..5].contains(&offset));
        assert_eq!(nodes.usage(&[]), fewer.usage(&[]));
        assert_eq!(nodes.stats(), fewer.stats());
    }

    #[test]
    fn checksums_take_the_last_lines_of_a_chunk() {
        for (node_size, blocks) in [
            (256, 1_u64),
            (256, 16),
            (512, 3),
            (1024, 2),
            (65_536, 17),
            (65_536, 1),
        ] {
            let mut nodes = NodeAllocator::new(node_size, true);
            let (start, end) = (1 << 20, (1 << 20) + blocks * 4096);
            nodes.add(start, end, end - start);
            let layout = nodes.chunks().next().unwrap().layout;
            let sums = layout.sums.unwrap();
            assert!(start + layout.count * node_size <= sums && sums.is_multiple_of(64));
            assert!(sums + layout.count * NODE_SUM <= end && end - sums < layout.count * NODE_SUM + LINE);
            // One more has no room.
            let more = layout.count + 1;
            assert!(more * node_size + (more * NODE_SUM).next_multiple_of(LINE) > end - start);
            assert_eq!(nodes.stats().capacity, layout.count);
            for index in 0..layout.count {
                let offset = start + index * node_size;
                assert_eq!(layout.sum_of(offset, node_size), Some(sums + index * NODE_SUM));
                assert_eq!(layout.sum_of(offset + 8, node_size), None);
            }
            assert_eq!(layout.sum_of(start + layout.count * node_size, node_size), None);
        }
    }
}
