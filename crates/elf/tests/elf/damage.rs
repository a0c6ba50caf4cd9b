//! Damaged bytes: errors or wrong answers, never a panic, a hang or a TID that no row has.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use halocline_elf::{BuildOptions, CodePredicate, Elf, ElfError, Layout, Matches, build_vec};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

use crate::common::Data;

/// Searches in every way.
fn search(elf: &Elf<Arc<[u8]>>, data: &Data, rng: &mut StdRng) {
    let points = data.points(20, rng.random());
    for point in points.chunks(data.dims) {
        let _ = elf.exact(point).map(|tids| tids.take(1 << 20).count());
    }
    let _ = elf.exact_batch(&points, &mut Matches::new());
    for point in points.chunks(data.dims).take(6) {
        let predicates: Vec<CodePredicate> = point
            .iter()
            .zip(&data.max)
            .map(|(&code, &max)| match rng.random_range(0..4) {
                0 => CodePredicate::Range {
                    lo: code / 2,
                    hi: code.saturating_add(max / 4),
                },
                1 => CodePredicate::Set(vec![code / 2, code]),
                _ => CodePredicate::Any,
            })
            .collect();
        let _ = elf.estimate(&predicates);
        let selection = elf.select(&predicates).expect("the dimensions are right");
        let _ = selection.count();
        if let Ok(tids) = selection.tids() {
            assert!(tids.len() <= data.rows && tids.iter().all(|&tid| (tid as usize) < data.rows));
        }
        let _ = selection.for_each(|tid| assert!((tid as usize) < data.rows));
        let _ = selection.ranges(|range| assert!(range.start < range.end && range.end as usize <= data.rows));
    }
    let _ = elf.check();
}

/// Rows for both layouts, and sorted ones for a clustered index.
fn layouts(data: &Data) -> [(Layout, Data); 3] {
    [
        (Layout::Packed, data.clone()),
        (Layout::Packed, data.sorted()),
        (Layout::Published, data.clone()),
    ]
}

/// A seed that differs from run to run; each test prints its own.
fn random_seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

#[test]
fn random_flips_never_panic() {
    let seed: u64 = random_seed();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let shapes: [&[(u64, u64)]; 5] = [
        &[(9, 10); 6],
        &[(99, 100); 4],
        &[(1, 2), (u64::MAX, 400), (70_000, 300)],
        &[(u64::MAX, 1 << 40)],
        &[(3, 4); 20],
    ];
    for shape in shapes {
        let data = Data::random(shape, 3000, rng.random());
        for (layout, data) in layouts(&data) {
            let sound = build_vec(
                &data,
                &BuildOptions {
                    layout,
                    threads: 1,
                    ..BuildOptions::default()
                },
            )
            .unwrap();
            let nodes = sound.len() - (64 + data.dims * 552);
            for _ in 0..120 {
                let mut bytes = sound.clone();
                for _ in 0..rng.random_range(1..20) {
                    // The lists; a flip in the header is found by its checksum.
                    let at = bytes.len() - 1 - rng.random_range(0..nodes);
                    bytes[at] = if rng.random() {
                        rng.random()
                    } else {
                        bytes[at] ^ 1 << rng.random_range(0..8)
                    };
                }
                match Elf::open(Arc::<[u8]>::from(bytes)) {
                    Ok(elf) => search(&elf, &data, &mut rng),
                    Err(error) => assert!(matches!(error, ElfError::Damaged { .. })),
                }
            }
        }
    }
}

#[test]
fn check_finds_most_single_flips() {
    let data = Data::random(&[(9, 10), (255, 256), (1000, 50), (u64::MAX, 200)], 600, 5);
    for (layout, data) in layouts(&data) {
        let sound = build_vec(
            &data,
            &BuildOptions {
                layout,
                threads: 1,
                ..BuildOptions::default()
            },
        )
        .unwrap();
        let mut rng = StdRng::seed_from_u64(9);
        let (mut found, mut tried) = (0, 0);
        for at in (0..sound.len()).step_by(3) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << rng.random_range(0..8);
            tried += 1;
            found += usize::from(
                Elf::open(Arc::<[u8]>::from(bytes))
                    .and_then(|elf| elf.check())
                    .is_err(),
            );
        }
        // What is missed is a code changed into another one that still sorts: only the pool's checksums tell.
        assert!(found * 10 > tried * 4, "{layout}: {found} of {tried}");
    }
}

#[test]
fn foreign_newer_and_short_bytes_are_refused() {
    let data = Data::random(&[(9, 10); 3], 100, 1);
    for data in [data.sorted(), data] {
        refused(&build_vec(&data, &BuildOptions::default()).unwrap());
    }
}

fn refused(sound: &[u8]) {
    let open = |bytes: &[u8]| Elf::open(Arc::<[u8]>::from(bytes)).map(|_| ());
    assert!(open(sound).is_ok());
    assert!(matches!(open(b""), Err(ElfError::NotAnElf { .. })));
    assert!(matches!(open(b"PAR1"), Err(ElfError::NotAnElf { .. })));
    assert!(matches!(open(&[7; 4096]), Err(ElfError::NotAnElf { .. })));
    let mut newer = sound.to_vec();
    newer[8] = 9;
    assert!(matches!(
        open(&newer),
        Err(ElfError::NewerVersion {
            found: 9,
            supported: 5
        })
    ));
    for len in (64..sound.len()).step_by(7) {
        assert!(
            matches!(open(&sound[..len]), Err(ElfError::Damaged { .. })),
            "cut at {len}"
        );
    }
    for at in 10..64 {
        let mut bytes = sound.to_vec();
        bytes[at] ^= 0x10;
        assert!(open(&bytes).is_err(), "flip at {at}");
    }
}
