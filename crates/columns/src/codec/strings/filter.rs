//! Conditions on the strings of a chunk: [`StringsFilter`].
//!
//! A block of strings goes through up to three steps, each for the rows that the one before leaves open: the
//! answers of their first stored bytes; a comparison that decodes as much of a string as decides; for sets
//! and patterns, the decoded string. If many strings have to be decoded they are decoded together, and
//! searched for the longest text of the pattern together, too.

use super::block::{BlockStrings, PART_ROWS};
use super::chunk::StringsChunk;
use super::heads::FirstBytes;
use super::{Defect, StringsDecoder, StringsRoom};
use crate::format::BLOCK;
use crate::kernel::{self, BlockMask};
use crate::read::byte_range::ByteRange;
use crate::read::like::LikePattern;
use crate::read::string_predicate::{StringPredicate, Test};
use std::cell::OnceCell;
use std::ops::Bound;

/// Selected rows of a block from which the starts of all of its strings are unpacked.
const WHOLE_BLOCK_ROWS: usize = 24;
/// Open rows of a part from which all of it is decoded.
const WHOLE_PART_ROWS: usize = PART_ROWS * 3 / 8;

/// A condition on the strings of one chunk, which remembers what it found out about the chunk.
#[derive(Debug)]
pub(crate) struct StringsFilter<'p> {
    predicate: &'p StringPredicate,
    /// The answer for all values of the chunk that are not NULL, if its bounds give one.
    of_values: Option<bool>,
    learnt: Learnt,
    room: StringsRoom,
}

/// The answers of first bytes of a chunk, for a condition and those that it consists of.
#[derive(Debug, Default)]
struct Learnt {
    /// `None` if no first byte decides.
    first_bytes: OnceCell<Option<Box<FirstBytes>>>,
    parts: Vec<Learnt>,
}

impl<'p> StringsFilter<'p> {
    pub(crate) fn new(predicate: &'p StringPredicate, of_values: Option<bool>) -> Self {
        Self {
            predicate,
            of_values,
            learnt: Learnt::default(),
            room: StringsRoom::default(),
        }
    }

    /// Clears the bits of rows that do not match, of consecutive blocks of the chunk from one on.
    ///
    /// # Errors
    /// A text that says what is wrong with the chunk.
    pub(crate) fn keep(
        &mut self,
        chunk: &StringsChunk<'_>,
        from: usize,
        masks: &mut [BlockMask],
    ) -> Result<(), Defect> {
        let decoder = chunk.decoder()?;
        let null_matches = self.predicate.matches(None);
        for (block, mask) in (from..).zip(masks) {
            let valid = chunk.validity_of(block);
            let tested = and(mask, &valid);
            let found = match (&decoder, self.of_values) {
                (None, _) | (_, Some(false)) => BlockMask::default(),
                (_, Some(true)) => tested,
                (Some(decoder), None) => self.matching(chunk, decoder, block, &tested)?,
            };
            for ((mask, found), valid) in mask.iter_mut().zip(found).zip(valid) {
                *mask = found | if null_matches { *mask & !valid } else { 0 };
            }
        }
        Ok(())
    }

    /// Returns the rows of `tested`, which are not NULL, that match.
    fn matching(
        &mut self,
        chunk: &StringsChunk<'_>,
        decoder: &StringsDecoder<'_>,
        block: usize,
        tested: &BlockMask,
    ) -> Result<BlockMask, Defect> {
        let Self {
            predicate,
            learnt,
            room,
            ..
        } = self;
        let rows = kernel::rows_in(tested);
        if rows == 0 {
            return Ok(BlockMask::default());
        }
        if rows >= WHOLE_BLOCK_ROWS
            && let Some(strings) = chunk.strings_of(block)?
        {
            let mut evaluation = Evaluation {
                decoder,
                strings: &strings,
                room,
            };
            return evaluation.predicate(predicate, learnt, tested);
        }
        let mut found = BlockMask::default();
        for row in kernel::set_bits(tested) {
            if let Some(stored) = chunk.stored_one(block * BLOCK + row)?
                && is_match(predicate, decoder, stored, room)?
            {
                set(&mut found, row);
            }
        }
        Ok(found)
    }
}

/// The evaluation of a condition on the strings of a block.
struct Evaluation<'e, 'd, 's> {
    decoder: &'e StringsDecoder<'d>,
    strings: &'e BlockStrings<'s>,
    room: &'e mut StringsRoom,
}

impl Evaluation<'_, '_, '_> {
    /// Returns the rows of `tested` that match.
    fn predicate(
        &mut self,
        predicate: &StringPredicate,
        learnt: &mut Learnt,
        tested: &BlockMask,
    ) -> Result<BlockMask, Defect> {
        let found = self.test(&predicate.test, learnt, tested)?;
        Ok(if predicate.negated {
            and_not(tested, &found)
        } else {
            found
        })
    }

    fn test(&mut self, test: &Test, learnt: &mut Learnt, tested: &BlockMask) -> Result<BlockMask, Defect> {
        match test {
            Test::Null => return Ok(BlockMask::default()),
            Test::Range(range) if range.is_unbounded() => return Ok(*tested),
            Test::Any(predicates) => {
                learnt.parts.resize_with(predicates.len(), Learnt::default);
                let mut found = BlockMask::default();
                for (predicate, learnt) in predicates.iter().zip(&mut learnt.parts) {
                    // A row that matches one alternative is not tested with the others.
                    let left = and_not(tested, &found);
                    let more = self.predicate(predicate, learnt, &left)?;
                    found
                        .iter_mut()
                        .zip(more)
                        .for_each(|(found, more)| *found |= more);
                }
                return Ok(found);
            }
            _ => {}
        }
        let first_bytes = learnt
            .first_bytes
            .get_or_init(|| FirstBytes::new(test, self.decoder).map(Box::new));
        let (mut found, open) = match first_bytes {
            Some(first_bytes) => first_bytes.split(self.strings, tested),
            None => (BlockMask::default(), *tested),
        };
        match test {
            Test::Like(pattern, _) => self.like(pattern, &open, &mut found)?,
            _ => {
                for row in kernel::set_bits(&open) {
                    if is_true(test, self.decoder, self.strings.get(row), self.room)? {
                        set(&mut found, row);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Adds the rows of `open` that match a pattern.
    fn like(&mut self, pattern: &LikePattern, open: &BlockMask, found: &mut BlockMask) -> Result<(), Defect> {
        const WORDS: usize = PART_ROWS / 64;
        for (part, open) in open.chunks_exact(WORDS).enumerate() {
            let (first, rows) = (part * PART_ROWS, count(open));
            if rows >= WHOLE_PART_ROWS {
                let matching = self.like_part(pattern, first, open)?;
                found[part * WORDS..]
                    .iter_mut()
                    .zip(matching)
                    .for_each(|(found, more)| *found |= more);
            } else if rows > 0 {
                let mut mask = BlockMask::default();
                mask[part * WORDS..][..WORDS].copy_from_slice(open);
                for row in kernel::set_bits(&mask) {
                    let string = self
                        .decoder
                        .decode_all(self.strings.get(row), &mut [], self.room)?;
                    if pattern.matches(string) {
                        set(found, row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of `open` that match a pattern, of the strings from `first` on.
    fn like_part(
        &mut self,
        pattern: &LikePattern,
        first: usize,
        open: &[u64],
    ) -> Result<[u64; PART_ROWS / 64], Defect> {
        let rows = first..self.strings.rows().min(first + PART_ROWS);
        let strings = self.strings.decode(rows, self.decoder, self.room)?;
        let is_open = |row: usize| open[row / 64] >> (row % 64) & 1 == 1;
        let mut found = [0; PART_ROWS / 64];
        let Some(finder) = pattern.longest() else {
            for row in (0..strings.rows).filter(|row| is_open(*row)) {
                found[row / 64] |= u64::from(pattern.matches(strings.get(row))) << (row % 64);
            }
            return Ok(found);
        };
        let (len, is_enough) = (finder.needle().len(), pattern.is_containment());
        let (mut row, mut from) = (0, 0);
        while let Some(hit) = finder.find(&strings.bytes[from..]) {
            let hit = from + hit;
            while strings.end(row) <= hit {
                row += 1;
            }
            let end = strings.end(row);
            if hit + len > end {
                // Part of it is in the next string.
                from = hit + 1;
                continue;
            }
            if is_open(row) && (is_enough || pattern.matches(strings.get(row))) {
                found[row / 64] |= 1 << (row % 64);
            }
            // The answer holds for the whole string, so the search goes on after it.
            from = end;
        }
        Ok(found)
    }
}

/// Returns true if a stored string matches.
fn is_match(
    predicate: &StringPredicate,
    decoder: &StringsDecoder<'_>,
    stored: &[u8],
    room: &mut StringsRoom,
) -> Result<bool, Defect> {
    Ok(is_true(&predicate.test, decoder, stored, room)? != predicate.negated)
}

fn is_true(
    test: &Test,
    decoder: &StringsDecoder<'_>,
    stored: &[u8],
    room: &mut StringsRoom,
) -> Result<bool, Defect> {
    match test {
        Test::Null => Ok(false),
        Test::Range(range) => is_inside(range, decoder, stored),
        Test::Any(predicates) => {
            for predicate in predicates.iter() {
                if is_match(predicate, decoder, stored, room)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::Set(_) | Test::Like(..) => Ok(test.matches(decoder.decode_all(stored, &mut [], room)?)),
    }
}

/// Returns true if a stored string lies in a range.
fn is_inside(range: &ByteRange, decoder: &StringsDecoder<'_>, stored: &[u8]) -> Result<bool, Defect> {
    let above = match &range.lo {
        Bound::Unbounded => true,
        Bound::Included(lo) if range.is_equal() => return Ok(decoder.compare(stored, lo)?.is_eq()),
        Bound::Included(lo) => decoder.compare(stored, lo)?.is_ge(),
        Bound::Excluded(lo) => decoder.compare(stored, lo)?.is_gt(),
    };
    Ok(above
        && match &range.hi {
            Bound::Unbounded => true,
            Bound::Included(hi) => decoder.compare(stored, hi)?.is_le(),
            Bound::Excluded(hi) => decoder.compare(stored, hi)?.is_lt(),
        })
}

fn and(left: &BlockMask, right: &BlockMask) -> BlockMask {
    std::array::from_fn(|word| left[word] & right[word])
}

fn and_not(left: &BlockMask, right: &BlockMask) -> BlockMask {
    std::array::from_fn(|word| left[word] & !right[word])
}

fn set(mask: &mut BlockMask, row: usize) {
    mask[row / 64] |= 1 << (row % 64);
}

/// Returns the number of rows in some words of a mask.
fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
