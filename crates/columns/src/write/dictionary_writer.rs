//! Writing a dictionary that may be larger than the memory into an extent, string by string.

use crate::Result;
use crate::read::dictionary::{HEADER, header};
use halocline_pool::{ExtentRef, ExtentWriter, ScratchExtent, Txn};
use zerocopy::IntoBytes;

/// Bytes collected before they go to the pool.
const BUFFER: usize = 64 << 10;

/// Takes strings in ascending order.
pub(crate) struct DictionaryWriter<'t> {
    extent: ExtentWriter<'t>,
    buffer: Vec<u8>,
    /// Where each string ends; written after the strings when all have come.
    ends: ScratchExtent<'t>,
    end_buffer: Vec<u64>,
    count: u64,
    bytes: u64,
}

impl<'t> DictionaryWriter<'t> {
    /// Creates a writer for at most `count` strings with at most `bytes` bytes in total.
    ///
    /// # Errors
    /// [`ColumnsError::Pool`](crate::ColumnsError::Pool).
    pub(crate) fn new(txn: &'t Txn, count: u64, bytes: u64) -> Result<Self> {
        let mut extent = txn.alloc(HEADER as u64 + bytes + (count + 2) * 8)?;
        // The header is written last.
        extent.append(&[0; HEADER]);
        Ok(Self {
            extent,
            buffer: Vec::with_capacity(BUFFER),
            ends: txn.scratch(count * 8)?,
            end_buffer: Vec::with_capacity(BUFFER / 8),
            count: 0,
            bytes: 0,
        })
    }

    /// Adds a string, which must be greater than the one before.
    pub(crate) fn push(&mut self, string: &[u8]) {
        if self.buffer.len() + string.len() > BUFFER {
            self.extent.append(&self.buffer);
            self.buffer.clear();
        }
        if string.len() > BUFFER {
            self.extent.append(string);
        } else {
            self.buffer.extend_from_slice(string);
        }
        self.bytes += string.len() as u64;
        self.end_buffer.push(self.bytes);
        self.count += 1;
        if self.end_buffer.len() == BUFFER / 8 {
            self.store_ends();
        }
    }

    fn store_ends(&mut self) {
        let first = self.count - self.end_buffer.len() as u64;
        self.ends.write_at(first * 8, self.end_buffer.as_bytes());
        self.end_buffer.clear();
    }

    /// Ends the dictionary.
    ///
    /// # Errors
    /// [`ColumnsError::Pool`](crate::ColumnsError::Pool).
    pub(crate) fn finish(mut self) -> Result<ExtentRef> {
        self.store_ends();
        self.extent.append(&self.buffer);
        self.extent.align(8);
        let header = header(self.count, self.bytes);
        let width = header.offset_bytes as usize;
        self.extent.append(&0u64.to_le_bytes()[..width]);
        let mut ends = vec![0u64; BUFFER / 8];
        for first in (0..self.count).step_by(ends.len()) {
            let ends = &mut ends[..(self.count - first).min(BUFFER as u64 / 8) as usize];
            self.ends.read_at(first * 8, ends.as_mut_bytes());
            self.buffer.clear();
            for end in ends {
                self.buffer.extend_from_slice(&end.to_le_bytes()[..width]);
            }
            self.extent.append(&self.buffer);
        }
        let len = self.extent.position();
        self.extent.write_at(0, header.as_bytes());
        Ok(self.extent.finish(len)?)
    }
}
