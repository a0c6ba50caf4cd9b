//! Parts of verification that both layouts share.

use crate::{ElfError, Result, Tid};

/// The set of rows seen during a verification.
pub(crate) struct SeenRows {
    rows: u64,
    bits: Vec<u64>,
    count: u64,
}

impl SeenRows {
    pub(crate) fn new(rows: u64) -> Self {
        Self {
            rows,
            bits: vec![0; (rows as usize).div_ceil(64)],
            count: 0,
        }
    }

    /// Adds a TID found at `at`.
    pub(crate) fn add(&mut self, tid: Tid, at: usize) -> Result<()> {
        if u64::from(tid) >= self.rows {
            return Err(ElfError::damaged(at, "a TID is beyond the last row"));
        }
        let (word, bit) = (tid as usize / 64, 1_u64 << (tid % 64));
        if self.bits[word] & bit != 0 {
            return Err(ElfError::damaged(at, "a TID occurs twice"));
        }
        self.bits[word] |= bit;
        self.count += 1;
        Ok(())
    }

    /// Checks that every row has been seen.
    pub(crate) fn finish(self) -> Result<()> {
        if self.count == self.rows {
            Ok(())
        } else {
            Err(ElfError::damaged(0, "rows are missing from the lists"))
        }
    }
}
