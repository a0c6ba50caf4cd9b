//! The crash explorer against the crash model's definition, applied by brute force.

use std::collections::BTreeSet;

use halocline_explore::{Explorer, Mutation, Report, Tracked};
use halocline_media::{LINE, MediumAccess, MediumBackend, PAGE};
use proptest::prelude::*;

/// Bytes in which the random workloads store: four lines.
const ARENA: usize = 4 * LINE as usize;

#[derive(Debug, Clone)]
enum Call {
    Store { offset: usize, bytes: Vec<u8> },
    Word { word: usize, value: u64 },
    Flush { offset: usize, len: usize },
    Fence,
    Grow,
    Sync,
}

impl Call {
    fn on(&self, medium: &Tracked) {
        match self {
            Call::Store { offset, bytes } => medium.store(*offset as u64, bytes),
            Call::Word { word, value } => medium.store_u64(*word as u64 * 8, *value),
            Call::Flush { offset, len } => medium.flush(*offset as u64, *len as u64),
            Call::Fence => medium.fence().unwrap(),
            Call::Grow => medium.grow(medium.len() + PAGE).unwrap(),
            Call::Sync => medium.sync().unwrap(),
        }
    }
}

fn call() -> impl Strategy<Value = Call> {
    let range =
        |longest: usize| (0..ARENA, 1..=longest).prop_map(|(offset, len)| (offset, len.min(ARENA - offset)));
    prop_oneof![
        4 => (range(20), any::<u8>()).prop_map(|((offset, len), byte)| Call::Store {
            offset,
            bytes: (0..len).map(|at| byte.wrapping_add(at as u8)).collect(),
        }),
        4 => (0..ARENA / 8, any::<u64>()).prop_map(|(word, value)| Call::Word { word, value }),
        4 => range(ARENA).prop_map(|(offset, len)| Call::Flush { offset, len }),
        3 => Just(Call::Fence),
        1 => Just(Call::Grow),
        1 => Just(Call::Sync),
    ]
}

/// A store to one word or a part of it, at moment `at`.
struct Piece {
    at: usize,
    offset: usize,
    bytes: Vec<u8>,
}

/// Returns every image (contents of the arena and length) that the definition allows at any moment.
///
/// At a moment, each line holds a prefix of its pieces stored so far, which includes at least those that were
/// followed by a flush of their line and a fence after that flush.
fn brute_force(calls: &[Call]) -> BTreeSet<(Vec<u8>, u64)> {
    let mut images = BTreeSet::new();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut flushes: Vec<(usize, usize, usize)> = Vec::new();
    let mut fences: Vec<usize> = Vec::new();
    let mut len = PAGE;
    let mut moment = 0;
    collect(&pieces, &flushes, &fences, len, &mut images);
    for call in calls {
        moment += 1;
        match call {
            Call::Store { offset, bytes } => {
                let mut rest = &bytes[..];
                let mut at = *offset;
                while !rest.is_empty() {
                    let (part, more) = rest.split_at(rest.len().min(8 - at % 8));
                    pieces.push(Piece {
                        at: moment,
                        offset: at,
                        bytes: part.to_vec(),
                    });
                    at += part.len();
                    rest = more;
                    collect(&pieces, &flushes, &fences, len, &mut images);
                }
            }
            Call::Word { word, value } => {
                pieces.push(Piece {
                    at: moment,
                    offset: word * 8,
                    bytes: value.to_le_bytes().to_vec(),
                });
            }
            Call::Flush { offset, len } => flushes.push((moment, *offset, offset + len)),
            Call::Fence => fences.push(moment),
            Call::Grow => len += PAGE,
            Call::Sync => {
                flushes.push((moment, 0, ARENA));
                moment += 1;
                fences.push(moment);
            }
        }
        collect(&pieces, &flushes, &fences, len, &mut images);
    }
    images
}

fn collect(
    pieces: &[Piece],
    flushes: &[(usize, usize, usize)],
    fences: &[usize],
    len: u64,
    images: &mut BTreeSet<(Vec<u8>, u64)>,
) {
    let mut arenas = BTreeSet::from([vec![0; ARENA]]);
    for line in 0..ARENA / LINE as usize {
        let (from, to) = (line * LINE as usize, (line + 1) * LINE as usize);
        let of_line: Vec<&Piece> = pieces
            .iter()
            .filter(|piece| (from..to).contains(&piece.offset))
            .collect();
        let durable = |piece: &Piece| {
            let mut later = flushes
                .iter()
                .filter(|(at, start, end)| *at > piece.at && *start < to && *end > from);
            later.any(|(at, ..)| fences.iter().any(|fence| fence > at))
        };
        let least = of_line.iter().filter(|piece| durable(piece)).count();
        let mut next = BTreeSet::new();
        for arena in &arenas {
            for arrived in least..=of_line.len() {
                let mut arena = arena.clone();
                for piece in &of_line[..arrived] {
                    arena[piece.offset..piece.offset + piece.bytes.len()].copy_from_slice(&piece.bytes);
                }
                next.insert(arena);
            }
        }
        arenas = next;
    }
    images.extend(arenas.into_iter().map(|arena| (arena, len)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_explorer_opens_exactly_the_images_the_model_allows(
        calls in prop::collection::vec(call(), 0..14),
        left_out in 0..6_usize,
    ) {
        let nth = |wanted: fn(&Call) -> bool| {
            calls.iter().enumerate().filter(|(_, call)| wanted(call)).map(|(at, _)| at).nth(left_out)
        };
        let without = |at: Option<usize>| {
            let kept = calls.iter().enumerate().filter(|(other, _)| Some(*other) != at);
            kept.map(|(_, call)| call.clone()).collect::<Vec<_>>()
        };
        let flush = nth(|call| matches!(call, Call::Flush { .. }));
        let fence = nth(|call| matches!(call, Call::Fence));
        for (mutation, left) in [
            (None, without(None)),
            (Some(Mutation::SkipFlush(left_out)), without(flush)),
            (Some(Mutation::SkipFence(left_out)), without(fence)),
        ] {
            let (opened, report) = explored(&calls, mutation);
            prop_assert!(report.exhaustive());
            prop_assert_eq!(report.images, opened.len());
            prop_assert_eq!(opened, brute_force(&left), "{:?}", mutation);
        }
    }
}

/// Returns the images that the explorer opens.
fn explored(calls: &[Call], mutation: Option<Mutation>) -> (BTreeSet<(Vec<u8>, u64)>, Report) {
    let mut opened = BTreeSet::new();
    let explorer = Explorer {
        limit: usize::MAX,
        mutation,
        ..Explorer::default()
    };
    let report = explorer.run(
        |medium| medium.grow(PAGE).unwrap(),
        |medium| calls.iter().for_each(|call| call.on(medium)),
        |medium, _| -> Result<(), String> {
            let mut image = medium.image();
            if image[ARENA..].iter().any(|byte| *byte != 0) {
                return Err("stray bytes".to_string());
            }
            image.truncate(ARENA);
            opened.insert((image, medium.len()));
            // Changes of a check to its image must not show in the next image.
            medium.store(3, &[0xFF; 100]);
            medium.store_u64(medium.len() - 8, 1);
            Ok(())
        },
    );
    (opened, report.unwrap())
}
