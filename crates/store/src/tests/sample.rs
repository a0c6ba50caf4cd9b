//! Stores with many leaves, and the answers that they may give when their image is changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_explore::Tracked;
use halocline_media::Medium;
use halocline_pool::Pool;

use super::workload::options;
use crate::key_range::KeyRange;
use crate::record::RecordRef;
use crate::{Store, StoreError, Stores, StoresProblem};

/// The contents of a store.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The image of closed stores, and what they hold.
pub(crate) struct Sample {
    pub(crate) image: Vec<u8>,
    pub(crate) pairs: BTreeMap<&'static str, Pairs>,
    /// The leaves of each store in the order of keys, with the first key that may be in each.
    pub(crate) leaves: Vec<(&'static str, u64, Vec<u8>)>,
    /// The branches of all stores.
    pub(crate) branches: Vec<u64>,
    /// The records whose values are in chunks, with the lengths of their keys.
    pub(crate) chunked: Vec<(u64, usize)>,
    /// The newest records that are in the log after the checkpoint.
    pub(crate) in_log: Vec<u64>,
}

/// The stores of the sample: two with the same keys, one whose keys have more in common than the prefix of a
/// leaf, and one whose tree has two levels of branches.
pub(crate) const NAMES: [&str; 4] = ["ids", "index", "long", "urls"];

fn key(store: &str, number: u32) -> Vec<u8> {
    match store {
        "long" => [&[b'x'; 230][..], &number.to_be_bytes()].concat(),
        "urls" => {
            let path = "p".repeat(600 + number as usize % 7);
            format!("https://example.com/{number:04}/{path}").into_bytes()
        }
        _ => (u64::from(number) * 7).to_be_bytes().to_vec(),
    }
}

impl Sample {
    /// Returns the pairs after `rounds` rounds of changes.
    fn pairs_after(rounds: u32) -> BTreeMap<&'static str, Pairs> {
        let mut pairs: BTreeMap<&'static str, Pairs> = NAMES.map(|name| (name, Pairs::new())).into();
        (0..rounds).for_each(|round| {
            for name in NAMES {
                for number in Self::numbers(round) {
                    let value = format!("{name} {round} {number}").into_bytes();
                    pairs.get_mut(name).unwrap().insert(key(name, number), value);
                }
            }
        });
        pairs
    }

    /// Returns the numbers of the keys that a round sets: each round those of all leaves.
    fn numbers(round: u32) -> impl Iterator<Item = u32> {
        (0..160)
            .filter(move |number| round == 0 || number % 5 == round % 5)
            .map(move |number| 8 * number + round)
    }

    /// Makes the sample of a number of rounds, each with a checkpoint. After it come a few commits in the
    /// log.
    pub(crate) fn new(rounds: u32) -> Self {
        let memory = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Medium::from(&memory)).unwrap();
        let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
        let open = NAMES.map(|name| stores.store(name).unwrap());
        for round in 0..rounds {
            for (name, store) in NAMES.iter().zip(&open) {
                for number in Self::numbers(round) {
                    store
                        .put(key(name, number), format!("{name} {round} {number}"))
                        .unwrap();
                }
            }
            stores.checkpoint().unwrap();
        }
        let mut pairs = Self::pairs_after(rounds);
        for (name, store) in NAMES.iter().zip(&open) {
            let value = vec![name.len() as u8; 40_000];
            store.put("large", &value).unwrap();
            pairs.get_mut(name).unwrap().insert(b"large".to_vec(), value);
        }
        stores.checkpoint().unwrap();
        for (name, store) in NAMES.iter().zip(&open) {
            let of = pairs.get_mut(name).unwrap();
            let first = key(name, 0);
            for (key, value) in [(&b"in the log"[..], *name), (&first, "again")] {
                store.put(key, value).unwrap();
                of.insert(key.to_vec(), value.as_bytes().to_vec());
            }
        }
        let (mut leaves, mut branches) = (Vec::new(), Vec::new());
        for (name, store) in NAMES.iter().zip(&open) {
            let (trees, pages) = (store.state.read(), stores.handle.state.pages());
            trees
                .tree
                .walk(&pages, &mut |branch| branches.push(branch), &mut |_| Ok(()))
                .unwrap();
            let mut from = Some(Vec::new());
            while let Some(key) = from {
                let range = trees.tree.leaf_of(&pages, Some(&key)).unwrap().unwrap();
                leaves.push((*name, range.leaf, range.from.unwrap_or_default()));
                from = range.to;
            }
        }
        let state = &stores.handle.state;
        let checkpoint = state.frozen.load(Ordering::Acquire);
        let (mut chunked, mut in_log) = (Vec::new(), Vec::new());
        for store in &open {
            let each = |_: &[u8], record: RecordRef| {
                if record.is_chunked() {
                    chunked.push((record.offset, record.key_len()));
                }
                if record.commit() > checkpoint {
                    in_log.push(record.offset);
                }
            };
            state.for_each_newest(&store.state, &KeyRange::ALL, each).unwrap();
        }
        let image = memory.image();
        // Whatever closing does is no part of the sample.
        std::mem::forget((open, stores));
        Self {
            image,
            pairs,
            leaves,
            branches,
            chunked,
            in_log,
        }
    }

    /// Returns the store and the leaf of a key.
    pub(crate) fn leaf_of(&self, name: &str, key: &[u8]) -> u64 {
        let mut leaves = self.leaves.iter().filter(|(of, ..)| *of == name).rev();
        leaves.find(|(_, _, from)| from.as_slice() <= key).unwrap().1
    }

    /// Opens stores on a changed image, to write and to read, reads everything, and verifies everything.
    pub(crate) fn read(&self, change: impl Fn(&mut [u8])) -> Answers {
        let mut image = self.image.clone();
        change(&mut image);
        let memory = Arc::new(Tracked::from_image(&image).unwrap());
        let mut answers = Answers::default();
        let pool = Pool::open_on(Medium::from(&memory)).unwrap();
        // Before a writer repairs anything.
        match Stores::open_reader(&pool) {
            Ok(reader) => answers.add(self, &reader),
            Err(StoreError::Damaged { .. }) => answers.refused += 1,
            Err(error) => panic!("{error}"),
        }
        match Stores::open_with(&pool, options(&Arc::default())) {
            Ok(stores) => {
                answers.add(self, &stores);
                answers.write(self, &stores);
            }
            Err(StoreError::Damaged { .. } | StoreError::Pool(_)) => answers.refused += 1,
            Err(error) => panic!("{error}"),
        }
        answers
    }
}

/// The answers of changed stores.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Answers that are neither right nor an error.
    pub(crate) wrong: Vec<String>,
    /// Store and key of reads that met damage.
    pub(crate) damaged: Vec<(&'static str, Vec<u8>)>,
    /// Problems that checks have found.
    pub(crate) problems: Vec<StoresProblem>,
    /// Openings that were refused.
    pub(crate) refused: usize,
    /// Reads of everything.
    pub(crate) readers: usize,
}

impl Answers {
    fn compare(
        &mut self,
        name: &'static str,
        key: &[u8],
        found: crate::Result<Option<Vec<u8>>>,
        right: Option<&Vec<u8>>,
    ) {
        match found {
            Ok(found) if found.as_ref() == right => {}
            Err(StoreError::Damaged { .. }) => self.damaged.push((name, key.to_vec())),
            found => {
                let brief = found.map(|found| {
                    found.map(|value| value.escape_ascii().take(40).map(char::from).collect::<String>())
                });
                self.wrong.push(format!(
                    "{name}: {}: {brief:?}",
                    key[key.len().saturating_sub(24)..].escape_ascii()
                ));
            }
        }
    }

    fn read(&mut self, sample: &Sample, stores: &Stores) {
        for (name, pairs) in &sample.pairs {
            let Ok(store) = stores.existing(name) else {
                self.wrong.push(format!("{name} is missing"));
                continue;
            };
            for (key, value) in pairs {
                self.compare(name, key, store.get(key), Some(value));
                let absent = [key, &b"?"[..]].concat();
                self.compare(name, &absent, store.get(&absent), None);
            }
            let expected: Vec<_> = pairs.iter().collect();
            let back: Vec<_> = expected.iter().rev().copied().collect();
            self.scan(name, store.scan::<Vec<u8>>(..), &expected);
            self.scan(name, store.scan::<Vec<u8>>(..).rev(), &back);
        }
    }

    fn scan(
        &mut self,
        name: &str,
        scan: impl Iterator<Item = crate::Result<(Vec<u8>, Vec<u8>)>>,
        expected: &[(&Vec<u8>, &Vec<u8>)],
    ) {
        let mut expected = expected.iter();
        for pair in scan {
            match pair {
                Ok((key, value)) if expected.next() == Some(&(&key, &value)) => {}
                Ok((key, _)) => {
                    return self
                        .wrong
                        .push(format!("{name}: a scan found {}", key.escape_ascii()));
                }
                Err(StoreError::Damaged { .. }) => return,
                Err(error) => return self.wrong.push(format!("{name}: {error}")),
            }
        }
        if let Some((key, _)) = expected.next() {
            self.wrong
                .push(format!("{name}: a scan ended before {}", key.escape_ascii()));
        }
    }

    fn add(&mut self, sample: &Sample, stores: &Stores) {
        self.readers += 1;
        self.read(sample, stores);
        let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
        self.problems.extend(report.problems);
        // Also what is remembered as verified.
        self.read(sample, stores);
    }

    /// Changes the stores, as far as they can be, and reads everything again.
    fn write(&mut self, sample: &Sample, stores: &Stores) {
        let put = |store: &Store| store.put("in the log", store.name());
        for name in sample.pairs.keys() {
            let is_put = stores.existing(name).and_then(|store| put(&store));
            assert!(
                matches!(
                    is_put,
                    Ok(())
                        | Err(StoreError::Damaged { .. }
                            | StoreError::Poisoned { .. }
                            | StoreError::NoSuchStore { .. })
                ),
                "{is_put:?}"
            );
        }
        for result in [stores.checkpoint(), stores.reclaim()] {
            let is_typed = matches!(
                result,
                Ok(()) | Err(StoreError::Damaged { .. } | StoreError::Poisoned { .. } | StoreError::Pool(_))
            );
            assert!(is_typed, "{result:?}");
        }
        self.read(sample, stores);
    }
}
