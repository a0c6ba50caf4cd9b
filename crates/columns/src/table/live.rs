//! Leaving deleted rows out of what a selection finds.

use crate::format::BLOCK;
use crate::kernel::BlockMask;
use crate::read::select::{Found, clip};
use roaring::RoaringBitmap;
use roaring::bitmap::Iter;

/// Passes on the rows that are not deleted. Rows must come in order, each once.
pub(crate) struct Live<'a> {
    deleted: Iter<'a>,
    /// The next deleted row; earlier ones were left out or passed over.
    next: Option<u32>,
}

impl<'a> Live<'a> {
    pub(crate) fn new(deleted: &'a RoaringBitmap) -> Self {
        let mut deleted = deleted.iter();
        let next = deleted.next();
        Self { deleted, next }
    }

    /// Calls `each` with those of `found` that are not deleted, in order.
    pub(crate) fn pass(&mut self, found: &Found<'_>, each: &mut impl FnMut(Found<'_>)) {
        match found {
            Found::All(rows) => {
                let mut rows = rows.clone();
                while let Some(deleted) = self.next_from(rows.start).filter(|row| *row < rows.end) {
                    let first = deleted / BLOCK * BLOCK;
                    if rows.start < first {
                        each(Found::All(rows.start..first));
                    }
                    let mut mask = [u64::MAX; BLOCK / 64];
                    clip(&mut mask, first, &rows);
                    self.pass_block(first, mask, each);
                    rows.start = (first + BLOCK).min(rows.end);
                }
                if !rows.is_empty() {
                    each(Found::All(rows));
                }
            }
            Found::Some(first, mask) => {
                self.next_from(*first);
                self.pass_block(*first, **mask, each);
            }
        }
    }

    /// Returns the first deleted row at or after `row`.
    fn next_from(&mut self, row: usize) -> Option<usize> {
        if self.next.is_some_and(|next| (next as usize) < row) {
            // A row of a segment fits 32 bits.
            self.deleted.advance_to(row as u32);
            self.next = self.deleted.next();
        }
        self.next.map(|next| next as usize)
    }

    fn pass_block(&mut self, first: usize, mut mask: BlockMask, each: &mut impl FnMut(Found<'_>)) {
        while let Some(row) = self
            .next
            .map(|next| next as usize)
            .filter(|row| *row < first + BLOCK)
        {
            mask[(row - first) / 64] &= !(1 << (row % 64));
            self.next = self.deleted.next();
        }
        if mask != [0; BLOCK / 64] {
            each(Found::Some(first, &mask));
        }
    }
}
