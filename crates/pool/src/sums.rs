//! Block checksums that follow an extent: how they are computed, stored and found.
//!
//! An extent of more than [`SUMMED_FROM`] bytes is followed, at the next block, by *pages* of 4 KiB. Each
//! holds the sums of [`SUMS_PER_PAGE`] blocks and a checksum of itself, seeded by the extent's checksum and
//! the page's number. A block is verified by reading it and one page, however long the extent is, and a page
//! of another extent is never mistaken for its own.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::layout::{BLOCK, SUMMED_FROM, SUMS_PER_PAGE, blocks};

/// Bytes of a page that its own checksum covers.
const COVERED_BYTES: usize = SUMS_PER_PAGE as usize * 8;

/// Returns the bytes of whole blocks that the sums of an extent of `len` bytes take; 0 if it has none.
pub(crate) fn space_of(len: u64) -> u64 {
    if len > SUMMED_FROM {
        len.div_ceil(BLOCK).div_ceil(SUMS_PER_PAGE) * BLOCK
    } else {
        0
    }
}

/// Computes block checksums of bytes that arrive in order.
#[derive(Debug, Default)]
pub(crate) struct BlockSummer {
    sums: Vec<u64>,
    /// The beginning of an incomplete block.
    partial: Vec<u8>,
}

impl BlockSummer {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = (BLOCK as usize - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.partial.len() < BLOCK as usize {
                return;
            }
            self.sums.push(xxh3_64(&self.partial));
            self.partial.clear();
        }
        let (whole, rest) = bytes.as_chunks::<{ BLOCK as usize }>();
        self.sums.extend(whole.iter().map(|block| xxh3_64(block)));
        self.partial.extend_from_slice(rest);
    }

    /// Returns one checksum per block. The last one covers the bytes that have arrived.
    pub(crate) fn finish(mut self) -> Vec<u64> {
        if !self.partial.is_empty() {
            self.sums.push(xxh3_64(&self.partial));
        }
        self.sums
    }
}

/// Encodes the checksums of an extent with this checksum as pages.
pub(crate) fn encode(sums: &[u64], checksum: u64) -> Vec<u8> {
    let mut pages = Vec::with_capacity(sums.len().div_ceil(SUMS_PER_PAGE as usize) * BLOCK as usize);
    for (number, sums) in sums.chunks(SUMS_PER_PAGE as usize).enumerate() {
        let start = pages.len();
        sums.iter()
            .for_each(|sum| pages.extend_from_slice(&sum.to_le_bytes()));
        pages.resize(start + COVERED_BYTES, 0);
        let own = page_checksum(&pages[start..], checksum, number as u64);
        pages.extend_from_slice(&own.to_le_bytes());
    }
    pages
}

fn page_checksum(covered: &[u8], checksum: u64, number: u64) -> u64 {
    xxh3_64_with_seed(covered, checksum.wrapping_add(number))
}

/// The stored block checksums of an extent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSums<'a> {
    pages: &'a [u8],
    checksum: u64,
}

impl<'a> BlockSums<'a> {
    /// Finds the pages in `space`, which is all bytes that an extent of `len` bytes with this checksum
    /// occupies.
    pub(crate) fn new(space: &'a [u8], len: u64, checksum: u64) -> BlockSums<'a> {
        BlockSums {
            pages: space.get(blocks(len) as usize..).unwrap_or_default(),
            checksum,
        }
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64 / BLOCK
    }

    /// Returns the offset of a page in the space of an extent of `len` bytes.
    pub(crate) fn page_start(&self, len: u64, number: u64) -> u64 {
        blocks(len) + number * BLOCK
    }

    fn page(&self, number: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(number.checked_mul(BLOCK)?).ok()?;
        self.pages.get(start..start.checked_add(BLOCK as usize)?)
    }

    /// Returns true if a page matches its own checksum.
    pub(crate) fn is_sound(&self, number: u64) -> bool {
        self.page(number).is_some_and(|page| {
            let (covered, own) = page.split_at(COVERED_BYTES);
            page_checksum(covered, self.checksum, number).to_le_bytes() == own
        })
    }

    /// Returns the checksum of a block, stored in a page that must be sound.
    pub(crate) fn sum(&self, block: u64) -> Option<u64> {
        let page = self.page(block / SUMS_PER_PAGE)?;
        let at = (block % SUMS_PER_PAGE) as usize * 8;
        Some(u64::from_le_bytes(page[at..at + 8].try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(bytes: &[u8], steps: usize) -> Vec<u64> {
        let mut summer = BlockSummer::default();
        bytes.chunks(steps).for_each(|part| summer.update(part));
        summer.finish()
    }

    #[test]
    fn sums_do_not_depend_on_how_bytes_arrive() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 100).map(|i| ((i * i) >> 7) as u8).collect();
        let expected: Vec<u64> = bytes.chunks(BLOCK as usize).map(xxh3_64).collect();
        for steps in [1, 7, 4095, 4096, 4097, 9000, usize::MAX] {
            assert_eq!(summed(&bytes, steps), expected, "{steps} bytes at a time");
        }
    }

    #[test]
    fn a_page_is_that_of_its_extent_and_place() {
        let sums: Vec<u64> = (0..2 * SUMS_PER_PAGE + 3).collect();
        let len = sums.len() as u64 * BLOCK - 5;
        let mut space = vec![0; blocks(len) as usize];
        space.extend(encode(&sums, 99));
        assert_eq!(space.len() as u64, blocks(len) + space_of(len));
        let stored = BlockSums::new(&space, len, 99);
        assert_eq!(stored.pages(), 3);
        for page in 0..3 {
            assert!(stored.is_sound(page));
            assert!(
                !BlockSums::new(&space, len, 98).is_sound(page),
                "of another extent"
            );
        }
        for (block, sum) in sums.iter().enumerate() {
            assert_eq!(stored.sum(block as u64), Some(*sum));
        }
        assert_eq!(stored.sum(3 * SUMS_PER_PAGE), None);
        let first = blocks(len) as usize;
        space.copy_within(first + 4096..first + 8192, first);
        assert!(
            !BlockSums::new(&space, len, 99).is_sound(0),
            "a page in another's place"
        );
    }
}
