//! Stores with any bit flipped: every read gives the right answer or an error.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_media::MediumAccess;
use halocline_pool::Pool;
use halocline_store::{Store, StoreError, Stores, StoresOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Keys, dram_pool};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads everything. Returns the number of errors.
fn read(store: &Store, model: &Model, context: &str) -> usize {
    let mut errors = 0;
    for (key, value) in model {
        match store.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{context}: {}", key.escape_ascii()),
            Err(StoreError::Damaged { .. }) => errors += 1,
            Err(error) => panic!("{context}: {error}"),
        }
    }
    let mut expected = model.iter();
    for pair in store.scan::<Vec<u8>>(..) {
        match pair {
            Ok((key, value)) => assert_eq!(expected.next(), Some((&key, &value)), "{context}"),
            Err(StoreError::Damaged { .. }) => return errors + 1,
            Err(error) => panic!("{context}: {error}"),
        }
    }
    assert_eq!(expected.next(), None, "{context}");
    errors
}

#[test]
fn no_flipped_bit_gives_a_wrong_answer() {
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let options = || {
        StoresOptions::default()
            .with_background(false)
            .with_pending_records(50)
    };
    let mut noticed = 0;
    for keys in Keys::ALL {
        let (pool, medium) = dram_pool();
        let stores = Stores::open_with(&pool, options()).unwrap();
        let store = stores.store("s").unwrap();
        let mut model = Model::new();
        for _ in 0..400 {
            let (key, value) = (
                keys.draw(&mut rng, 300),
                vec![rng.random(); rng.random_range(0..200)],
            );
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        store.put("large", vec![7; 50_000]).unwrap();
        model.insert(b"large".to_vec(), vec![7; 50_000]);
        let bytes = stores.stats().pool_bytes;
        drop((store, stores, pool));
        // The slab of the stores begins after the superblocks; most of what was written is near its start.
        for flip in 0..150 {
            let span = if flip % 2 == 0 { 300_000 } else { bytes };
            let at = rng.random_range(16 << 10..(16 << 10) + span);
            let bit = 1 << rng.random_range(0..8);
            let flip = || {
                let mut byte = [0];
                medium.load(at, &mut byte);
                medium.store(at, &[byte[0] ^ bit]);
            };
            let before = {
                let mut all = vec![0; medium.len() as usize];
                medium.load(0, &mut all);
                all
            };
            flip();
            let context = format!("{keys:?}, bit {bit} at {at}");
            if let Ok(pool) = Pool::open_on(Arc::clone(&medium)) {
                match Stores::open_with(&pool, options()) {
                    Ok(stores) => noticed += read(&stores.existing("s").unwrap(), &model, &context),
                    Err(StoreError::Damaged { .. } | StoreError::Pool(_)) => noticed += 1,
                    Err(error) => panic!("{context}: {error}"),
                }
            }
            medium.store(0, &before);
        }
    }
    assert!(noticed > 20, "only {noticed} answers met the damage");
}
