//! The hot-data adaptive index as published (Liu, Luo and Jin, Computer Science, 2022): a feature table finds
//! hot keys, a circular queue with two layers holds them, a hash index finds them there.
//!
//! Positions in the queue only grow; a slot is its position modulo the capacity. From `head` to `warm_end` is
//! the warm layer, from there to `tail` the hot one. Keys enter at the tail; the layers move by moving these
//! three numbers. A slot whose pair was removed or entered again stays empty until the head passes it.
//!
//! The paper leaves a concurrent version open: callers serialize all methods.

use crate::hash_index::{HashIndex, mix, scale};

/// Parts of the capacity: the hot layer has this many for each one of the warm layer.
const HOT_PER_WARM: u64 = 20;

/// Sizes of a [`HotQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotQueueOptions {
    /// Pairs that can be cached.
    pub capacity: u32,
    /// Lookups after which the feature table is cleared.
    pub period: u64,
    /// Lookups within a period that make a key hot.
    pub threshold: u32,
    /// Entries of the feature table.
    pub features: u32,
}

/// The feature table has one byte in this many.
const FEATURES: u64 = 8;

impl HotQueueOptions {
    /// Returns the sizes of the publication for a capacity in pairs: periods of a million lookups, and half
    /// as many features as pairs.
    #[must_use]
    pub fn published(capacity: u32) -> Self {
        Self {
            capacity,
            period: 1_000_000,
            threshold: 2,
            features: capacity.div_ceil(2).max(1),
        }
    }

    /// Returns these options with the largest capacity whose queue, index and feature table fit into `bytes`,
    /// of which an eighth is for the feature table; the capacity is 0 if nothing fits.
    #[must_use]
    pub fn within(self, bytes: u64) -> Self {
        let of_features = size_of::<Feature>() as u64;
        let features = u32::try_from(bytes / FEATURES / of_features)
            .unwrap_or(u32::MAX)
            .max(1);
        let fixed = size_of::<HotQueue>() as u64 + u64::from(features) * of_features;
        let left = bytes.saturating_sub(fixed + HashIndex::BYTES_FOR_TWO);
        let of_two = 2 * size_of::<Slot>() as u64 + HashIndex::BYTES_FOR_TWO;
        let capacity = u32::try_from(2 * (left / of_two)).unwrap_or(u32::MAX / 2);
        Self {
            capacity,
            features,
            ..self
        }
    }
}

/// Entries of the feature table that a key can have.
const PROBED: usize = 4;

/// A slot of the queue.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u64,
    value: u64,
    /// The position of the pair, plus one; another number if the slot is empty.
    position: u64,
}

/// An entry of the feature table.
#[derive(Debug, Clone, Copy, Default)]
struct Feature {
    key: u64,
    lookups: u32,
}

/// A cache of hot pairs; see the module documentation.
#[derive(Debug)]
pub struct HotQueue {
    options: HotQueueOptions,
    features: Vec<Feature>,
    /// Lookups in this period, and how many of them hit.
    lookups: u64,
    hits: u64,
    /// Share of hits in the last period.
    hit_rate: Option<f64>,
    slots: Vec<Slot>,
    index: HashIndex,
    head: u64,
    warm_end: u64,
    tail: u64,
    pairs: u64,
}

impl HotQueue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(options: HotQueueOptions) -> Self {
        Self {
            options,
            features: vec![Feature::default(); options.features.max(1) as usize],
            lookups: 0,
            hits: 0,
            hit_rate: None,
            slots: vec![Slot::default(); options.capacity.max(1) as usize],
            index: HashIndex::new(options.capacity.max(1) as usize),
            head: 0,
            warm_end: 0,
            tail: 0,
            pairs: 0,
        }
    }

    fn slot_of(&self, position: u64) -> usize {
        (position % self.slots.len() as u64) as usize
    }

    fn find(&self, key: u64) -> Option<usize> {
        let slots = &self.slots;
        let slot = self.index.find(mix(key), |slot| slots[slot as usize].key == key);
        slot.map(|slot| slot as usize)
    }

    /// Returns the value of a cached key. A key of the warm layer enters the hot one.
    pub fn get(&mut self, key: u64) -> Option<u64> {
        if self.lookups >= self.options.period.max(1) {
            self.hit_rate = Some(self.hits as f64 / self.lookups as f64);
            (self.lookups, self.hits) = (0, 0);
            self.features.fill(Feature::default());
        }
        self.lookups += 1;
        let Slot { value, position, .. } = self.slots[self.find(key)?];
        self.hits += 1;
        if position <= self.warm_end {
            self.remove(key);
            self.push(key, value);
        }
        Some(value)
    }

    /// Offers the value of a key that was looked up in vain. It is stored if the key is hot.
    pub fn offer(&mut self, key: u64, value: u64) {
        let first = scale(mix(key), self.features.len());
        let places = || (first..first + PROBED).map(|place| place % self.features.len());
        let is_of_key = |place: &usize| {
            let feature = self.features[*place];
            feature.key == key && feature.lookups > 0
        };
        let known = places().find(is_of_key);
        let place = known.or_else(|| places().find(|place| self.features[*place].lookups == 0));
        let Some(place) = place else {
            // Of keys that share an entry, the one that comes more often gets it.
            self.features[first].lookups -= 1;
            return;
        };
        let feature = &mut self.features[place];
        *feature = Feature {
            key,
            lookups: feature.lookups + 1,
        };
        if feature.lookups >= self.options.threshold {
            *feature = Feature::default();
            self.remove(key);
            self.push(key, value);
        }
    }

    /// Replaces the value of a key if it is cached.
    pub fn update(&mut self, key: u64, value: u64) {
        if let Some(slot) = self.find(key) {
            self.slots[slot].value = value;
        }
    }

    /// Removes a key if it is cached.
    pub fn remove(&mut self, key: u64) {
        if let Some(slot) = self.find(key) {
            let slots = &self.slots;
            self.index
                .remove(mix(key), slot as u32, |other| mix(slots[other as usize].key));
            self.slots[slot].position = 0;
            self.pairs -= 1;
        }
    }

    /// Appends a pair whose key is absent.
    fn push(&mut self, key: u64, value: u64) {
        let capacity = self.slots.len() as u64;
        if self.tail - self.head == capacity {
            let oldest = self.slots[self.slot_of(self.head)];
            if oldest.position == self.head + 1 {
                self.remove(oldest.key);
            }
            self.head += 1;
            self.warm_end = self.warm_end.max(self.head);
        }
        let slot = self.slot_of(self.tail);
        let position = self.tail + 1;
        self.slots[slot] = Slot { key, value, position };
        self.index.insert(mix(key), slot as u32);
        self.tail += 1;
        self.pairs += 1;
        let hot = (capacity * HOT_PER_WARM).div_ceil(HOT_PER_WARM + 1);
        self.warm_end = self.warm_end.max(self.tail.saturating_sub(hot));
    }

    /// Returns the number of cached pairs.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pairs
    }

    /// Returns true if no pair is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// Returns the number of pairs that can be cached.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns the share of lookups that hit in the last period.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        self.hit_rate
    }

    /// Returns the DRAM of the queue in bytes, all of which is allocated at creation.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let vectors = size_of_val(&*self.features) + size_of_val(&*self.slots) + self.index.bytes();
        (size_of::<Self>() + vectors) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn queue(capacity: u32) -> HotQueue {
        HotQueue::new(HotQueueOptions {
            capacity,
            period: 1000,
            threshold: 2,
            features: 1000,
        })
    }

    /// Makes a key hot.
    fn heat(queue: &mut HotQueue, key: u64) {
        for _ in 0..2 {
            assert_eq!(queue.get(key), None);
            queue.offer(key, key + 100);
        }
    }

    #[test]
    fn keys_of_two_lookups_are_hot() {
        let mut queue = queue(42);
        assert_eq!(queue.get(1), None);
        queue.offer(1, 101);
        assert_eq!(queue.get(1), None);
        queue.offer(1, 101);
        assert_eq!(queue.get(1), Some(101));
        queue.update(1, 7);
        assert_eq!(queue.get(1), Some(7));
        queue.remove(1);
        assert_eq!(queue.get(1), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn lookups_of_earlier_periods_are_forgotten() {
        let mut queue = queue(42);
        queue.offer(1, 101);
        for other in 0..1001 {
            queue.get(5000 + other);
        }
        queue.offer(1, 101);
        assert_eq!(queue.get(1), None);
    }

    #[test]
    fn the_oldest_leave_and_a_hit_in_the_warm_layer_returns() {
        // Two warm places, forty hot ones.
        let mut queue = queue(42);
        for key in 0..42 {
            heat(&mut queue, key);
        }
        assert_eq!(queue.len(), 42);
        // 0 and 1 are warm: a hit takes 1 to the tail, and the place it leaves stays empty.
        assert_eq!(queue.get(1), Some(101));
        heat(&mut queue, 50);
        heat(&mut queue, 51);
        assert_eq!(queue.get(0), None);
        assert_eq!(queue.get(1), Some(101));
        assert!(queue.len() <= 42);
    }

    #[test]
    fn it_agrees_with_a_map_of_the_same_values() {
        let mut queue = queue(100);
        let mut model = BTreeMap::new();
        let mut hits = 0;
        for step in 0..100_000_u64 {
            let key = mix(step) % 150;
            match mix(step ^ 1 << 40) % 10 {
                0 => {
                    model.insert(key, step);
                    queue.update(key, step);
                }
                1 => {
                    model.remove(&key);
                    queue.remove(key);
                }
                _ => match (queue.get(key), model.get(&key)) {
                    (None, Some(value)) => queue.offer(key, *value),
                    (None, None) => {}
                    (found, value) => {
                        assert_eq!(found.as_ref(), value);
                        hits += 1;
                    }
                },
            }
            assert!(queue.len() <= 100);
        }
        assert!(hits > 10_000, "{hits}");
    }
}
