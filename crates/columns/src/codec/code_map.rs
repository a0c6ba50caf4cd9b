//! The map from the offsets of a chunk to codes: [`CodeMap`].

use crate::format::BLOCK;
use crate::kernel::{self, Code, Lane};

/// Maps the offsets of one chunk to codes, or to slots of the caller: `min(offset + shift, most)`, and NULL
/// to a value of its own.
#[derive(Debug, Clone)]
pub(crate) struct CodeMap<C> {
    /// Added to an offset, wrapping.
    shift: C,
    /// The largest value that is returned.
    most: C,
    /// The offset that stands for NULL.
    null_offset: Option<u64>,
    /// The value that NULL maps to.
    null: C,
    /// The codes of the numbers that a codec stores instead of offsets. After them unspecified values, so
    /// that every number of the codec's width is an index.
    table: Vec<C>,
}

impl<C: Code> CodeMap<C> {
    /// Creates a map with these bounds; [`set_chunk`](Self::set_chunk) makes it that of a chunk.
    pub(crate) fn new(most: C, null: C) -> CodeMap<C> {
        CodeMap {
            shift: C::default(),
            most,
            null_offset: None,
            null,
            table: Vec::new(),
        }
    }

    /// Sets what depends on the chunk.
    pub(crate) fn set_chunk(&mut self, shift: C, null_offset: Option<u64>) {
        (self.shift, self.null_offset) = (shift, null_offset);
    }

    /// Returns what is added to an offset.
    pub(crate) fn shift(&self) -> C {
        self.shift
    }

    /// Returns true if an offset stands for NULL.
    pub(crate) fn has_null(&self) -> bool {
        self.null_offset.is_some()
    }

    /// Returns the code of an offset.
    #[inline(always)]
    pub(crate) fn code(&self, offset: u64) -> C {
        if Some(offset) == self.null_offset {
            return self.null;
        }
        C::truncate(offset).plus(self.shift).min(self.most)
    }

    /// Maps the offsets of a block.
    pub(crate) fn map_block<L: Lane>(&self, offsets: &[L; BLOCK], codes: &mut [C; BLOCK]) {
        if self.has_null() {
            for (code, offset) in codes.iter_mut().zip(offsets) {
                *code = self.code(offset.widen());
            }
        } else {
            kernel::shift(offsets, self.shift, self.most, codes);
        }
    }

    /// Returns the addend and the bound with which a kernel maps offsets itself; NULL is then left to the
    /// caller.
    pub(crate) fn linear(&self) -> (C, C) {
        (self.shift, self.most)
    }

    /// Fills the table with the codes of offsets, and makes it at least `size` entries long.
    pub(crate) fn set_table(&mut self, offsets: impl ExactSizeIterator<Item = u64>, size: usize) {
        let mut table = std::mem::take(&mut self.table);
        let len = size.max(offsets.len());
        if table.len() < len {
            table.resize(len, C::default());
        }
        for (entry, offset) in table.iter_mut().zip(offsets) {
            *entry = self.code(offset);
        }
        self.table = table;
    }

    /// Returns the codes of the table, followed by unspecified values.
    pub(crate) fn table(&self) -> &[C] {
        &self.table
    }
}
