//! Selected rows of consecutive blocks, and when a whole block is decoded instead.

use crate::format::BLOCK;

/// Rows of a block from which on the whole block is decoded.
pub(crate) const WHOLE_BLOCK_CODES: usize = 256;

/// Average rows of a block up to which rows in runs are looked up together.
pub(crate) const BLOCK_RUN_ROWS: usize = 16;

/// Splits rows by block.
pub(crate) fn by_block(rows: &[u16]) -> impl Iterator<Item = &[u16]> + Clone {
    rows.chunk_by(|a, b| a / BLOCK as u16 == b / BLOCK as u16)
}
