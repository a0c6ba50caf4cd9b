//! Answers that the first stored byte of a string gives: [`FirstBytes`].
//!
//! A stored byte is a symbol of up to eight bytes if strings are compressed, so that most strings need not be
//! looked at any further.

use super::StringsDecoder;
use super::block::BlockStrings;
use crate::kernel::BlockMask;
use crate::read::byte_range::ByteRange;
use crate::read::string_predicate::Test;
use std::cmp::Ordering;
use std::ops::Bound;

const NO: u8 = 0;
const YES: u8 = 1;
const OPEN: u8 = 2;

/// The answers of a condition by the first stored byte of a string, for one chunk.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    answers: [u8; 256],
    /// The answer for the empty string.
    empty: u8,
}

impl FirstBytes {
    /// Asks a condition about every first byte; `None` if no first byte can decide it.
    pub(crate) fn new(test: &Test, decoder: &StringsDecoder<'_>) -> Option<Self> {
        let range = match test {
            Test::Range(range) | Test::Like(_, range) => Some(range).filter(|range| !range.is_unbounded()),
            _ => None,
        };
        if range.is_none() && !matches!(test, Test::Set(_)) {
            return None;
        }
        let of_head = |head: &[u8]| match (test, range) {
            (Test::Like(..), Some(range)) if of_range(range, head) == NO => NO,
            (Test::Range(_), Some(range)) => of_range(range, head),
            (Test::Set(values), _) => of_set(values, head),
            _ => OPEN,
        };
        let of_first = |first: usize| match decoder.head(first as u8) {
            Some(head) => of_head(head.as_bytes()),
            None => OPEN,
        };
        Some(Self {
            answers: std::array::from_fn(of_first),
            empty: u8::from(test.matches(b"")),
        })
    }

    /// Returns the rows of `mask` that match, and those for which that is open.
    pub(crate) fn split(&self, strings: &BlockStrings<'_>, mask: &BlockMask) -> (BlockMask, BlockMask) {
        let (mut matching, mut open) = (BlockMask::default(), BlockMask::default());
        for (word, wanted) in mask.iter().enumerate().filter(|(_, wanted)| **wanted != 0) {
            for (bit, stored) in strings.rows_from(word * 64).take(64).enumerate() {
                let answer = match stored.first() {
                    Some(first) => self.answers[usize::from(*first)],
                    None => self.empty,
                };
                matching[word] |= u64::from(answer & YES) << bit;
                open[word] |= u64::from(answer / OPEN) << bit;
            }
            matching[word] &= wanted;
            open[word] &= wanted;
        }
        (matching, open)
    }
}

/// The order of the strings with a head, relative to a constant.
enum HeadOrder {
    Less,
    /// Greater, or equal.
    AtLeast,
    Greater,
    Open,
}

fn order(head: &[u8], constant: &[u8]) -> HeadOrder {
    let common = head.len().min(constant.len());
    match head[..common].cmp(&constant[..common]) {
        Ordering::Less => HeadOrder::Less,
        Ordering::Greater => HeadOrder::Greater,
        Ordering::Equal => match head.len().cmp(&constant.len()) {
            Ordering::Less => HeadOrder::Open,
            Ordering::Equal => HeadOrder::AtLeast,
            Ordering::Greater => HeadOrder::Greater,
        },
    }
}

/// Returns the answer of a range for the strings with a head.
fn of_range(range: &ByteRange, head: &[u8]) -> u8 {
    let lo = match &range.lo {
        Bound::Unbounded => YES,
        Bound::Included(lo) | Bound::Excluded(lo) => match order(head, lo.as_bytes()) {
            HeadOrder::Less => NO,
            HeadOrder::Greater => YES,
            HeadOrder::AtLeast if matches!(range.lo, Bound::Included(_)) => YES,
            HeadOrder::AtLeast | HeadOrder::Open => OPEN,
        },
    };
    let hi = match &range.hi {
        Bound::Unbounded => YES,
        Bound::Included(hi) | Bound::Excluded(hi) => match order(head, hi.as_bytes()) {
            HeadOrder::Less => YES,
            HeadOrder::Greater => NO,
            HeadOrder::AtLeast if matches!(range.hi, Bound::Excluded(_)) => NO,
            HeadOrder::AtLeast | HeadOrder::Open => OPEN,
        },
    };
    match (lo, hi) {
        (NO, _) | (_, NO) => NO,
        (YES, YES) => YES,
        _ => OPEN,
    }
}

/// Returns the answer of a sorted set for the strings with a head.
fn of_set(values: &[Box<[u8]>], head: &[u8]) -> u8 {
    let first = values.partition_point(|value| value.as_ref() < head);
    match values.get(first) {
        Some(value) if value.starts_with(head) => OPEN,
        _ => NO,
    }
}
