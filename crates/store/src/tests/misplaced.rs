//! Leaves at the places of others: every answer is right or an error, and checks find each.

use std::ops::ControlFlow;
use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::{Dram, MediumAccess};
use halocline_pool::Pool;

use super::sample::{NAMES, Sample};
use super::workload::options;
use crate::fault::{self, StoreFault};
use crate::layout::LEAF;
use crate::{StoreError, Stores};

/// Returns the first leaf of each store, one from the middle, and the last.
fn some_leaves(sample: &Sample) -> Vec<u64> {
    let of = |name: &str| -> Vec<u64> {
        let leaves = sample.leaves.iter().filter(|(of, ..)| *of == name);
        leaves.map(|(_, leaf, _)| *leaf).collect()
    };
    let mut some = Vec::new();
    for name in NAMES {
        let leaves = of(name);
        assert!(leaves.len() > 3, "{name} has {} leaves", leaves.len());
        some.extend([leaves[0], leaves[leaves.len() / 2], leaves[leaves.len() - 1]]);
    }
    some
}

fn bytes(leaf: u64) -> std::ops::Range<usize> {
    leaf as usize..(leaf + LEAF) as usize
}

/// Swaps and copies all pairs of some leaves. Returns what was not noticed.
fn misplace(sample: &Sample) -> Vec<String> {
    let leaves = some_leaves(sample);
    let mut missed = Vec::new();
    for (at, one) in leaves.iter().enumerate() {
        for (other_at, other) in leaves.iter().enumerate().filter(|(other, _)| *other != at) {
            let swap = other_at < at;
            let answers = sample.read(|image| {
                let (first, second) = (image[bytes(*one)].to_vec(), image[bytes(*other)].to_vec());
                image[bytes(*one)].copy_from_slice(&second);
                if swap {
                    image[bytes(*other)].copy_from_slice(&first);
                }
            });
            let context = format!("leaf {at} with {other_at}, swapped: {swap}");
            // The other leaves are read as before.
            let affected = if swap { vec![*one, *other] } else { vec![*one] };
            let is_affected = |name: &str, key: &[u8]| affected.contains(&sample.leaf_of(name, key));
            let elsewhere = answers.damaged.iter().find(|(name, key)| !is_affected(name, key));
            if let Some((name, key)) = elsewhere {
                missed.push(format!("{context}: {name}: {} is an error", key.escape_ascii()));
            }
            if !answers.wrong.is_empty() || answers.damaged.is_empty() || answers.refused > 0 {
                missed.push(format!(
                    "{context}: {} damaged, {:?}",
                    answers.damaged.len(),
                    answers.wrong.first()
                ));
            }
            // The reader and the writer have checked.
            if answers.problems.len() < 2 * affected.len() {
                missed.push(format!("{context}: problems {:?}", answers.problems));
            }
        }
    }
    missed
}

#[test]
fn leaves_at_the_places_of_others_are_noticed() {
    let missed = misplace(&Sample::new(2));
    assert!(
        missed.is_empty(),
        "{} are not noticed: {:#?}",
        missed.len(),
        &missed[..missed.len().min(8)]
    );
}

/// Leaves of format 1, whose checksum does not cover their place.
#[test]
fn old_leaves_at_the_places_of_others_are_noticed() {
    let sample = fault::with(StoreFault::UnplacedLeaves, || Sample::new(2));
    let missed = misplace(&sample);
    assert!(
        missed.is_empty(),
        "{} are not noticed: {:#?}",
        missed.len(),
        &missed[..missed.len().min(8)]
    );
    // Without a look at the bounds they are not.
    assert!(!fault::with(StoreFault::IgnoreBounds, || misplace(&sample)).is_empty());
}

/// Damage of a leaf after its first reading is noticed by the next opening.
#[test]
fn a_leaf_is_verified_once_per_opening() {
    let sample = Sample::new(1);
    let memory = Arc::new(Tracked::from_image(&sample.image).unwrap());
    let pool = Pool::open_on(Arc::clone(&memory)).unwrap();
    let name = NAMES[0];
    let (key, value) = sample.pairs[name].iter().nth(80).unwrap();
    let leaf = sample.leaf_of(name, key);
    let stores = Stores::open_reader(&pool).unwrap();
    let store = stores.existing(name).unwrap();
    assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
    // The highest bit of the checksum.
    memory.store_u64(leaf, memory.load_u64(leaf) ^ 1 << 63);
    assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
    let again = Stores::open_reader(&pool).unwrap();
    let found = again.existing(name).unwrap().get(key);
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
}

/// Lets entries of leaves lead to the records of other entries. Returns what was not noticed.
fn mislead(sample: &Sample) -> Vec<String> {
    let leaves = some_leaves(sample);
    // The last entry of a leaf, and the first one of it or of another leaf, also of another store.
    let place = |leaf: u64, last: bool| {
        let used = sample.image[bytes(leaf)][..6].iter().rev();
        let used = used.fold(0_u64, |used, byte| used << 8 | u64::from(*byte));
        let slot = if last {
            63 - used.leading_zeros()
        } else {
            used.trailing_zeros()
        };
        let at = leaf as usize + 640 + 8 * slot as usize;
        at..at + 8
    };
    let mut missed = Vec::new();
    for (at, one) in leaves.iter().enumerate() {
        for (other_at, other) in leaves.iter().enumerate() {
            let answers = sample.read(|image| {
                let record = image[place(*other, false)].to_vec();
                image[place(*one, true)].copy_from_slice(&record);
            });
            if !answers.wrong.is_empty() || answers.damaged.is_empty() || answers.problems.len() < 2 {
                missed.push(format!("leaf {at} leads to a record of {other_at}: {answers:?}"));
            }
        }
    }
    missed
}

#[test]
fn entries_that_lead_to_other_records_are_noticed() {
    let sample = Sample::new(2);
    let missed = mislead(&sample);
    assert!(
        missed.is_empty(),
        "{} are not noticed: {:#?}",
        missed.len(),
        &missed[..missed.len().min(4)]
    );
    assert!(!fault::with(StoreFault::TrustEntries, || mislead(&sample)).is_empty());
}

/// An older image of a leaf at its own place counts: `docs/format/stores.md` says so. Whatever is read is
/// what the leaf led to then, or an error, and a check misses the keys that came since.
#[test]
fn an_older_image_of_a_leaf_is_told_by_the_counters() {
    let (before, after) = (Sample::new(2), Sample::new(3));
    let mut noticed = 0;
    for (name, leaf, _) in &after.leaves {
        if !before
            .leaves
            .iter()
            .any(|(of, other, _)| (of, other) == (name, leaf))
        {
            continue;
        }
        let old = before.image[bytes(*leaf)].to_vec();
        if after.image[bytes(*leaf)] == old {
            continue;
        }
        let answers = after.read(|image| image[bytes(*leaf)].copy_from_slice(&old));
        assert!(
            answers.refused == 0 && !answers.problems.is_empty(),
            "{name} {leaf}: {answers:?}"
        );
        noticed += 1;
    }
    assert!(noticed > 0, "no leaf has stayed at its place");
}

/// A writer beside a reader extends the range of a leaf whose neighbour became empty. To the reader, which
/// has the trees before, the leaf then has keys outside of its range, and is not damaged.
#[test]
fn a_reader_sees_no_damage_in_a_range_that_was_extended() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    let key = |number: u32| number.to_be_bytes();
    (0..96).for_each(|number| store.put(key(number), "value").unwrap());
    stores.checkpoint().unwrap();
    (40..48).for_each(|number| store.delete(key(number)).unwrap());
    stores.checkpoint().unwrap();
    // The first leaf has room, and all keys of the second one are deleted in the log after the checkpoint
    // that the reader knows. The reader has not read the first leaf yet.
    (48..96).for_each(|number| store.delete(key(number)).unwrap());
    let reader = Stores::open_reader(&Pool::open_on(Arc::clone(&medium)).unwrap()).unwrap();
    stores.checkpoint().unwrap();
    let leaf = |stores: &Stores| {
        let (state, store) = (&stores.handle.state, stores.existing("s").unwrap());
        let range = store.state.read().tree.leaf_of(&state.pages(), Some(&key(60)));
        range.unwrap().unwrap().leaf
    };
    (60..63).for_each(|number| store.put(key(number), "new").unwrap());
    stores.checkpoint().unwrap();
    let shared = leaf(&stores);
    let seen = reader.existing("s").unwrap();
    let range = seen.state.read().tree.leaf_of(&reader.handle.state.pages(), None);
    assert_eq!(
        range.unwrap().unwrap().leaf,
        shared,
        "the leaf was changed where it is"
    );
    (0..96).for_each(|number| {
        let expected = (number < 40).then(|| b"value".to_vec());
        assert_eq!(seen.get(key(number)).unwrap(), expected, "{number}");
    });
    assert_eq!(seen.scan::<&[u8]>(..).filter(|pair| pair.is_ok()).count(), 40);
    let report = reader.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.problems, []);
    let range = seen.state.read().tree.leaf_of(&reader.handle.state.pages(), None);
    assert_eq!(
        range.unwrap().unwrap().leaf,
        shared,
        "the leaf was changed where it is"
    );
}
