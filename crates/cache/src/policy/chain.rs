//! Doubly linked queues of slots in shared arrays. A slot is in at most one queue and stores the size of its
//! item.

use super::{CacheItem, Capacity, bytes_of};

/// Marker of no slot.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Link {
    newer: u32,
    older: u32,
    bytes: u32,
}

/// The links of all slots.
#[derive(Debug)]
pub(super) struct Chain {
    links: Vec<Link>,
}

/// A queue in a [`Chain`]. Items enter at its head.
#[derive(Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    /// Total size of its items in bytes.
    pub(super) bytes: u64,
    /// Number of its items.
    pub(super) items: u32,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            bytes: 0,
            items: 0,
        }
    }

    /// Returns the oldest slot, or [`NONE`].
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns true if `item` also fits within `capacity`.
    pub(super) fn fits(&self, item: &CacheItem, capacity: Capacity) -> bool {
        capacity.has(self.bytes + u64::from(item.bytes), self.items + 1)
    }

    /// Returns true if the queue is within `capacity`.
    pub(super) fn within(&self, capacity: Capacity) -> bool {
        capacity.has(self.bytes, self.items)
    }
}

impl Chain {
    pub(super) fn new(slots: usize) -> Self {
        let link = |_| Link {
            newer: NONE,
            older: NONE,
            bytes: 0,
        };
        Self {
            links: (0..slots).map(link).collect(),
        }
    }

    /// Returns the slot that entered the queue directly after this one, or [`NONE`].
    pub(super) fn newer(&self, slot: u32) -> u32 {
        self.links[slot as usize].newer
    }

    /// Returns the size of the slot's item.
    pub(super) fn bytes(&self, slot: u32) -> u64 {
        u64::from(self.links[slot as usize].bytes)
    }

    /// Adds a new item to `queue`.
    pub(super) fn insert(&mut self, queue: &mut Queue, item: &CacheItem) {
        self.links[item.slot as usize].bytes = item.bytes;
        self.push(queue, item.slot);
    }

    /// Adds a slot that is in no queue.
    pub(super) fn push(&mut self, queue: &mut Queue, slot: u32) {
        let link = &mut self.links[slot as usize];
        link.newer = NONE;
        link.older = queue.head;
        queue.bytes += u64::from(link.bytes);
        queue.items += 1;
        match queue.head {
            NONE => queue.tail = slot,
            head => self.links[head as usize].newer = slot,
        }
        queue.head = slot;
    }

    /// Removes a slot from its queue.
    pub(super) fn remove(&mut self, queue: &mut Queue, slot: u32) {
        let &Link { newer, older, bytes } = &self.links[slot as usize];
        match newer {
            NONE => queue.head = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => queue.tail = newer,
            older => self.links[older as usize].newer = newer,
        }
        queue.bytes -= u64::from(bytes);
        queue.items -= 1;
    }

    /// Moves a slot to the head of its queue.
    pub(super) fn renew(&mut self, queue: &mut Queue, slot: u32) {
        if queue.head != slot {
            self.remove(queue, slot);
            self.push(queue, slot);
        }
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        bytes_of(&self.links)
    }
}
