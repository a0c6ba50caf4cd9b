//! Random damage: bits, lines, words and nodes of a tree are changed behind its back; then the tree is
//! read, checked and written.
//!
//! In a tree that was closed, every result is correct or an error. In one that has crashed, damage is
//! detected as far as the redundancy of its format allows; every operation must still terminate, and
//! the rate of detection is printed. `HALOCLINE_DAMAGE_RUNS` is the number of cases for each kind of
//! tree and state, `HALOCLINE_DAMAGE_SEED` the first seed.

#![allow(clippy::print_stdout, reason = "prints how much damage is detected")]

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_media::{Dram, MediumAccess};
use halocline_ordered::{
    OrderedIndex, Range, TreeError, TreeKind, create_tree_in, open_tree, open_tree_read_only,
};
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ENTRIES: u64 = 2_000;

/// The bytes of a pool with a tree, and the tree's contents.
struct Original {
    image: Vec<u8>,
    /// Ranges of the tree's chunks.
    chunks: Vec<(u64, u64)>,
    expected: BTreeMap<u64, u64>,
}

fn image(medium: &Dram) -> Vec<u8> {
    let mut image = vec![0; medium.len() as usize];
    medium.load(0, &mut image);
    image
}

fn medium_of(image: &[u8]) -> Arc<Dram> {
    let medium = Dram::new(image.len() as u64).unwrap();
    medium.store(0, image);
    Arc::new(medium)
}

/// Creates a tree of several levels that has grown and shrunk.
fn original(kind: TreeKind, closed: bool) -> Original {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree = create_tree_in(&pool, "tree", kind, 16 << 10).unwrap();
    let mut expected = BTreeMap::new();
    for number in 0..ENTRIES {
        let (key, value) = (number * 7_919 % 100_003, number << 20 | number);
        tree.insert(key, value).unwrap();
        expected.insert(key, value);
        if number % 5 == 4 {
            let gone = (number - 3) * 7_919 % 100_003;
            tree.remove(gone).unwrap();
            expected.remove(&gone);
        }
    }
    let object = pool.snapshot().unwrap().get("tree").unwrap();
    let chunks = (0..object.extent_count())
        .map(|index| object.extent_ref(index))
        .map(|extent| (extent.offset, extent.len))
        .collect();
    let open = image(&medium);
    drop(tree);
    Original {
        image: if closed { image(&medium) } else { open },
        chunks,
        expected,
    }
}

/// Changes some bytes of a tree; returns a description.
fn damage(rng: &mut StdRng, image: &mut [u8], chunks: &[(u64, u64)]) -> String {
    let place = |rng: &mut StdRng, image: &[u8], unit: u64| {
        // Search for a position that is in use, as most of a chunk may be free.
        for _ in 0..50 {
            let (start, len) = chunks[rng.random_range(0..chunks.len())];
            let at = (start + rng.random_range(0..len / unit) * unit) as usize;
            // The power-loss marks in the head are not part of the tree.
            let is_head = at as u64 + unit <= chunks[0].0 + 32 && at as u64 >= chunks[0].0;
            if !is_head && image[at..at + unit as usize].iter().any(|byte| *byte != 0) {
                return at;
            }
        }
        chunks[0].0 as usize + 256
    };
    match rng.random_range(0..9) {
        sort @ (0 | 1) => {
            let bits = if sort == 0 { 1 } else { 8 };
            for _ in 0..bits {
                let at = place(rng, image, 8) + rng.random_range(0..8_usize);
                image[at] ^= 1 << rng.random_range(0..8);
            }
            format!("{bits} bits changed")
        }
        2 => {
            let at = place(rng, image, 64);
            image[at..at + 64].fill(0);
            format!("the line at {at} is zero")
        }
        sort @ (3 | 4) => {
            let unit = if sort == 3 { 64 } else { 512 };
            let (one, other) = (place(rng, image, unit), place(rng, image, unit));
            let unit = unit as usize;
            let copy = image[one..one + unit].to_vec();
            image.copy_within(other..other + unit, one);
            image[other..other + unit].copy_from_slice(&copy);
            format!("{unit} bytes at {one} and {other} are exchanged")
        }
        5 => {
            let (from, to) = (place(rng, image, 8), place(rng, image, 8));
            image.copy_within(from..from + 8, to);
            format!("the word at {from} is copied to {to}")
        }
        6 => {
            let at = place(rng, image, 8);
            let word: u64 = [0, 1, 256, u64::MAX, rng.random()][rng.random_range(0..5)];
            image[at..at + 8].copy_from_slice(&word.to_le_bytes());
            format!("the word at {at} is {word}")
        }
        7 => {
            let (start, len) = chunks[rng.random_range(0..chunks.len())];
            let from = (start + rng.random_range(0..len)) as usize;
            image[from..(start + len) as usize].fill(0);
            format!("all is zero from {from} to the end of its chunk")
        }
        _ => {
            let (from, to) = (place(rng, image, 256), place(rng, image, 256));
            image.copy_within(from..from + 256, to);
            format!("256 bytes at {from} are copied to {to}")
        }
    }
}

/// The outcome of one case.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    /// A result was neither correct nor an error.
    wrong: bool,
    /// An operation failed, or `check` has found something.
    noticed: bool,
    /// `check` or opening has reported damage.
    reported: bool,
}

/// Reads the whole tree in every way.
fn read(tree: &dyn OrderedIndex, expected: &BTreeMap<u64, u64>, outcome: &mut Outcome) {
    let all = || expected.iter().map(|(key, value)| (*key, *value));
    let mut scanned = |result: Result<Vec<(u64, u64)>, TreeError>,
                       right: &mut dyn Iterator<Item = (u64, u64)>| match result {
        Ok(found) => outcome.wrong |= !found.into_iter().eq(right),
        Err(_) => outcome.noticed = true,
    };
    scanned(Range::new(tree, ..).collect(), &mut all());
    scanned(Range::new(tree, ..).rev().collect(), &mut all().rev());
    let keys: Vec<u64> = expected
        .keys()
        .flat_map(|key| [*key, key + 1])
        .step_by(3)
        .collect();
    for key in &keys {
        match tree.get(*key) {
            Ok(found) => outcome.wrong |= found != expected.get(key).copied(),
            Err(_) => outcome.noticed = true,
        }
    }
    let mut values = vec![None; keys.len()];
    match tree.get_batch(&keys, &mut values) {
        Ok(()) => {
            outcome.wrong |= keys
                .iter()
                .zip(values)
                .any(|(key, value)| value != expected.get(key).copied())
        }
        Err(_) => outcome.noticed = true,
    }
    let entries = tree.len();
    outcome.wrong |= entries > expected.len() as u64;
    match tree.check() {
        Ok(report) => {
            outcome.reported |= !report.is_intact();
            outcome.wrong |= report.is_intact() && entries != expected.len() as u64;
        }
        Err(_) => outcome.reported = true,
    }
    outcome.noticed |= outcome.reported;
}

/// Runs one case: reads the damaged tree, or first writes it.
fn run(original: &Original, seed: u64) -> (Outcome, String) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut image = original.image.clone();
    let what = damage(&mut rng, &mut image, &original.chunks);
    if image == original.image {
        return (Outcome::default(), "nothing changed".to_owned());
    }
    let mut outcome = Outcome::default();
    let Ok(pool) = Pool::open_on(medium_of(&image)) else {
        panic!("{seed}: the pool does not open");
    };
    let mut expected = original.expected.clone();
    if seed.is_multiple_of(2) {
        match open_tree(&pool, "tree") {
            Err(_) => (outcome.reported, outcome.noticed) = (true, true),
            Ok(tree) => {
                for step in 0..300 {
                    let key = rng.random_range(0..100_003);
                    let (result, value) = match step % 3 {
                        0 => (tree.remove(key), None),
                        _ => (tree.upsert(key, step), Some(step)),
                    };
                    match result {
                        Ok(before) => {
                            outcome.wrong |= before != expected.get(&key).copied();
                            match value {
                                Some(value) => expected.insert(key, value),
                                None => expected.remove(&key),
                            };
                        }
                        Err(_) => outcome.noticed = true,
                    }
                }
                if seed.is_multiple_of(4) {
                    read(&*tree, &expected, &mut outcome);
                }
            }
        }
    }
    match open_tree_read_only(&pool, "tree") {
        Ok(tree) => read(&*tree, &expected, &mut outcome),
        Err(TreeError::NeedsRecovery { .. }) => match open_tree(&pool, "tree") {
            Ok(tree) => read(&*tree, &expected, &mut outcome),
            Err(_) => (outcome.reported, outcome.noticed) = (true, true),
        },
        Err(_) => (outcome.reported, outcome.noticed) = (true, true),
    }
    (outcome, what)
}

fn number(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn runs(kind: TreeKind, closed: bool, mut look: impl FnMut(u64, Outcome, &str)) {
    let original = original(kind, closed);
    let first = number("HALOCLINE_DAMAGE_SEED", 1_000);
    for seed in first..first + number("HALOCLINE_DAMAGE_RUNS", 120) {
        let (outcome, what) = run(&original, seed);
        look(seed, outcome, &what);
    }
}

#[test]
fn no_answer_of_a_damaged_tree_that_was_closed_is_wrong() {
    for kind in TreeKind::ALL {
        let (mut cases, mut reported) = (0, 0);
        runs(*kind, true, |seed, outcome, what| {
            assert!(!outcome.wrong, "{kind}, seed {seed}: {what}");
            assert!(
                outcome.reported || !outcome.noticed,
                "{kind}, seed {seed}: {what}; `check` is clean"
            );
            cases += 1;
            reported += u64::from(outcome.reported);
        });
        println!("{kind}, closed: {reported} of {cases} reported, the others changed nothing that counts");
    }
}

#[test]
fn all_that_is_done_with_a_damaged_tree_ends() {
    for kind in TreeKind::ALL {
        let (mut cases, mut wrong, mut hidden, mut reported) = (0, 0, 0, 0);
        runs(*kind, false, |_, outcome, _| {
            cases += 1;
            wrong += u64::from(outcome.wrong);
            hidden += u64::from(outcome.wrong && !outcome.reported);
            reported += u64::from(outcome.reported);
        });
        println!(
            "{kind}, not closed: {reported} of {cases} reported, {wrong} with wrong answers, {hidden} of them not reported"
        );
    }
}
