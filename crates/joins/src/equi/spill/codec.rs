//! The form of spilled rows: field by field, the difference to the smallest value in as few bits as the
//! largest one needs (frame of reference); variable-length values as lengths and bytes.
//!
//! A block is: checksum (8 bytes), length of the rest (8), then per field the smallest value (8), the number
//! of bits (8), and the packed values in words; then per span column its lengths as a field and the bytes of
//! all values. The padding after it is not covered by the checksum.

use xxhash_rust::xxh3::xxh3_64;

use crate::equi::layout::{BitField, MAX_VALUE_LEN, RowLayout, Span};
use crate::equi::rows::RowBlock;

const HEADER: usize = 16;

/// Encodes rows into `out`, which is cleared.
pub(super) fn encode(layout: &RowLayout, words: &[u64], bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.resize(HEADER, 0);
    let mut values = Vec::with_capacity(words.len() / layout.stride);
    let rows = || words.chunks_exact(layout.stride);
    for field in &layout.fields {
        values.clear();
        values.extend(rows().map(|row| field.get(row)));
        pack(&values, out);
    }
    for &word in &layout.spans {
        values.clear();
        values.extend(rows().map(|row| Span(row[word]).len() as u64));
        pack(&values, out);
        for row in rows() {
            out.extend_from_slice(Span(row[word]).slice(bytes));
        }
    }
    let len = (out.len() - HEADER) as u64;
    out[8..16].copy_from_slice(&len.to_le_bytes());
    let sum = xxh3_64(&out[8..]);
    out[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Decodes `rows` rows; `None` if the bytes are not what was encoded.
pub(super) fn decode(layout: &RowLayout, rows: usize, from: &[u8], block: &mut RowBlock) -> Option<()> {
    block.clear();
    let sum = u64::from_le_bytes(*from.first_chunk()?);
    let len = usize::try_from(u64::from_le_bytes(*from.get(8..)?.first_chunk()?)).ok()?;
    let end = len.checked_add(HEADER)?;
    if xxh3_64(from.get(8..end)?) != sum {
        return None;
    }
    let mut rest = &from[HEADER..end];
    block.words.resize(rows * layout.stride, 0);
    for field in &layout.fields {
        unpack(&mut rest, rows, |row, value| {
            add(&mut block.words[row * layout.stride..], *field, value);
        })?;
    }
    for &word in &layout.spans {
        let start = block.bytes.len();
        let mut at = start;
        unpack(&mut rest, rows, |row, len| {
            let len = (len as usize).min(MAX_VALUE_LEN);
            block.words[row * layout.stride + word] = Span::new(at, len).0;
            at += len;
        })?;
        let (values, after) = rest.split_at_checked(at - start)?;
        block.bytes.extend_from_slice(values);
        rest = after;
    }
    (rest.is_empty() && block.bytes.len() <= u32::MAX as usize + MAX_VALUE_LEN).then_some(())
}

#[inline(always)]
fn add(row: &mut [u64], field: BitField, value: u64) {
    field.put(row, value & field.mask());
}

/// Appends the frame and the packed values.
fn pack(values: &[u64], out: &mut Vec<u8>) {
    let least = values.iter().copied().min().unwrap_or(0);
    let most = values.iter().copied().max().unwrap_or(0);
    let bits = u64::BITS - (most - least).leading_zeros();
    out.extend_from_slice(&least.to_le_bytes());
    out.extend_from_slice(&u64::from(bits).to_le_bytes());
    if bits == 0 {
        return;
    }
    out.reserve(packed_bytes(values.len(), bits));
    let (mut word, mut used) = (0_u64, 0);
    for value in values {
        let value = value - least;
        word |= value << used;
        used += bits;
        if used >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            used -= u64::BITS;
            // The bits of the value that did not fit; none if it ended at the word's end.
            word = if used == 0 { 0 } else { value >> (bits - used) };
        }
    }
    if used > 0 {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn packed_bytes(values: usize, bits: u32) -> usize {
    (values * bits as usize).div_ceil(64) * size_of::<u64>()
}

/// Calls `each` with the number and value of each packed value, and removes them from `from`.
#[inline(always)]
fn unpack(from: &mut &[u8], values: usize, mut each: impl FnMut(usize, u64)) -> Option<()> {
    let (least, rest) = from.split_first_chunk::<8>()?;
    let (bits, rest) = rest.split_first_chunk::<8>()?;
    let least = u64::from_le_bytes(*least);
    let bits = u32::try_from(u64::from_le_bytes(*bits)).ok()?;
    if bits > u64::BITS {
        return None;
    }
    if bits == 0 {
        (0..values).for_each(|number| each(number, least));
        *from = rest;
        return Some(());
    }
    let (packed, rest) = rest.split_at_checked(packed_bytes(values, bits))?;
    *from = rest;
    let mask = u64::MAX >> (u64::BITS - bits);
    let (words, _) = packed.as_chunks::<8>();
    let mut position = 0;
    for number in 0..values {
        let (at, shift) = (position / 64, position as u32 % 64);
        let low = u64::from_le_bytes(words[at]) >> shift;
        let value = if shift + bits > u64::BITS {
            low | u64::from_le_bytes(words[at + 1]) << (u64::BITS - shift)
        } else {
            low
        };
        each(number, least.wrapping_add(value & mask));
        position += bits as usize;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::equi::layout::KeyForm;
    use arrow_schema::DataType;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn every_width_comes_back() {
        for bits in 0..=64_u32 {
            for len in [0, 1, 2, 63, 64, 65, 200] {
                let mut random = StdRng::seed_from_u64(u64::from(bits) * 1000 + len);
                let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
                let values: Vec<u64> = (0..len).map(|_| random.random::<u64>() & mask).collect();
                let mut out = Vec::new();
                pack(&values, &mut out);
                out.push(7);
                let (mut rest, mut found) = (out.as_slice(), Vec::new());
                unpack(&mut rest, values.len(), |_, value| found.push(value)).unwrap();
                assert_eq!((rest, found), ([7].as_slice(), values), "{bits} bits");
            }
        }
    }

    #[test]
    fn rows_come_back_and_damage_is_found() {
        let types = [
            (DataType::Int32, true),
            (DataType::Utf8, true),
            (DataType::Decimal128(38, 0), false),
        ];
        let layout = RowLayout::new(KeyForm::Bytes, &types).unwrap();
        let mut random = StdRng::seed_from_u64(5);
        for rows in [0, 1, 3, 1000] {
            let (mut words, mut bytes) = (Vec::new(), Vec::new());
            for _ in 0..rows {
                let mut row = vec![0; layout.stride];
                for field in &layout.fields {
                    field.put(&mut row, random.random::<u64>() & field.mask());
                }
                for &word in &layout.spans {
                    let len = random.random_range(0..9);
                    row[word] = Span::new(bytes.len(), len).0;
                    bytes.extend((0..len).map(|_| random.random::<u8>()));
                }
                words.extend(row);
            }
            let mut out = Vec::new();
            encode(&layout, &words, &bytes, &mut out);
            out.extend([0; 40]);
            let mut block = RowBlock::default();
            decode(&layout, rows, &out, &mut block).unwrap();
            let pairs = words
                .chunks_exact(layout.stride)
                .zip(block.words.chunks_exact(layout.stride));
            for (row, found) in pairs {
                assert!(
                    layout
                        .fields
                        .iter()
                        .all(|field| field.get(row) == field.get(found))
                );
                for &word in &layout.spans {
                    assert_eq!(
                        Span(row[word]).slice(&bytes),
                        Span(found[word]).slice(&block.bytes)
                    );
                }
            }
            for at in 0..out.len() - 40 {
                let mut bad = out.clone();
                bad[at] ^= 1 << (at % 8);
                assert!(decode(&layout, rows, &bad, &mut block).is_none(), "byte {at}");
                if at > 100 {
                    break;
                }
            }
            assert!(decode(&layout, rows, &out[..9], &mut block).is_none());
        }
    }
}
