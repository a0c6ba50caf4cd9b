//! The pairs of the attacked pool's byte-string store: how they are written, and which are there.
//!
//! Invariant: the writes after the checkpoint fit one segment of the log, and writes to a store that nobody
//! reads follow them over several blocks. So the loss of a block of the log is damage that later frames show,
//! and not a shorter log, which is what a crash leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use halocline_store::{Store, Stores, WriteBatch};
use halocline_workloads::SplitMix64;

/// The name of the store.
pub(crate) const PAIRS: &str = "pairs";
/// The name of the store whose pairs nobody reads.
const FILLER: &str = "filler";
/// Numbers of the keys that are written first.
const KEYS: u64 = 900;
/// Operations of a commit before the checkpoint.
const OPERATIONS: usize = 40;
/// Lengths of values. Those of more than 15 KiB are stored in several chunks.
const LENGTHS: [usize; 6] = [0, 3, 40, 150, 333, 900];
const LARGE: [usize; 3] = [16_000, 31_000, 52_000];
/// Length of the values of the other store, and their number at the end of the log.
const FILLER_BYTES: usize = 1000;
const FILLERS: u64 = 12;
/// Writes to the other store until the log goes on in the next segment, at most.
const MOST_FILLERS: u64 = 200;
/// The time to live of keys that expire, which no case reaches.
const LONG: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// A state of the store.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A write to the store.
#[derive(Debug)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    /// With a time to live.
    Lend(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Writes everything up to the checkpoint.
pub(crate) fn make(stores: &Stores) {
    let store = stores.store(PAIRS).unwrap();
    stores.store(FILLER).unwrap();
    for changes in early_changes().chunks(OPERATIONS) {
        commit(stores, &store, changes);
    }
}

/// Makes a checkpoint near the start of a segment of the log.
pub(crate) fn checkpoint(stores: &Stores) {
    // Without garbage, no other checkpoint follows soon.
    stores.reclaim().unwrap();
    let filler = stores.existing(FILLER).unwrap();
    let before = stores.stats().log_bytes;
    let mut written = 0;
    while stores.stats().log_bytes <= before && written < MOST_FILLERS {
        filler
            .put(written.to_be_bytes(), value(written, 9, FILLER_BYTES))
            .unwrap();
        written += 1;
    }
    stores.checkpoint().unwrap();
}

/// Writes what is in the log after the checkpoint.
pub(crate) fn make_log(stores: &Stores) {
    let store = stores.existing(PAIRS).unwrap();
    for change in late_changes() {
        commit(stores, &store, &[change]);
    }
    let filler = stores.existing(FILLER).unwrap();
    for number in 0..FILLERS {
        filler
            .put(
                (MOST_FILLERS + number).to_be_bytes(),
                value(number, 9, FILLER_BYTES),
            )
            .unwrap();
    }
}

/// Returns the pairs that are there.
pub(crate) fn pairs() -> Pairs {
    let mut pairs = Pairs::new();
    for change in early_changes().into_iter().chain(late_changes()) {
        match change {
            Change::Put(key, value) | Change::Lend(key, value) => drop(pairs.insert(key, value)),
            Change::Delete(key) => drop(pairs.remove(&key)),
            Change::DeleteRange(from, to) => pairs.retain(|key, _| *key < from || *key >= to),
        }
    }
    pairs
}

fn commit(stores: &Stores, store: &Store, changes: &[Change]) {
    let mut batch = WriteBatch::new();
    for change in changes {
        let added = match change {
            Change::Put(key, value) => batch.put(store, key, value),
            Change::Lend(key, value) => batch.put_with_ttl(store, key, value, LONG),
            Change::Delete(key) => batch.delete(store, key),
            Change::DeleteRange(from, to) => batch.delete_range(store, from.as_slice()..to.as_slice()),
        };
        added.unwrap();
    }
    stores.write(batch).unwrap();
}

fn early_changes() -> Vec<Change> {
    let length = |number: u64, version: u64| LENGTHS[((number + version) % LENGTHS.len() as u64) as usize];
    let put =
        |number: u64, version: u64| Change::Put(key(number), value(number, version, length(number, version)));
    let mut changes: Vec<Change> = (0..KEYS).map(|number| put(number, 0)).collect();
    let large = LARGE.iter().zip(0..);
    changes.extend(large.map(|(len, number)| Change::Put(key(KEYS + number), value(number, 0, *len))));
    let lent = (0..60).map(|number| Change::Lend(lent_key(number), value(number, 3, length(number, 0))));
    changes.extend(lent);
    changes.extend((0..120).map(|number| Change::Put(gone_key(number), value(number, 4, 20))));
    changes.extend((0..KEYS).step_by(7).map(|number| put(number, 1)));
    changes.extend((0..KEYS).step_by(11).map(|number| Change::Delete(key(number))));
    changes.push(Change::DeleteRange(gone_key(10), gone_key(110)));
    changes
}

fn late_changes() -> Vec<Change> {
    let mut changes: Vec<Change> = (1..KEYS)
        .step_by(60)
        .map(|number| Change::Put(key(number), value(number, 2, 60)))
        .collect();
    changes.extend((2..KEYS).step_by(90).map(|number| Change::Delete(key(number))));
    changes.extend((0..12).map(|number| Change::Put(late_key(number), value(number, 5, 33))));
    changes.push(Change::Put(late_key(90), value(90, 5, LARGE[0])));
    changes.push(Change::Lend(lent_key(3), value(3, 6, 50)));
    changes.push(Change::DeleteRange(late_key(4), late_key(8)));
    changes
}

/// Returns the key of a number: keys share prefixes of several lengths, and some are long.
fn key(number: u64) -> Vec<u8> {
    let place = number * 7919 % 100_003;
    match number % 20 {
        0..8 => format!("a/{place:06}"),
        8..15 => format!("with/a/prefix/of/some/length/{place:06}"),
        15..19 => place.to_string(),
        _ => format!("{}{place}", "long".repeat(60)),
    }
    .into_bytes()
}

fn lent_key(number: u64) -> Vec<u8> {
    format!("lent/{number:03}").into_bytes()
}

fn gone_key(number: u64) -> Vec<u8> {
    format!("mostly/gone/{number:03}").into_bytes()
}

fn late_key(number: u64) -> Vec<u8> {
    format!("with/late/{number:02}").into_bytes()
}

/// Returns a value that no other number or version has.
fn value(number: u64, version: u64, len: usize) -> Vec<u8> {
    let mut rng = SplitMix64::stream(number, version);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}
