//! Words and numbers of a command line.

use std::str::FromStr;

/// Returns the words of a line, which are separated by spaces.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Returns the number that a word is, or `None` if it is none or too large.
pub(super) fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    // `from_str` also takes a plus sign, which no client sends.
    let text = std::str::from_utf8(word)
        .ok()
        .filter(|text| !text.starts_with('+'))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_is_between_spaces() {
        let found: Vec<_> = words(b"  set a  b ").collect();
        assert_eq!(found, [&b"set"[..], b"a", b"b"]);
        assert_eq!(words(b"").count(), 0);
    }

    #[test]
    fn numbers_must_fit() {
        assert_eq!(number::<u32>(b"4294967295"), Some(u32::MAX));
        assert_eq!(number::<u32>(b"4294967296"), None);
        assert_eq!(number::<i64>(b"-1"), Some(-1));
        for bad in [&b""[..], b"+1", b"1x", b"0x1", b" 1", b"\xff"] {
            assert_eq!(number::<u64>(bad), None);
        }
    }
}
