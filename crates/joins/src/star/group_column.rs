//! Columns of the fact table that rows are grouped by: numbers of values, the same in all segments.

use std::sync::Arc;

use halocline_columns::Segment;

use super::group_table::GroupNumbers;
use super::rows::{BatchRows, ValueReader};
use crate::JoinResult;

/// A column of the fact table that rows are grouped by. Each of its values has a number.
#[derive(Debug, Clone)]
pub struct GroupColumn {
    /// The column.
    pub column: usize,
    /// Numbers are below this.
    pub size: u64,
    /// The numbers of the codes of each segment.
    pub codes: Vec<GroupCodes>,
}

/// The numbers of the codes of a column in one segment.
#[derive(Debug, Clone)]
pub enum GroupCodes {
    /// A code has the number `code + shift`, wrapping.
    Shifted {
        /// The difference.
        shift: u64,
        /// True if code 0 stands for NULL, which has the number 0.
        has_null: bool,
    },
    /// The number of each code.
    Listed(Arc<[u32]>),
}

/// A group column of one segment.
pub(super) struct GroupReader<'a> {
    reader: ValueReader<'a>,
    codes: &'a GroupCodes,
    /// The factor of its number in the number of a group.
    stride: u64,
}

impl<'a> GroupReader<'a> {
    pub(super) fn for_segment(
        group: &'a GroupColumn,
        stride: u64,
        (number, segment): (usize, &'a Segment),
    ) -> JoinResult<Self> {
        Ok(Self {
            reader: ValueReader::for_column(segment.column(group.column))?,
            codes: &group.codes[number],
            stride,
        })
    }

    /// Adds the contribution of the column to the numbers of the groups of some rows.
    pub(super) fn add(
        &mut self,
        chunk: usize,
        block: usize,
        rows: BatchRows<'_>,
        numbers: &mut GroupNumbers,
        room: &mut (Vec<u32>, Vec<u64>),
    ) -> JoinResult<()> {
        let (codes, stride) = (self.codes, self.stride);
        match &mut self.reader {
            ValueReader::Narrow(reader) => {
                let read = rows.read(reader, chunk, block, &mut room.0)?;
                match numbers {
                    GroupNumbers::Narrow(numbers) => codes.add_narrow(read, stride as u32, numbers),
                    GroupNumbers::Wide(numbers) => {
                        codes.add_wide(read.iter().map(|code| u64::from(*code)), stride, numbers);
                    }
                }
            }
            ValueReader::Wide(reader) => {
                let read = rows.read(reader, chunk, block, &mut room.1)?;
                match numbers {
                    GroupNumbers::Wide(numbers) => codes.add_wide(read.iter().copied(), stride, numbers),
                    GroupNumbers::Narrow(_) => unreachable!("codes of 64 bits have numbers of 64 bits"),
                }
            }
        }
        Ok(())
    }
}

impl GroupCodes {
    fn add_narrow(&self, codes: &[u32], stride: u32, numbers: &mut [u32]) {
        let pairs = numbers.iter_mut().zip(codes);
        match self {
            GroupCodes::Shifted {
                shift,
                has_null: false,
            } => {
                // A shift may be negative. Arithmetic modulo 2^32 is exact all the same, since the whole
                // number fits 32 bits.
                let shift = (*shift as u32).wrapping_mul(stride);
                match stride {
                    1 => pairs.for_each(|(number, code)| {
                        *number = number.wrapping_add(*code).wrapping_add(shift);
                    }),
                    _ => pairs.for_each(|(number, code)| {
                        *number = number.wrapping_add(code.wrapping_mul(stride)).wrapping_add(shift);
                    }),
                }
            }
            GroupCodes::Shifted { shift, .. } => {
                let shift = *shift as u32;
                pairs.for_each(|(number, code)| {
                    let own = if *code == 0 { 0 } else { code.wrapping_add(shift) };
                    *number = number.wrapping_add(own.wrapping_mul(stride));
                });
            }
            GroupCodes::Listed(list) => pairs.for_each(|(number, code)| {
                let own = list.get(*code as usize).copied().unwrap_or(0);
                *number = number.wrapping_add(own.wrapping_mul(stride));
            }),
        }
    }

    fn add_wide(&self, codes: impl Iterator<Item = u64>, stride: u64, numbers: &mut [u64]) {
        let pairs = numbers.iter_mut().zip(codes);
        match self {
            GroupCodes::Shifted { shift, has_null } => pairs.for_each(|(number, code)| {
                let is_null = *has_null && code == 0;
                let own = if is_null { 0 } else { code.wrapping_add(*shift) };
                *number = number.wrapping_add(own.wrapping_mul(stride));
            }),
            GroupCodes::Listed(list) => pairs.for_each(|(number, code)| {
                let own = list.get(code as usize).copied().unwrap_or(0);
                *number = number.wrapping_add(u64::from(own).wrapping_mul(stride));
            }),
        }
    }
}
