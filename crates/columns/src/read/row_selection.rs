//! Selected rows of a segment as masks of blocks: what conditions find, and what columns are decoded for.
//!
//! Invariants: blocks ascend, and each has a row; a mask has no bit for a row that was not added.

use crate::format::BLOCK;
use crate::kernel::{self, BlockMask};
use crate::read::select::clip;
use crate::{Result, RowId};
use arrow_buffer::BooleanBuffer;
use std::ops::Range;

/// Selected rows of a segment, with a mask for each block of 1,024 rows that has any.
///
/// ```
/// use halocline_columns::RowSelection;
/// let mut selection = RowSelection::default();
/// selection.add_range(10..3000);
/// assert_eq!((selection.len(), selection.blocks()), (2990, 3));
/// // Batches of even size, made of whole blocks where they are large enough.
/// assert_eq!(selection.take_batch(2100).rows().collect::<Vec<_>>(), (10..2048).collect::<Vec<_>>());
/// assert_eq!(selection.rows().next(), Some(2048));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RowSelection {
    /// The numbers of the blocks in the segment.
    blocks: Vec<u32>,
    /// Their selected rows.
    masks: Vec<BlockMask>,
    /// The number of these rows.
    counts: Vec<u16>,
    /// The number of blocks at the front that have been taken.
    taken: usize,
    rows: usize,
}

/// The selected rows of some blocks of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectedBlocks<'a> {
    /// The number of the chunk's first block in the segment.
    first: usize,
    blocks: &'a [u32],
    masks: &'a [BlockMask],
    counts: &'a [u16],
}

/// The selected rows of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectedBlock<'a> {
    /// The number of the block in its chunk.
    pub(crate) number: usize,
    pub(crate) mask: &'a BlockMask,
    pub(crate) rows: usize,
}

impl<'a> SelectedBlocks<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = SelectedBlock<'a>> {
        let blocks = self.blocks.iter().zip(self.masks).zip(self.counts);
        blocks.map(move |((block, mask), rows)| SelectedBlock {
            number: *block as usize - self.first,
            mask,
            rows: usize::from(*rows),
        })
    }
}

impl RowSelection {
    /// Returns the number of selected rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if no row is selected.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of blocks that have selected rows.
    pub fn blocks(&self) -> usize {
        self.blocks.len() - self.taken
    }

    /// Returns the selected rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = RowId> + '_ {
        let blocks = self.blocks.iter().zip(&self.masks);
        blocks.skip(self.taken).flat_map(|(block, mask)| {
            kernel::set_bits(mask).map(move |row| *block * BLOCK as RowId + row as RowId)
        })
    }

    /// Returns the first row after the selected ones.
    pub(crate) fn end(&self) -> usize {
        let last = self.blocks.last().zip(self.masks.last());
        last.filter(|_| !self.is_empty()).map_or(0, |(block, mask)| {
            let row = kernel::set_bits(mask).last().unwrap_or(0);
            *block as usize * BLOCK + row + 1
        })
    }

    /// Adds a range of rows.
    ///
    /// # Panics
    /// If one of them is in a block before the last one that has rows.
    pub fn add_range(&mut self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        for block in rows.start / BLOCK..rows.end.div_ceil(BLOCK) {
            let mut mask = [u64::MAX; BLOCK / 64];
            clip(&mut mask, block * BLOCK, &rows);
            self.add_block(block * BLOCK, &mask);
        }
    }

    /// Adds rows of the block that starts at row `first`.
    ///
    /// # Panics
    /// If no block starts there, or the block is before the last one that has rows.
    pub fn add_block(&mut self, first: usize, mask: &BlockMask) {
        assert!(first.is_multiple_of(BLOCK), "a block starts at row {first}");
        // Rows of a segment fit 32 bits, and so do its blocks.
        let block = (first / BLOCK) as u32;
        if self.blocks() > 0
            && self.blocks.last() == Some(&block)
            && let Some((all, count)) = self.masks.last_mut().zip(self.counts.last_mut())
        {
            all.iter_mut().zip(mask).for_each(|(all, word)| *all |= word);
            self.rows -= usize::from(*count);
            *count = kernel::rows_in(all) as u16;
            self.rows += usize::from(*count);
            return;
        }
        assert!(
            self.blocks.last().is_none_or(|last| *last < block),
            "blocks are added in order"
        );
        let rows = kernel::rows_in(mask);
        if rows > 0 {
            self.blocks.push(block);
            self.masks.push(*mask);
            self.counts.push(rows as u16);
            self.rows += rows;
        }
    }

    /// Adds the rows of another selection.
    ///
    /// # Panics
    /// As [`add_block`](Self::add_block).
    pub fn append(&mut self, other: &RowSelection) {
        for (block, mask) in other.blocks.iter().zip(&other.masks).skip(other.taken) {
            self.add_block(*block as usize * BLOCK, mask);
        }
    }

    /// Takes the next batch of at most `most` rows from the front. Batches are few, and of about the same
    /// size. They end with a block, which is then decoded once, unless it alone has more rows than a
    /// batch.
    ///
    /// # Panics
    /// If `most` is 0.
    #[must_use]
    pub fn take_batch(&mut self, most: usize) -> RowSelection {
        assert!(most > 0, "a batch has a row");
        let enough = self.rows.div_ceil(self.rows.div_ceil(most).max(1));
        let (from, mut to, mut rows) = (self.taken, self.taken, 0);
        while rows < enough
            && let Some(count) = self.counts.get(to)
            && rows + usize::from(*count) <= most
        {
            rows += usize::from(*count);
            to += 1;
        }
        if to == from && !self.is_empty() {
            return self.take_rows_of_first(most);
        }
        // Blocks are only counted as taken: removing them from the front would move all others.
        self.taken = to;
        self.rows -= rows;
        RowSelection {
            blocks: self.blocks[from..to].to_vec(),
            masks: self.masks[from..to].to_vec(),
            counts: self.counts[from..to].to_vec(),
            taken: 0,
            rows,
        }
    }

    /// Returns the selected rows of a range.
    #[must_use]
    pub fn within(&self, rows: Range<usize>) -> RowSelection {
        let behind = |row: usize| {
            let blocks = &self.blocks[self.taken..];
            self.taken + blocks.partition_point(|block| (*block as usize) < row)
        };
        let (from, to) = (behind(rows.start / BLOCK), behind(rows.end.div_ceil(BLOCK)));
        let mut selection = RowSelection::default();
        for at in from..to.max(from) {
            let (first, mut mask) = (self.blocks[at] as usize * BLOCK, self.masks[at]);
            clip(&mut mask, first, &rows);
            selection.add_block(first, &mask);
        }
        selection
    }

    /// Takes the first `rows` rows of the first block, which has more.
    fn take_rows_of_first(&mut self, rows: usize) -> RowSelection {
        let mut taken = [0; BLOCK / 64];
        let all = &mut self.masks[self.taken];
        for row in kernel::set_bits(all).take(rows) {
            taken[row / 64] |= 1 << (row % 64);
        }
        all.iter_mut()
            .zip(&taken)
            .for_each(|(left, taken)| *left &= !taken);
        self.counts[self.taken] -= rows as u16;
        self.rows -= rows;
        RowSelection {
            blocks: vec![self.blocks[self.taken]],
            masks: vec![taken],
            counts: vec![rows as u16],
            taken: 0,
            rows,
        }
    }

    /// Keeps the selected rows whose bit is set, that of the same position.
    ///
    /// # Panics
    /// If there is not one bit for each row.
    pub fn keep(&mut self, bits: &BooleanBuffer) {
        assert_eq!(bits.len(), self.rows, "one bit for each row");
        let mut at = 0;
        for word in self.masks[self.taken..].iter_mut().flatten() {
            let (mut left, mut kept) = (*word, 0);
            while left != 0 {
                let bit = left & left.wrapping_neg();
                kept |= bit * u64::from(bits.value(at));
                left ^= bit;
                at += 1;
            }
            *word = kept;
        }
        self.count();
    }

    /// Returns the selected rows chunk by chunk, where a chunk has `blocks` blocks.
    pub(crate) fn chunks(&self, blocks: usize) -> impl Iterator<Item = (usize, SelectedBlocks<'_>)> {
        let mut from = self.taken;
        let runs = self.blocks[from..].chunk_by(move |a, b| *a as usize / blocks == *b as usize / blocks);
        runs.map(move |of_chunk| {
            let (chunk, range) = (of_chunk[0] as usize / blocks, from..from + of_chunk.len());
            from = range.end;
            let selected = SelectedBlocks {
                first: chunk * blocks,
                blocks: of_chunk,
                masks: &self.masks[range.clone()],
                counts: &self.counts[range],
            };
            (chunk, selected)
        })
    }

    /// Calls `each` with runs of up to `longest` blocks that follow each other in a chunk of `blocks` blocks:
    /// the chunk, the number of the first block in it, and the masks, of which `each` may clear bits.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(crate) fn for_each_run(
        &mut self,
        blocks: usize,
        longest: usize,
        mut each: impl FnMut(usize, usize, &mut [BlockMask]) -> Result<()>,
    ) -> Result<()> {
        let mut from = self.taken;
        while let Some(first) = self.blocks.get(from).map(|block| *block as usize) {
            let behind = self.blocks[from..]
                .iter()
                .take(longest.min(blocks - first % blocks));
            let run = (first..)
                .zip(behind)
                .take_while(|(next, block)| *next == **block as usize);
            let run = run.count();
            each(first / blocks, first % blocks, &mut self.masks[from..from + run])?;
            from += run;
        }
        self.count();
        Ok(())
    }

    /// Counts rows anew after bits were cleared, and removes blocks without any.
    fn count(&mut self) {
        let (mut kept, mut rows) = (0, 0);
        for at in self.taken..self.blocks.len() {
            let count = kernel::rows_in(&self.masks[at]);
            self.blocks[kept] = self.blocks[at];
            self.masks[kept] = self.masks[at];
            self.counts[kept] = count as u16;
            kept += usize::from(count > 0);
            rows += count;
        }
        self.blocks.truncate(kept);
        self.masks.truncate(kept);
        self.counts.truncate(kept);
        (self.taken, self.rows) = (0, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Creates a selection of `rows`.
    fn selection(rows: &[usize]) -> RowSelection {
        let mut selection = RowSelection::default();
        rows.iter().for_each(|row| selection.add_range(*row..row + 1));
        selection
    }

    fn rows_of(selection: &RowSelection) -> Vec<usize> {
        let rows: Vec<usize> = selection.rows().map(|row| row as usize).collect();
        assert_eq!(rows.len(), selection.len());
        assert_eq!(selection.end(), rows.last().map_or(0, |row| row + 1));
        let blocks: std::collections::BTreeSet<usize> = rows.iter().map(|row| row / BLOCK).collect();
        assert_eq!(selection.blocks(), blocks.len());
        rows
    }

    proptest! {
        #[test]
        fn batches_and_filters_agree_with_lists(
            rows in proptest::collection::btree_set(0usize..20_000, 0..3000),
            range in (0usize..20_000, 0usize..9000),
            most in prop_oneof![1usize..5, 500usize..9000],
            one_of in 1usize..5,
            chunk in 1usize..4,
            longest in 1usize..4,
        ) {
            let mut model: Vec<usize> = rows.into_iter().filter(|row| *row < range.0).collect();
            let mut all = selection(&model);
            all.add_range(range.0..range.0 + range.1);
            model.extend(range.0..range.0 + range.1);
            prop_assert_eq!(rows_of(&all), model.clone());
            for rows in [range.0 / 2..range.0 + 700, 0..range.0, range.0..range.0, 5_000..21_000] {
                let part = all.within(rows.clone());
                prop_assert_eq!(rows_of(&part), model.iter().copied().filter(|row| rows.contains(row)).collect::<Vec<_>>());
            }

            let mut found = Vec::new();
            for (number, blocks) in all.chunks(chunk) {
                for block in blocks.iter() {
                    let (first, before) = ((number * chunk + block.number) * BLOCK, found.len());
                    found.extend(kernel::set_bits(block.mask).map(|row| first + row));
                    prop_assert_eq!(found.len() - before, block.rows);
                }
            }
            prop_assert_eq!(&found, &model);

            let mut filtered = all.clone();
            let bits = BooleanBuffer::collect_bool(model.len(), |at| model[at].is_multiple_of(one_of));
            filtered.keep(&bits);
            let expected: Vec<usize> = model.iter().copied().filter(|row| row % one_of == 0).collect();
            prop_assert_eq!(rows_of(&filtered), expected);

            let mut even = all.clone();
            even.for_each_run(chunk, longest, |_, first, masks| {
                assert!(masks.len() <= longest && first + masks.len() <= chunk);
                for mask in masks.iter_mut().flatten() {
                    *mask &= 0x5555_5555_5555_5555;
                }
                Ok(())
            }).expect("no error");
            let expected: Vec<usize> = model.iter().copied().filter(|row| row % 2 == 0).collect();
            prop_assert_eq!(rows_of(&even), expected);

            let (mut batches, mut together) = (Vec::new(), RowSelection::default());
            while !all.is_empty() {
                let batch = all.take_batch(most);
                prop_assert!((1..=most).contains(&batch.len()));
                together.append(&batch);
                batches.extend(rows_of(&batch));
            }
            prop_assert_eq!(&batches, &model);
            prop_assert_eq!(rows_of(&together), model);
        }
    }

    #[test]
    fn batches_have_about_the_same_size() {
        let mut all = RowSelection::default();
        all.add_range(0..65_536);
        all.keep(&BooleanBuffer::collect_bool(65_536, |row| row % 100 != 7));
        let mut sizes = Vec::new();
        while !all.is_empty() {
            sizes.push(all.take_batch(8192).len());
        }
        assert_eq!(sizes.len(), 8);
        assert!(sizes.iter().all(|size| (8000..=8192).contains(size)), "{sizes:?}");
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn rows_must_ascend() {
        let mut all = selection(&[5000]);
        all.add_range(0..1);
    }
}
