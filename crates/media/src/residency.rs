//! How much of mapped bytes is in memory, by a sample of their pages: [`sample_residency`].
//!
//! The kernel tells for each page of a mapped file if it is in the page cache (`mincore`). It tells the truth
//! to the owner of the file and to those who may write it; to others, and of anonymous memory that was
//! touched, everything is in memory.
#![allow(unsafe_code, reason = "asks the kernel about addresses")]

use crate::PAGE;

/// Pages of the first sample; if they agree, there is no second one.
const FIRST_SAMPLE_PAGES: usize = 16;
/// Pages of the second sample.
const SECOND_SAMPLE_PAGES: usize = 48;

/// The result of a sample of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Pages of the sample, each of which took one system call.
    pub sampled: u32,
    /// Those that are in memory.
    pub resident: u32,
}

impl Residency {
    /// Returns the estimated share of the bytes that is in memory: 1 if there are no bytes.
    #[must_use]
    pub fn share(&self) -> f64 {
        match self.sampled {
            0 => 1.0,
            sampled => f64::from(self.resident) / f64::from(sampled),
        }
    }
}

/// Samples which of the pages of mapped ranges are in memory. The pages are spread evenly over all bytes; the
/// sample is the same for the same lengths. O(ranges), and at most 64 system calls of about a microsecond; 16
/// if these agree.
#[must_use]
pub fn sample_residency(ranges: &[&[u8]]) -> Residency {
    let bytes: usize = ranges.iter().map(|range| range.len()).sum();
    let mut residency = Residency::default();
    if bytes == 0 {
        return residency;
    }
    residency.add(ranges, bytes, FIRST_SAMPLE_PAGES, 0.5);
    if residency.resident != 0 && residency.resident != residency.sampled {
        residency.add(ranges, bytes, SECOND_SAMPLE_PAGES, 0.3);
    }
    residency
}

impl Residency {
    /// Adds `count` pages, each at some place of a part of its own of the bytes.
    fn add(&mut self, ranges: &[&[u8]], bytes: usize, count: usize, start: f64) {
        /// Multiples of the golden ratio are spread evenly.
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let (mut before, mut ranges) = (0, ranges.iter());
        let mut range = ranges.next();
        let mut within = start;
        for part in 0..count {
            within = (within + GOLDEN).fract();
            let at = ((part as f64 + within) / count as f64 * bytes as f64) as usize;
            while let Some(passed) = range.filter(|range| before + range.len() <= at) {
                before += passed.len();
                range = ranges.next();
            }
            if let Some(byte) = range.and_then(|range| range.get(at - before..)) {
                self.sampled += 1;
                self.resident += u32::from(is_resident(byte));
            }
        }
    }
}

/// Returns true if the first page of `bytes`, which is mapped, is in memory, or if the kernel does not say.
pub(crate) fn is_resident(bytes: &[u8]) -> bool {
    is_page_resident(bytes.as_ptr() as usize / PAGE as usize * PAGE as usize)
}

/// Returns true if the page at an address is in memory, if nothing is mapped there, or if the kernel does not
/// say.
pub(crate) fn is_page_resident(page: usize) -> bool {
    let mut state = 0;
    // SAFETY: the call changes no memory but the one byte that it writes for the page; where nothing is
    // mapped, it fails.
    let failed = unsafe { libc::mincore(page as *mut libc::c_void, PAGE as usize, &raw mut state) } != 0;
    failed || state & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::evicted_file;
    use crate::{FileMedium, FileOptions, MediumAccess};

    #[test]
    fn nothing_and_memory_are_resident() {
        assert_eq!(sample_residency(&[]), Residency::default());
        assert_eq!(sample_residency(&[&[], &[]]).share(), 1.0);
        let bytes = vec![1_u8; 64 * PAGE as usize];
        let few = sample_residency(&[&bytes[..10], &bytes[PAGE as usize..]]);
        assert_eq!(
            (few.sampled, few.resident),
            (FIRST_SAMPLE_PAGES as u32, FIRST_SAMPLE_PAGES as u32)
        );
        assert_eq!(sample_residency(&[&bytes[..1]]).share(), 1.0);
    }

    #[test]
    fn the_share_of_a_partly_evicted_file_is_estimated() {
        let pages = 4096;
        let directory = tempfile::tempdir().unwrap();
        for kept in [0, 1024, 3072] {
            let path = directory.path().join(format!("{kept}"));
            // Some file systems evict nothing.
            if !evicted_file(&path, pages, kept) {
                continue;
            }
            let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
            // SAFETY: nobody stores to it.
            let bytes = unsafe { medium.slice(0, (pages * PAGE) as usize) };
            let (left, right) = bytes.split_at(bytes.len() / 3);
            let residency = sample_residency(&[left, right]);
            let (share, real) = (residency.share(), kept as f64 / pages as f64);
            assert!((share - real).abs() < 0.1, "{share} of {real}: {residency:?}");
            assert!(residency.sampled <= (FIRST_SAMPLE_PAGES + SECOND_SAMPLE_PAGES) as u32);
            assert_eq!(
                kept == 0,
                residency.sampled == FIRST_SAMPLE_PAGES as u32,
                "{residency:?}"
            );
        }
    }
}
