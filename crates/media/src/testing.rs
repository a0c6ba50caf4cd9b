//! Files for tests of what is not in the page cache.
#![allow(unsafe_code, reason = "reads a file of a test")]

use std::path::Path;

use crate::residency::is_resident;
use crate::{FileMedium, FileOptions, MediumAccess, MediumBackend, PAGE};

/// Makes a file of `pages` pages, all bytes of which are 7, with only the first `kept` pages in the page
/// cache. Returns false where the file system keeps all pages there, as tmpfs does.
pub(crate) fn evicted_file(path: &Path, pages: u64, kept: u64) -> bool {
    let options = FileOptions {
        create: true,
        ..FileOptions::default()
    };
    let medium = FileMedium::open(path, &options).unwrap();
    medium.grow(pages * PAGE).unwrap();
    medium.store(0, &vec![7; (pages * PAGE) as usize]);
    medium.sync().unwrap();
    drop(medium);
    let file = std::fs::File::open(path).unwrap();
    let behind = kept * PAGE;
    rustix::fs::fadvise(&file, behind, None, rustix::fs::Advice::DontNeed).unwrap();
    let medium = FileMedium::open(path, &FileOptions::default()).unwrap();
    // SAFETY: nobody stores to it.
    let bytes = unsafe { medium.slice(0, (pages * PAGE) as usize) };
    kept < pages && !is_resident(&bytes[((pages - 1) * PAGE) as usize..])
}
