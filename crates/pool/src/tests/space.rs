//! Space accounting against a map of single blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::directory::{Directory, ExtentRef, Objects};
use crate::layout::{BLOCK, DATA_START, HUGE};
use crate::space::Space;

const LEN: u64 = DATA_START + 32 * BLOCK;

fn extent(offset: u64, len: u64) -> ExtentRef {
    ExtentRef {
        offset,
        len,
        checksum: 0,
    }
}

fn empty() -> Space {
    let own = extent(DATA_START, 64);
    Space::new(
        &Directory {
            generation: 1,
            objects: Arc::new(Objects::new()),
            extent: own,
        },
        LEN,
        0,
    )
}

#[test]
fn long_extents_are_aligned_to_huge_pages() {
    let mut space = empty();
    space.extend(LEN + 8 * HUGE);
    let long = space.alloc(HUGE + 1).unwrap();
    assert_eq!(long % HUGE, 0);
    let small = space.alloc(1).unwrap();
    assert!(small < long, "the room before it is not lost");
    assert!(space.alloc(100 * HUGE).is_none());
    assert!(space.end_for(u64::MAX).is_none());
    let end = space.end_for(100 * HUGE).unwrap();
    space.extend(end);
    assert!(space.alloc(100 * HUGE).is_some());
}

#[derive(Debug, Clone)]
enum Step {
    /// Allocates so many bytes.
    Alloc(u64),
    /// Gives the n-th allocation back.
    Release(usize),
    /// Publishes: the n-th allocations are named, the n-th live extents are not any more.
    Publish(Vec<usize>, Vec<usize>),
    /// Readers from this generation on are left, superblocks up to that one are synced; both counted from the newest.
    Reclaim(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5 * BLOCK).prop_map(Step::Alloc),
        1 => any::<usize>().prop_map(Step::Release),
        2 => (prop::collection::vec(any::<usize>(), 0..3), prop::collection::vec(any::<usize>(), 0..3))
            .prop_map(|(named, dropped)| Step::Publish(named, dropped)),
        2 => (0..4_u64, 0..4_u64).prop_map(|(readers, synced)| Step::Reclaim(readers, synced)),
    ]
}

/// What a block is to the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Block {
    Free,
    Taken,
    Live,
    /// Freed by this generation.
    Limbo(u64),
}

fn fill(blocks: &mut BTreeMap<u64, Block>, extent: &ExtentRef, with: Block) {
    for offset in extent.space().step_by(BLOCK as usize) {
        blocks.insert(offset, with);
    }
}

proptest! {
    #[test]
    fn agrees_with_a_map_of_blocks(steps in prop::collection::vec(step(), 1..60)) {
        let mut space = empty();
        let mut blocks: BTreeMap<u64, Block> =
            (DATA_START..LEN).step_by(BLOCK as usize).map(|offset| (offset, Block::Limbo(1))).collect();
        blocks.insert(DATA_START, Block::Live);
        let (mut taken, mut live, mut generation) = (Vec::new(), Vec::new(), 1);
        for step in steps {
            match step {
                Step::Alloc(len) => {
                    let found = space.alloc(len);
                    let count = len.div_ceil(BLOCK);
                    let fits = |offset: u64| (0..count).all(|at| blocks.get(&(offset + at * BLOCK)) == Some(&Block::Free));
                    let expected = blocks.keys().copied().find(|offset| fits(*offset));
                    prop_assert_eq!(found, expected);
                    if let Some(offset) = found {
                        fill(&mut blocks, &extent(offset, len), Block::Taken);
                        taken.push(extent(offset, len));
                    }
                }
                Step::Release(pick) if !taken.is_empty() => {
                    let released = taken.swap_remove(pick % taken.len());
                    space.release(released.space());
                    fill(&mut blocks, &released, Block::Free);
                }
                Step::Release(_) => {}
                Step::Publish(named, dropped) => {
                    generation += 1;
                    let take = |from: &mut Vec<ExtentRef>, picks: Vec<usize>| -> Vec<ExtentRef> {
                        let picks = picks.into_iter().take(from.len());
                        picks.map(|pick| from.swap_remove(pick % from.len())).collect()
                    };
                    let (dropped, named) = (take(&mut live, dropped), take(&mut taken, named));
                    space.publish(generation, named.iter(), dropped.iter());
                    named.iter().for_each(|extent| fill(&mut blocks, extent, Block::Live));
                    dropped.iter().for_each(|extent| fill(&mut blocks, extent, Block::Limbo(generation)));
                    prop_assert!(named.iter().all(|extent| space.is_live(extent) && space.is_named(extent.offset)));
                    live.extend(named);
                }
                Step::Reclaim(readers, synced) => {
                    let (oldest, synced) = (generation.saturating_sub(readers), generation.saturating_sub(synced));
                    let reclaimable = space.reclaimable(oldest, synced);
                    space.reclaim(oldest, synced);
                    let mut freed = 0;
                    for block in blocks.values_mut() {
                        if matches!(block, Block::Limbo(by) if *by <= oldest && *by <= synced) {
                            *block = Block::Free;
                            freed += BLOCK;
                        }
                    }
                    prop_assert_eq!(reclaimable, freed);
                }
            }
        }
    }
}
