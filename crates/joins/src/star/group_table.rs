//! The groups of one thread: a record for each, found by the number of the group.
//!
//! Few groups have four records each, for every fourth row, so that a row does not wait for the one before it
//! to be added to the same record; the records are merged when the thread has finished. If the numbers of
//! groups are not much more than the rows, a number is the position of the record in an array whose memory is
//! touched only where there are groups. Others are hashed.

use super::accumulate::{PendingSums, Records, update};
use super::hash_index::{HashIndex, PARTITIONS, hash, partition_of};
use super::layout::{StateLayout, UpdateKind};
use super::measure_values::MeasureValues;
use crate::{JoinError, JoinResult};

/// Records of a group if groups are few.
const LANES: usize = 4;

/// Most words of few groups: they fit the first-level cache.
const FEW_WORDS: u128 = 1 << 12;

/// Groups of a page of an array.
pub(super) const PAGE: usize = 1 << 12;

/// Numbers of groups that are always an array.
const SMALL_SPACE: u128 = 1 << 20;

/// Most numbers for each row of an array.
const MAX_NUMBERS_PER_ROW: u128 = 4;

/// Most words of an array: 1 GiB, of which only the pages with groups take memory.
const ARRAY_WORDS: u128 = 1 << 27;

/// The method by which the record of a group is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grouping {
    /// There is one group.
    Whole,
    /// Few numbers: [`LANES`] records each.
    Lanes(usize),
    /// An array of this many numbers.
    Array(usize),
    /// A hash table.
    Hashed,
}

impl Grouping {
    /// Chooses the method for numbers below `space`, at most `rows` rows, and records of `words` words.
    pub(super) fn choose(space: u128, rows: u64, words: usize) -> Grouping {
        let all = space.saturating_mul(words as u128);
        match space {
            1 => Grouping::Whole,
            _ if all.saturating_mul(LANES as u128) <= FEW_WORDS => Grouping::Lanes(space as usize),
            _ if space <= SMALL_SPACE.max(MAX_NUMBERS_PER_ROW * u128::from(rows)) && all <= ARRAY_WORDS => {
                Grouping::Array(space as usize)
            }
            _ => Grouping::Hashed,
        }
    }
}

/// The numbers of the groups of a batch of rows.
#[derive(Debug, Clone)]
pub(super) enum GroupNumbers {
    /// Numbers of 32 bits.
    Narrow(Vec<u32>),
    /// Numbers of 64 bits.
    Wide(Vec<u64>),
}

impl GroupNumbers {
    /// Creates an empty list of numbers below `space`.
    pub(super) fn new(space: u128) -> GroupNumbers {
        if space <= 1 << u32::BITS {
            GroupNumbers::Narrow(Vec::new())
        } else {
            GroupNumbers::Wide(Vec::new())
        }
    }

    /// Sets the numbers of `rows` rows to these, or to 0 if there are none.
    pub(super) fn set(&mut self, numbers: &[u32], rows: usize) {
        match self {
            GroupNumbers::Narrow(own) => {
                own.clear();
                own.extend_from_slice(numbers);
                own.resize(rows, 0);
            }
            GroupNumbers::Wide(own) => {
                own.clear();
                own.extend(numbers.iter().map(|number| u64::from(*number)));
                own.resize(rows, 0);
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            GroupNumbers::Narrow(numbers) => numbers.len(),
            GroupNumbers::Wide(numbers) => numbers.len(),
        }
    }
}

/// Memory that a join may reserve.
#[derive(Clone, Copy)]
pub(super) struct MemoryLimit<'a>(pub(super) &'a (dyn Fn(usize) -> bool + Sync));

impl MemoryLimit<'_> {
    /// Reserves memory.
    ///
    /// # Errors
    /// [`JoinError::Memory`].
    pub(super) fn reserve(self, bytes: usize) -> JoinResult<()> {
        if self.0(bytes) {
            Ok(())
        } else {
            Err(JoinError::Memory { bytes })
        }
    }
}

/// The groups of one thread.
pub(super) struct GroupTable<'a> {
    layout: &'a StateLayout,
    grouping: Grouping,
    /// The records.
    pub(super) words: Vec<u64>,
    /// For each page of an array, true if it has a group.
    pub(super) touched: Vec<bool>,
    index: HashIndex,
    /// The first word of the record of each row of the batch.
    records: Vec<u32>,
    memory: MemoryLimit<'a>,
}

impl<'a> GroupTable<'a> {
    /// Creates a table without groups.
    ///
    /// # Errors
    /// [`JoinError::Memory`].
    pub(super) fn new(
        layout: &'a StateLayout,
        grouping: Grouping,
        memory: MemoryLimit<'a>,
    ) -> JoinResult<Self> {
        let (words, pages) = match grouping {
            Grouping::Whole => (layout.words, 0),
            Grouping::Lanes(groups) => (groups * LANES * layout.words, 0),
            Grouping::Array(groups) => {
                let pages = groups.div_ceil(PAGE);
                (pages * PAGE * layout.words, pages)
            }
            Grouping::Hashed => (0, 0),
        };
        match grouping {
            // Zeroed memory takes no room until it is written, so pages of the array are reserved when they
            // are touched.
            Grouping::Array(_) => memory.reserve(pages)?,
            Grouping::Hashed => memory.reserve(HashIndex::bytes_for(0))?,
            Grouping::Whole | Grouping::Lanes(_) => memory.reserve(words * size_of::<u64>())?,
        }
        Ok(Self {
            layout,
            grouping,
            words: vec![0; words],
            touched: vec![false; pages],
            index: HashIndex::with_room(0),
            records: Vec::new(),
            memory,
        })
    }

    /// Adds `rows` rows with the numbers of their groups, which are ignored if there is one group. `argument`
    /// returns the values of the argument of an aggregate.
    ///
    /// # Errors
    /// [`JoinError::Memory`].
    pub(super) fn add<'v>(
        &mut self,
        numbers: &GroupNumbers,
        rows: usize,
        argument: impl Fn(usize) -> &'v MeasureValues,
    ) -> JoinResult<()> {
        let records = match self.grouping {
            Grouping::Whole => Records::First,
            _ => {
                assert_eq!(numbers.len(), rows, "a number for each row");
                self.locate(numbers)?;
                Records::Each(&self.records)
            }
        };
        let Records::Each(each) = records else {
            self.words[0] += rows as u64;
            for change in &self.layout.updates {
                update(&mut self.words, records, *change, argument(change.aggregate));
            }
            return Ok(());
        };
        // Rows are counted in the pass of the first sums, which visits each record anyway.
        let (mut sums, mut counts_rows) = (PendingSums::default(), true);
        for change in &self.layout.updates {
            let values = argument(change.aggregate);
            let is_float = match change.kind {
                UpdateKind::Sum if values.valid.is_empty() => false,
                UpdateKind::FloatSum if values.valid.is_empty() => true,
                _ => {
                    update(&mut self.words, records, *change, values);
                    continue;
                }
            };
            if sums.push(is_float, (change.word, &values.values)) {
                sums.add(&mut self.words, each, counts_rows);
                counts_rows = false;
            }
        }
        sums.add(&mut self.words, each, counts_rows);
        Ok(())
    }

    /// Finds the record of each row, and adds those of new groups.
    fn locate(&mut self, numbers: &GroupNumbers) -> JoinResult<()> {
        self.records.clear();
        match (self.grouping, numbers) {
            (Grouping::Hashed, GroupNumbers::Narrow(numbers)) => {
                self.locate_hashed(numbers.iter().map(|number| u64::from(*number)))
            }
            (Grouping::Hashed, GroupNumbers::Wide(numbers)) => self.locate_hashed(numbers.iter().copied()),
            (Grouping::Array(_), GroupNumbers::Narrow(numbers)) => self.locate_in_array(numbers),
            (_, GroupNumbers::Narrow(numbers)) => {
                let words = self.layout.words as u32;
                // Neighbouring rows of one group take different lanes, so that an addition need not wait for
                // the one before it.
                let lanes = (0..LANES as u32).cycle();
                let numbers = numbers.iter().zip(lanes);
                (self.records).extend(numbers.map(|(number, lane)| (number * LANES as u32 + lane) * words));
                Ok(())
            }
            (_, GroupNumbers::Wide(_)) => unreachable!("numbers of 64 bits are hashed"),
        }
    }

    fn locate_in_array(&mut self, numbers: &[u32]) -> JoinResult<()> {
        let words = self.layout.words as u32;
        let mut new = 0;
        for number in numbers {
            let touched = &mut self.touched[*number as usize / PAGE];
            new += usize::from(!*touched);
            *touched = true;
            self.records.push(number * words);
        }
        // Before the rows are added: the first write to a page is what takes its memory.
        if new > 0 {
            self.memory
                .reserve(new * PAGE * self.layout.words * size_of::<u64>())?;
        }
        Ok(())
    }

    fn locate_hashed(&mut self, numbers: impl ExactSizeIterator<Item = u64>) -> JoinResult<()> {
        let words = self.layout.words;
        // Each row may be a new group. With room for all of them, nothing grows inside the loop.
        self.make_room(numbers.len())?;
        let Self {
            index,
            words: all,
            records,
            ..
        } = self;
        let mut last = None;
        for number in numbers {
            // Neighbouring rows often have the same group.
            if let Some((same, record)) = last
                && same == number
            {
                records.push(record);
                continue;
            }
            let (record, is_new) =
                index.find_or_add(hash(number), |record| all[record * words + 1] == number);
            if is_new {
                all.resize(all.len() + words, 0);
                all[record * words + 1] = number;
            }
            let record = (record * words) as u32;
            records.push(record);
            last = Some((number, record));
        }
        Ok(())
    }

    /// Makes room for `more` further hashed groups.
    fn make_room(&mut self, more: usize) -> JoinResult<()> {
        let words = self.layout.words;
        if !self.index.has_room(more) {
            let groups = (self.index.len() + more).max(self.index.len() * 2);
            self.memory
                .reserve(HashIndex::bytes_for(groups) - HashIndex::bytes_for(self.index.len()))?;
            let all = &self.words;
            self.index.grow(more, |record| all[record * words + 1]);
        }
        let (len, had) = (self.words.len() + more * words, self.words.capacity());
        if len > had {
            let wanted = len.max(had + had / 2);
            let bytes = (wanted - had) * size_of::<u64>();
            // Records are addressed by word numbers of 32 bits.
            if u32::try_from(wanted).is_err() {
                return Err(JoinError::Memory { bytes });
            }
            self.memory.reserve(bytes)?;
            self.words.reserve_exact(wanted - self.words.len());
        }
        Ok(())
    }

    /// Merges the records that a group has for several rows.
    pub(super) fn finish(&mut self) {
        if let Grouping::Lanes(groups) = self.grouping {
            let words = self.layout.words;
            for group in 0..groups {
                let (done, rest) = self.words.split_at_mut(group * LANES * words);
                let (first, others) = rest[..LANES * words].split_at_mut(words);
                for other in others.chunks_exact(words) {
                    self.layout.merge(first, other);
                }
                // The first group is in its place.
                if group > 0 {
                    done[group * words..(group + 1) * words].copy_from_slice(first);
                }
            }
            self.words.truncate(groups * words);
        }
    }

    /// Returns the first words of the hashed records by the partition of their hash.
    ///
    /// # Errors
    /// [`JoinError::Memory`].
    pub(super) fn partitions(&self) -> JoinResult<Vec<Vec<u32>>> {
        self.memory.reserve(self.index.len() * size_of::<u32>())?;
        let records = || self.words.chunks_exact(self.layout.words);
        let partition = |record: &[u64]| partition_of(hash(self.layout.number(record).unwrap_or(0)));
        // Lists are allocated once, at their final size: no more memory than that was reserved.
        let mut sizes = [0; PARTITIONS];
        records().for_each(|record| sizes[partition(record)] += 1);
        let mut partitions: Vec<Vec<u32>> = sizes.map(Vec::with_capacity).into();
        for (number, record) in records().enumerate() {
            partitions[partition(record)].push((number * self.layout.words) as u32);
        }
        Ok(partitions)
    }
}
