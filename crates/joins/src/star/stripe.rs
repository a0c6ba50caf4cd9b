//! Remaining rows of a few blocks: masks while they are many, a selection once they are few.

use halocline_columns::{BlockMask, SelectionVector, rows_in};

use crate::JoinResult;

/// Number of blocks of a stripe.
pub(super) const STRIPE: usize = 8;

/// Masks of the remaining rows of consecutive blocks.
#[derive(Default)]
pub(super) struct Stripe {
    pub(super) chunk: usize,
    /// The first block.
    pub(super) block: usize,
    /// The masks, valid for blocks that have rows.
    pub(super) masks: [BlockMask; STRIPE],
    /// A bit for each block that has rows.
    pub(super) present: u32,
}

impl Stripe {
    /// Returns the positions of the blocks that have rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> + use<> {
        let present = self.present;
        (0..STRIPE).filter(move |at| present >> at & 1 == 1)
    }

    /// Returns the number of remaining rows.
    pub(super) fn rows(&self) -> usize {
        self.blocks().map(|at| rows_in(&self.masks[at])).sum()
    }

    /// Filters every block that has rows.
    pub(super) fn keep(
        &mut self,
        mut filter: impl FnMut(usize, &mut BlockMask) -> JoinResult<()>,
    ) -> JoinResult<()> {
        for at in self.blocks() {
            filter(self.block + at, &mut self.masks[at])?;
            // Later probes do not read blocks without rows.
            let is_empty = self.masks[at].iter().fold(0, |all, word| all | word) == 0;
            self.present &= !(u32::from(is_empty) << at);
        }
        Ok(())
    }
}

/// The rows in a selection that are not processed yet.
#[derive(Default, Clone, Copy)]
pub(super) struct PendingSelection {
    pub(super) chunk: usize,
    /// The block that row numbers are relative to.
    pub(super) block: usize,
    /// The first probe that the rows have not passed.
    pub(super) place: usize,
    /// Number of blocks that the rows are in, and of those that this probe has not read yet.
    blocks: u64,
    unread: u64,
}

impl PendingSelection {
    /// Returns an empty selection.
    pub(super) fn at(chunk: usize, block: usize, place: usize) -> Self {
        let (blocks, unread) = (0, 0);
        PendingSelection {
            chunk,
            block,
            place,
            blocks,
            unread,
        }
    }

    /// Counts blocks whose rows were added.
    pub(super) fn add(&mut self, blocks: u64, had_rough_look: bool) {
        self.blocks += blocks;
        self.unread += if had_rough_look { 0 } else { blocks };
    }

    /// Returns the number of blocks that the first probe reads, and the most that the next ones read, and
    /// resets both.
    pub(super) fn take_blocks(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.unread), std::mem::take(&mut self.blocks))
    }

    /// Returns true if the rows of a stripe can be added.
    pub(super) fn takes(self, chunk: usize, block: usize, place: usize) -> bool {
        // Rows of a selection are counted from its first block in 16 bits.
        let after = block.checked_sub(self.block);
        (chunk, place) == (self.chunk, self.place)
            && after.is_some_and(|after| after + STRIPE <= SelectionVector::BLOCKS)
    }
}
