//! W-TinyLFU: new items enter an LRU window (a hundredth of the capacity). An item that leaves it is admitted
//! to the main cache, a segmented LRU (one fifth probation, four fifths protected), if a count-min sketch
//! estimates more uses for it than for its victim (Einziger, Friedman and Manes, ACM TOS 13(4), 2017,
//! sections 3 and 4). With items of different sizes it needs more uses than all its victims together (the
//! same authors and Eytan, "Lightweight robust size aware cache management", ACM TOS 18(3), 2022, "aggregated
//! victims").

use super::chain::{Chain, NONE, Queue};
use super::sketch::FrequencySketch;
use super::{CacheItem, Capacity, Policy, bytes_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LfuSegment {
    Window,
    Probation,
    Protected,
}

#[derive(Debug)]
pub(super) struct WTinyLfu {
    window_room: Capacity,
    main_room: Capacity,
    protected_room: Capacity,
    capacity: Capacity,
    chain: Chain,
    window: Queue,
    probation: Queue,
    protected: Queue,
    segments: Vec<LfuSegment>,
    keys: Vec<u64>,
    sketch: FrequencySketch,
}

impl WTinyLfu {
    pub(super) fn new(capacity: Capacity) -> Self {
        let window_room = capacity.percent(1);
        let main_room = Capacity {
            bytes: capacity.bytes - window_room.bytes,
            items: capacity.items.saturating_sub(window_room.items),
        };
        Self {
            window_room,
            main_room,
            protected_room: Capacity {
                bytes: main_room.bytes * 4 / 5,
                items: (u64::from(main_room.items) * 4 / 5) as u32,
            },
            capacity,
            chain: Chain::new(capacity.slots()),
            window: Queue::new(),
            probation: Queue::new(),
            protected: Queue::new(),
            segments: vec![LfuSegment::Window; capacity.slots()],
            keys: vec![0; capacity.slots()],
            sketch: FrequencySketch::new(capacity.items),
        }
    }

    fn detach(&mut self, slot: u32) {
        let queue = match self.segments[slot as usize] {
            LfuSegment::Window => &mut self.window,
            LfuSegment::Probation => &mut self.probation,
            LfuSegment::Protected => &mut self.protected,
        };
        self.chain.remove(queue, slot);
    }

    /// Adds a slot that is in no queue to the head of a segment.
    fn attach(&mut self, slot: u32, part: LfuSegment) {
        self.segments[slot as usize] = part;
        let queue = match part {
            LfuSegment::Window => &mut self.window,
            LfuSegment::Probation => &mut self.probation,
            LfuSegment::Protected => &mut self.protected,
        };
        self.chain.push(queue, slot);
    }

    /// Considers an item that leaves the window for the main cache. Appends the victims, or the item
    /// itself, to `evicted`.
    fn promote(&mut self, candidate: u32, evicted: &mut Vec<u32>) {
        let bytes = self.chain.bytes(candidate);
        let mut main_bytes = self.probation.bytes + self.protected.bytes + bytes;
        let mut main_items = self.probation.items + self.protected.items + 1;
        let uses = self.sketch.estimate(self.keys[candidate as usize]);
        let before = evicted.len();
        let mut victims_uses = 0;
        let mut victim = self.probation.tail();
        let mut in_probation = true;
        while !self.main_room.has(main_bytes, main_items) {
            if victim == NONE && in_probation {
                in_probation = false;
                victim = self.protected.tail();
            }
            if victim == NONE || victims_uses >= uses {
                break;
            }
            victims_uses += self.sketch.estimate(self.keys[victim as usize]);
            main_bytes -= self.chain.bytes(victim);
            main_items -= 1;
            evicted.push(victim);
            victim = self.chain.newer(victim);
        }
        let fits = self.main_room.has(main_bytes, main_items);
        if fits && (evicted.len() == before || uses > victims_uses) {
            for &victim in &evicted[before..] {
                let queue = match self.segments[victim as usize] {
                    LfuSegment::Protected => &mut self.protected,
                    LfuSegment::Window | LfuSegment::Probation => &mut self.probation,
                };
                self.chain.remove(queue, victim);
            }
            self.attach(candidate, LfuSegment::Probation);
        } else {
            evicted.truncate(before);
            evicted.push(candidate);
        }
    }
}

impl Policy for WTinyLfu {
    fn hit(&mut self, slot: u32, key: u64) {
        self.sketch.count(key);
        self.detach(slot);
        match self.segments[slot as usize] {
            LfuSegment::Window => self.attach(slot, LfuSegment::Window),
            LfuSegment::Probation | LfuSegment::Protected => self.attach(slot, LfuSegment::Protected),
        }
        while !self.protected.within(self.protected_room) {
            let demoted = self.protected.tail();
            self.detach(demoted);
            self.attach(demoted, LfuSegment::Probation);
        }
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        self.sketch.count(item.key);
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        self.keys[item.slot as usize] = item.key;
        self.segments[item.slot as usize] = LfuSegment::Window;
        self.chain.insert(&mut self.window, &item);
        let before = evicted.len();
        while !self.window.within(self.window_room) {
            let candidate = self.window.tail();
            self.detach(candidate);
            self.promote(candidate, evicted);
        }
        // An item too large for the window may have been evicted immediately.
        let own = evicted[before..].iter().position(|&slot| slot == item.slot);
        if let Some(own) = own {
            evicted.swap_remove(before + own);
        }
        own.is_none()
    }

    fn remove(&mut self, slot: u32) {
        self.detach(slot);
    }

    fn metadata_bytes(&self) -> usize {
        let arrays = bytes_of(&self.segments) + bytes_of(&self.keys);
        self.chain.metadata_bytes() + self.sketch.metadata_bytes() + arrays
    }
}
