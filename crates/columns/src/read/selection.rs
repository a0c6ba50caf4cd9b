//! Selection vectors: the rows that are left of some blocks.

use crate::format::BLOCK;
use crate::kernel;
use crate::kernel::BlockMask;
use crate::read::bitset::Bitset;

/// Positions in up to 64 blocks that follow each other, ascending.
#[derive(Debug, Clone, Default)]
pub struct SelectionVector {
    /// After `len`, room.
    rows: Vec<u16>,
    len: usize,
}

impl SelectionVector {
    /// The most blocks.
    pub const BLOCKS: usize = 64;

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends the rows of a block, the one of this number among the blocks, whose bits are set.
    ///
    /// # Panics
    /// If the number is not below [`BLOCKS`](Self::BLOCKS).
    pub fn push(&mut self, block: usize, mask: &BlockMask) {
        assert!(block < Self::BLOCKS, "a selection is of 64 blocks at most");
        let room = self.len + BLOCK + kernel::ROOM;
        if self.rows.len() < room {
            self.rows.resize(room, 0);
        }
        // A selection is of 64 blocks of 1,024 rows, so row numbers fit 16 bits.
        self.len += kernel::rows_of(mask, (block * BLOCK) as u16, &mut self.rows[self.len..]);
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[u16] {
        &self.rows[..self.len]
    }

    /// Returns the number of selected rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the rows whose place, the one of the same position in `places`, has a bit.
    ///
    /// # Panics
    /// If there is not one place for each row.
    pub fn keep(&mut self, places: &[u32], bits: &Bitset) {
        self.len = kernel::keep_rows(&mut self.rows[..self.len], places, bits);
    }

    /// Keeps the rows for whose position `keep` says so. No branch depends on what it says.
    pub fn keep_if(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            self.rows[kept] = self.rows[at];
            kept += usize::from(keep(at));
        }
        self.len = kept;
    }
}
