//! What is left of some blocks: masks of their rows, and the rows themselves once they are few.

use halocline_columns::{BlockMask, Selection, rows_in};

use crate::Result;

/// Blocks of a stripe.
pub(super) const STRIPE: usize = 8;

/// What is left of blocks that follow each other.
#[derive(Default)]
pub(super) struct Stripe {
    pub(super) chunk: usize,
    /// The first block.
    pub(super) block: usize,
    /// Of those blocks that have rows, by position.
    pub(super) masks: [BlockMask; STRIPE],
    /// The blocks that have rows, a bit for each.
    pub(super) present: u32,
}

impl Stripe {
    /// Positions of the blocks that have rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> + use<> {
        let present = self.present;
        (0..STRIPE).filter(move |at| present >> at & 1 == 1)
    }

    /// Rows that are left.
    pub(super) fn rows(&self) -> usize {
        self.blocks().map(|at| rows_in(&self.masks[at])).sum()
    }

    /// Has every block that has rows filtered.
    pub(super) fn keep(&mut self, mut filter: impl FnMut(usize, &mut BlockMask) -> Result<()>) -> Result<()> {
        for at in self.blocks() {
            filter(self.block + at, &mut self.masks[at])?;
            let is_empty = self.masks[at].iter().fold(0, |all, word| all | word) == 0;
            self.present &= !(u32::from(is_empty) << at);
        }
        Ok(())
    }
}

/// What the rows in a selection are.
#[derive(Default, Clone, Copy)]
pub(super) struct PendingSelection {
    pub(super) chunk: usize,
    /// They count from here.
    pub(super) block: usize,
    /// The first probe that they have not passed.
    pub(super) place: usize,
    /// Blocks they are in, and those of them that this probe has not read for a rough look.
    blocks: u64,
    unread: u64,
}

impl PendingSelection {
    /// None yet.
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

    /// Counts blocks whose rows join them.
    pub(super) fn add(&mut self, blocks: u64, had_rough_look: bool) {
        self.blocks += blocks;
        self.unread += if had_rough_look { 0 } else { blocks };
    }

    /// How many blocks the first probe is to read, and those behind it at most; none is counted twice.
    pub(super) fn take_blocks(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.unread), std::mem::take(&mut self.blocks))
    }

    /// Whether those of a stripe may join them.
    pub(super) fn takes(self, chunk: usize, block: usize, place: usize) -> bool {
        let after = block.checked_sub(self.block);
        (chunk, place) == (self.chunk, self.place)
            && after.is_some_and(|after| after + STRIPE <= Selection::BLOCKS)
    }
}
