//! The policies once more, as plainly as can be: vectors of entries, searched from end to end.

use super::super::sketch::FrequencySketch;
use crate::PolicyKind;
use crate::policy::Capacity;

#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) key: u64,
    pub(super) bytes: u32,
    pub(super) probability: f32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    request: Request,
    /// Uses, however the policy counts them.
    uses: u32,
    /// When it was used last.
    time: u64,
}

/// Entries from the oldest to the newest, in up to three queues, and remembered keys.
pub(super) struct Model {
    kind: PolicyKind,
    capacity: Capacity,
    queues: [Vec<Entry>; 3],
    /// The most recent keys of the ghost queue, `None` where one was taken out.
    ghost: Vec<Option<u64>>,
    ghost_len: usize,
    hand: Option<u64>,
    sketch: FrequencySketch,
    time: u64,
}

fn within(queues: &[&Vec<Entry>], more: &[Request], capacity: Capacity) -> bool {
    let entries = queues.iter().flat_map(|queue| queue.iter());
    let requests: Vec<Request> = entries
        .map(|entry| entry.request)
        .chain(more.iter().copied())
        .collect();
    let bytes: u64 = requests.iter().map(|request| u64::from(request.bytes)).sum();
    bytes <= capacity.bytes && requests.len() as u64 <= u64::from(capacity.items)
}

fn position(queue: &[Entry], key: u64) -> Option<usize> {
    queue.iter().position(|entry| entry.request.key == key)
}

impl Model {
    pub(super) fn new(kind: PolicyKind, capacity: Capacity) -> Self {
        let ghost_len = match kind {
            PolicyKind::S3Fifo => u64::from(capacity.items) * 9 / 10,
            _ => u64::from(capacity.items),
        };
        Self {
            kind,
            capacity,
            queues: [const { Vec::new() }; 3],
            ghost: Vec::new(),
            ghost_len: ghost_len.max(1) as usize,
            hand: None,
            sketch: FrequencySketch::new(capacity.items),
            time: 0,
        }
    }

    pub(super) fn keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self
            .queues
            .iter()
            .flatten()
            .map(|entry| entry.request.key)
            .collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn remove(&mut self, key: u64) {
        if self.hand == Some(key) {
            self.hand = self.after(key);
        }
        for queue in &mut self.queues {
            queue.retain(|entry| entry.request.key != key);
        }
    }

    fn after(&self, key: u64) -> Option<u64> {
        let at = position(&self.queues[0], key)?;
        self.queues[0].get(at + 1).map(|entry| entry.request.key)
    }

    pub(super) fn request(&mut self, request: Request) {
        self.time += 1;
        if self.kind == PolicyKind::WTinyLfu {
            self.sketch.count(request.key);
        }
        for queue in 0..3 {
            if let Some(at) = position(&self.queues[queue], request.key) {
                return self.hit(queue, at);
            }
        }
        if !within(&[], &[request], self.capacity) {
            return;
        }
        let entry = Entry {
            request,
            uses: 0,
            time: self.time,
        };
        match self.kind {
            PolicyKind::TwoQ => {
                if self.take(request.key) {
                    self.insert_evicting(entry);
                } else {
                    self.note(request.key);
                }
            }
            PolicyKind::Lla => self.insert_if_probable(entry),
            PolicyKind::S3Fifo => self.insert_s3_fifo(entry),
            PolicyKind::WTinyLfu => self.insert_tiny(entry),
            PolicyKind::Naive if !within(&[&self.queues[0]], &[request], self.capacity) => {}
            _ => self.insert_evicting(entry),
        }
    }

    fn hit(&mut self, queue: usize, at: usize) {
        let now = self.time;
        let entries = &mut self.queues[queue];
        match self.kind {
            PolicyKind::Lru | PolicyKind::TwoQ => {
                let entry = entries.remove(at);
                entries.push(entry);
            }
            PolicyKind::Lfu => (entries[at].uses, entries[at].time) = (entries[at].uses + 1, now),
            PolicyKind::Clock | PolicyKind::Sieve => entries[at].uses = 1,
            PolicyKind::S3Fifo => entries[at].uses = (entries[at].uses + 1).min(3),
            PolicyKind::WTinyLfu => {
                let entry = entries.remove(at);
                self.queues[if queue == 0 { 0 } else { 2 }].push(entry);
                let (_, main) = self.tiny_rooms();
                let protected = Capacity {
                    bytes: main.bytes * 4 / 5,
                    items: main.items * 4 / 5,
                };
                while !within(&[&self.queues[2]], &[], protected) {
                    let entry = self.queues[2].remove(0);
                    self.queues[1].push(entry);
                }
            }
            _ => {}
        }
    }

    fn insert_evicting(&mut self, entry: Entry) {
        while !within(&[&self.queues[0]], &[entry.request], self.capacity) {
            let victim = match self.kind {
                PolicyKind::Lfu => {
                    let all = self.queues[0].iter().enumerate();
                    all.min_by_key(|(_, entry)| (entry.uses, entry.time))
                        .expect("one is there")
                        .0
                }
                PolicyKind::Clock => {
                    while self.queues[0][0].uses == 1 {
                        let mut passed = self.queues[0].remove(0);
                        passed.uses = 0;
                        self.queues[0].push(passed);
                    }
                    0
                }
                PolicyKind::Sieve => self.sieve(),
                _ => 0,
            };
            self.queues[0].remove(victim);
        }
        self.queues[0].push(entry);
    }

    fn sieve(&mut self) -> usize {
        loop {
            let at = self
                .hand
                .and_then(|key| position(&self.queues[0], key))
                .unwrap_or(0);
            self.hand = self.after(self.queues[0][at].request.key);
            if self.queues[0][at].uses == 0 {
                return at;
            }
            self.queues[0][at].uses = 0;
        }
    }

    fn insert_if_probable(&mut self, entry: Entry) {
        let mut kept = self.queues[0].clone();
        while !within(&[&kept], &[entry.request], self.capacity) {
            let order = |a: &Entry, b: &Entry| {
                let by_probability = a.request.probability.total_cmp(&b.request.probability);
                by_probability.then(a.time.cmp(&b.time))
            };
            let least = *kept.iter().min_by(|a, b| order(a, b)).expect("one is there");
            if least.request.probability >= entry.request.probability {
                return;
            }
            kept.retain(|other| other.request.key != least.request.key);
        }
        kept.push(entry);
        self.queues[0] = kept;
    }

    fn percent(&self, percent: u64) -> Capacity {
        Capacity {
            bytes: self.capacity.bytes * percent / 100,
            items: ((u64::from(self.capacity.items) * percent / 100) as u32).max(1),
        }
    }

    fn insert_s3_fifo(&mut self, entry: Entry) {
        while !within(
            &[&self.queues[0], &self.queues[1]],
            &[entry.request],
            self.capacity,
        ) {
            let target = self.percent(10);
            let bytes: u64 = self.queues[0]
                .iter()
                .map(|entry| u64::from(entry.request.bytes))
                .sum();
            let small = bytes >= target.bytes || self.queues[0].len() as u32 >= target.items;
            if self.queues[0].is_empty() || !small && !self.queues[1].is_empty() {
                self.evict_main();
            } else {
                self.evict_small();
            }
        }
        let main = self.take(entry.request.key);
        self.queues[usize::from(main)].push(entry);
    }

    fn evict_small(&mut self) {
        while !self.queues[0].is_empty() {
            let mut entry = self.queues[0].remove(0);
            if entry.uses <= 1 {
                return self.note(entry.request.key);
            }
            entry.uses = 0;
            self.queues[1].push(entry);
            if !within(&[&self.queues[1]], &[], self.percent(90)) {
                self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while !self.queues[1].is_empty() {
            let mut entry = self.queues[1].remove(0);
            if entry.uses == 0 {
                return;
            }
            entry.uses -= 1;
            self.queues[1].push(entry);
        }
    }

    fn tiny_rooms(&self) -> (Capacity, Capacity) {
        let window = self.percent(1);
        let main = Capacity {
            bytes: self.capacity.bytes - window.bytes,
            items: self.capacity.items - window.items,
        };
        (window, main)
    }

    fn insert_tiny(&mut self, entry: Entry) {
        let (window, main) = self.tiny_rooms();
        self.queues[0].push(entry);
        while !within(&[&self.queues[0]], &[], window) {
            let candidate = self.queues[0].remove(0);
            let uses = self.sketch.estimate(candidate.request.key);
            let (mut probation, mut protected) = (self.queues[1].clone(), self.queues[2].clone());
            let mut others = 0;
            let mut fits = true;
            while !within(&[&probation, &protected], &[candidate.request], main) {
                if probation.is_empty() && protected.is_empty() {
                    fits = false;
                    break;
                }
                let victims = if probation.is_empty() {
                    &mut protected
                } else {
                    &mut probation
                };
                others += self.sketch.estimate(victims.remove(0).request.key);
                fits = uses > others;
            }
            if fits {
                probation.push(candidate);
                (self.queues[1], self.queues[2]) = (probation, protected);
            }
        }
    }

    fn note(&mut self, key: u64) {
        self.ghost.push(Some(key));
        if self.ghost.len() > self.ghost_len {
            self.ghost.remove(0);
        }
    }

    fn take(&mut self, key: u64) -> bool {
        let found = self.ghost.iter_mut().find(|noted| **noted == Some(key));
        found.map(|noted| *noted = None).is_some()
    }
}
