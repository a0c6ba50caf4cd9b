//! Which bytes of the pool may be written: the complement of what is published, pinned or being written.
//!
//! Kept in memory, rebuilt by a handle that takes over writing from the newest directory and its limbo list, so that
//! nothing leaks in a crash. Three kinds of space are told apart: *live* (the newest generation names it), *free* (nobody
//! can see it: may be written at once) and *limbo* (the newest generation does not name it, but an older one does, which a
//! reader may have pinned, or to which a superblock that is still needed refers). LimboRange becomes free by
//! [`Space::reclaim`], as soon as no reader has pinned any of the very generations that name it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::directory::{Directory, ExtentRef};
use crate::free_map::FreeMap;
use crate::layout::{BLOCK, DATA_START, HUGE, blocks};
use crate::limbo::AgedRange;
use crate::mistake::{Mistake, made};
use crate::pins::PinnedRanges;

/// Extents from this length on start at a multiple of [`HUGE`] even if the file has to grow for it: the gap before them
/// is little beside them.
const ALWAYS_ALIGNED: u64 = 8 * HUGE;

/// When a piece of limbo becomes free.
#[derive(Debug, Clone)]
struct LimboRange {
    range: Range<u64>,
    /// The generations that name it: it waits for readers of these.
    named: Range<u64>,
    /// It waits until the synced superblock is of this generation or a later one. 0 for space that was never published and
    /// is still read in this process.
    synced: u64,
}

impl LimboRange {
    fn waits(&self, newest: u64, pins: &PinnedRanges, synced: u64) -> bool {
        self.named.end > newest || self.synced > synced || pins.meet(&self.named)
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[derive(Debug)]
struct LiveExtent {
    extent: ExtentRef,
    names: usize,
    /// The first generation that names it, or 0 if that is long ago.
    born: u64,
}

/// All space of a pool as one writer sees it.
#[derive(Debug)]
pub(crate) struct Space {
    generation: u64,
    len: u64,
    live: HashMap<u64, LiveExtent>,
    free: FreeMap,
    limbo: Vec<LimboRange>,
    /// What may have no blocks, so that a store to it could meet a full disk.
    loose: FreeMap,
    /// The vacuums of which this knows.
    vacuums: u64,
    /// Whether a publish has failed half-way, so that the newest generation must be looked up again.
    spoiled: bool,
}

impl Space {
    /// The space of a pool of `len` bytes whose newest generation is `directory`. What neither the directory nor its limbo
    /// list names is free; without a list, nothing is known of it: older generations may name it. It may have no blocks.
    pub(crate) fn new(directory: &Directory, len: u64, vacuums: u64) -> Space {
        let generation = directory.generation;
        let mut space = Space {
            generation,
            len: DATA_START,
            live: HashMap::new(),
            free: FreeMap::default(),
            limbo: Vec::new(),
            loose: FreeMap::default(),
            vacuums,
            spoiled: false,
        };
        space.extend(len);
        let list = directory.limbo.as_ref();
        for extent in directory
            .objects
            .values()
            .flat_map(|record| record.extents.iter())
        {
            let born = list.map_or(0, |list| list.born(extent.offset));
            space.name(extent, born);
        }
        space.name(&directory.extent, list.map_or(0, |_| generation));
        space.loose = space.free.clone();
        match list {
            Some(list) => {
                for (aged, freed) in list.freed() {
                    for range in space.free.within(&aged.range) {
                        space.free.remove(range.clone());
                        space.limbo.push(LimboRange {
                            range,
                            named: aged.born..freed,
                            synced: freed,
                        });
                    }
                }
            }
            None => {
                let unknown = space.free.drain().map(|range| LimboRange {
                    range,
                    named: 0..generation,
                    synced: generation,
                });
                space.limbo = unknown.collect();
            }
        }
        space
    }

    /// Takes over what `before` has kept from being used again though no generation names it, as it is still read in this
    /// process. That must have had the writer's lock all the time.
    pub(crate) fn keep_unpublished(&mut self, before: &Space) {
        for limbo in before.limbo.iter().filter(|limbo| limbo.synced == 0) {
            for range in self.free.within(&limbo.range) {
                self.free.remove(range.clone());
                self.limbo.push(LimboRange {
                    range,
                    ..limbo.clone()
                });
            }
        }
    }

    /// Frees what was never published and waited for readers in this process: the writer's lock was free, so there are
    /// none.
    pub(crate) fn forget_unpublished(&mut self) {
        let free = &mut self.free;
        self.limbo.retain(|limbo| {
            let keep = limbo.synced != 0;
            if !keep {
                free.add(limbo.range.clone());
            }
            keep
        });
    }

    /// The generation whose extents are live.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if it is the space of this generation, after this vacuum.
    pub(crate) fn is_of(&self, generation: u64, vacuums: u64) -> bool {
        !self.spoiled && (self.generation, self.vacuums) == (generation, vacuums)
    }

    /// Takes note that a publish has failed half-way.
    pub(crate) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Whether a part of the range may have no blocks.
    pub(crate) fn is_loose(&self, range: &Range<u64>) -> bool {
        self.loose.overlaps(range)
    }

    /// Takes note that the range has blocks.
    pub(crate) fn fasten(&mut self, range: Range<u64>) {
        self.loose.remove(range);
    }

    /// Takes note of a vacuum that takes the blocks of all free space; returns that.
    pub(crate) fn loosen(&mut self, vacuums: u64) -> Vec<Range<u64>> {
        self.vacuums = vacuums;
        let free: Vec<Range<u64>> = self.free.iter().collect();
        for range in &free {
            self.loose.remove(range.clone());
            self.loose.add(range.clone());
        }
        free
    }

    /// The length up to which space is known.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Takes up what the file has grown by. Nobody has ever seen it.
    pub(crate) fn extend(&mut self, len: u64) {
        let len = len / BLOCK * BLOCK;
        if len > self.len {
            self.free.add(self.len..len);
            self.len = len;
        }
    }

    /// Takes space for `len` bytes out of the free space: at a multiple of [`HUGE`] if it is that long and there is such
    /// space, else where it fits best.
    pub(crate) fn alloc(&mut self, len: u64) -> Option<u64> {
        let taken = blocks(len);
        if len >= HUGE
            && let Some(found) = self.free.take_aligned(taken, HUGE)
        {
            return Some(found);
        }
        if len >= ALWAYS_ALIGNED {
            return None;
        }
        self.free.take_best(taken)
    }

    /// The length the file must have so that `len` more bytes certainly fit, behind all that is taken.
    pub(crate) fn end_for(&self, len: u64) -> Option<u64> {
        let alignment = if len >= HUGE { HUGE } else { BLOCK };
        self.free
            .start_of_range_to(self.len)
            .unwrap_or(self.len)
            .checked_next_multiple_of(alignment)?
            .checked_add(len.checked_next_multiple_of(BLOCK)?)
    }

    /// Returns where the last byte ends that is not free.
    pub(crate) fn used_end(&self) -> u64 {
        self.free.start_of_range_to(self.len).unwrap_or(self.len)
    }

    /// Returns how many bytes are free and have blocks, as far as is known.
    pub(crate) fn free_with_blocks(&self) -> u64 {
        let bytes = |map: &FreeMap| map.iter().map(|range| range.end - range.start).sum::<u64>();
        let loose = self.loose.iter().flat_map(|range| self.free.within(&range));
        bytes(&self.free) - loose.map(|range| range.end - range.start).sum::<u64>()
    }

    /// Takes note that the file ends at `len` now, behind all that is not free.
    pub(crate) fn shrink(&mut self, len: u64) {
        debug_assert!(len >= self.used_end(), "{len} cuts off what is in use");
        self.free.remove(len..self.len);
        self.loose.remove(len..self.len);
        self.len = len;
    }

    /// Plans where extents at the end of the file can go so that it could be shorter: each with its new offset, the
    /// last one first, and where the file would end then. Those that start at the offsets `fixed` stay. Linear in the
    /// number of extents and, for each that moves, of free ranges.
    pub(crate) fn moves_down(&self, fixed: &BTreeSet<u64>) -> (Vec<(ExtentRef, u64)>, u64) {
        let mut extents: Vec<ExtentRef> = self.live.values().map(|live| live.extent).collect();
        extents.sort_unstable_by_key(|extent| extent.offset);
        let limbo = self.limbo.iter().map(|limbo| limbo.range.end).max();
        let mut end = limbo.unwrap_or(DATA_START);
        let (mut free, mut moves) = (self.free.clone(), Vec::new());
        while let Some(extent) = extents.last().copied() {
            let space = extent.space();
            let len = space.end - space.start;
            let alignment = if extent.len >= HUGE { HUGE } else { BLOCK };
            if fixed.contains(&extent.offset) || space.end <= end {
                break;
            }
            free.remove(space.end..self.len);
            let Some(to) = free.take_aligned(len, alignment).filter(|to| *to < space.start) else {
                break;
            };
            end = end.max(to + len);
            moves.push((extent, to));
            extents.pop();
        }
        let stays = extents.last().map_or(DATA_START, |extent| extent.space().end);
        (moves, end.max(stays))
    }

    /// Takes a range out of the free space, or returns false if it is not all free.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> bool {
        let free = self.free.within(range) == [range.clone()];
        if free {
            self.free.remove(range.clone());
        }
        free
    }

    /// Gives back space that was allocated and that nobody can see.
    pub(crate) fn release(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.free.add(range);
        }
    }

    /// Gives back space that no generation names but a reader with a pin of `generation` may see.
    pub(crate) fn release_after_readers(&mut self, range: Range<u64>, generation: u64) {
        if !range.is_empty() {
            self.limbo.push(LimboRange {
                range,
                named: generation..generation + 1,
                synced: 0,
            });
        }
    }

    /// Makes free what neither a reader nor the superblock of the generation `synced` can see.
    pub(crate) fn reclaim(&mut self, pins: &PinnedRanges, synced: u64) {
        let (free, newest) = (&mut self.free, self.generation);
        self.limbo.retain(|limbo| {
            let wait = limbo.waits(newest, pins, synced);
            if !wait {
                free.add(limbo.range.clone());
            }
            wait
        });
    }

    /// How much [`reclaim`](Space::reclaim) would make free, in bytes and pieces.
    pub(crate) fn reclaimable(&self, pins: &PinnedRanges, synced: u64) -> (u64, usize) {
        let limbo = self.limbo.iter();
        let found = limbo.filter(|limbo| !limbo.waits(self.generation, pins, synced));
        found.fold((0, 0), |(bytes, pieces), limbo| (bytes + limbo.len(), pieces + 1))
    }

    /// By how much less the file would have to grow for `len` bytes after a [`reclaim`](Space::reclaim), in bytes; all of
    /// what is free then if it would not have to. Linear in the number of ranges.
    pub(crate) fn helped(&self, len: u64, pins: &PinnedRanges, synced: u64) -> u64 {
        let mut after = Space {
            generation: self.generation,
            len: self.len,
            live: HashMap::new(),
            free: self.free.clone(),
            limbo: self.limbo.clone(),
            loose: FreeMap::default(),
            vacuums: self.vacuums,
            spoiled: self.spoiled,
        };
        after.reclaim(pins, synced);
        match (self.end_for(len), after.end_for(len)) {
            (Some(now), Some(then)) if after.alloc(len).is_none() => now - then,
            _ => self.reclaimable(pins, synced).0,
        }
    }

    /// Whether the newest generation names exactly this extent.
    pub(crate) fn is_live(&self, extent: &ExtentRef) -> bool {
        self.live
            .get(&extent.offset)
            .is_some_and(|live| live.extent == *extent)
    }

    /// Whether the newest generation names an extent that starts here.
    pub(crate) fn is_named(&self, offset: u64) -> bool {
        self.live.contains_key(&offset)
    }

    /// The ranges of the limbo list for the directory of `generation`, the next, which names and drops these extents (but
    /// for its own directory, of which no list speaks). `oldest` is the oldest generation that is pinned, or the newest if
    /// there is none: what it names already is as old as can be. Linear in what is live or in limbo.
    pub(crate) fn aged_ranges<'a>(
        &self,
        generation: u64,
        named: impl Iterator<Item = &'a ExtentRef>,
        dropped: impl Iterator<Item = &'a ExtentRef>,
        oldest: u64,
    ) -> Vec<AgedRange> {
        // By offset: the extent, and by how many names it gains.
        let mut changes: BTreeMap<u64, (ExtentRef, isize)> = BTreeMap::new();
        let mut change = |extent: &ExtentRef, by| {
            if extent.len > 0 {
                changes.entry(extent.offset).or_insert((*extent, 0)).1 += by;
            }
        };
        named.for_each(|extent| change(extent, 1));
        dropped.for_each(|extent| change(extent, -1));
        let aged = |born: u64| if born <= oldest { 0 } else { born };
        let limbo = self.limbo.iter().filter(|limbo| limbo.synced > 0);
        let mut ranges: Vec<AgedRange> = limbo
            .map(|limbo| AgedRange {
                range: limbo.range.clone(),
                born: aged(limbo.named.start),
                freed: Some(limbo.named.end),
            })
            .collect();
        let mut list = |extent: &ExtentRef, born: u64, freed: Option<u64>| {
            let born = match made(Mistake::ForgetAge) {
                true => generation,
                false => aged(born),
            };
            if (born > 0 || freed.is_some()) && !(freed.is_some() && made(Mistake::ForgetLimbo)) {
                let born = freed.map_or(born, |freed| born.min(freed - 1));
                ranges.push(AgedRange {
                    range: extent.space(),
                    born,
                    freed,
                });
            }
        };
        for live in self.live.values() {
            let gains = changes.remove(&live.extent.offset).map_or(0, |(_, by)| by);
            let stays = live.names as isize + gains > 0;
            list(&live.extent, live.born, (!stays).then_some(generation));
        }
        for (extent, _) in changes.values().filter(|(_, by)| *by > 0) {
            list(extent, generation, None);
        }
        ranges
    }

    /// Follows a publish: `named` are the extents it names anew, `dropped` those it does not name any more. Space that
    /// nothing names now goes to limbo, where the generation before still sees it.
    pub(crate) fn publish<'a>(
        &mut self,
        generation: u64,
        named: impl Iterator<Item = &'a ExtentRef>,
        dropped: impl Iterator<Item = &'a ExtentRef>,
    ) {
        self.generation = generation;
        for extent in named.filter(|extent| extent.len > 0) {
            self.live
                .entry(extent.offset)
                // A log that stays where it is has another start.
                .and_modify(|live| live.extent = *extent)
                .or_insert(LiveExtent {
                    extent: *extent,
                    names: 0,
                    born: generation,
                })
                .names += 1;
        }
        for extent in dropped.filter(|extent| extent.len > 0) {
            let Some(live) = self.live.get_mut(&extent.offset) else {
                continue;
            };
            live.names -= 1;
            if live.names == 0 {
                let born = live.born;
                self.live.remove(&extent.offset);
                self.limbo.push(LimboRange {
                    range: extent.space(),
                    named: born..generation,
                    synced: generation,
                });
            }
        }
    }

    fn name(&mut self, extent: &ExtentRef, born: u64) {
        if extent.len > 0 {
            let live = self.live.entry(extent.offset).or_insert(LiveExtent {
                extent: *extent,
                names: 0,
                born,
            });
            live.names += 1;
            if live.names == 1 {
                self.free.remove(extent.space());
            }
        }
    }
}
