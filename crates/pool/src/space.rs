//! Which bytes of the pool may be written: the complement of what is published, pinned or being written.
//!
//! Kept in memory only, rebuilt from the directory by the first writer of a handle, so that nothing leaks in a crash.
//! Three kinds of space are told apart: *live* (the newest generation names it), *free* (nobody can see it: may be
//! written at once) and *limbo* (the newest generation does not name it, but an older one does, which a reader may have
//! pinned, or to which a superblock that is still needed refers). Limbo becomes free by [`Space::reclaim`].

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::directory::{Directory, ExtentRef};
use crate::layout::{BLOCK, DATA_START, HUGE, blocks};

/// When a piece of limbo becomes free.
#[derive(Debug, Clone)]
struct Limbo {
    range: Range<u64>,
    /// When no reader has a generation before this.
    readers: u64,
    /// When the synced superblock is of this generation or a later one.
    synced: u64,
}

#[derive(Debug)]
struct Live {
    extent: ExtentRef,
    names: usize,
}

/// All space of a pool as one writer sees it.
#[derive(Debug)]
pub(crate) struct Space {
    generation: u64,
    len: u64,
    live: HashMap<u64, Live>,
    free: FreeMap,
    limbo: Vec<Limbo>,
    /// What may have no blocks, so that a store to it could meet a full disk.
    loose: FreeMap,
    /// The vacuums of which this knows.
    vacuums: u64,
}

impl Space {
    /// The space of a pool of `len` bytes whose newest generation is `directory`. Of what it does not name, nothing is
    /// known: older generations may, and it may have no blocks.
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
        };
        space.extend(len);
        for extent in directory.extents() {
            space.name(extent);
        }
        space.loose = space.free.clone();
        space.limbo = space
            .free
            .drain()
            .map(|range| Limbo {
                range,
                readers: generation,
                synced: generation,
            })
            .collect();
        space
    }

    /// The generation whose extents are live.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The vacuums that have left it as it is.
    pub(crate) fn vacuums(&self) -> u64 {
        self.vacuums
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
        let free: Vec<Range<u64>> = self.free.ranges.iter().map(|(start, end)| *start..*end).collect();
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

    /// Takes space for `len` bytes out of the free space, at the lowest offset that fits.
    pub(crate) fn alloc(&mut self, len: u64) -> Option<u64> {
        self.free.take(blocks(len), alignment(len))
    }

    /// The length the file must have so that `len` more bytes certainly fit.
    pub(crate) fn end_for(&self, len: u64) -> Option<u64> {
        self.len
            .checked_next_multiple_of(alignment(len))?
            .checked_add(len.checked_next_multiple_of(BLOCK)?)
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
            self.limbo.push(Limbo {
                range,
                readers: generation + 1,
                synced: 0,
            });
        }
    }

    /// Makes free what neither a reader (of `oldest` or later) nor the superblock of the generation `synced` can see.
    pub(crate) fn reclaim(&mut self, oldest: u64, synced: u64) {
        let free = &mut self.free;
        self.limbo.retain(|limbo| {
            let wait = limbo.readers > oldest || limbo.synced > synced;
            if !wait {
                free.add(limbo.range.clone());
            }
            wait
        });
    }

    /// How much [`reclaim`](Space::reclaim) would make free.
    pub(crate) fn reclaimable(&self, oldest: u64, synced: u64) -> u64 {
        let limbo = self
            .limbo
            .iter()
            .filter(|limbo| limbo.readers <= oldest && limbo.synced <= synced);
        limbo.map(|limbo| limbo.range.end - limbo.range.start).sum()
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
                .or_insert(Live {
                    extent: *extent,
                    names: 0,
                })
                .names += 1;
        }
        for extent in dropped.filter(|extent| extent.len > 0) {
            let Some(live) = self.live.get_mut(&extent.offset) else {
                continue;
            };
            live.names -= 1;
            if live.names == 0 {
                self.live.remove(&extent.offset);
                self.limbo.push(Limbo {
                    range: extent.space(),
                    readers: generation,
                    synced: generation,
                });
            }
        }
    }

    fn name(&mut self, extent: &ExtentRef) {
        if extent.len > 0 {
            let live = self.live.entry(extent.offset).or_insert(Live {
                extent: *extent,
                names: 0,
            });
            live.names += 1;
            if live.names == 1 {
                self.free.remove(extent.space());
            }
        }
    }
}

fn alignment(len: u64) -> u64 {
    if len >= HUGE { HUGE } else { BLOCK }
}

/// Disjoint ranges that do not touch, as end by start.
#[derive(Debug, Clone, Default)]
struct FreeMap {
    ranges: BTreeMap<u64, u64>,
}

impl FreeMap {
    /// Adds a range that is not in the map, and joins it with its neighbours.
    fn add(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &before_end)) = self.ranges.range(..start).next_back()
            && before_end >= start
        {
            debug_assert!(before_end == start, "{range:?} is free already");
            self.ranges.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        self.ranges.insert(start, end);
    }

    /// Removes a range, or what of it is in the map.
    fn remove(&mut self, range: Range<u64>) {
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back()
            && end > range.start
        {
            self.ranges.remove(&start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        let before_end = self.ranges.range(..range.end).next_back();
        before_end.is_some_and(|(_, end)| *end > range.start)
    }

    /// Removes the first `len` bytes found at a multiple of `alignment`. Linear in the number of ranges.
    fn take(&mut self, len: u64, alignment: u64) -> Option<u64> {
        let found = self.ranges.iter().find_map(|(&start, &end)| {
            let at = start.next_multiple_of(alignment);
            (at < end && end - at >= len).then_some(at)
        })?;
        self.remove(found..found + len);
        Some(found)
    }

    fn drain(&mut self) -> impl Iterator<Item = Range<u64>> {
        std::mem::take(&mut self.ranges)
            .into_iter()
            .map(|(start, end)| start..end)
    }
}
