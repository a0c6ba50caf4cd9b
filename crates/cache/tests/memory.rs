//! DRAM of a tuple cache as counted by the kernel: never more than its budget, not even for a cache
//! that was created and not used.
//!
//! The only test of its process, so that nothing else allocates. Linux only.
#![cfg(target_os = "linux")]

use halocline_cache::Packing;
use std::fs;
use std::hint::black_box;

/// Allowance beyond the budget for pages of heap and stack that are written for the first time.
const SLACK: u64 = 128 << 10;
/// Maximum codes of TPC-H lineitem: 134 bits, more than one word and a bucket can identify.
const LONG: [u64; 15] = [
    1, 2, 3, 6, 6, 8, 10, 49, 2465, 2525, 2553, 9_999, 199_999, 933_899, 1_499_999,
];
const SHORT: [u64; 10] = [99; 10];

/// Returns the bytes in anonymous resident pages, counted page by page.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kibibytes.unwrap().trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn memory_never_passes_the_budget() {
    // glibc returns this block to the system; from then on it serves arrays up to that size from its heap,
    // which keeps freed memory.
    drop(black_box(vec![1_u8; 16 << 20]));
    resident();
    for max_codes in [&LONG[..], &SHORT] {
        // Around two MiB, the array of one shape is shorter than a huge page and that of another longer.
        for budget in [100_000, 1_000_000, 2_150_000, 2_218_000, 5_000_000] {
            let before = resident();
            let (packing, cache) = Packing::with_cache(budget, max_codes).unwrap();
            let mut tuple = max_codes.to_vec();
            for number in 0..500_000_u64 {
                let last = tuple.len() - 1;
                tuple[last] = number % (max_codes[last] + 1);
                tuple[last - 1] = number / 7 % (max_codes[last - 1] + 1);
                let key = packing.key(&tuple).unwrap();
                cache.put(key.hash, key.words(), number as u32);
                cache.put(key.hash, key.words(), number as u32);
            }
            let grown = resident().saturating_sub(before);
            let what = format!("{} dimensions, {budget} bytes: {grown} more", max_codes.len());
            assert!(cache.bytes() <= budget, "{what}, told are {}", cache.bytes());
            assert!(grown <= budget as u64 + SLACK, "{what}");
        }
    }
}
