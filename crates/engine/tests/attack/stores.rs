//! The byte-string store of the attacked pool as a case reads and changes it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Store, StoreError, Stores};
use halocline_workloads::SplitMix64;

use crate::pairs::{PAIRS, Pairs, pairs};

/// Keys that are looked up.
const LOOKUPS: u64 = 60;
/// Bytes of the values that a case writes.
const LENGTHS: [usize; 3] = [0, 100, 20_000];

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The state of the stores after a case.
#[derive(Debug, Default)]
pub(crate) struct StoresSeen {
    pub(crate) errors: Vec<StoreError>,
    /// Answers that are not right.
    pub(crate) wrong: Vec<String>,
    /// Problems that `check` lists.
    pub(crate) problems: Vec<String>,
    /// `check` has found nothing, though reads before have met damage.
    pub(crate) unreported: bool,
}

/// Reads pairs, one by one and in order, and has all stores checked. `write`: changes some, too, and reads
/// again after all has been opened anew.
pub(crate) fn visit(path: &Path, write: bool, rng: &mut SplitMix64) -> StoresSeen {
    let mut seen = StoresSeen::default();
    let mut model = pairs();
    let visited = open(path, write).and_then(|stores| {
        let store = stores.existing(PAIRS)?;
        look(&store, &model, rng, &mut seen);
        if write {
            change(&store, &mut model, rng)?;
            look(&store, &model, rng, &mut seen);
        }
        verify(&stores, &mut seen)?;
        count(&store, &model, &mut seen);
        Ok(())
    });
    seen.errors.extend(visited.err());
    // What could not be changed may be as it was, or not.
    if write && seen.errors.is_empty() {
        let visited = open(path, false).and_then(|stores| {
            let store = stores.existing(PAIRS)?;
            look(&store, &model, rng, &mut seen);
            verify(&stores, &mut seen)?;
            count(&store, &model, &mut seen);
            Ok(())
        });
        seen.errors.extend(visited.err());
    }
    seen
}

/// Returns what a check of the stores finds, or why they cannot be read.
pub(crate) fn problems(path: &Path) -> Vec<String> {
    let mut seen = StoresSeen::default();
    let verified = open(path, false).and_then(|stores| verify(&stores, &mut seen));
    let refused = verified.err().map(|error| error.to_string());
    seen.problems.into_iter().chain(refused).collect()
}

fn open(path: &Path, write: bool) -> Result<Stores, StoreError> {
    let pool = Pool::open(path, &PoolOptions::default().with_read_only(!write))?;
    if write {
        Stores::open(&pool)
    } else {
        Stores::open_reader(&pool)
    }
}

/// Has all stores checked.
fn verify(stores: &Stores, seen: &mut StoresSeen) -> Result<(), StoreError> {
    let report = stores.check(&mut |_| ControlFlow::Continue(()))?;
    let is_damage = |error: &StoreError| matches!(error, StoreError::Damaged { .. });
    seen.unreported |= report.is_intact() && seen.errors.iter().any(is_damage);
    let problems = report.problems.iter();
    seen.problems.extend(problems.map(ToString::to_string));
    Ok(())
}

/// Puts and deletes pairs, also several at once.
fn change(store: &Store, model: &mut Pairs, rng: &mut SplitMix64) -> Result<(), StoreError> {
    for _ in 0..8 {
        let key = some_key(model, rng);
        let len = LENGTHS[rng.below(LENGTHS.len() as u64) as usize];
        let value: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        store.put(&key, &value)?;
        model.insert(key, value);
        let key = some_key(model, rng);
        store.delete(&key)?;
        model.remove(&key);
    }
    let from = some_key(model, rng);
    let to: Vec<u8> = [&from[..], b"~"].concat();
    store.delete_range(from.as_slice()..to.as_slice())?;
    model.retain(|key, _| *key < from || *key >= to);
    Ok(())
}

/// Returns a key that is there, or one near it that is not.
fn some_key(model: &Pairs, rng: &mut SplitMix64) -> Vec<u8> {
    let at = rng.below(model.len().max(1) as u64) as usize;
    let mut key = model.keys().nth(at).cloned().unwrap_or_default();
    if rng.below(4) == 0 {
        key.push(b'+');
    }
    key
}

/// Reads single pairs, all in both directions, and those with a prefix.
fn look(store: &Store, model: &Pairs, rng: &mut SplitMix64, seen: &mut StoresSeen) {
    for _ in 0..LOOKUPS {
        let key = some_key(model, rng);
        match store.get(&key) {
            Ok(value) if value.as_ref() == model.get(&key) => {}
            Ok(value) => seen.wrong.push(format!(
                "get of '{}' has {:?} bytes of {:?}",
                key.escape_ascii(),
                value.map(|value| value.len()),
                model.get(&key).map(Vec::len)
            )),
            Err(error) => seen.errors.push(error),
        }
    }
    compare("scan", store.scan::<&[u8]>(..).collect(), model, seen);
    compare("scan back", store.scan::<&[u8]>(..).rev().collect(), model, seen);
    let prefix = some_key(model, rng);
    let prefix = &prefix[..rng.below(prefix.len() as u64 + 1) as usize];
    let part = model.iter().filter(|(key, _)| key.starts_with(prefix));
    let part: Pairs = part.map(|(key, value)| (key.clone(), value.clone())).collect();
    compare(
        "scan of a prefix",
        store.scan_prefix(prefix).collect(),
        &part,
        seen,
    );
}

/// Compares the number of keys, which is not exact if there is damage in any store.
fn count(store: &Store, model: &Pairs, seen: &mut StoresSeen) {
    let is_intact = seen.errors.is_empty() && seen.problems.is_empty();
    if is_intact && store.len() != model.len() as u64 {
        let text = format!("len is {} of {}", store.len(), model.len());
        seen.wrong.push(text);
    }
}

fn compare(what: &str, found: Result<Vec<Pair>, StoreError>, expected: &Pairs, seen: &mut StoresSeen) {
    match found {
        Ok(found) => {
            let count = found.len();
            let found: BTreeMap<_, _> = found.into_iter().collect();
            if count != expected.len() || found != *expected {
                let text = format!("{what} has {count} of {} pairs", expected.len());
                seen.wrong.push(text);
            }
        }
        Err(error) => seen.errors.push(error),
    }
}
