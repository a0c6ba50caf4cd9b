//! Space accounting: the bytes of the pool that may be written are the complement of what is published,
//! pinned or being written.
//!
//! The accounting is volatile. A handle that takes over writing rebuilds it from the newest directory and its
//! limbo list, so that a crash leaks nothing. There are three kinds of space: *live* (the newest generation
//! names it), *free* (nobody can see it, so it may be written immediately) and *limbo* (the newest generation
//! does not name it, but an older one does that a reader may have pinned or that a superblock which is still
//! needed refers to). [`Space::reclaim`] frees limbo once no reader pins any of the generations that name it.
//! A part of the free space is set aside as the [reserve](crate::reserve).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::directory::Directory;
use crate::fault::{PoolFault, injected};
use crate::free_map::FreeMap;
use crate::layout::{BLOCK, DATA_START, HUGE, blocks};
use crate::limbo::AgedRange;
use crate::object::ExtentRef;
use crate::pins::PinnedRanges;
use crate::reserve::RESERVE_RANGES;

/// Extents of at least this length start at a multiple of [`HUGE`] even if the file must grow for it: the gap
/// is small in comparison.
const ALWAYS_ALIGNED: u64 = 8 * HUGE;

/// A range in limbo, with the conditions for freeing it.
#[derive(Debug, Clone)]
struct LimboRange {
    range: Range<u64>,
    /// The generations that name it, whose readers must end.
    named: Range<u64>,
    /// The generation that the synced superblock must have reached. 0 for space that was never published and
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
    /// The first generation that names it, or 0 if that is older than any pin.
    born: u64,
}

/// All space of a pool as seen by one writer.
#[derive(Debug)]
pub(crate) struct Space {
    generation: u64,
    len: u64,
    live: HashMap<u64, LiveExtent>,
    free: FreeMap,
    limbo: Vec<LimboRange>,
    /// Space that may lack blocks, so that a store to it could meet a full disk.
    loose: FreeMap,
    /// Free space that is set aside, and not in `free`.
    reserve: FreeMap,
    /// The number of bytes that should be set aside.
    wanted_reserve: u64,
    /// The generation for which the reserve was to be completed when a transaction began, or 0.
    filled_for: u64,
    /// Number of vacuums that this state reflects.
    vacuums: u64,
    /// True if a publish has failed half-way, so that the newest generation must be looked up again.
    spoiled: bool,
}

impl Space {
    /// Builds the space of a pool of `len` bytes whose newest generation is `directory`. Space that neither
    /// the directory nor its limbo list names is free. Without a list it is in limbo, because older
    /// generations may name it. It may lack blocks.
    pub(crate) fn new(directory: &Directory, len: u64, vacuums: u64) -> Space {
        let generation = directory.generation;
        let mut space = Space {
            generation,
            len: DATA_START,
            live: HashMap::new(),
            free: FreeMap::default(),
            limbo: Vec::new(),
            loose: FreeMap::default(),
            reserve: FreeMap::default(),
            wanted_reserve: 0,
            filled_for: 0,
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
                // It may lie past the end of a file that was shortened.
                let pieces = list.reserve.iter().flat_map(|range| space.free.within(range));
                for range in pieces.take(RESERVE_RANGES).collect::<Vec<_>>() {
                    space.free.remove(range.clone());
                    space.reserve.add(range);
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

    /// Takes over unpublished space that `before` protects because it is still read in this process. The
    /// writer's lock must have been held without interruption.
    pub(crate) fn keep_unpublished(&mut self, before: &Space) {
        for limbo in before.limbo.iter().filter(|limbo| limbo.synced == 0) {
            let free = self.free.within(&limbo.range).into_iter();
            // The durable place of the reserve may be another one than that of `before`.
            for range in free.chain(self.reserve.within(&limbo.range)) {
                self.free.remove(range.clone());
                self.reserve.remove(range.clone());
                self.limbo.push(LimboRange {
                    range,
                    ..limbo.clone()
                });
            }
        }
    }

    /// Frees unpublished space that waited for readers in this process. The writer's lock was free, so there
    /// are none left.
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

    /// Returns the generation whose extents are live.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if this describes the given generation after the given vacuum.
    pub(crate) fn is_of(&self, generation: u64, vacuums: u64) -> bool {
        !self.spoiled && (self.generation, self.vacuums) == (generation, vacuums)
    }

    /// Records that a publish has failed half-way.
    pub(crate) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Returns true if a part of the range may lack blocks.
    pub(crate) fn is_loose(&self, range: &Range<u64>) -> bool {
        self.loose.overlaps(range)
    }

    /// Records that the range has blocks.
    pub(crate) fn fasten(&mut self, range: Range<u64>) {
        self.loose.remove(range);
    }

    /// Records a vacuum that removes the blocks of all free space; returns that space.
    pub(crate) fn loosen(&mut self, vacuums: u64) -> Vec<Range<u64>> {
        self.vacuums = vacuums;
        let free: Vec<Range<u64>> = self.free.iter().collect();
        for range in &free {
            self.loose.remove(range.clone());
            self.loose.add(range.clone());
        }
        free
    }

    /// Sets the number of bytes that should be set aside.
    pub(crate) fn want_reserve(&mut self, bytes: u64) {
        self.wanted_reserve = bytes;
    }

    /// Returns the number of bytes that should be set aside.
    pub(crate) fn wanted_reserve(&self) -> u64 {
        self.wanted_reserve
    }

    /// Returns the number of bytes that are set aside.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the number of bytes by which the reserve is smaller than it should be.
    pub(crate) fn missing_reserve(&self) -> u64 {
        match self.wanted_reserve {
            0 => 0,
            wanted => wanted.saturating_sub(self.reserve_bytes()),
        }
    }

    /// Returns the number of ranges that are set aside.
    pub(crate) fn reserve_pieces(&self) -> usize {
        self.reserve.iter().count()
    }

    /// Returns the ranges that are set aside.
    pub(crate) fn reserve(&self) -> Vec<Range<u64>> {
        self.reserve.iter().collect()
    }

    /// Returns the ranges of the reserve of which a part may lack blocks.
    pub(crate) fn loose_reserve(&self) -> Vec<Range<u64>> {
        let ranges = self.reserve.iter();
        ranges.filter(|range| self.loose.overlaps(range)).collect()
    }

    /// Returns true, once for each generation, if the reserve is not complete.
    pub(crate) fn begin_filling(&mut self) -> bool {
        let is_new = self.filled_for != self.generation;
        self.filled_for = self.generation;
        is_new && self.missing_reserve() > 0
    }

    /// Makes the reserve free space like any other.
    pub(crate) fn release_reserve(&mut self) {
        for range in self.reserve.drain() {
            self.free.add(range);
        }
    }

    /// Sets a range aside that was allocated.
    pub(crate) fn set_aside(&mut self, range: Range<u64>) {
        self.reserve.add(range);
    }

    /// Allocates `len` bytes of the reserve.
    pub(crate) fn take_reserved(&mut self, len: u64) -> Option<u64> {
        self.reserve.take_best(blocks(len))
    }

    /// Returns the free ranges, the longest first.
    pub(crate) fn longest_free(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = self.free.iter().collect();
        ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
        ranges
    }

    /// Sets aside the first free space that is long enough instead of the present reserve, of which it
    /// returns the ranges.
    pub(crate) fn lower_reserve(&mut self) -> Vec<Range<u64>> {
        let before = self.reserve();
        let bytes = self.reserve_bytes();
        self.release_reserve();
        match self.free.take_aligned(bytes, BLOCK) {
            Some(offset) if bytes > 0 => self.reserve.add(offset..offset + bytes),
            _ => self.restore_reserve(&before),
        }
        before
    }

    /// Sets these ranges aside, which are free or set aside, and nothing else.
    pub(crate) fn restore_reserve(&mut self, ranges: &[Range<u64>]) {
        self.release_reserve();
        for range in ranges {
            self.free.remove(range.clone());
            self.reserve.add(range.clone());
        }
    }

    /// Returns the length up to which space is known.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds the space by which the file has grown, which is free.
    pub(crate) fn extend(&mut self, len: u64) {
        let len = len / BLOCK * BLOCK;
        if len > self.len {
            self.free.add(self.len..len);
            self.len = len;
        }
    }

    /// Allocates `len` bytes of free space: at a multiple of [`HUGE`] if it is that long and such space
    /// exists, otherwise by best fit.
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

    /// Returns the file length at which `len` more bytes are sure to fit after the used end.
    pub(crate) fn end_for(&self, len: u64) -> Option<u64> {
        let alignment = if len >= HUGE { HUGE } else { BLOCK };
        self.free
            .start_of_range_to(self.len)
            .unwrap_or(self.len)
            .checked_next_multiple_of(alignment)?
            .checked_add(len.checked_next_multiple_of(BLOCK)?)
    }

    /// Returns the end of the last range that is not free.
    pub(crate) fn used_end(&self) -> u64 {
        self.free.start_of_range_to(self.len).unwrap_or(self.len)
    }

    /// Returns the number of free bytes that are known to have blocks.
    pub(crate) fn free_with_blocks(&self) -> u64 {
        let bytes = |map: &FreeMap| map.iter().map(|range| range.end - range.start).sum::<u64>();
        let loose = self.loose.iter().flat_map(|range| self.free.within(&range));
        bytes(&self.free) - loose.map(|range| range.end - range.start).sum::<u64>()
    }

    /// Records that the file now ends at `len`, after all space in use.
    pub(crate) fn shrink(&mut self, len: u64) {
        debug_assert!(len >= self.used_end(), "{len} cuts off what is in use");
        self.free.remove(len..self.len);
        self.loose.remove(len..self.len);
        self.len = len;
    }

    /// Plans the relocation of extents from the end of the file so that it can be shortened. Returns each
    /// with its new offset, the last one first, and the resulting end of used space. Extents at the
    /// offsets `fixed` stay. Linear in the number of extents and, for each that moves, of free ranges.
    pub(crate) fn moves_down(&self, fixed: &BTreeSet<u64>) -> (Vec<(ExtentRef, u64)>, u64) {
        let mut extents: Vec<ExtentRef> = self.live.values().map(|live| live.extent).collect();
        extents.sort_unstable_by_key(|extent| extent.offset);
        let limbo = self.limbo.iter().map(|limbo| limbo.range.end);
        let stays = limbo.chain(self.reserve.iter().map(|range| range.end)).max();
        let mut end = stays.unwrap_or(DATA_START);
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

    /// Takes a range out of the free space, or returns false if it is not entirely free.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> bool {
        let free = self.free.within(range) == [range.clone()];
        if free {
            self.free.remove(range.clone());
        }
        free
    }

    /// Frees space that was allocated and is visible to nobody.
    pub(crate) fn release(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.free.add(range);
        }
    }

    /// Puts unpublished space into limbo that a reader with a pin of `generation` may use.
    pub(crate) fn release_after_readers(&mut self, range: Range<u64>, generation: u64) {
        if !range.is_empty() {
            self.limbo.push(LimboRange {
                range,
                named: generation..generation + 1,
                synced: 0,
            });
        }
    }

    /// Frees limbo that neither a reader nor the superblock of generation `synced` can see.
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

    /// Returns the bytes and the number of ranges that [`reclaim`](Space::reclaim) would free.
    pub(crate) fn reclaimable(&self, pins: &PinnedRanges, synced: u64) -> (u64, usize) {
        let limbo = self.limbo.iter();
        let found = limbo.filter(|limbo| !limbo.waits(self.generation, pins, synced));
        found.fold((0, 0), |(bytes, pieces), limbo| (bytes + limbo.len(), pieces + 1))
    }

    /// Returns the number of bytes by which a [`reclaim`](Space::reclaim) would reduce the growth needed for
    /// `len` bytes, or all reclaimable bytes if the file would not have to grow at all. Linear in the
    /// number of ranges.
    pub(crate) fn helped(&self, len: u64, pins: &PinnedRanges, synced: u64) -> u64 {
        let mut after = Space {
            generation: self.generation,
            len: self.len,
            live: HashMap::new(),
            free: self.free.clone(),
            limbo: self.limbo.clone(),
            loose: FreeMap::default(),
            reserve: FreeMap::default(),
            wanted_reserve: 0,
            filled_for: 0,
            vacuums: self.vacuums,
            spoiled: self.spoiled,
        };
        after.reclaim(pins, synced);
        match (self.end_for(len), after.end_for(len)) {
            (Some(now), Some(then)) if after.alloc(len).is_none() => now - then,
            _ => self.reclaimable(pins, synced).0,
        }
    }

    /// Returns true if the newest generation names exactly this extent.
    pub(crate) fn is_live(&self, extent: &ExtentRef) -> bool {
        self.live
            .get(&extent.offset)
            .is_some_and(|live| live.extent == *extent)
    }

    /// Returns true if the newest generation names an extent that starts here.
    pub(crate) fn is_named(&self, offset: u64) -> bool {
        self.live.contains_key(&offset)
    }

    /// Returns the ranges of the limbo list for the directory of the next `generation`, which names and drops
    /// these extents (except its own directory, which no list covers). `oldest` is the oldest pinned
    /// generation, or the newest if there is none: extents that it names already count as old. Linear in
    /// the number of live and limbo ranges.
    pub(crate) fn aged_ranges<'a>(
        &self,
        generation: u64,
        named: impl Iterator<Item = &'a ExtentRef>,
        dropped: impl Iterator<Item = &'a ExtentRef>,
        oldest: u64,
    ) -> Vec<AgedRange> {
        // Maps an offset to the extent and the change of its number of names.
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
            let born = if injected(PoolFault::ForgetAge) {
                generation
            } else {
                aged(born)
            };
            if (born > 0 || freed.is_some()) && !(freed.is_some() && injected(PoolFault::ForgetLimbo)) {
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

    /// Applies a publish: `named` are the extents that it newly names, `dropped` those that it no longer
    /// names. Space without names goes to limbo, because the previous generation still names it.
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
                // A log that stays in place has a new start.
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
