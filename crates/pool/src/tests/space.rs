//! Space accounting compared with a map of single blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::directory::{Directory, ObjectMap, ObjectRecord};
use crate::features::Features;
use crate::layout::{BLOCK, DATA_START, HUGE};
use crate::limbo::LimboList;
use crate::object::{ExtentRef, ObjectKind};
use crate::pins::PinnedRanges;
use crate::space::Space;

const LEN: u64 = DATA_START + 32 * BLOCK;

fn extent(offset: u64, len: u64) -> ExtentRef {
    ExtentRef::plain(offset, len, 0)
}

/// Creates a directory of one object with these extents.
fn directory(generation: u64, own: ExtentRef, live: &[ExtentRef], limbo: Option<LimboList>) -> Directory {
    let record = ObjectRecord::new(ObjectKind::TABLE, Box::default(), live.into());
    Directory {
        generation,
        objects: Arc::new(ObjectMap::from([("object".into(), Arc::new(record))])),
        extent: own,
        limbo,
        features: Features::LIMBO_LIST,
    }
}

fn empty() -> Space {
    Space::new(&directory(1, extent(DATA_START, 64), &[], None), LEN, 0)
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
enum SpaceStep {
    /// Allocates this number of bytes.
    Alloc(u64),
    /// Releases the n-th allocation.
    Release(usize),
    /// Publishes a generation that names the n-th allocations and drops the n-th live extents.
    Publish(Vec<usize>, Vec<usize>),
    /// A reader pins the newest generation.
    Pin,
    /// Drops the n-th pin.
    Unpin(usize),
    /// Syncs superblocks up to this generation, counted from the newest.
    Reclaim(u64),
    /// Lets another handle take over.
    Adopt,
}

fn step() -> impl Strategy<Value = SpaceStep> {
    prop_oneof![
        8 => (1..5 * BLOCK).prop_map(SpaceStep::Alloc),
        2 => any::<usize>().prop_map(SpaceStep::Release),
        5 => (prop::collection::vec(any::<usize>(), 0..3), prop::collection::vec(any::<usize>(), 0..3))
            .prop_map(|(named, dropped)| SpaceStep::Publish(named, dropped)),
        2 => Just(SpaceStep::Pin),
        1 => any::<usize>().prop_map(SpaceStep::Unpin),
        3 => (0..4_u64).prop_map(SpaceStep::Reclaim),
        2 => Just(SpaceStep::Adopt),
    ]
}

/// The state of a block in the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BlockState {
    Free,
    Taken,
    /// Named from this generation on.
    Live(u64),
    /// Named from the first generation on, and no longer from the second one on.
    Limbo(u64, u64),
}

/// The state of single blocks, and of what is published.
struct SpaceModel {
    blocks: BTreeMap<u64, BlockState>,
    /// The state that a handle which takes over must find.
    published: BTreeMap<u64, BlockState>,
    generation: u64,
    own: ExtentRef,
    live: Vec<ExtentRef>,
    list: Option<LimboList>,
    pins: BTreeSet<u64>,
}

impl SpaceModel {
    fn new() -> SpaceModel {
        let mut blocks: BTreeMap<u64, BlockState> = (DATA_START..LEN)
            .step_by(BLOCK as usize)
            .map(|offset| (offset, BlockState::Limbo(0, 1)))
            .collect();
        blocks.insert(DATA_START, BlockState::Live(0));
        SpaceModel {
            published: blocks.clone(),
            blocks,
            generation: 1,
            own: extent(DATA_START, 64),
            live: Vec::new(),
            list: None,
            pins: BTreeSet::new(),
        }
    }

    fn fill(&mut self, extent: &ExtentRef, with: impl Fn(BlockState) -> BlockState) {
        for offset in extent.space().step_by(BLOCK as usize) {
            let block = self.blocks.get_mut(&offset).expect("a block of the pool");
            *block = with(*block);
        }
    }

    /// Returns the start of the shortest sufficient run of free blocks.
    fn best_fit(&self, len: u64) -> Option<u64> {
        let wanted = len.div_ceil(BLOCK) * BLOCK;
        let (mut runs, mut run) = (Vec::new(), DATA_START..DATA_START);
        for (&offset, block) in &self.blocks {
            if *block == BlockState::Free {
                run.end = offset + BLOCK;
            } else {
                runs.push(std::mem::replace(&mut run, offset + BLOCK..offset + BLOCK));
            }
        }
        runs.push(run);
        let fits = runs.into_iter().filter(|run| run.end - run.start >= wanted);
        fits.min_by_key(|run| (run.end - run.start, run.start))
            .map(|run| run.start)
    }

    fn pinned(&self) -> PinnedRanges {
        PinnedRanges::from_ranges(
            self.pins
                .range(..self.generation)
                .map(|pin| *pin..pin + 1)
                .collect(),
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_map_of_blocks(steps in prop::collection::vec(step(), 1..60)) {
        let (mut space, mut model) = (empty(), SpaceModel::new());
        let mut taken = Vec::new();
        for step in steps {
            match step {
                SpaceStep::Alloc(len) => {
                    let found = space.alloc(len);
                    prop_assert_eq!(found, model.best_fit(len));
                    if let Some(offset) = found {
                        model.fill(&extent(offset, len), |_| BlockState::Taken);
                        taken.push(extent(offset, len));
                    }
                }
                SpaceStep::Release(pick) if !taken.is_empty() => {
                    let released = taken.swap_remove(pick % taken.len());
                    space.release(released.space());
                    model.fill(&released, |_| BlockState::Free);
                }
                SpaceStep::Release(_) => {}
                SpaceStep::Publish(named, dropped) => {
                    let Some(own) = space.alloc(64) else { continue };
                    let generation = model.generation + 1;
                    let take = |from: &mut Vec<ExtentRef>, picks: Vec<usize>| -> Vec<ExtentRef> {
                        let picks = picks.into_iter().take(from.len());
                        picks.map(|pick| from.swap_remove(pick % from.len())).collect()
                    };
                    let (dropped, named) = (take(&mut model.live, dropped), take(&mut taken, named));
                    let before = std::mem::replace(&mut model.own, extent(own, 64));
                    let dropped: Vec<_> = dropped.into_iter().chain([before]).collect();
                    let oldest = model.pinned().oldest().unwrap_or(model.generation);
                    let ranges = space.aged_ranges(generation, named.iter(), dropped.iter(), oldest);
                    model.list = Some(LimboList::new(0, ranges, Vec::new()));
                    let own = [model.own];
                    space.publish(generation, named.iter().chain(&own), dropped.iter());
                    for extent in named.iter().chain(&own) {
                        model.fill(extent, |_| BlockState::Live(generation));
                        prop_assert!(space.is_live(extent) && space.is_named(extent.offset));
                    }
                    for extent in &dropped {
                        model.fill(extent, |block| match block {
                            BlockState::Live(born) => BlockState::Limbo(born, generation),
                            other => panic!("{extent:?} was {other:?}"),
                        });
                    }
                    model.live.extend(named);
                    model.generation = generation;
                    model.published = model.blocks.clone();
                }
                SpaceStep::Pin => drop(model.pins.insert(model.generation)),
                SpaceStep::Unpin(pick) => {
                    if let Some(pin) = model.pins.iter().nth(pick % model.pins.len().max(1)).copied() {
                        model.pins.remove(&pin);
                    }
                }
                SpaceStep::Reclaim(synced) => {
                    let (pins, synced) = (model.pinned(), model.generation.saturating_sub(synced));
                    let reclaimable = space.reclaimable(&pins, synced).0;
                    space.reclaim(&pins, synced);
                    let mut freed = 0;
                    for block in model.blocks.values_mut() {
                        if let BlockState::Limbo(born, by) = *block
                            && by <= synced
                            && model.pins.range(born..by).next().is_none()
                        {
                            *block = BlockState::Free;
                            freed += BLOCK;
                        }
                    }
                    prop_assert_eq!(reclaimable, freed);
                }
                SpaceStep::Adopt => {
                    let directory = directory(model.generation, model.own, &model.live, model.list.clone());
                    space = Space::new(&directory, LEN, 0);
                    taken.clear();
                    model.blocks = model.published.clone();
                    for block in model.blocks.values_mut() {
                        if *block == BlockState::Taken {
                            *block = BlockState::Free;
                        }
                    }
                }
            }
        }
    }
}
