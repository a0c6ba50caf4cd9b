//! Reading of columns for a batch of rows.

use halocline_columns::{BLOCK_ROWS, BlockMask, Code, CodeReader, Column};

use super::narrow::in_room;
use crate::JoinResult;

/// A batch of rows of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) enum BatchRows<'a> {
    /// Rows of one block: those whose bits are set, and their number.
    Block(&'a BlockMask, usize),
    /// Rows relative to a block, ascending.
    List(&'a [u16]),
}

impl BatchRows<'_> {
    /// Returns the number of rows.
    pub(super) fn len(self) -> usize {
        match self {
            BatchRows::Block(_, rows) => rows,
            BatchRows::List(rows) => rows.len(),
        }
    }

    /// Reads the codes of the rows.
    pub(super) fn read<'r, C: Code>(
        self,
        reader: &mut CodeReader<'_, C>,
        chunk: usize,
        block: usize,
        room: &'r mut Vec<C>,
    ) -> JoinResult<&'r mut [C]> {
        match self {
            BatchRows::Block(mask, rows) => {
                // The block is unpacked as a whole before its rows are picked.
                if room.len() < BLOCK_ROWS {
                    room.resize(BLOCK_ROWS, C::default());
                }
                if let Some(codes) = room.first_chunk_mut::<BLOCK_ROWS>() {
                    reader.read_masked(chunk, block, mask, codes)?;
                }
                Ok(&mut room[..rows])
            }
            BatchRows::List(rows) => {
                let codes = in_room(room, rows.len());
                reader.read_rows(chunk, block, rows, codes)?;
                Ok(codes)
            }
        }
    }
}

/// A reader by the width of the codes.
pub(super) enum ValueReader<'a> {
    Narrow(CodeReader<'a, u32>),
    Wide(CodeReader<'a, u64>),
}

impl<'a> ValueReader<'a> {
    pub(super) fn for_column(column: &'a Column) -> JoinResult<Self> {
        Ok(if column.code_bits()? <= u32::BITS {
            ValueReader::Narrow(column.code_reader()?)
        } else {
            ValueReader::Wide(column.code_reader()?)
        })
    }
}
