//! Strings: decompression (FSST) and views.
#![allow(unsafe_code, reason = "what the crates demand is asserted first")]

use crate::Result;
use arrow_array::{ArrayRef, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::ArrowError;
use fsst::{Decompressor, ESCAPE_CODE};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Appends the string that `codes` stand for. Returns false, and appends nothing, if the codes end within an
/// escape.
///
/// Symbol lengths must be at most 8 (checked when a chunk is opened, see [`SafeDecompressor`], and asserted
/// there).
pub(crate) fn fsst_decode(decompressor: &SafeDecompressor<'_>, codes: &[u8], out: &mut Vec<u8>) -> bool {
    // A byte that is not an escape ends a token, so a run of escapes at the end pairs up from its start.
    let escapes = codes
        .iter()
        .rev()
        .take_while(|&&code| code == ESCAPE_CODE)
        .count();
    if escapes % 2 == 1 {
        return false;
    }
    out.reserve(decompressor.all.max_decompression_capacity(codes));
    let spare: &mut [MaybeUninit<u8>] = out.spare_capacity_mut();
    let len = decompressor.all.decompress_into(codes, spare);
    // SAFETY: the decompressor initialised `len` bytes of the spare capacity.
    unsafe { out.set_len(out.len() + len) };
    true
}

/// The place of a byte after an escape: no string starts or ends there.
pub(crate) const FSST_INSIDE: u32 = u32::MAX;

/// Decodes codes to the front of `out`, which grows as needed, and returns the number of decoded bytes.
/// `places` gets the place in `out` where each code was decoded to, [`FSST_INSIDE`] for a byte after an
/// escape, and the number of decoded bytes for the end of the codes. `None` if the codes end within an
/// escape.
///
/// # Panics
/// From 512 MiB of codes on.
pub(crate) fn fsst_decode_all(
    decompressor: &SafeDecompressor<'_>,
    codes: &[u8],
    out: &mut Vec<u8>,
    places: &mut Vec<u32>,
) -> Option<usize> {
    assert!(
        codes.len() < FSST_INSIDE as usize / SYMBOL,
        "places count in 32 bits"
    );
    if out.len() < (codes.len() + 1) * SYMBOL {
        out.resize((codes.len() + 1) * SYMBOL, 0);
    }
    if places.len() <= codes.len() {
        places.resize(codes.len() + 1, 0);
    }
    let (mut next, mut len) = (0, 0);
    while let Some(&code) = codes.get(next) {
        places[next] = len as u32;
        next += 1;
        match decompressor.symbol(code) {
            Some((symbol, bytes)) => {
                // All eight bytes are stored, whatever the length of the symbol; the next one overwrites the
                // rest.
                out[len..len + SYMBOL].copy_from_slice(&symbol.to_le_bytes());
                len += bytes;
            }
            None => {
                out[len] = *codes.get(next)?;
                places[next] = FSST_INSIDE;
                next += 1;
                len += 1;
            }
        }
    }
    places[next] = len as u32;
    Some(len)
}

/// Bytes of the longest symbol.
const SYMBOL: usize = size_of::<fsst::Symbol>();

/// A decompressor whose symbol lengths are known to be at most 8, which `decompress_into` relies on.
pub(crate) struct SafeDecompressor<'a> {
    all: Decompressor<'a>,
    symbols: &'a [fsst::Symbol; 255],
    lengths: &'a [u8; 255],
}

impl<'a> SafeDecompressor<'a> {
    /// Creates a decompressor; `None` if a length exceeds 8.
    pub(crate) fn new(symbols: &'a [fsst::Symbol; 255], lengths: &'a [u8; 255]) -> Option<Self> {
        lengths.iter().all(|&len| len <= 8).then(|| Self {
            all: Decompressor::new(symbols, lengths),
            symbols,
            lengths,
        })
    }

    /// Returns the symbol of a code as a little-endian number, and its length, at most 8. `None` for an
    /// escape.
    #[inline(always)]
    pub(crate) fn symbol(&self, code: u8) -> Option<(u64, usize)> {
        let code = usize::from(code);
        Some((self.symbols.get(code)?.to_u64(), usize::from(self.lengths[code])))
    }
}

/// Builds a string view array of the strings in `bytes`; string i spans `ends[i]` to `ends[i + 1]`.
///
/// # Errors
/// [`ColumnsError::Arrow`](crate::ColumnsError::Arrow) if a string is not UTF-8.
///
/// # Panics
/// If the ends descend or lie outside of `bytes`, or `bytes` has 4 GiB or more.
pub(crate) fn string_views(bytes: Vec<u8>, ends: &[i64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    assert!(u32::try_from(bytes.len()).is_ok(), "views count in 32 bits");
    let not_utf8 = |_| ArrowError::InvalidArgumentError("a stored string is not UTF-8".into());
    let text = std::str::from_utf8(&bytes).map_err(not_utf8)?;
    let mut all_inline = true;
    let mut views = Vec::with_capacity(ends.len().saturating_sub(1));
    for ends in ends.windows(2) {
        let range = ends[0] as usize..ends[1] as usize;
        let Some(value) = text.get(range.clone()) else {
            assert!(
                range.start <= range.end && range.end <= text.len(),
                "string outside of its bytes"
            );
            return Err(
                ArrowError::InvalidArgumentError("a stored string ends within a character".into()).into(),
            );
        };
        all_inline &= value.len() <= MAX_INLINE_VIEW_LEN as usize;
        views.push(view(value.as_bytes(), range.start));
    }
    let buffers = if all_inline {
        Vec::new()
    } else {
        vec![Buffer::from_vec(bytes)]
    };
    // SAFETY: each view was just made of a piece of the buffer (at its place there) that is valid UTF-8, and
    // the buffer is there if a view points into it; `nulls` has their number, or the call panics.
    let array = unsafe { StringViewArray::new_unchecked(views.into(), buffers, nulls) };
    Ok(Arc::new(array))
}

/// Builds the view of a value. A value too long to be inlined lies at `offset` of buffer 0.
#[inline]
pub(crate) fn view(value: &[u8], offset: usize) -> u128 {
    let len = value.len() as u32;
    if len <= MAX_INLINE_VIEW_LEN {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(bytes);
    }
    ByteView::new(len, &value[..4])
        .with_offset(offset as u32)
        .as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dangling_escape_is_refused() {
        let (symbols, lengths) = ([fsst::Symbol::from_u8(b'x'); 255], [1; 255]);
        let decompressor = SafeDecompressor::new(&symbols, &lengths).expect("short symbols");
        let mut out = b"a".to_vec();
        for (codes, expected) in [
            (&[255u8, 255][..], Some(&b"\xff"[..])),
            (&[255], None),
            (&[0, 255, 255, 255], None),
            (&[255, 7, 0], Some(b"\x07x")),
        ] {
            out.truncate(1);
            let decoded = fsst_decode(&decompressor, codes, &mut out);
            assert_eq!(decoded.then(|| &out[1..]), expected, "{codes:?}");
        }
        assert!(SafeDecompressor::new(&symbols, &[9; 255]).is_none());
        let (mut out, mut places) = (Vec::new(), Vec::new());
        let mut decode = |codes: &[u8]| {
            let len = fsst_decode_all(&decompressor, codes, &mut out, &mut places)?;
            Some((out[..len].to_vec(), places[..=codes.len()].to_vec()))
        };
        assert_eq!(
            decode(&[0, 255, 7, 0]),
            Some((b"x\x07x".to_vec(), vec![0, 1, FSST_INSIDE, 2, 3]))
        );
        assert_eq!(decode(&[]), Some((Vec::new(), vec![0])));
        assert_eq!(decode(&[0, 255]), None);
    }
}
