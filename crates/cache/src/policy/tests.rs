//! Every policy beside a model that is written after its paper with linear searches, over random sequences of
//! items of different sizes; and what holds for all of them.

mod models;

use super::{CacheItem, Capacity, Policy};
use crate::PolicyKind;
use models::{Model, Request};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

/// The least cache around a policy: slots of keys, and the books again.
struct Harness {
    policy: Box<dyn Policy>,
    capacity: Capacity,
    slots: HashMap<u64, u32>,
    items: HashMap<u32, CacheItem>,
    free: Vec<u32>,
}

impl Harness {
    fn new(kind: PolicyKind, capacity: Capacity) -> Self {
        Self {
            policy: kind.build(capacity),
            capacity,
            slots: HashMap::new(),
            items: HashMap::new(),
            free: (0..=capacity.items).collect(),
        }
    }

    /// Answers what was evicted.
    fn request(&mut self, request: Request) -> Vec<CacheItem> {
        if let Some(&slot) = self.slots.get(&request.key) {
            self.policy.hit(slot, request.key);
            return Vec::new();
        }
        let slot = *self.free.last().expect("there is one slot more than items");
        let item = CacheItem {
            slot,
            key: request.key,
            bytes: request.bytes,
            probability: request.probability,
        };
        let mut evicted = Vec::new();
        let admitted = self.policy.admit(item, &mut evicted);
        if admitted {
            self.free.pop();
            assert!(self.slots.insert(item.key, slot).is_none());
            assert!(self.items.insert(slot, item).is_none());
        }
        assert!(
            !evicted.contains(&slot),
            "the item that asks is not among the evicted"
        );
        let forget = |slot| {
            let item = self.items.remove(&slot).expect("only residents are evicted");
            self.slots.remove(&item.key);
            self.free.push(slot);
            item
        };
        let evicted: Vec<CacheItem> = evicted.into_iter().map(forget).collect();
        let bytes: u64 = self.items.values().map(|item| u64::from(item.bytes)).sum();
        assert!(bytes <= self.capacity.bytes, "{bytes} bytes are too many");
        assert!(self.items.len() <= self.capacity.items as usize);
        if !admitted && request.bytes > 0 {
            assert!(evicted.is_empty() || self.policy_may_shift());
        }
        evicted
    }

    /// Returns true for W-TinyLFU, whose window may evict others before it rejects a large item.
    fn policy_may_shift(&self) -> bool {
        format!("{:?}", self.policy).starts_with("WTinyLfu")
    }

    fn remove(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(&key) {
            self.policy.remove(slot);
            self.items.remove(&slot);
            self.free.push(slot);
        }
    }

    fn keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self.slots.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

fn random_request(rng: &mut StdRng, keys: u64) -> Request {
    let unit: f64 = rng.random();
    let key = (unit * unit * keys as f64) as u64;
    Request {
        key,
        // Equal keys have equal sizes and probabilities, as lists do.
        bytes: 1 + (key * 7 % 13) as u32,
        probability: (key * 11 % 17) as f32 / 17.0,
    }
}

#[test]
fn every_policy_is_its_model() {
    for kind in PolicyKind::ALL {
        for seed in 0..60 {
            let mut rng = StdRng::seed_from_u64(seed);
            let capacity = Capacity {
                bytes: rng.random_range(0..120),
                items: rng.random_range(0..20),
            };
            let mut harness = Harness::new(kind, capacity);
            let mut model = Model::new(kind, capacity);
            for step in 0..600 {
                let request = random_request(&mut rng, 40);
                harness.request(request);
                model.request(request);
                if rng.random_ratio(1, 50) {
                    harness.remove(request.key);
                    model.remove(request.key);
                }
                assert_eq!(
                    harness.keys(),
                    model.keys(),
                    "{kind}, seed {seed}, step {step}, {capacity:?}"
                );
            }
        }
    }
}

#[test]
fn naive_never_evicts_and_lla_only_for_the_more_probable() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let capacity = Capacity {
            bytes: 300,
            items: 50,
        };
        let mut naive = Harness::new(PolicyKind::Naive, capacity);
        let mut lla = Harness::new(PolicyKind::Lla, capacity);
        for _ in 0..3000 {
            let request = random_request(&mut rng, 300);
            assert!(naive.request(request).is_empty(), "seed {seed}");
            for evicted in lla.request(request) {
                assert!(evicted.probability < request.probability, "seed {seed}");
            }
        }
    }
}

#[test]
fn an_item_of_another_probability_is_evicted_by_that() {
    let capacity = Capacity { bytes: 2, items: 2 };
    let mut lla = Harness::new(PolicyKind::Lla, capacity);
    for (key, probability) in [(1, 0.5), (2, 0.9)] {
        let bytes = 1;
        lla.request(Request {
            key,
            bytes,
            probability,
        });
    }
    lla.policy.reweigh(lla.slots[&1], 1.0);
    lla.request(Request {
        key: 3,
        bytes: 1,
        probability: 0.95,
    });
    assert_eq!(lla.keys(), [1, 3]);
}

#[test]
fn metadata_is_allocated_when_a_policy_is_built() {
    for kind in PolicyKind::ALL {
        let capacity = Capacity {
            bytes: 1000,
            items: 100,
        };
        let mut harness = Harness::new(kind, capacity);
        let bytes = harness.policy.metadata_bytes();
        assert!(bytes < 100 * 48, "{kind}: {bytes}");
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..5000 {
            harness.request(random_request(&mut rng, 500));
        }
        assert_eq!(harness.policy.metadata_bytes(), bytes, "{kind}");
    }
}
