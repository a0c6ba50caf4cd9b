//! Subranges: row counts in the shortcuts that locate the rows of a code in a short leaf list without reading
//! its values.
//!
//! In shortcuts of form quartered a place holds, beside the distance to its list, the number of the list's
//! rows in each quarter of the codes that the list can have, four bits for each. Rows are in the order of
//! their codes, so those of a quarter are neighbours whose records follow from the counts. A row's code
//! within the quarter is in its record: the lowest bits of the code are right above the fields that a record
//! of that depth needs anyway, and its last byte has room for them if the index has this form. So a search
//! for one tuple goes from the shortcut's line directly to a few records, which are a line or two.

use crate::geometry::{Field, RecordGeometry, bits_of};

/// Value in place of counts: the list is an inner one or a long one, or has too many rows in a quarter.
pub(crate) const IRREGULAR: u16 = u16::MAX;
/// Maximum number of rows of a quarter.
const MAX_QUARTER_ROWS: usize = 14;
/// Bits of a code that select its quarter.
const QUARTER: u32 = 2;

/// The split of the codes of the lists behind the shortcuts into a quarter and low bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SubrangeScheme {
    /// Bits of a code that differ within a list: those below the bits of its bucket, or all.
    bits: u32,
    /// The lowest bits of a code, which records hold.
    pub(crate) low: Field,
    /// All bits of a record above the TID, these included.
    pub(crate) tail_mask: u64,
}

/// The rows of a list that are in one quarter, or in several adjacent ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubrangeRows {
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// Prefix sums of the row counts, a byte for each quarter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubrangeCounts(u32);

impl SubrangeScheme {
    /// Returns the split for lists of depth `depth`; `None` if records have no room for the low bits.
    pub(crate) fn possible(geometry: &RecordGeometry, depth: usize) -> Option<Self> {
        let (level, field) = (geometry.levels.get(depth)?, geometry.fields.get(depth)?);
        let bits = match geometry.buckets {
            Some(buckets) if buckets.depth + 1 == depth => buckets.shift,
            _ => bits_of(geometry.max_codes[depth]) as u32,
        };
        let low = bits.checked_sub(QUARTER)?;
        let used = geometry.record_bits[depth];
        let tail = used - (geometry.tail_at.0 * 8 + geometry.tail_at.1 as usize) + low as usize;
        let possible = depth > 0
            && !geometry.is_clustered()
            && level.value_len == 1
            && field.bit() == used
            && used + low as usize <= level.record_len * 8
            && tail + (geometry.tail_at.1 as usize) < 64;
        possible.then(|| Self {
            bits,
            low: Field {
                mask: (1 << low) - 1,
                ..*field
            },
            tail_mask: (1 << tail) - 1,
        })
    }

    /// Returns the bits of a record, including the low bits of the code.
    pub(crate) fn record_bits(&self) -> usize {
        self.low.bit() + self.low.width()
    }

    /// Returns the mask of the bits that differ within a list.
    #[inline(always)]
    pub(crate) fn most(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Returns the bits of a code that differ within a list.
    #[inline(always)]
    pub(crate) fn rest(&self, code: u64) -> u64 {
        code & self.most()
    }

    /// Returns the quarter of such bits.
    #[inline(always)]
    pub(crate) fn quarter(&self, rest: u64) -> usize {
        (rest >> (self.bits - QUARTER)) as usize & 3
    }

    /// Returns the counts of a short leaf list with these codes.
    pub(crate) fn counts(&self, codes: impl Iterator<Item = u64>) -> u16 {
        let mut counts = [0_usize; 4];
        for code in codes {
            counts[self.quarter(self.rest(code))] += 1;
        }
        if counts.iter().any(|&count| count > MAX_QUARTER_ROWS) {
            return IRREGULAR;
        }
        let word = counts.iter().rev().fold(0, |word, &count| word << 4 | count);
        word as u16
    }
}

impl SubrangeCounts {
    /// Adds up the counts of a place, which are not [`IRREGULAR`].
    #[inline(always)]
    pub(crate) fn new(counts: u16) -> Self {
        let counts = u32::from(counts);
        let spread = (counts | counts << 8) & 0x00ff_00ff;
        let spread = (spread | spread << 4) & 0x0f0f_0f0f;
        // Byte k of the product is the sum of the bytes up to k: at most 60.
        Self(spread.wrapping_mul(0x0101_0101))
    }

    /// Returns the rows of the list.
    #[inline(always)]
    pub(crate) fn rows(self) -> usize {
        (self.0 >> 24) as usize
    }

    /// Returns the rows of the quarters `from..=to`, both below 4.
    #[inline(always)]
    pub(crate) fn part(self, from: usize, to: usize) -> SubrangeRows {
        let sum = |before: u64| (before & 0xff) as usize;
        let sums = u64::from(self.0) << 8;
        SubrangeRows {
            first: sum(sums >> (8 * from)),
            end: sum(sums >> (8 * to + 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Buckets;

    #[test]
    fn rows_of_a_quarter_follow_from_the_counts() {
        let geometry = RecordGeometry::new(10_000_000, vec![99; 10]);
        let quarters = SubrangeScheme::possible(&geometry, 3).unwrap();
        assert_eq!(quarters.low.width(), 5);
        assert_eq!(quarters.tail_mask.count_ones(), 42 + 5);
        let codes = [0, 31, 31, 64, 95, 96, 99];
        let counts = quarters.counts(codes.into_iter());
        assert_eq!(counts, 0x2203);
        let sums = SubrangeCounts::new(counts);
        assert_eq!(sums.rows(), 7);
        let part = |from, to| {
            let SubrangeRows { first, end } = sums.part(from, to);
            (first, end)
        };
        assert_eq!(
            [part(0, 0), part(1, 1), part(2, 2), part(3, 3)],
            [(0, 3), (3, 3), (3, 5), (5, 7)]
        );
        assert_eq!([part(0, 3), part(1, 2)], [(0, 7), (3, 5)]);
        assert_eq!(SubrangeCounts::new(0xeeee).rows(), 56);
        assert_eq!(quarters.counts([7; 14].into_iter()), 0xe);
        assert_eq!(quarters.counts([7; 15].into_iter()), IRREGULAR);
    }

    #[test]
    fn records_need_room_for_the_rest_of_a_code() {
        let possible = |rows, max: &[u64], depth| {
            SubrangeScheme::possible(&RecordGeometry::new(rows, max.to_vec()), depth)
                .map(|quarters| quarters.low.mask)
        };
        assert_eq!(possible(10_000_000, &[99; 10], 3), Some(31));
        assert_eq!(
            possible(100_000_000, &[99; 10], 3),
            None,
            "27 + 42 of 72 bits are taken"
        );
        assert_eq!(possible(1000, &[99, 1, 1], 1), None, "no quarter has two codes");
        assert_eq!(possible(1000, &[99, 3, 1], 1), Some(0));
        assert_eq!(possible(1000, &[99, 256, 1], 1), None, "codes have two bytes");
        assert_eq!(possible(1000, &[99; 3], 0), None, "there are no shortcuts");
        let buckets = Buckets { depth: 3, shift: 4 };
        let geometry = RecordGeometry::new(100_000_000, vec![99; 10]).bucketed(buckets);
        let quarters = SubrangeScheme::possible(&geometry, 4).unwrap();
        assert_eq!((quarters.low.mask, quarters.record_bits()), (3, 71));
        assert_eq!(
            (quarters.rest(99), quarters.quarter(3), quarters.quarter(12)),
            (3, 0, 3)
        );
        let clustered = RecordGeometry::clustered(10_000_000, vec![99; 10]);
        assert_eq!(SubrangeScheme::possible(&clustered, 3), None, "there are no TIDs");
    }
}
