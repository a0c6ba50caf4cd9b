//! Random tables, and the answers that brute force over their rows gives.
#![allow(dead_code, reason = "each test file uses a part")]

use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::{
    BuildOptions, CodePredicate, Elf, Layout, PlaceOptions, Rows, Spill, SpillArea, WriteError, build,
    build_vec,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A table, row-major.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) dims: usize,
    pub(crate) rows: usize,
    pub(crate) max: Vec<u64>,
    pub(crate) codes: Vec<u64>,
}

impl Data {
    /// Each dimension: (largest code, about how many distinct codes). A third of the rows repeats another
    /// row's prefix.
    pub(crate) fn random(dims: &[(u64, u64)], rows: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let values: Vec<Vec<u64>> = dims
            .iter()
            .map(|&(max, distinct)| {
                (0..distinct.min(4 * rows as u64 + 1))
                    .map(|_| rng.random_range(0..=max))
                    .collect()
            })
            .collect();
        let mut codes: Vec<u64> = Vec::with_capacity(rows * dims.len());
        for row in 0..rows {
            let copied = if row > 0 && rng.random_ratio(1, 3) {
                rng.random_range(0..=dims.len())
            } else {
                0
            };
            let from = rng.random_range(0..row.max(1));
            for (dim, values) in values.iter().enumerate() {
                let code = if dim < copied {
                    codes[from * dims.len() + dim]
                } else {
                    values[rng.random_range(0..values.len())]
                };
                codes.push(code);
            }
        }
        Self {
            dims: dims.len(),
            rows,
            max: dims.iter().map(|dim| dim.0).collect(),
            codes,
        }
    }

    /// The same rows in the order of their tuples.
    pub(crate) fn sorted(&self) -> Self {
        let mut rows: Vec<&[u64]> = self.codes.chunks(self.dims).collect();
        rows.sort_unstable();
        Self {
            codes: rows.concat(),
            ..self.clone()
        }
    }

    pub(crate) fn code(&self, row: usize, dim: usize) -> u64 {
        self.codes[row * self.dims + dim]
    }

    /// Points, most of them rows, some changed in one dimension.
    pub(crate) fn points(&self, count: usize, seed: u64) -> Vec<u64> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut points = vec![];
        for _ in 0..count {
            let mut point: Vec<u64> = if self.rows > 0 {
                let row = rng.random_range(0..self.rows);
                self.codes[row * self.dims..(row + 1) * self.dims].to_vec()
            } else {
                vec![0; self.dims]
            };
            if rng.random_ratio(1, 4) {
                let dim = rng.random_range(0..self.dims);
                point[dim] = match rng.random_range(0..3) {
                    0 => rng.random_range(0..=self.max[dim]),
                    1 => rng.random(),
                    _ => point[dim].wrapping_add(1),
                };
            }
            points.extend(point);
        }
        points
    }
}

impl Rows for Data {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        self.dims
    }

    fn max_code(&self, dim: usize) -> u64 {
        self.max[dim]
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        for (i, code) in out.iter_mut().enumerate() {
            *code = self.code(start + i, dim);
        }
    }
}

/// The matching rows, ascending.
pub(crate) fn answer(data: &Data, predicates: &[CodePredicate]) -> Vec<u32> {
    let matches = |row: &usize| {
        predicates
            .iter()
            .enumerate()
            .all(|(dim, test)| test.matches(data.code(*row, dim)))
    };
    (0..data.rows).filter(matches).map(|row| row as u32).collect()
}

/// Spills into vectors, and counts them.
#[derive(Default)]
pub(crate) struct MemorySpill {
    pub(crate) areas: AtomicUsize,
}

struct Area(Vec<u64>);

impl Spill for MemorySpill {
    fn area(&self, words: usize) -> Result<Box<dyn SpillArea + '_>, WriteError> {
        self.areas.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Area(Vec::with_capacity(words))))
    }
}

impl SpillArea for Area {
    fn append(&mut self, words: &[u64]) -> Result<(), WriteError> {
        if self.0.len() + words.len() > self.0.capacity() {
            return Err("more words than asked for".into());
        }
        self.0.extend_from_slice(words);
        Ok(())
    }

    fn words(&self) -> Result<&[u64], WriteError> {
        Ok(&self.0)
    }
}

/// Both layouts, built in memory and spilled, `packed` also with TIDs that it could do without.
pub(crate) fn all_builds(data: &Data) -> Vec<(String, Elf<Arc<[u8]>>)> {
    let mut elves = vec![];
    let kinds = [
        (Layout::Packed, false),
        (Layout::Packed, true),
        (Layout::Published, false),
    ];
    for (layout, keep_tids) in kinds {
        let options = BuildOptions {
            layout,
            keep_tids,
            threads: 2,
            memory: 1 << 30,
        };
        let bytes = build_vec(data, &options).unwrap();
        let mut spilled = vec![];
        build(
            data,
            &BuildOptions {
                memory: 8192,
                ..options
            },
            Some(&MemorySpill::default()),
            &mut spilled,
        )
        .unwrap();
        assert!(bytes == spilled, "a spilled build gives other bytes");
        let elf = Elf::open(Arc::<[u8]>::from(bytes)).unwrap();
        let sorted = data.codes.chunks(data.dims).is_sorted();
        let clustered = layout == Layout::Packed && !keep_tids && sorted && data.rows > 0;
        assert_eq!(elf.is_clustered(), clustered);
        let what = if clustered { "clustered" } else { "with TIDs" };
        elves.push((format!("{layout}, {what}"), elf));
    }
    elves
}

/// The same indexes and, of each, some with copies in DRAM: other ones for each number of rows.
pub(crate) fn all_placements(data: &Data) -> Vec<(String, Elf<Arc<[u8]>>)> {
    let mut elves = vec![];
    for (i, (what, elf)) in all_builds(data).into_iter().enumerate() {
        let size = elf.size();
        let placements = [
            (Placement::Hybrid, None),
            (Placement::Static(StaticLists::Probable), Some(size / 30)),
            (Placement::Static(StaticLists::Levels(1)), None),
            (Placement::Static(StaticLists::Probable), Some(size / 3)),
            (Placement::DualAccess, None),
            (Placement::Static(StaticLists::Levels(2)), None),
            (Placement::Static(StaticLists::Probable), Some(100)),
            (Placement::Static(StaticLists::Probable), None),
            (
                Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
                Some(size / 4),
            ),
            (
                Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
                Some(size / 2),
            ),
            (Placement::Dynamic(PolicyKind::Lla, Links::Swizzled), None),
        ];
        let hashed = PolicyKind::ALL[data.rows % PolicyKind::ALL.len()];
        if elf.layout() == Layout::Published {
            for (placement, dram) in [
                (Placement::Dynamic(hashed, Links::Hashed), size / 3),
                (Placement::StaticDynamic(hashed, Links::Hashed), size),
            ] {
                let options = PlaceOptions::default()
                    .with_placement(placement)
                    .with_dram(Some(dram));
                elves.push((format!("{what}, {placement}"), elf.place(&options).unwrap()));
            }
        }
        for k in 0..3 {
            let (placement, dram) = placements[(data.rows + 3 * i + 3 * k) % placements.len()];
            let placed = elf
                .place(&PlaceOptions::default().with_placement(placement).with_dram(dram))
                .unwrap();
            let used = placed.placed().dram_bytes;
            assert!(used <= dram.unwrap_or(u64::MAX), "{used} of {dram:?}");
            let why = &placed.placed().fallback;
            assert!(why.is_none() || data.rows == 0 || dram.is_some(), "{why:?}");
            elves.push((format!("{what}, {placement} within {dram:?}"), placed));
        }
        elves.push((what, elf));
    }
    elves
}
