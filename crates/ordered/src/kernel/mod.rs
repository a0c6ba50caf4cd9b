//! Kernels with vector instructions. Each has a portable implementation, and a test that compares the two.

mod bounds;
mod fingerprints;
mod ranks;
mod shift;

pub(crate) use bounds::{BOUNDS, has_vectors, not_greater};
pub(crate) use fingerprints::{fingerprint, matches, matches_in_line};
pub(crate) use ranks::{RANKED, UnsortedEntries, UpperHalf, append_sorted, upper};
pub(crate) use shift::shift_up;
