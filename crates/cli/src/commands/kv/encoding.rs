//! Bytes as text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::args::Encoding;

impl Encoding {
    /// Returns the bytes of a text.
    ///
    /// # Errors
    /// The text is not of this encoding, with the reason.
    pub(super) fn decode(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Text => Ok(text.as_bytes().to_vec()),
            Self::Hex => {
                hex::decode(text).map_err(|error| format!("`{text:.40}` is not hexadecimal: {error}"))
            }
            Self::Base64 => STANDARD
                .decode(text)
                .map_err(|error| format!("`{text:.40}` is not base64: {error}")),
        }
    }

    /// Returns bytes as text, unless they are not UTF-8 and this is the encoding for that.
    pub(super) fn encode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Self::Text => str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::Hex => Some(hex::encode(bytes).into()),
            Self::Base64 => Some(STANDARD.encode(bytes).into()),
        }
    }

    /// Returns the end of the names of fields in this encoding.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::Hex => "_hex",
            Self::Base64 => "_base64",
        }
    }
}

/// Returns the encoding of a field `base`, `base_hex` or `base_base64`.
pub(super) fn of_field(name: &str, base: &str) -> Option<Encoding> {
    let suffix = name.strip_prefix(base)?;
    [Encoding::Text, Encoding::Hex, Encoding::Base64]
        .into_iter()
        .find(|encoding| encoding.suffix() == suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for bytes in [&b""[..], b"a", b"\xFF\x00", "häloklin".as_bytes()] {
            for encoding in [Encoding::Text, Encoding::Hex, Encoding::Base64] {
                match encoding.encode(bytes) {
                    Some(text) => assert_eq!(encoding.decode(&text).unwrap(), bytes),
                    None => assert!(encoding == Encoding::Text && str::from_utf8(bytes).is_err()),
                }
            }
        }
        assert!(Encoding::Hex.decode("abc").is_err());
        assert!(Encoding::Base64.decode("a b").is_err());
        assert_eq!(of_field("key_hex", "key"), Some(Encoding::Hex));
        assert_eq!(of_field("keys", "key"), None);
    }
}
