//! Placements that change while queries run: every answer stays that of brute force over the rows.

use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::{CodePredicate, Elf, ElfError, Layout, Matches, PlaceOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use crate::common;
use crate::common::{Data, all_builds};

fn options(placement: Placement, dram: u64) -> PlaceOptions {
    PlaceOptions::default()
        .with_placement(placement)
        .with_dram(Some(dram))
}

/// Any placement that this layout has.
fn placement(layout: Layout, rng: &mut StdRng) -> Placement {
    let policy = PolicyKind::ALL[rng.random_range(0..PolicyKind::ALL.len())];
    match rng.random_range(0..9) {
        0 => Placement::SlowOnly,
        1 => Placement::Hybrid,
        2 => Placement::Static(StaticLists::Levels(rng.random_range(1..4))),
        3 => Placement::Static(StaticLists::Probable),
        4 => Placement::DualAccess,
        5 if layout == Layout::Published => Placement::Dynamic(policy, Links::Hashed),
        6 if layout == Layout::Published => Placement::StaticDynamic(policy, Links::Hashed),
        7 => Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
        _ => Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
    }
}

/// Results of brute force, each computed once.
struct Model<'d> {
    data: &'d Data,
    points: Vec<(Vec<u64>, Vec<u32>)>,
    selections: Vec<(Vec<CodePredicate>, Vec<u32>)>,
}

impl<'d> Model<'d> {
    fn new(data: &'d Data, rng: &mut StdRng) -> Self {
        let points = data.points(400, rng.random());
        let mut rows: HashMap<&[u64], Vec<u32>> = HashMap::new();
        for (row, tuple) in data.codes.chunks(data.dims).enumerate() {
            rows.entry(tuple).or_default().push(row as u32);
        }
        let found = |point: &[u64]| rows.get(point).cloned().unwrap_or_default();
        let points: Vec<_> = points
            .chunks(data.dims)
            .map(|point| (point.to_vec(), found(point)))
            .collect();
        let selections = (0..60).map(|i| {
            let point = &points[rng.random_range(0..points.len())].0;
            let predicates = point.iter().zip(&data.max).map(|(&code, &max)| {
                if i % 3 == 0 && rng.random() {
                    return CodePredicate::Any;
                }
                CodePredicate::range(code, code.saturating_add(rng.random_range(0..=max / 2)))
            });
            let predicates: Vec<_> = predicates.collect();
            let rows = common::answer(data, &predicates);
            (predicates, rows)
        });
        let selections = selections.collect();
        Self {
            data,
            points,
            selections,
        }
    }

    /// Asks a few hundred questions, the first ones more often.
    fn ask(&self, elf: &Elf<Arc<[u8]>>, what: &str, rng: &mut StdRng) {
        for _ in 0..400 {
            let most = rng.random_range(1..=self.points.len());
            let (point, rows) = &self.points[rng.random_range(0..most)];
            let found: Vec<u32> = elf.exact(point).unwrap().collect();
            assert_eq!(found, *rows, "{what}: {point:?}");
        }
        let (predicates, rows) = &self.selections[rng.random_range(0..self.selections.len())];
        let selection = elf.select(predicates).unwrap();
        let mut found = selection.tids().unwrap();
        found.sort_unstable();
        assert_eq!(found, *rows, "{what}: {predicates:?}");
        assert_eq!(
            selection.count().unwrap(),
            rows.len() as u64,
            "{what}: {predicates:?}"
        );
        let mut batch = Matches::new();
        let points: Vec<u64> = self
            .points
            .iter()
            .take(50)
            .flat_map(|(point, _)| point.clone())
            .collect();
        elf.exact_batch(&points, &mut batch).unwrap();
        for (i, (point, rows)) in self.points.iter().take(50).enumerate() {
            assert_eq!(batch.get(i), &rows[..], "{what}: {point:?}");
        }
        assert_eq!(self.data.dims, elf.dims());
    }
}

/// Ends the other threads, also when this one panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn placements_change_while_queries_run() {
    for seed in 0..3 {
        let mut rng = StdRng::seed_from_u64(seed);
        let dims: Vec<(u64, u64)> = (0..5).map(|_| (rng.random_range(1..60), 60)).collect();
        let data = Data::random(&dims, 20_000, seed);
        let data = if seed == 2 { data.sorted() } else { data };
        let model = Model::new(&data, &mut rng);
        for (what, plain) in all_builds(&data) {
            let shared = RwLock::new(plain.clone());
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _end = Ended(&done);
                for thread in 0..2 {
                    let (shared, done, model, what) = (&shared, &done, &model, &what);
                    scope.spawn(move || {
                        let mut rng = StdRng::seed_from_u64(100 * seed + thread);
                        while !done.load(Ordering::Relaxed) {
                            let elf = shared.read().unwrap().clone();
                            let what = format!("seed {seed}, {what}, {:?}", elf.placed());
                            model.ask(&elf, &what, &mut rng);
                        }
                    });
                }
                for _ in 0..20 {
                    let dram = rng.random_range(0..=plain.size());
                    let placement = placement(plain.layout(), &mut rng);
                    let placed = plain.place(&options(placement, dram)).unwrap();
                    *shared.write().unwrap() = placed.clone();
                    for _ in 0..20 {
                        let what = format!("seed {seed}, {what}, {placement} within {dram}");
                        model.ask(&placed, &what, &mut rng);
                        assert!(
                            placed.placed().dram_bytes <= dram,
                            "{what}: {:?}",
                            placed.placed()
                        );
                    }
                }
            });
        }
    }
}

#[test]
fn caches_fill_with_what_is_asked() {
    let data = Data::random(&[(9, 10), (99, 100), (99, 100), (99, 100)], 50_000, 3);
    let model = Model::new(&data, &mut StdRng::seed_from_u64(4));
    for (what, plain) in all_builds(&data) {
        let dram = plain.size() / 5;
        let placed = plain
            .place(&options(
                Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
                dram,
            ))
            .unwrap();
        placed.copy_alone();
        let before = placed.placed().dram_bytes;
        for round in 0..60 {
            model.ask(&placed, &what, &mut StdRng::seed_from_u64(round));
        }
        let after = placed.placed();
        assert!(
            after.dram_bytes > before + dram / 2 && after.dram_bytes <= dram,
            "{what}: {before}, {after:?} of {dram}"
        );
    }
}

#[test]
fn copies_are_made_beside_queries_and_hold_the_bytes_no_longer_than_their_index() {
    let data = Data::random(&[(9, 10), (99, 100), (99, 100), (99, 100)], 50_000, 6);
    let mut rng = StdRng::seed_from_u64(7);
    let model = Model::new(&data, &mut rng);
    let dynamic = Placement::Dynamic(PolicyKind::Lla, Links::Swizzled);
    for (what, plain) in all_builds(&data) {
        let dram = plain.size() / 3;
        let before = Arc::strong_count(plain.bytes());
        for round in 0..20 {
            let placed = plain.place(&options(dynamic, dram)).unwrap();
            for _ in 0..rng.random_range(0..30) {
                model.ask(&placed, &what, &mut rng);
            }
            if round == 0 {
                for _ in 0..30 {
                    model.ask(&placed, &what, &mut rng);
                }
                placed.wait_for_copies();
                let now = placed.placed();
                assert!(
                    now.dram_bytes > dram / 2 && now.dram_bytes <= dram,
                    "{what}: {now:?}"
                );
                model.ask(&placed, &what, &mut rng);
            }
            drop(placed);
            assert_eq!(Arc::strong_count(plain.bytes()), before, "{what}");
        }
    }
}

#[test]
fn what_keeps_lists_from_being_copied_is_said_and_harms_no_query() {
    let data = Data::random(&[(9, 10), (99, 100), (99, 100), (99, 100)], 20_000, 8);
    let points = data.points(4000, 9);
    for (what, plain) in all_builds(&data) {
        let size = plain.size();
        let whole = Some(2 * size);
        // An upper list that cannot be read: the byte nearest to either end that makes it so.
        let last = size as usize - 1;
        let damaged = (0..last)
            .flat_map(|from_end| [from_end, last - from_end])
            .find_map(|at| {
                let mut bytes = plain.bytes().to_vec();
                bytes[at] ^= 0xff;
                let elf = Elf::open(Arc::<[u8]>::from(bytes)).ok()?;
                let placed = elf.place(
                    &PlaceOptions::default()
                        .with_placement(Placement::Static(StaticLists::Levels(2)))
                        .with_dram(whole),
                );
                placed.is_err().then_some(elf)
            });
        let damaged = damaged.unwrap();
        let dynamic = Placement::Dynamic(PolicyKind::Lla, Links::Swizzled);
        let placed = damaged
            .place(&PlaceOptions::default().with_placement(dynamic).with_dram(whole))
            .unwrap();
        for point in points.chunks(data.dims).cycle().take(40_000) {
            let (one, other) = (damaged.exact(point), placed.exact(point));
            match (one, other) {
                (Ok(one), Ok(other)) => assert!(one.eq(other), "{what}: {point:?}"),
                (one, other) => assert_eq!(one.is_err(), other.is_err(), "{what}: {point:?}"),
            }
        }
        placed.wait_for_copies();
        let now = placed.placed();
        let reason = now.fallback.unwrap_or_default();
        assert!(reason.contains("could not be copied"), "{what}: {reason}");
    }
}

#[test]
fn what_cannot_be_placed_says_what_can() {
    let data = Data::random(&[(9, 10), (99, 100)], 5000, 5);
    for (what, plain) in all_builds(&data) {
        let refused = |placement| match plain.place(&options(placement, 1 << 20)) {
            Err(ElfError::Placement { reason, .. }) => reason,
            other => panic!("{what}: {other:?}"),
        };
        assert!(refused(Placement::Volatile).contains("hybrid"));
        assert!(refused(Placement::Dynamic(PolicyKind::Lru, Links::Swizzled)).contains("hashed-"));
        if plain.layout() == Layout::Packed {
            let reason = refused(Placement::Dynamic(PolicyKind::Lru, Links::Hashed));
            assert!(reason.contains("published"), "{reason}");
        }
        // Without room for the root list all is slow, and says so.
        let placed = plain
            .place(&options(Placement::Static(StaticLists::Probable), 1))
            .unwrap()
            .placed();
        assert_eq!((placed.placement, placed.dram_bytes), (Placement::SlowOnly, 0));
        assert!(placed.fallback.unwrap().contains("slow tier"));
    }
}
