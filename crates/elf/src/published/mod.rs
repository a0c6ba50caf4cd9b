//! Layout `published`: Elf as in the ICDE'17 paper, the baseline.
//!
//! An entry of a DimensionList is a value (u32, its top bit marks the last entry) and a link (u64, its top
//! bit says that it leads to a MonoList); lists are scanned from the front. The first dimension is an array
//! of links with one place for each code, 0 where no row has it. A MonoList is the remaining values (u32
//! each) and the TIDs (u32, the top bit marks the last). Lists follow their parent depth first; links are
//! offsets from the start of the index.
//!
//! Values have 31 bits. A dimension with larger codes, and a first dimension too sparse for an array, holds
//! *ranks* instead: positions in a sorted table of its distinct codes, which the index keeps after the
//! lists.

pub(crate) mod check;
pub(crate) mod hashed;
pub(crate) mod image;
pub(crate) mod search;
pub(crate) mod select;
pub(crate) mod write;

/// Marks the last entry of a list and the last TID of a MonoList.
pub(crate) const LAST: u32 = 1 << 31;
/// Marks a link to a MonoList.
pub(crate) const MONO: u64 = 1 << 63;
/// Bytes of an entry: value and link.
pub(crate) const ENTRY: usize = 12;
