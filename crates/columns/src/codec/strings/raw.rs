//! Strings as they are.

use super::{Defect, StoredStrings, StringCodec, StringList};
use crate::format::CODEC_RAW_STRINGS;
use crate::read::bytes_array::BytesBuilder;
use std::borrow::Cow;

/// Strings that are not compressed.
#[derive(Debug)]
pub(crate) struct Raw;

impl StringCodec for Raw {
    const ID: u8 = CODEC_RAW_STRINGS;

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
}
