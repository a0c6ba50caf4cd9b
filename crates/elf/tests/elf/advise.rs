//! Advice against what trying everything out at length shows, on virtual clocks.

use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::{
    Advice, AdviseOptions, BuildOptions, CodePredicate, Elf, ElfError, Layout, PlaceOptions, Query, build_vec,
};
use halocline_emulator::{CacheShape, ClockMode, Device, DeviceProfile, EmulatedBytes, EmulatedSpec};
use halocline_media::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

use crate::common::Data;

type Index = Elf<Arc<[u8]>>;

/// CPU time of a query.
const CPU: Duration = Duration::from_nanos(300);

/// With a cache and a buffer that are small beside these indexes.
fn medium(profile: &str) -> EmulatedSpec {
    let mut profile = DeviceProfile::find(profile).unwrap();
    profile.buffer_units = profile.buffer_units.min(8);
    EmulatedSpec {
        clock: ClockMode::Virtual,
        absolute: true,
        cache: CacheShape::with_bytes(16 << 10),
        ..EmulatedSpec::new(profile)
    }
}

fn options(dram: u64, profile: &str) -> AdviseOptions {
    AdviseOptions {
        cpu: Some(CPU),
        most: Duration::from_secs(1000),
        ..AdviseOptions::new(dram, medium(profile))
    }
}

fn index(data: &Data, layout: Layout) -> Index {
    let options = BuildOptions {
        layout,
        threads: 1,
        ..BuildOptions::default()
    };
    Elf::open(Arc::<[u8]>::from(build_vec(data, &options).unwrap())).unwrap()
}

/// The queries of the index.
#[derive(Debug, Clone, Copy)]
enum Workload {
    /// Exact matches of rows, all as often.
    Uniform,
    /// Exact matches of which few rows get most.
    Skewed,
    /// A few values of every dimension.
    Ranges,
    /// One value of two of them.
    Partial,
}

impl Workload {
    fn queries(self) -> usize {
        match self {
            Self::Uniform | Self::Skewed => 4000,
            Self::Ranges | Self::Partial => 200,
        }
    }

    fn draw(self, data: &Data, count: usize, rng: &mut StdRng) -> Vec<Query> {
        let mut query = || {
            let row = match self {
                // As Zipf with exponent 1: the logarithm of the rank is uniform.
                Self::Skewed => {
                    let rank = (data.rows as f64).powf(rng.random::<f64>()) as usize - 1;
                    rank.wrapping_mul(7919) % data.rows
                }
                _ => rng.random_range(0..data.rows),
            };
            let code = |dim| data.code(row, dim);
            match self {
                Self::Uniform | Self::Skewed => Query::Exact((0..data.dims).map(code).collect()),
                Self::Ranges => {
                    let around = |dim| {
                        let span = data.max[dim] / 50;
                        CodePredicate::range(code(dim).saturating_sub(span), code(dim) + span)
                    };
                    Query::Select((0..data.dims).map(around).collect())
                }
                Self::Partial => {
                    let one = rng.random_range(0..data.dims - 2);
                    let some = |dim| {
                        if dim == one || dim == data.dims - 1 {
                            CodePredicate::equal(code(dim))
                        } else {
                            CodePredicate::Any
                        }
                    };
                    Query::Select((0..data.dims).map(some).collect())
                }
            }
        };
        (0..count).map(|_| query()).collect()
    }
}

fn ask<B: Bytes>(elf: &Elf<B>, queries: &[Query]) {
    for query in queries {
        match query {
            Query::Exact(point) => drop(elf.exact(point).unwrap()),
            Query::Select(predicates) => drop(elf.select(predicates).unwrap().tids().unwrap()),
        }
    }
}

/// Seconds that these queries wait for a device with this in DRAM, after others; `None` if there is no room
/// for it.
fn stall(elf: &Index, spec: &EmulatedSpec, place: &PlaceOptions, queries: &[Query]) -> Option<f64> {
    let device = Device::new(spec).unwrap();
    let bytes = EmulatedBytes::new(elf.bytes().clone(), Arc::clone(&device));
    let elf = Elf::open(bytes).unwrap().place(place).unwrap();
    if elf.placed().fallback.is_some() {
        return None;
    }
    // The device's clock counts reads: when lists are copied must not depend on another thread's time.
    elf.copy_alone();
    let (warm, measured) = queries.split_at(queries.len() / 2);
    ask(&elf, warm);
    device.settle();
    let before = device.elapsed();
    ask(&elf, measured);
    device.settle();
    Some((device.elapsed() - before).as_secs_f64() / measured.len() as f64)
}

/// By how much the pick is slower than the best of all that was tried.
fn regret(elf: &Index, profile: &str, advice: &Advice, queries: &[Query]) -> f64 {
    let slow = medium(profile);
    let dram = EmulatedSpec {
        profile: DeviceProfile {
            device: slow.profile.dram.clone(),
            ..DeviceProfile::dram()
        },
        ..slow.clone()
    };
    let all = stall(elf, &dram, &PlaceOptions::default(), queries).unwrap();
    let cost = |placement| {
        let place = PlaceOptions::default()
            .with_placement(placement)
            .with_dram(Some(advice.dram));
        let slow = stall(elf, &slow, &place, queries)?;
        let of_copies = (all - stall(elf, &dram, &place, queries)?).max(0.0);
        Some(CPU.as_secs_f64() + slow + of_copies)
    };
    let placements = [
        Placement::SlowOnly,
        Placement::Hybrid,
        Placement::Static(StaticLists::Probable),
        Placement::Static(StaticLists::Levels(2)),
        Placement::DualAccess,
        Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
        Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
    ];
    let costs: Vec<_> = placements
        .iter()
        .map(|&placement| (placement, cost(placement)))
        .collect();
    let best = costs
        .iter()
        .filter_map(|(_, cost)| *cost)
        .fold(f64::INFINITY, f64::min);
    let picked = advice.picked().placement;
    let found = costs.iter().find(|(placement, _)| *placement == picked);
    found.and_then(|(_, cost)| *cost).unwrap() / best - 1.0
}

/// An index, its data and a sample of a workload.
fn asked(layout: Layout, workload: Workload, rng: &mut StdRng) -> (Data, Index, Vec<Query>) {
    let dims = [(20, 20), (200, 200), (1000, 1000), (50, 50), (3000, 3000)];
    let data = Data::random(&dims, 8000, rng.random());
    let elf = index(&data, layout);
    let sample = workload.draw(&data, workload.queries(), rng);
    (data, elf, sample)
}

/// The pick for each of these shares of the index's size, over each medium.
fn check(layout: Layout, workload: Workload) {
    for (seed, (share, profile)) in [(0.03, "optane"), (0.25, "cxl"), (0.5, "optane"), (1.5, "nvme")]
        .into_iter()
        .enumerate()
    {
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let (data, elf, sample) = asked(layout, workload, &mut rng);
        let dram = (elf.size() as f64 * share) as u64;
        let advice = elf.advise(&sample, &options(dram, profile)).unwrap();
        for row in &advice.rows {
            assert!(
                row.time.is_none() || row.dram_bytes <= dram,
                "seed {seed}: {row:?}"
            );
        }
        let others = workload.draw(&data, 2 * workload.queries(), &mut rng);
        let regret = regret(&elf, profile, &advice, &others);
        assert!(
            regret < 0.1,
            "{workload:?}, {share} of the size over {profile}, seed {seed}: {:.1} % above the best; {advice:#?}",
            regret * 100.0
        );
    }
}

#[test]
fn the_pick_for_exact_matches_is_within_a_tenth_of_the_best() {
    for layout in [Layout::Packed, Layout::Published] {
        for workload in [Workload::Uniform, Workload::Skewed] {
            check(layout, workload);
        }
    }
}

#[test]
fn the_pick_for_selections_is_within_a_tenth_of_the_best() {
    for layout in [Layout::Packed, Layout::Published] {
        for workload in [Workload::Ranges, Workload::Partial] {
            check(layout, workload);
        }
    }
}

#[test]
fn a_medium_like_dram_needs_none() {
    let mut rng = StdRng::seed_from_u64(1);
    for workload in [Workload::Skewed, Workload::Partial] {
        let (_, elf, sample) = asked(Layout::Packed, workload, &mut rng);
        let advice = elf.advise(&sample, &options(2 * elf.size(), "dram")).unwrap();
        assert_eq!(advice.picked().placement, Placement::SlowOnly, "{advice:#?}");
        assert_eq!(advice.options(), PlaceOptions::default());
    }
}

#[test]
fn all_of_it_where_there_is_room_and_it_pays() {
    let mut rng = StdRng::seed_from_u64(2);
    for layout in [Layout::Packed, Layout::Published] {
        let (_, elf, sample) = asked(layout, Workload::Uniform, &mut rng);
        let dram = 2 * elf.size();
        let advice = elf.advise(&sample, &options(dram, "optane")).unwrap();
        assert_eq!(advice.picked().placement, Placement::Hybrid, "{advice:#?}");
        assert!(
            advice.reason.contains("less time than slow-only"),
            "{}",
            advice.reason
        );
        let hybrid = PlaceOptions::default()
            .with_placement(Placement::Hybrid)
            .with_dram(Some(dram));
        assert_eq!(advice.options(), hybrid);
        assert_eq!(
            elf.place(&hybrid).unwrap().placed().dram_bytes,
            advice.picked().dram_bytes
        );
    }
}

#[test]
fn volatile_is_listed_and_never_picked() {
    let mut rng = StdRng::seed_from_u64(8);
    let (_, elf, sample) = asked(Layout::Packed, Workload::Uniform, &mut rng);
    for (dram, possible) in [(elf.size() / 3, false), (2 * elf.size(), true)] {
        let advice = elf.advise(&sample, &options(dram, "optane")).unwrap();
        let row = |placement| advice.rows.iter().find(|row| row.placement == placement);
        let (volatile, hybrid) = (row(Placement::Volatile).unwrap(), row(Placement::Hybrid).unwrap());
        assert_eq!(
            (volatile.time, volatile.dram_bytes),
            (hybrid.time, hybrid.dram_bytes)
        );
        assert_eq!(volatile.time.is_some(), possible);
        let note = volatile.note.clone().unwrap_or_default();
        assert_eq!(note.contains("out of reach"), !possible, "{note}");
        assert!(volatile.dram_bytes >= elf.size());
        assert_ne!(advice.picked().placement, Placement::Volatile, "{advice:#?}");
    }
}

#[test]
fn the_same_sample_gives_the_same_advice() {
    let mut rng = StdRng::seed_from_u64(3);
    let (_, elf, sample) = asked(Layout::Packed, Workload::Ranges, &mut rng);
    // But for those that follow the queries: chance says which of these they learn from.
    let advise = || {
        let advice = elf.advise(&sample, &options(elf.size() / 3, "optane")).unwrap();
        let fixed = advice.rows.into_iter();
        fixed
            .filter(|row| row.placement.policy().is_none())
            .collect::<Vec<_>>()
    };
    assert_eq!(advise(), advise());
}

#[test]
fn what_stays_in_the_cache_needs_no_dram() {
    let mut rng = StdRng::seed_from_u64(4);
    let (_, elf, sample) = asked(Layout::Packed, Workload::Uniform, &mut rng);
    let mut options = options(elf.size() / 3, "optane");
    options.medium.cache = CacheShape::with_bytes(1 << 20);
    let advice = elf.advise(&sample, &options).unwrap();
    assert_eq!((advice.pick, advice.rows[0].lines), (0, 0.0), "{advice:#?}");
    assert!(advice.reason.contains("cache"), "{}", advice.reason);
}

#[test]
fn too_little_dram_is_said() {
    let mut rng = StdRng::seed_from_u64(5);
    let (_, elf, sample) = asked(Layout::Published, Workload::Ranges, &mut rng);
    let advice = elf.advise(&sample, &options(100, "optane")).unwrap();
    assert_eq!(advice.pick, 0);
    assert!(advice.reason.contains("no room"), "{}", advice.reason);
    for row in &advice.rows[1..] {
        assert!(row.time.is_none() && row.note.is_some(), "{row:?}");
    }
}

#[test]
fn what_cannot_be_advised_on_says_why() {
    let mut rng = StdRng::seed_from_u64(6);
    let (data, elf, _) = asked(Layout::Packed, Workload::Uniform, &mut rng);
    let some = options(1 << 20, "optane");
    assert!(matches!(elf.advise(&[], &some), Err(ElfError::NoQueries)));
    let short = [Query::Exact(vec![0; data.dims - 1])];
    assert!(matches!(
        elf.advise(&short, &some),
        Err(ElfError::WrongDimensions { .. })
    ));
    let one = [Query::Exact(vec![0; data.dims])];
    assert_eq!(elf.advise(&one, &some).unwrap().queries, 1);
    let empty = Data {
        rows: 0,
        codes: vec![],
        ..data
    };
    let advice = index(&empty, Layout::Packed).advise(&one, &some).unwrap();
    assert_eq!(advice.picked().placement, Placement::SlowOnly);
    assert!(advice.reason.contains("no rows"), "{}", advice.reason);
}

#[test]
fn the_cpu_is_measured_and_long_samples_are_cut() {
    let mut rng = StdRng::seed_from_u64(7);
    let (_, elf, sample) = asked(Layout::Packed, Workload::Partial, &mut rng);
    let advise = AdviseOptions {
        cpu: None,
        most: Duration::ZERO,
        ..options(elf.size() / 2, "optane")
    };
    let advice = elf.advise(&sample, &advise).unwrap();
    assert_eq!(advice.queries, 16);
    assert!(advice.rows[0].time.unwrap() > advice.rows[0].stall, "{advice:#?}");
}
