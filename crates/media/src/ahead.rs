//! Read-ahead: asks the kernel for all pages of mapped bytes that will be needed soon.
//!
//! A page of a file that is not in the page cache is otherwise read on first touch, one after the other, each
//! with its neighbourhood. Requested in advance, the reads run in parallel and cover only what is needed.
#![allow(unsafe_code, reason = "asks the kernel about addresses")]

use rustix::mm::{Advice, madvise};

use crate::PAGE;

/// Below this number of scattered reads, checking for residency costs more than it saves.
const FEW: usize = 8;
/// Pages sampled to decide whether the bytes are in memory.
const PROBES: usize = 4;

/// Prepares for scattered reads of `count` pieces of mapped bytes. Unless a sample of them is resident, reads
/// the pages of all pieces in parallel, in the background. `piece(i)` returns the i-th piece, which may lie
/// anywhere; empty pieces are skipped. Linear in `count`, with one system call per requested page, or a few
/// system calls if the bytes are resident.
pub fn read_ahead<'a>(count: usize, piece: impl Fn(usize) -> &'a [u8]) {
    if count < FEW {
        return;
    }
    let mut probes = (0..PROBES).map(|i| piece(i * (count - 1) / (PROBES - 1)));
    if probes.all(|bytes| bytes.is_empty() || is_resident(bytes)) {
        return;
    }
    let mut last = 0..0;
    for bytes in (0..count).map(piece).filter(|bytes| !bytes.is_empty()) {
        let pages = pages(bytes);
        if pages != last {
            // Only advice: if it is not taken, the pages are read when they are touched.
            // SAFETY: the pages are those of a live slice, hence mapped, and this advice changes no byte.
            let _ = unsafe { madvise(pages.start as *mut _, pages.len(), Advice::WillNeed) };
            last = pages;
        }
    }
}

/// Returns the addresses of the pages that hold `bytes`.
fn pages(bytes: &[u8]) -> std::ops::Range<usize> {
    let (start, page) = (bytes.as_ptr() as usize, PAGE as usize);
    start / page * page..(start + bytes.len()).next_multiple_of(page)
}

/// Returns true if the first page of `bytes`, which is mapped, is resident.
fn is_resident(bytes: &[u8]) -> bool {
    let mut state = 0;
    let page = pages(bytes).start as *mut libc::c_void;
    // SAFETY: the page is that of a live slice, hence mapped; one byte is written for it.
    let failed = unsafe { libc::mincore(page, PAGE as usize, &raw mut state) } != 0;
    failed || state & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileMedium, FileOptions, MediumAccess, MediumBackend};

    #[test]
    fn what_is_in_memory_is_not_asked_for() {
        let bytes = vec![1_u8; 64 * PAGE as usize];
        assert!(is_resident(&bytes));
        let asked = std::cell::Cell::new(0);
        let piece = |i: usize| {
            asked.set(asked.get() + 1);
            &bytes[i * PAGE as usize..][..8]
        };
        read_ahead(64, piece);
        assert_eq!(asked.get(), PROBES);
        read_ahead(FEW - 1, piece);
        assert_eq!(asked.get(), PROBES);
    }

    #[test]
    fn what_was_dropped_from_the_page_cache_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pages");
        let options = FileOptions {
            create: true,
            ..FileOptions::default()
        };
        let medium = FileMedium::open(&path, &options).unwrap();
        medium.grow(64 * PAGE).unwrap();
        medium.store(0, &vec![7; 64 * PAGE as usize]);
        medium.sync().unwrap();
        drop(medium);
        let file = std::fs::File::open(&path).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();

        let medium = FileMedium::open(&path, &FileOptions::default()).unwrap();
        // SAFETY: nobody stores to it.
        let bytes = unsafe { medium.slice(0, 64 * PAGE as usize) };
        let piece = |i: usize| &bytes[2 * i * PAGE as usize..][..8];
        read_ahead(32, piece);
        assert!((0..32).all(|i| piece(i) == [7; 8]));
    }
}
