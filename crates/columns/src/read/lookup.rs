//! Selected rows by what a set of codes says of them: the probe of a join against rows that other conditions
//! have left.
//!
//! Zone maps exclude chunks that hold none of the codes, which are then not read. Invariant: a row is kept
//! only if it was selected before.

use crate::kernel::BlockMask;
use crate::read::bitset::Bitset;
use crate::read::row_selection::RowSelection;
use crate::read::segment::Segment;
use crate::{BLOCK_ROWS, Result};

/// Number of blocks that are looked up at once.
const RUN: usize = 8;

impl Segment {
    /// Keeps the selected rows whose code in a column has a bit in `codes`; NULL has none. Deleted rows are
    /// not looked at. Returns the number of rows in chunks that zone maps excluded.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes) if the column has no codes,
    /// [`ColumnsError::RowsOutOfRange`](crate::ColumnsError::RowsOutOfRange),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such column, or its codes need more than 32 bits.
    pub fn keep_codes(&self, column: usize, codes: &Bitset, selection: &mut RowSelection) -> Result<usize> {
        self.check_rows(&(0..selection.end()))?;
        let (column, before) = (self.column(column), selection.len());
        let mut filter = column.filter(0, codes)?;
        let mut decided: Option<(usize, bool)> = None;
        let mut excluded = 0;
        selection.for_each_run(self.chunk_rows() / BLOCK_ROWS, RUN, |chunk, from, masks| {
            let holds = match decided {
                Some((of, holds)) if of == chunk => holds,
                _ => {
                    let (low, high) = column.zone(chunk)?;
                    let place = |code: u64| u32::try_from(code).unwrap_or(u32::MAX);
                    codes.any(place(low), place(high))
                }
            };
            decided = Some((chunk, holds));
            if !holds {
                excluded += masks.iter().map(crate::rows_in).sum::<usize>();
                masks.fill([0; BLOCK_ROWS / 64]);
                return Ok(());
            }
            filter.reads(chunk, from..from + masks.len())?;
            for (block, mask) in (from..).zip(masks) {
                keep_some(&mut filter, chunk, block, mask)?;
            }
            Ok(())
        })?;
        debug_assert!(selection.len() + excluded <= before, "rows are only taken away");
        Ok(excluded)
    }
}

/// Looks a block up unless no row of it is left.
fn keep_some(
    filter: &mut crate::CodeFilter<'_>,
    chunk: usize,
    block: usize,
    mask: &mut BlockMask,
) -> Result<()> {
    if mask.iter().any(|word| *word != 0) {
        filter.keep(chunk, block, mask)
    } else {
        Ok(())
    }
}
