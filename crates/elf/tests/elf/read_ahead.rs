//! Selections with read-ahead over an index that was dropped from the page cache, where the file system does
//! so.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use halocline_elf::{BuildOptions, CodePredicate, Elf, Threads, build_vec};
use halocline_media::{Bytes, sample_residency};
use halocline_pool::{ExtentBytes, ObjectKind, Pool, PoolOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::path::Path;

use crate::common::Data;

const MAX: [u64; 4] = [40, 500, 20_000, 1 << 30];

/// Stores an index in a pool at `path`, and closes it.
fn store(path: &Path, index: &[u8]) {
    let pool = Pool::create(path, &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    let mut writer = txn.alloc(index.len() as u64).unwrap();
    writer.append(index);
    let extent = writer.finish(index.len() as u64).unwrap();
    txn.put("index/i", ObjectKind::INDEX, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
}

/// Drops the file from the page cache and opens its index.
fn reopened(path: &Path) -> Elf<ExtentBytes> {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let pool = Pool::open(path, &PoolOptions::default()).unwrap();
    let object = pool.snapshot().unwrap().object("index/i").unwrap();
    Elf::open(object.extent(0).unwrap()).unwrap()
}

/// A random selection: a few codes of the first dimensions, some of the others.
fn predicates(rng: &mut StdRng) -> Vec<CodePredicate> {
    let predicate = |max: u64, rng: &mut StdRng| match rng.random_range(0..4) {
        0 => CodePredicate::Any,
        1 => {
            let codes = (0..rng.random_range(1..9)).map(|_| rng.random_range(0..=max));
            let mut codes: Vec<u64> = codes.collect();
            codes.sort_unstable();
            codes.dedup();
            CodePredicate::Set(codes)
        }
        _ => {
            let lo = rng.random_range(0..=max);
            let hi = (lo + max / rng.random_range(2..9)).min(max);
            CodePredicate::Range { lo, hi }
        }
    };
    MAX.iter().map(|max| predicate(*max, rng)).collect()
}

#[test]
fn rows_are_the_same_with_read_ahead() {
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let distinct = MAX.map(|max| (max, max.min(1 << 20) + 1));
    let data = Data::random(&distinct, 200_000, seed);
    let folder = tempfile::tempdir().unwrap();
    for (name, data) in [("given", data.clone()), ("sorted", data.sorted())] {
        let path = folder.path().join(name);
        let index = build_vec(&data, &BuildOptions::default()).unwrap();
        store(&path, &index);
        let sound = Elf::open(std::sync::Arc::<[u8]>::from(index)).unwrap();
        for number in 0..12 {
            let predicates = predicates(&mut rng);
            let mut expected = sound.select(&predicates).unwrap().tids().unwrap();
            expected.sort_unstable();
            let elf = reopened(&path);
            let selection = elf.select(&predicates).unwrap().with_read_ahead(true);
            let threads = [Threads::One, Threads::All][number % 2];
            let mut found = vec![];
            selection.tids_into_on(threads, &mut found).unwrap();
            found.sort_unstable();
            assert_eq!(found, expected, "{predicates:?}");
            assert_eq!(selection.count().unwrap(), expected.len() as u64);
        }
    }
}

#[test]
fn only_the_lists_of_a_selection_are_read() {
    let distinct = MAX.map(|max| (max, max.min(1 << 20) + 1));
    let data = Data::random(&distinct, 400_000, 11);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    store(&path, &build_vec(&data, &BuildOptions::default()).unwrap());
    let elf = reopened(&path);
    let resident = |elf: &Elf<ExtentBytes>| sample_residency(&[elf.bytes().as_slice()]).share();
    if resident(&elf) > 0.5 {
        println!("the file system keeps what was dropped");
        return;
    }
    // One of 500 codes of the second dimension: some lists below each code of the first.
    let mut predicates = vec![CodePredicate::Any; MAX.len()];
    predicates[1] = CodePredicate::equal(data.code(0, 1));
    let selection = elf.select(&predicates).unwrap().with_read_ahead(true);
    assert!(selection.count().unwrap() > 0);
    let bytes = elf.bytes().as_slice();
    let pages = bytes
        .chunks(4096)
        .map(|page| sample_residency(&[&page[..1]]).resident);
    let (read, all) = (pages.sum::<u32>(), bytes.len() / 4096);
    println!("{read} of {all} pages were read");
    assert!(read > 0);
}
