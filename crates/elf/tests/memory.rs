//! DRAM that a placed index takes, as the kernel counts it: never more than its budget.
//!
//! A process of its own with one test, so that nothing else allocates. Linux only.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::sync::Arc;

use common::Data;
use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::{BuildOptions, CodePredicate, Elf, Layout, Matches, PlaceOptions, Tid, build_vec};
use halocline_media::keep_little_heap;

const ROWS: usize = 200_000;
/// Bytes that may come on top of a budget: pages of the heap and the stack that are written for the first
/// time, and what the allocator keeps of freed memory. As a rule it is two pages.
const SLACK: u64 = 256 << 10;

/// Bytes in anonymous resident pages, counted page by page.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kibibytes.unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Questions, and where answers go: allocated once.
struct Queries {
    dims: usize,
    points: Vec<u64>,
    windows: Vec<Vec<CodePredicate>>,
    tids: Vec<Tid>,
    matches: Matches,
}

impl Queries {
    fn new(data: &Data) -> Self {
        let points = data.points(4_000, 3);
        let windows = points.chunks(data.dims).take(100).map(|point| {
            let window =
                |(&code, &max): (&u64, &u64)| CodePredicate::range(code, code.saturating_add(max / 8));
            point.iter().zip(&data.max).map(window).collect()
        });
        Self {
            dims: data.dims,
            windows: windows.collect(),
            points,
            tids: Vec::with_capacity(data.rows),
            matches: Matches::new(),
        }
    }

    /// Asks all; gives a sum over the answers, and the most that was resident meanwhile.
    fn ask(&mut self, elf: &Elf<Arc<[u8]>>) -> (u64, u64) {
        let (mut sum, mut most) = (0, 0);
        for points in self.points.chunks(self.dims * 500) {
            for point in points.chunks(self.dims) {
                sum += elf.exact(point).unwrap().map(u64::from).sum::<u64>();
            }
            elf.exact_batch(points, &mut self.matches).unwrap();
            sum += (0..self.matches.len())
                .map(|point| self.matches.get(point).len() as u64)
                .sum::<u64>();
            most = most.max(resident());
        }
        for window in &self.windows {
            self.tids.clear();
            elf.select(window).unwrap().tids_into(&mut self.tids).unwrap();
            sum += self.tids.len() as u64;
        }
        (sum, most.max(resident()))
    }
}

fn placements(layout: Layout) -> Vec<Placement> {
    let mut placements = vec![
        Placement::SlowOnly,
        Placement::Hybrid,
        Placement::Static(StaticLists::Levels(1)),
        Placement::Static(StaticLists::Levels(3)),
        Placement::Static(StaticLists::Probable),
        Placement::DualAccess,
        Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
        Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
    ];
    if layout == Layout::Published {
        for policy in PolicyKind::ALL {
            placements.push(Placement::Dynamic(policy, Links::Hashed));
            placements.push(Placement::StaticDynamic(policy, Links::Hashed));
        }
    }
    placements
}

#[test]
fn memory_never_passes_the_budget() {
    keep_little_heap(1 << 20);
    let data = Data::random(&[(9, 10), (49, 50), (99, 100), (99, 100), (999, 1000)], ROWS, 11);
    let mut queries = Queries::new(&data);
    for layout in [Layout::Packed, Layout::Published] {
        let options = BuildOptions {
            layout,
            threads: 1,
            memory: 1 << 30,
            ..BuildOptions::default()
        };
        let bytes: Arc<[u8]> = build_vec(&data, &options).unwrap().into();
        let plain = Elf::open(bytes).unwrap();
        let (expected, _) = queries.ask(&plain);
        let size = plain.size();
        for placement in placements(layout) {
            for budget in [1, 64 << 10, size / 10, size / 2, 3 * size] {
                let what = format!("{layout}, {placement}, {budget} bytes for {size}");
                let before = resident();
                let options = PlaceOptions::default()
                    .with_placement(placement)
                    .with_dram(Some(budget));
                let placed = plain.place(&options).unwrap();
                let mut most = resident();
                for _ in 0..3 {
                    let (sum, meanwhile) = queries.ask(&placed);
                    assert_eq!(sum, expected, "{what}");
                    most = most.max(meanwhile);
                }
                // Between old copies and new ones there are none.
                placed.wait_for_copies();
                let (grown, told) = (most.saturating_sub(before), placed.placed().dram_bytes);
                assert!(grown <= budget + SLACK, "{what}: {grown} bytes, told are {told}");
                assert!(told <= budget, "{what}: told are {told} bytes");
                assert!(
                    grown <= told + SLACK,
                    "{what}: {grown} bytes, told are only {told}"
                );
            }
        }
    }
}
