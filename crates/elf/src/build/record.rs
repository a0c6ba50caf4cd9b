//! Full records as sort keys: `W` 64-bit words, the lowest first.

use crate::geometry::{Field, RecordGeometry};
use crate::{ElfError, Result, Rows};
use std::cmp::Ordering;

/// A tuple and its TID, in the format of geometry.rs.
pub(crate) type SortRecord<const W: usize> = [u64; W];

/// Compares by tuple, then by TID.
#[inline(always)]
pub(crate) fn compare<const W: usize>(a: &SortRecord<W>, b: &SortRecord<W>) -> Ordering {
    for word in (0..W).rev() {
        match a[word].cmp(&b[word]) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// Returns the code in `field`.
#[inline(always)]
pub(crate) fn code<const W: usize>(record: &SortRecord<W>, field: Field) -> u64 {
    bits(record, field.bit()) & field.mask
}

/// Returns 64 bits from `bit` on, with zeros beyond the end.
#[inline(always)]
fn bits<const W: usize>(record: &SortRecord<W>, bit: usize) -> u64 {
    let (word, shift) = (bit / 64, bit % 64);
    let low = record.get(word).copied().unwrap_or(0) >> shift;
    match record.get(word + 1) {
        Some(next) if shift > 0 => low | next << (64 - shift),
        _ => low,
    }
}

/// Finds the first depth at which neighbouring records differ.
#[derive(Debug)]
pub(crate) struct Differ {
    depth_of_bit: Vec<u8>,
}

impl Differ {
    pub(crate) fn new(geometry: &RecordGeometry) -> Self {
        let mut depth_of_bit = vec![geometry.dims() as u8; geometry.bits];
        // The bits of a bucket are also those of the next depth.
        for (depth, field) in geometry.fields.iter().enumerate().rev() {
            depth_of_bit[field.bit()..field.bit() + field.width()].fill(depth as u8);
        }
        Self { depth_of_bit }
    }

    /// Returns the first depth at which the records differ; the number of depths if the tuples are equal.
    #[inline(always)]
    pub(crate) fn first<const W: usize>(&self, a: &SortRecord<W>, b: &SortRecord<W>) -> usize {
        for word in (0..W).rev() {
            let differ = a[word] ^ b[word];
            if differ != 0 {
                let bit = word * 64 + 63 - differ.leading_zeros() as usize;
                return usize::from(self.depth_of_bit[bit]);
            }
        }
        usize::from(self.depth_of_bit[0])
    }
}

/// Reads rows and packs them into records.
pub(crate) struct RecordEncoder<'a, R: ?Sized> {
    pub(crate) rows: &'a R,
    pub(crate) geometry: &'a RecordGeometry,
}

impl<R: Rows + ?Sized> RecordEncoder<'_, R> {
    /// Packs the first `dims` dimensions of the rows from `start` on; `codes` is scratch space.
    pub(crate) fn encode<const W: usize>(
        &self,
        start: usize,
        dims: usize,
        out: &mut [SortRecord<W>],
        codes: &mut Vec<u64>,
    ) -> Result<()> {
        codes.resize(out.len(), 0);
        for (i, record) in out.iter_mut().enumerate() {
            *record = [0; W];
            record[0] = (start + i) as u64;
        }
        for dim in 0..dims {
            self.rows.read(dim, start, codes);
            let max = self.geometry.max_codes[dim];
            if codes.iter().fold(0, |highest, &code| highest.max(code)) > max {
                let i = codes.iter().position(|&code| code > max).unwrap_or(0);
                return Err(ElfError::CodeOutOfRange {
                    dim,
                    row: start + i,
                    code: codes[i],
                    max,
                });
            }
            let field = self.geometry.fields[dim];
            let (word, shift) = (field.bit() / 64, field.bit() % 64);
            if field.width() == 0 {
                continue;
            }
            for (record, code) in out.iter_mut().zip(codes.iter()) {
                record[word] |= code << shift;
            }
            if shift + field.width() > 64 {
                for (record, code) in out.iter_mut().zip(codes.iter()) {
                    record[word + 1] |= code >> (64 - shift);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of leading dimensions that reach into the highest `bits` bits.
    pub(crate) fn dims_within(&self, bits: usize) -> usize {
        let from = self.geometry.bits - bits;
        self.geometry
            .fields
            .iter()
            .take_while(|field| field.bit() + field.width() > from)
            .count()
    }
}

/// Returns the highest `bits_wanted` (at most 32) bits of a record.
#[inline(always)]
pub(crate) fn top_bits<const W: usize>(
    record: &SortRecord<W>,
    geometry: &RecordGeometry,
    bits_wanted: usize,
) -> usize {
    if bits_wanted == 0 {
        return 0;
    }
    (bits(record, geometry.bits - bits_wanted) & ((1 << bits_wanted) - 1)) as usize
}
