//! Strings as they are.

use super::constant::Constant;
use super::{Defect, Head, StoredStrings, StringCodec, StringList, StringsRoom};
use crate::format::{CODEC_RAW_STRINGS, FORMAT_PACKED};
use crate::read::bytes_array::BytesBuilder;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Strings that are not compressed.
#[derive(Debug)]
pub(crate) struct Raw;

impl StringCodec for Raw {
    const ID: u8 = CODEC_RAW_STRINGS;
    const FORMAT: u32 = FORMAT_PACKED;

    type Decoder<'a> = ();

    fn encode<'a>(list: &StringList<'a>) -> Option<StoredStrings<'a>> {
        Some(StoredStrings {
            symbols: 0,
            table: Vec::new(),
            bytes: Cow::Borrowed(list.bytes),
            ends: Cow::Borrowed(list.ends),
        })
    }

    fn open(_: usize, _: &[u8]) -> Option<Self> {
        Some(Self)
    }

    fn decoder(&self) -> Result<(), Defect> {
        Ok(())
    }

    fn decode((): &(), stored: &[u8], out: &mut BytesBuilder) -> Result<(), Defect> {
        out.push(stored);
        Ok(())
    }

    fn head((): &(), first: u8) -> Option<Head> {
        let bytes = [first, 0, 0, 0, 0, 0, 0, 0];
        Some(Head { bytes, len: 1 })
    }

    fn compare((): &(), stored: &[u8], constant: &Constant) -> Result<Ordering, Defect> {
        Ok(stored.cmp(constant.as_bytes()))
    }

    fn decode_all<'b>(
        (): &(),
        stored: &'b [u8],
        _: &mut [u32],
        _: &'b mut StringsRoom,
    ) -> Result<&'b [u8], Defect> {
        Ok(stored)
    }
}
