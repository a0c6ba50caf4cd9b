//! Indexes in a pool with any bit flipped: every query gives the right answer or an error that names the
//! block.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::{
    BuildOptions, CodePredicate, Elf, ElfError, Layout, Matches, PlaceOptions, Result, Threads, build_vec,
};
use halocline_media::{Bytes, Dram, MediumAccess};
use halocline_pool::{ExtentBytes, ObjectKind, Pool};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

use crate::common::Data;

/// The queries and their results in an index that is not damaged.
struct Questions {
    points: Vec<u64>,
    exact: Vec<Vec<u32>>,
    selections: Vec<(Vec<CodePredicate>, Vec<u32>)>,
}

impl Questions {
    fn new(data: &Data, sound: &Elf<Arc<[u8]>>, rng: &mut StdRng) -> Self {
        let points = data.points(12, rng.random());
        let exact = points
            .chunks(data.dims)
            .map(|point| sound.exact(point).unwrap().collect())
            .collect();
        let selections = points.chunks(data.dims).take(6).enumerate().map(|(i, point)| {
            let predicates: Vec<CodePredicate> = point
                .iter()
                .zip(&data.max)
                .enumerate()
                .map(|(dim, (&code, &max))| match (dim + i) % 3 {
                    0 => CodePredicate::Any,
                    1 => CodePredicate::Range {
                        lo: code / 2,
                        hi: code.saturating_add(max / 8).min(max),
                    },
                    _ => CodePredicate::Set(vec![code / 2, code]),
                })
                .collect();
            let mut rows = sound.select(&predicates).unwrap().tids().unwrap();
            rows.sort_unstable();
            (predicates, rows)
        });
        let selections = selections.collect();
        Self {
            points,
            exact,
            selections,
        }
    }

    /// Asks an index everything. Returns how many answers were errors.
    fn ask<B: Bytes>(&self, elf: &Elf<B>, context: &str) -> usize {
        let mut refused = 0;
        let mut judge = |what: &str, found: Result<bool>| match found {
            Ok(right) => assert!(right, "{context}: {what} is wrong"),
            Err(ElfError::DamagedBlock { object, .. }) => {
                assert_eq!(object, "extent 0 of 'index/i'");
                refused += 1;
            }
            Err(other) => panic!("{context}: {what}: {other}"),
        };
        for (point, expected) in self.points.chunks(elf.dims()).zip(&self.exact) {
            let same = |rows: Vec<u32>| rows == *expected;
            judge("a point", elf.exact(point).map(|tids| same(tids.collect())));
        }
        let mut matches = Matches::new();
        let found = elf.exact_batch(&self.points, &mut matches);
        let same = || {
            let mut expected = self.exact.iter().enumerate();
            expected.all(|(i, rows)| matches.get(i) == rows)
        };
        judge("a batch", found.map(|()| same()));
        for (predicates, expected) in &self.selections {
            let selection = elf.select(predicates).unwrap();
            let count = expected.len() as u64;
            judge("a count", selection.count().map(|found| found == count));
            let sorted = |mut rows: Vec<u32>| {
                rows.sort_unstable();
                rows == *expected
            };
            judge("a selection", selection.tids().map(sorted));
            let mut rows = vec![];
            let found = selection.tids_into_on(Threads::All, &mut rows);
            judge("a selection by threads", found.map(|()| sorted(rows)));
            let mut rows: Vec<u32> = vec![];
            let found = selection.ranges(|range| rows.extend(range));
            judge("ranges", found.map(|()| rows == *expected));
        }
        refused
    }
}

fn placements(layout: Layout) -> Vec<Placement> {
    let mut all = vec![
        Placement::Hybrid,
        Placement::Static(StaticLists::Levels(2)),
        Placement::DualAccess,
        Placement::Static(StaticLists::Probable),
        Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
        Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
    ];
    if layout == Layout::Published {
        all.push(Placement::Dynamic(PolicyKind::Lla, Links::Hashed));
    }
    all
}

fn open(pool: &Pool) -> Elf<ExtentBytes> {
    let object = pool.snapshot().unwrap().object("index/i").unwrap();
    Elf::open(object.extent(0).unwrap()).unwrap()
}

#[test]
fn no_flipped_bit_gives_a_wrong_answer() {
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let shapes: [&[(u64, u64)]; 4] = [
        &[(99, 100); 4],
        &[(9, 10), (400, 401), (70_000, 3000)],
        &[(1, 2), (u64::MAX, 4000)],
        &[(7, 8), (15, 16), (30, 31), (100, 101), (9, 10)],
    ];
    let mut refused = 0;
    for (number, shape) in shapes.into_iter().enumerate() {
        let data = Data::random(shape, 20_000, rng.random());
        for (layout, data) in [
            (Layout::Packed, data.clone()),
            (Layout::Packed, data.sorted()),
            (Layout::Published, data.clone()),
        ] {
            let options = BuildOptions {
                layout,
                threads: 1,
                ..BuildOptions::default()
            };
            let Ok(bytes) = build_vec(&data, &options) else {
                continue;
            };
            assert!(
                bytes.len() > 64 << 10,
                "{} bytes are verified at once",
                bytes.len()
            );
            let sound = Elf::open(Arc::<[u8]>::from(bytes.clone())).unwrap();
            let questions = Questions::new(&data, &sound, &mut rng);
            let medium = Arc::new(Dram::new(4 << 20).unwrap());
            let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
            let txn = pool.begin().unwrap();
            let mut writer = txn.alloc(bytes.len() as u64).unwrap();
            writer.append(&bytes);
            let extent = writer.finish(bytes.len() as u64).unwrap();
            txn.put("index/i", ObjectKind::INDEX, b"", vec![extent]).unwrap();
            txn.commit().unwrap();
            assert_eq!(questions.ask(&open(&pool), "undamaged"), 0);
            // Damage of the header, which is padded to a line, is reported when the index is opened.
            let header = (64 + 552 * data.dims as u64).next_multiple_of(64);
            for flip in 0..40 {
                let at = rng.random_range(header..extent.len);
                let bit = 1 << rng.random_range(0..8);
                let change = || {
                    let mut byte = [0];
                    medium.load(extent.offset + at, &mut byte);
                    medium.store(extent.offset + at, &[byte[0] ^ bit]);
                };
                change();
                pool.forget_verified();
                let context = format!("shape {number}, {layout:?}, flip {flip} of bit {bit} at {at}");
                refused += questions.ask(&open(&pool), &context);
                pool.forget_verified();
                let all = placements(layout);
                let placement = all[flip % all.len()];
                let options = PlaceOptions::default()
                    .with_placement(placement)
                    .with_dram(Some(1 << 20));
                match open(&pool).place(&options) {
                    Ok(placed) => {
                        placed.copy_alone();
                        for _ in 0..3 {
                            refused += questions.ask(&placed, &format!("{context}, {placement}"));
                        }
                    }
                    Err(ElfError::DamagedBlock { .. } | ElfError::Placement { .. }) => {}
                    Err(other) => panic!("{context}: {other}"),
                }
                change();
            }
        }
    }
    assert!(refused > 100, "only {refused} answers met the damage");
}
