//! The entries of all open lists of layout `packed`; most of them may be spilled.

use crate::build::output::{Spill, SpillArea};
use crate::packed::inner::ListEntry;
use crate::{ElfError, Result};
use std::collections::VecDeque;

/// Entries of a chunk.
const CHUNK: usize = 1 << 16;
/// Minimum number of chunks in DRAM: with fewer, pushing and truncating around a chunk boundary could spill
/// repeatedly.
const MIN_CHUNKS: usize = 2;
/// Divisor of a build's memory that gives the share of the chunks in DRAM.
const MEMORY_DIVISOR: usize = 16;

/// An entry's value and position.
type EntryWords = [u64; 2];

/// A stack of entries in chunks; the lower ones spill.
pub(crate) struct EntryStack<'s> {
    spill: Option<&'s dyn Spill>,
    /// Entries of a chunk.
    chunk: usize,
    /// Chunks in DRAM at most, if there is a spill.
    most: usize,
    /// The lowest chunks, all full.
    spilled: Vec<Box<dyn SpillArea + 's>>,
    /// The chunks above, all but the last one full and none empty.
    chunks: VecDeque<Vec<EntryWords>>,
}

impl<'s> EntryStack<'s> {
    /// Creates a stack for a build with a budget of `memory` bytes. Without a spill, everything stays in
    /// DRAM.
    pub(crate) fn new(spill: Option<&'s dyn Spill>, memory: usize) -> Self {
        Self::with_chunks(spill, CHUNK, most_chunks(memory))
    }

    /// Returns the bytes of DRAM that the stack of a build of `rows` rows takes, with this budget and a
    /// spill.
    pub(crate) fn memory(memory: usize, rows: usize) -> usize {
        rows.div_ceil(CHUNK).min(most_chunks(memory)) * CHUNK * size_of::<EntryWords>()
    }

    fn with_chunks(spill: Option<&'s dyn Spill>, chunk: usize, most: usize) -> Self {
        Self {
            spill,
            chunk,
            most,
            spilled: vec![],
            chunks: VecDeque::new(),
        }
    }

    fn len(&self) -> usize {
        let above = self
            .chunks
            .back()
            .map_or(0, |last| (self.chunks.len() - 1) * self.chunk + last.len());
        self.spilled.len() * self.chunk + above
    }

    /// Adds an entry on top.
    pub(crate) fn push(&mut self, entry: ListEntry) -> Result<()> {
        let words = [entry.value, entry.at];
        match self.chunks.back_mut() {
            Some(last) if last.len() < self.chunk => last.push(words),
            _ => {
                let mut chunk = self.free_chunk()?;
                chunk.push(words);
                self.chunks.push_back(chunk);
            }
        }
        Ok(())
    }

    /// Adds entries on top, the last one uppermost.
    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = ListEntry>) -> Result<()> {
        entries.into_iter().try_for_each(|entry| self.push(entry))
    }

    /// Returns an empty chunk. If the limit is reached, the lowest chunk in DRAM is spilled and reused.
    fn free_chunk(&mut self) -> Result<Vec<EntryWords>> {
        if let Some(spill) = self.spill
            && self.chunks.len() >= self.most
            && let Some(mut lowest) = self.chunks.pop_front()
        {
            let words = lowest.as_flattened();
            let mut area = spill.area(words.len()).map_err(ElfError::Write)?;
            area.append(words).map_err(ElfError::Write)?;
            area.freeze();
            self.spilled.push(area);
            lowest.clear();
            return Ok(lowest);
        }
        Ok(Vec::with_capacity(self.chunk))
    }

    /// Returns the uppermost `count` entries.
    pub(crate) fn last(&self, count: usize) -> Result<Last<'_>> {
        let from = self.len() - count;
        let lowest = from / self.chunk;
        let mut parts = vec![];
        for area in self.spilled.iter().skip(lowest) {
            parts.push(area.words().map_err(ElfError::Write)?.as_chunks().0);
        }
        let chunks = self.chunks.iter().map(Vec::as_slice);
        parts.extend(chunks.skip(lowest.saturating_sub(self.spilled.len())));
        if let Some(first) = parts.first_mut() {
            *first = &first[from % self.chunk..];
        }
        Ok(Last { parts })
    }

    /// Removes the uppermost `count` entries.
    pub(crate) fn truncate(&mut self, count: usize) -> Result<()> {
        let len = self.len() - count;
        let (full, rest) = (len / self.chunk, len % self.chunk);
        let chunks = full + usize::from(rest > 0);
        if chunks > self.spilled.len() {
            self.chunks.truncate(chunks - self.spilled.len());
            if let (Some(last), 1..) = (self.chunks.back_mut(), rest) {
                last.truncate(rest);
            }
            return Ok(());
        }
        self.chunks.clear();
        self.spilled.truncate(chunks);
        // The remainder of a spilled chunk becomes the last chunk in DRAM, as pushes append to it.
        if rest > 0
            && let Some(area) = self.spilled.pop()
        {
            let mut chunk = Vec::with_capacity(self.chunk);
            let words = area.words().map_err(ElfError::Write)?;
            chunk.extend_from_slice(&words.as_chunks().0[..rest]);
            self.chunks.push_back(chunk);
        }
        Ok(())
    }
}

/// Returns the number of chunks in DRAM for a budget of `memory` bytes.
fn most_chunks(memory: usize) -> usize {
    (memory / MEMORY_DIVISOR / (CHUNK * size_of::<EntryWords>())).max(MIN_CHUNKS)
}

/// The uppermost entries of a stack.
pub(crate) struct Last<'a> {
    /// None is empty, unless it is the only one.
    parts: Vec<&'a [EntryWords]>,
}

impl Last<'_> {
    /// Iterates over the entries, the uppermost one last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ListEntry> + Clone {
        self.parts.iter().flat_map(|part| part.iter().map(entry))
    }

    /// Returns the lowest and the uppermost entry.
    pub(crate) fn ends(&self) -> Option<(ListEntry, ListEntry)> {
        let lowest = self.parts.first()?.first()?;
        let uppermost = self.parts.last()?.last()?;
        Some((entry(lowest), entry(uppermost)))
    }
}

fn entry(&[value, at]: &EntryWords) -> ListEntry {
    ListEntry { value, at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::output::WriteError;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::cell::Cell;

    /// A spill of vectors that counts its areas.
    #[derive(Default)]
    struct Vectors {
        areas: Cell<usize>,
    }

    #[derive(Default)]
    struct EntryArea {
        words: Vec<u64>,
        frozen: bool,
    }

    impl Spill for Vectors {
        fn area(&self, words: usize) -> std::result::Result<Box<dyn SpillArea + '_>, WriteError> {
            self.areas.set(self.areas.get() + 1);
            Ok(Box::new(EntryArea {
                words: Vec::with_capacity(words),
                frozen: false,
            }))
        }
    }

    impl SpillArea for EntryArea {
        fn append(&mut self, words: &[u64]) -> std::result::Result<(), WriteError> {
            assert!(!self.frozen && self.words.len() + words.len() <= self.words.capacity());
            self.words.extend_from_slice(words);
            Ok(())
        }

        fn freeze(&mut self) {
            self.frozen = true;
        }

        fn words(&self) -> std::result::Result<&[u64], WriteError> {
            assert!(self.frozen);
            Ok(&self.words)
        }
    }

    /// Applies random operations to a stack and compares it with a vector as the model.
    fn compare(seed: u64, spill: Option<&Vectors>) {
        let what = format!("seed {seed}, with a spill: {}", spill.is_some());
        let mut rng = StdRng::seed_from_u64(seed);
        let (chunk, most) = (rng.random_range(1..9), rng.random_range(2..5));
        let mut stack = EntryStack::with_chunks(spill.map(|spill| spill as &dyn Spill), chunk, most);
        let mut model: Vec<ListEntry> = vec![];
        for _ in 0..300 {
            let count = rng.random_range(0..=model.len());
            match rng.random_range(0..8) {
                0..3 => {
                    let entries = std::iter::repeat_with(|| ListEntry {
                        value: rng.random(),
                        at: rng.random(),
                    });
                    let entries: Vec<ListEntry> = entries.take(count % 40 + 3).collect();
                    model.extend(&entries);
                    stack.extend(entries).unwrap();
                }
                3..5 => {
                    let entry = ListEntry {
                        value: rng.random(),
                        at: rng.random(),
                    };
                    model.push(entry);
                    stack.push(entry).unwrap();
                }
                5 => {
                    model.truncate(model.len() - count);
                    stack.truncate(count).unwrap();
                }
                6 => {
                    let count = count % (chunk + 2);
                    model.truncate(model.len() - count);
                    stack.truncate(count).unwrap();
                }
                _ => {
                    let expected = &model[model.len() - count..];
                    let last = stack.last(count).unwrap();
                    let entries = last.iter();
                    assert!(entries.clone().eq(expected.iter().copied()), "{what}");
                    assert!(entries.eq(expected.iter().copied()), "{what}");
                    let ends = expected.first().copied().zip(expected.last().copied());
                    assert_eq!(last.ends(), ends, "{what}");
                }
            }
            assert_eq!(stack.len(), model.len(), "{what}");
            assert!(stack.chunks.iter().all(|chunk| !chunk.is_empty()), "{what}");
            assert!(stack.chunks.len() <= most || spill.is_none(), "{what}");
        }
        let last = stack.last(model.len()).unwrap();
        assert!(last.iter().eq(model), "{what}");
    }

    #[test]
    fn a_stack_that_spills_is_like_a_vector() {
        let spill = Vectors::default();
        for seed in 0..300 {
            compare(seed, Some(&spill));
            compare(seed, None);
        }
        assert!(spill.areas.get() > 300);
    }

    #[test]
    fn a_stack_takes_a_part_of_the_memory() {
        assert_eq!(EntryStack::memory(1 << 16, 1 << 30), 2 << 20);
        assert_eq!(EntryStack::memory(64 << 20, 1 << 30), 4 << 20);
        assert_eq!(EntryStack::memory(usize::MAX, 100), 1 << 20);
        assert_eq!(EntryStack::memory(usize::MAX, 0), 0);
    }
}
