//! Brute force over the raw rows decides every answer, for both layouts, all outputs, in-memory and spilled
//! builds.

use halocline_elf::{BuildOptions, CodePredicate, Elf, Layout, Matches, Threads, build, build_vec};
use proptest::prelude::*;
use std::sync::Arc;

use crate::common::{Data, MemorySpill, all_placements, answer};

/// Codes of one dimension: (largest code, distinct codes wanted).
fn dimension() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        Just((0, 1)),
        Just((1, 2)),
        (2..100_u64).prop_map(|max| (max, max + 1)),
        (100..70_000_u64, 1..300_u64),
        (70_000..u64::from(u32::MAX) * 4, 1..300_u64),
        Just((u64::MAX, 50)),
        Just((u64::MAX - 1, 100_000)),
    ]
}

fn data() -> impl Strategy<Value = Data> {
    let dims = prop_oneof![4 => 1..8_usize, 1 => 8..=64_usize];
    let rows = prop_oneof![1 => 0..3_usize, 3 => 3..200_usize, 3 => 200..4000_usize];
    (dims, rows, any::<u64>()).prop_flat_map(|(dims, rows, seed)| {
        let rows = if dims > 8 { rows.min(400) } else { rows };
        proptest::collection::vec(dimension(), dims).prop_map(move |dims| Data::random(&dims, rows, seed))
    })
}

/// A predicate made from random numbers and an existing code.
fn predicate(kind: u8, a: u64, b: u64, max: u64, code: u64) -> CodePredicate {
    let upto = |x: u64| if max == u64::MAX { x } else { x % (max + 1) };
    match kind % 12 {
        0..=3 => CodePredicate::Any,
        4 => CodePredicate::equal(code),
        5 => CodePredicate::equal(upto(a)),
        6 => CodePredicate::Range {
            lo: code,
            hi: code.saturating_add(max / 8),
        },
        7 => CodePredicate::range(upto(a), upto(b)),
        8 => CodePredicate::Set(
            [code, upto(a), upto(b), code / 2]
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect(),
        ),
        9 => CodePredicate::Range { lo: 0, hi: u64::MAX },
        10 => CodePredicate::Range {
            lo: code / 2,
            hi: u64::MAX,
        },
        _ if b.is_multiple_of(8) => CodePredicate::Nothing,
        _ => CodePredicate::Set((0..40).map(|i| code.saturating_sub(40) + i * 2).collect()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn selections_agree_with_brute_force(
        (data, sorted) in (data(), any::<bool>()),
        kinds in proptest::collection::vec(proptest::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<prop::sample::Index>()), 64), 6),
    ) {
        let data = if sorted { data.sorted() } else { data };
        for (what, elf) in all_placements(&data) {
            elf.check().unwrap();
            for query in &kinds {
                let predicates: Vec<CodePredicate> = (0..data.dims).map(|dim| {
                    let (kind, a, b, row) = &query[dim];
                    let code = if data.rows == 0 { *a } else { data.code(row.index(data.rows), dim) };
                    predicate(*kind, *a, *b, data.max[dim], code)
                }).collect();
                let expected = answer(&data, &predicates);
                let selection = elf.select(&predicates).unwrap();
                let mut tids = selection.tids().unwrap();
                tids.sort_unstable();
                prop_assert_eq!(&tids, &expected, "{}: {:?}", what, predicates);
                for threads in [Threads::One, Threads::All, Threads::Chosen] {
                    tids.clear();
                    selection.tids_into_on(threads, &mut tids).unwrap();
                    tids.sort_unstable();
                    prop_assert_eq!(&tids, &expected, "{}, {:?}: {:?}", what, threads, predicates);
                }
                prop_assert_eq!(selection.count().unwrap(), expected.len() as u64, "{}: {:?}", what, predicates);
                prop_assert!(selection.bitmap().unwrap().iter().eq(expected.iter().copied()));
                let mut visited = vec![];
                selection.for_each(|tid| visited.push(tid)).unwrap();
                visited.sort_unstable();
                prop_assert_eq!(&visited, &expected);
                let mut ranges = vec![];
                selection.ranges(|range| ranges.push(range)).unwrap();
                prop_assert!(ranges.iter().all(|range| range.start < range.end), "{}: {:?}", what, ranges);
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{}: {:?}", what, ranges);
                prop_assert!(ranges.into_iter().flatten().eq(expected.iter().copied()), "{}: {:?}", what, predicates);
                let estimate = elf.estimate(&predicates).unwrap().rows;
                prop_assert!((0.0..=data.rows as f64).contains(&estimate), "{}: {}", what, estimate);
            }
        }
    }

    #[test]
    fn exact_matches_agree_with_brute_force((data, sorted) in (data(), any::<bool>()), seed in any::<u64>()) {
        let data = if sorted { data.sorted() } else { data };
        let points = data.points(60, seed);
        for (what, elf) in all_placements(&data) {
            let mut matches = Matches::new();
            elf.exact_batch(&points, &mut matches).unwrap();
            for (i, point) in points.chunks(data.dims).enumerate() {
                let predicates: Vec<CodePredicate> = point.iter().map(|&code| CodePredicate::equal(code)).collect();
                let expected = answer(&data, &predicates);
                let found: Vec<u32> = elf.exact(point).unwrap().collect();
                prop_assert_eq!(&found, &expected, "{}: {:?}", &what, point);
                prop_assert_eq!(matches.get(i), &expected[..], "{}: {:?}", &what, point);
            }
        }
    }
}

#[test]
fn bytes_do_not_depend_on_threads_or_memory() {
    for (dims, rows) in [
        (vec![(99, 100); 5], 150_000),
        (vec![(1, 2), (u64::MAX, 1_000_000), (6, 7)], 90_000),
        (vec![(u64::MAX, 1 << 40)], 70_000),
        (vec![(3, 4), (3, 4), (2, 3)], 140_000),
        (vec![(1 << 40, 300); 12], 70_000),
    ] {
        let data = Data::random(&dims, rows, 7);
        let (random, sorted) = (&data, &data.sorted());
        for (data, layout) in [
            (random, Layout::Packed),
            (random, Layout::Published),
            (sorted, Layout::Packed),
        ] {
            let options = BuildOptions {
                layout,
                threads: 1,
                ..BuildOptions::default()
            };
            let reference = build_vec(data, &options).unwrap();
            for (threads, memory) in [(2, usize::MAX), (3, 1 << 20), (1, 300_000)] {
                let mut bytes = vec![];
                let options = BuildOptions {
                    layout,
                    threads,
                    memory,
                    ..options
                };
                let spill = MemorySpill::default();
                let stats = build(data, &options, Some(&spill), &mut bytes).unwrap();
                assert!(
                    bytes == reference,
                    "{layout} with {threads} threads and {memory} bytes of memory"
                );
                assert!(stats.spilled_runs > 0 || memory > 300_000);
                assert_eq!(stats.len, bytes.len() as u64);
            }
            Elf::open(Arc::<[u8]>::from(reference)).unwrap().check().unwrap();
        }
    }
}

#[test]
fn open_lists_of_any_length_spill() {
    const ROWS: usize = 300_000;
    // Sparse and dense codes, each of them in one row or, near the end, in ten.
    let code = |row: usize, step: u64| row.min(ROWS - 5000 + row % 500) as u64 * step;
    let one = |step: u64| Data {
        dims: 1,
        rows: ROWS,
        max: vec![ROWS as u64 * step],
        codes: (0..ROWS).map(|row| code(row, step)).collect(),
    };
    // Two long lists, one below an entry of the other.
    let two = Data {
        dims: 2,
        rows: ROWS,
        max: vec![1 << 40, 1 << 50],
        codes: (0..ROWS)
            .flat_map(|row| match row {
                0..200_000 => [row as u64, 5],
                200_000..290_000 => [200_000, row as u64 / 5 * 3],
                _ => [row as u64 / 6 * 1000, row as u64],
            })
            .collect(),
    };
    for (what, data) in [
        ("sparse", one(1 << 30)),
        ("dense", one(1)),
        ("every seventh", one(7)),
        ("two", two),
    ] {
        let options = BuildOptions {
            threads: 2,
            ..BuildOptions::default()
        };
        let reference = build_vec(&data, &options).unwrap();
        for (memory, runs) in [(32 << 20, 0..1), (1 << 20, 2..1000)] {
            let (mut bytes, spill) = (vec![], MemorySpill::default());
            let options = BuildOptions { memory, ..options };
            let stats = build(&data, &options, Some(&spill), &mut bytes).unwrap();
            assert!(bytes == reference, "{what} with {memory} bytes of memory");
            assert!(runs.contains(&stats.spilled_runs), "{what}: {stats:?}");
            // Beside the runs and what they are merged into.
            let others = spill.areas.into_inner() - stats.spilled_runs - usize::from(runs.start > 0);
            assert!(others > 0, "{what} with {memory} bytes of memory");
        }
        Elf::open(Arc::<[u8]>::from(reference)).unwrap().check().unwrap();
    }
}

#[test]
fn every_row_of_a_clustered_index_is_found_through_shortcuts() {
    // Short lists that are counted, and long ones that are not.
    for dims in [
        [(19, 20), (101, 102), (99, 100)],
        [(3, 4), (3, 4), (u64::MAX, 5000)],
    ] {
        let data = Data::random(&dims, 20_000, 5).sorted();
        let bytes = build_vec(&data, &BuildOptions::default()).unwrap();
        let elf = Elf::open(Arc::<[u8]>::from(bytes)).unwrap();
        elf.check().unwrap();
        let mut matches = Matches::new();
        elf.exact_batch(&data.codes, &mut matches).unwrap();
        let mut first = 0;
        for same in data.codes.chunks(3).collect::<Vec<_>>().chunk_by(|a, b| a == b) {
            let expected: Vec<u32> = (first..).take(same.len()).collect();
            assert!(elf.exact(same[0]).unwrap().eq(expected.iter().copied()));
            assert_eq!(matches.get(first as usize), expected);
            first += same.len() as u32;
        }
    }
}

#[test]
fn estimates_come_close_to_the_count() {
    let data = Data::random(&[(99, 100); 6], 300_000, 3);
    let code = data.code(0, 1);
    for data in [data.sorted(), data] {
        let elf = Elf::open(Arc::<[u8]>::from(
            build_vec(&data, &BuildOptions::default()).unwrap(),
        ))
        .unwrap();
        let any = || vec![CodePredicate::Any; 6];
        let mut cases = vec![any(), any(), any(), any(), any()];
        cases[1][0] = CodePredicate::Range { lo: 3, hi: 7 };
        cases[2][1] = CodePredicate::equal(code);
        cases[3][0] = CodePredicate::Range { lo: 10, hi: 30 };
        cases[3][1] = CodePredicate::Set(vec![1, 5, 9, 70]);
        cases[3][4] = CodePredicate::Range { lo: 0, hi: 49 };
        cases[4][5] = CodePredicate::Range { lo: 90, hi: 99 };
        for predicates in cases {
            let count = elf.select(&predicates).unwrap().count().unwrap() as f64;
            let estimate = elf.estimate(&predicates).unwrap().rows;
            assert!(
                (estimate / count - 1.0).abs() < 0.35,
                "{predicates:?}: {estimate} for {count}"
            );
        }
    }
}
