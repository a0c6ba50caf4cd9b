//! Costs of the paths to the rows of a table, in nanoseconds.
//!
//! A scan compares codes chunk by chunk, and fetches other columns of the rows that match ([`scan`]). A path
//! through an Elf pays for the lists that the selection visits and for the rows that it yields ([`index`]),
//! and then fetches columns of rows that are not in order. Both count the processor's time with everything in
//! memory; [`reads`] adds what has to be read from a device first.

pub mod index;
pub mod reads;
pub mod scan;
