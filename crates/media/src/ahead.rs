//! Read-ahead: asks the kernel for pages of mapped bytes that will be needed soon.
//!
//! A page of a file that is not in the page cache is otherwise read on first touch, one after the other, each
//! with its neighbourhood: up to some MiB, most of which is not needed. Requested in advance, the reads run
//! in parallel and cover only what is needed.
#![allow(unsafe_code, reason = "asks the kernel about addresses")]

use std::ops::Range;

use rustix::mm::{Advice, madvise};

use crate::PAGE;
use crate::residency::{is_page_resident, is_resident};

/// Below this number of scattered reads, checking for residency costs more than it saves.
const MIN_SCATTERED_READS: usize = 8;
/// Pages sampled to decide whether the bytes are in memory.
const PROBES: usize = 4;
/// Largest gap, in bytes, between two pieces that are requested together: a request takes about as long
/// as reading this many.
const GAP: usize = 4 * PAGE as usize;
/// Most bytes of a request.
const REQUEST: usize = 4 << 20;

/// Prepares for scattered reads of `count` pieces of mapped bytes. Unless a sample of them is resident, reads
/// the pages of all pieces in parallel, in the background. `piece(i)` returns the i-th piece, which may lie
/// anywhere; empty pieces are skipped. Linear in `count`, with one system call for pieces that follow each
/// other within a few pages, or a few system calls if the bytes are resident. Returns true if it has asked
/// for the pieces.
pub fn read_ahead<'a>(count: usize, piece: impl Fn(usize) -> &'a [u8]) -> bool {
    if count < MIN_SCATTERED_READS {
        return false;
    }
    let mut probes = (0..PROBES).map(|i| piece(i * (count - 1) / (PROBES - 1)));
    if probes.all(|bytes| bytes.is_empty() || is_resident(bytes)) {
        return false;
    }
    let pieces = (0..count).map(piece).filter(|bytes| !bytes.is_empty());
    merge(pieces.map(pages), request);
    true
}

/// Reads mapped ranges in the background, in requests of a few MiB. Ranges that follow each other within a
/// few pages are read together, and parts of which a sample is resident are left out. Returns the number of
/// requests. O(n log n), one system call for each request, and up to three for each part: one for a page.
pub fn read_ranges_ahead(ranges: &[&[u8]]) -> usize {
    let mut all: Vec<Range<usize>> = ranges
        .iter()
        .filter(|bytes| !bytes.is_empty())
        .map(|bytes| pages(bytes))
        .collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut requests = 0;
    merge(all.into_iter(), |pages| {
        for start in pages.clone().step_by(REQUEST) {
            let part = start..pages.end.min(start + REQUEST);
            if !is_sample_resident(&part) {
                request(part);
                requests += 1;
            }
        }
    });
    requests
}

/// Calls `each` with runs of pages that follow each other within [`GAP`].
fn merge(pieces: impl Iterator<Item = Range<usize>>, mut each: impl FnMut(Range<usize>)) {
    let mut run: Option<Range<usize>> = None;
    for pages in pieces {
        match &mut run {
            Some(run) if pages.start >= run.start && pages.start <= run.end + GAP => {
                run.end = run.end.max(pages.end);
            }
            _ => {
                run.replace(pages).into_iter().for_each(&mut each);
            }
        }
    }
    run.into_iter().for_each(each);
}

/// Asks the kernel to read these pages.
fn request(pages: Range<usize>) {
    // Only advice: if it is not taken, the pages are read when they are touched.
    // SAFETY: the first and the last page are those of live slices of one mapping or of neighbouring ones,
    // and this advice changes no byte; where nothing is mapped between them, the call fails.
    let _ = unsafe { madvise(pages.start as *mut _, pages.len(), Advice::WillNeed) };
}

/// Returns the addresses of the pages that hold `bytes`.
fn pages(bytes: &[u8]) -> Range<usize> {
    let (start, page) = (bytes.as_ptr() as usize, PAGE as usize);
    start / page * page..(start + bytes.len()).next_multiple_of(page)
}

/// Returns true if the first, the middle and the last of the pages are resident.
fn is_sample_resident(pages: &Range<usize>) -> bool {
    let page = PAGE as usize;
    let last = pages.end - page;
    let middle = (pages.start + (last - pages.start) / 2) / page * page;
    let mut others = [middle, last].into_iter().filter(|at| *at > pages.start);
    is_page_resident(pages.start) && others.all(is_page_resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::evicted_file;
    use crate::{FileMedium, FileOptions, MediumAccess};

    #[test]
    fn what_is_in_memory_is_not_asked_for() {
        let bytes = vec![1_u8; 64 * PAGE as usize];
        assert!(is_resident(&bytes));
        let asked = std::cell::Cell::new(0);
        let piece = |i: usize| {
            asked.set(asked.get() + 1);
            &bytes[i * PAGE as usize..][..8]
        };
        assert!(!read_ahead(64, piece));
        assert_eq!(asked.get(), PROBES);
        assert!(!read_ahead(MIN_SCATTERED_READS - 1, piece));
        assert_eq!(asked.get(), PROBES);
        assert_eq!(read_ranges_ahead(&[&bytes]), 0);
        assert_eq!(read_ranges_ahead(&[&[], &bytes[..1], &bytes[9..10]]), 0);
        assert_eq!(read_ranges_ahead(&[]), 0);
    }

    #[test]
    fn what_was_dropped_from_the_page_cache_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pages");
        let evicted = evicted_file(&path, 64, 0);
        let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
        // SAFETY: nobody stores to it.
        let bytes = unsafe { medium.slice(0, 64 * PAGE as usize) };
        let piece = |i: usize| &bytes[2 * i * PAGE as usize..][..8];
        assert_eq!(read_ahead(32, piece), evicted);
        assert!((0..32).all(|i| piece(i) == [7; 8]));
    }

    #[test]
    fn ranges_are_requested_once_and_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ranges");
        let pages = 4096;
        if !evicted_file(&path, pages, 0) {
            return;
        }
        let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
        // SAFETY: nobody stores to it.
        let bytes = unsafe { medium.slice(0, (pages * PAGE) as usize) };
        // Two neighbours in the wrong order, and one apart from them: 9 MiB in three requests, and a page.
        let ranges = [
            &bytes[5 << 20..9 << 20],
            &bytes[..5 << 20],
            &bytes[15 << 20..][..10],
        ];
        assert_eq!(read_ranges_ahead(&ranges), 4);
        let is_read = |range: &&[u8]| range.iter().step_by(PAGE as usize).all(|byte| *byte == 7);
        assert!(ranges.iter().all(is_read));
        assert_eq!(read_ranges_ahead(&ranges), 0);
        // A read on first touch would have brought these as well.
        assert!(!is_resident(&bytes[12 << 20..]) && !is_resident(&bytes[(15 << 20) + PAGE as usize..]));
    }

    #[test]
    fn runs_are_merged_across_small_gaps_only() {
        let page = PAGE as usize;
        let merged = |pieces: &[Range<usize>]| {
            let mut runs = Vec::new();
            merge(pieces.iter().cloned(), |run| runs.push(run));
            runs
        };
        let gap = 10 * page + GAP;
        let [first, near, far] = [9 * page..10 * page, gap..gap + page, 2 * gap..2 * gap + page];
        assert_eq!(
            merged(&[first.clone(), first, near, far.clone()]),
            [9 * page..gap + page, far]
        );
        assert_eq!(
            merged(&[5 * page..7 * page, 2 * page..3 * page]),
            [5 * page..7 * page, 2 * page..3 * page]
        );
        assert_eq!(merged(&[]), []);
    }
}
