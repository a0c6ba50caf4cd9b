//! The parts of a SQL text, as far as they tell where statements end.
//!
//! Quotes and comments are those of the parser's dialect: `'…'`, `"…"` and `` `…` `` with a doubled quote for
//! the quote itself, `E'…'` with a backslash before any character, `q'[…]'`, `$$…$$` and `$tag$…$tag$`,
//! `--` to the end of the line, and `/* … */`, which may contain other comments. A byte order mark outside of
//! them is a blank.

use memchr::memmem;

/// The character that some editors write at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A part of a SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlPart {
    /// A semicolon that ends a statement, at this byte.
    Semicolon(usize),
    /// A word, a number, another character or a quoted text, from this byte.
    Text(usize),
    /// A quoted text or comment that begins at this byte and does not close.
    Open {
        /// The byte.
        at: usize,
        /// `quote` or `comment`.
        what: &'static str,
    },
}

/// An iterator over the parts of a SQL text, without blanks and comments.
#[derive(Debug, Clone)]
pub struct SqlParts<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> SqlParts<'a> {
    /// Reads `text` from its beginning.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the end of a text that opens before `from` and closes with `quote`, which stands for itself if
    /// it is doubled, or after a backslash if `escapes`.
    fn end_of_quoted(&self, from: usize, quote: u8, escapes: bool) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = from;
        while let Some(byte) = bytes.get(at) {
            at += match *byte {
                b'\\' if escapes => 2,
                byte if byte != quote => 1,
                _ if bytes.get(at + 1) == Some(&quote) => 2,
                _ => return Some(at + 1),
            };
        }
        None
    }

    /// Returns the end of the text after `q'`, which closes with the counterpart of its first character and a
    /// quote.
    fn end_of_delimited(&self, from: usize) -> Option<usize> {
        let rest = &self.text[from..];
        let open = rest.chars().next()?;
        let close = match open {
            '(' => ')',
            '[' => ']',
            '{' => '}',
            '<' => '>',
            other => other,
        };
        let (start, close) = (open.len_utf8(), format!("{close}'"));
        let found = rest[start..].find(&close)?;
        Some(from + start + found + close.len())
    }

    /// Returns the end of a comment that opens at `from`.
    fn end_of_comment(&self, from: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let (mut depth, mut at) = (1, from + 2);
        while let Some(found) = memchr::memchr2(b'/', b'*', bytes.get(at..)?) {
            at += found;
            (depth, at) = match &bytes[at..] {
                [b'/', b'*', ..] => (depth + 1, at + 2),
                [b'*', b'/', ..] => (depth - 1, at + 2),
                _ => (depth, at + 1),
            };
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    /// Returns the delimiter of a text in dollars that opens at `from`: `$$`, or `$tag$`.
    fn dollars(&self, from: usize) -> Option<&'a str> {
        let behind = &self.text[from + 1..];
        let tag = behind.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        let is_tag = behind[tag..].starts_with('$') && !behind.starts_with(|c: char| c.is_ascii_digit());
        is_tag.then(|| &self.text[from..from + tag + 2])
    }

    /// Returns the end of a word that begins at `from`.
    fn end_of_word(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$');
        from + rest.find(|c| !is_part(c)).unwrap_or(rest.len())
    }

    /// Returns the end of the word or the quoted text with a prefix that begins at `from`.
    fn end_of_word_or_prefixed(&self, from: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        match &bytes[from..] {
            [b'e' | b'E', b'\'', ..] => self.end_of_quoted(from + 2, b'\'', true),
            [b'q' | b'Q', b'\'', ..] => self.end_of_delimited(from + 2),
            [b'n' | b'N', b'q' | b'Q', b'\'', ..] => self.end_of_delimited(from + 3),
            _ => Some(self.end_of_word(from)),
        }
    }
}

impl Iterator for SqlParts<'_> {
    type Item = SqlPart;

    fn next(&mut self) -> Option<SqlPart> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let character = self.text.get(start..)?.chars().next()?;
            let (end, what) = match &bytes[start..] {
                [b';', ..] => {
                    self.at += 1;
                    return Some(SqlPart::Semicolon(start));
                }
                [b'-', b'-', ..] => {
                    let line = memchr::memchr(b'\n', &bytes[start..]);
                    self.at = line.map_or(bytes.len(), |line| start + line);
                    continue;
                }
                [b'/', b'*', ..] => match self.end_of_comment(start) {
                    Some(end) => {
                        self.at = end;
                        continue;
                    }
                    None => (None, "comment"),
                },
                [quote @ (b'\'' | b'"' | b'`'), ..] => {
                    (self.end_of_quoted(start + 1, *quote, false), "quote")
                }
                [b'$', ..] => match self.dollars(start) {
                    Some(dollars) => {
                        let inner = start + dollars.len();
                        let close = memmem::find(&bytes[inner..], dollars.as_bytes());
                        (close.map(|close| inner + close + dollars.len()), "quote")
                    }
                    None => (Some(start + 1), "quote"),
                },
                _ if character.is_whitespace() || character == BYTE_ORDER_MARK => {
                    self.at += character.len_utf8();
                    continue;
                }
                _ if character.is_alphabetic() || matches!(character, '_' | '@' | '#') => {
                    (self.end_of_word_or_prefixed(start), "quote")
                }
                _ => (Some(start + character.len_utf8()), "quote"),
            };
            self.at = end.unwrap_or(bytes.len());
            return Some(match end {
                Some(_) => SqlPart::Text(start),
                None => SqlPart::Open { at: start, what },
            });
        }
    }
}

/// Returns `text` without blanks and byte order marks around it.
#[must_use]
pub fn trim_sql(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == BYTE_ORDER_MARK)
}

/// Returns `text` without the byte order mark at its beginning.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<SqlPart> {
        SqlParts::new(text).collect()
    }

    #[test]
    fn quotes_and_comments_hold_semicolons() {
        for quoted in [
            "';'",
            "'it''s;'",
            "\";\"\";\"",
            "`;`",
            "E'\\';'",
            "e'\\\\'",
            "E';'';'",
            "$$;'$$",
            "$$ $a; $ $$",
            "$tag$ $$;'; $tag$",
            "$ä$;$ä$",
            "q'[it's; so]'",
            "Q'!;''!'",
            "nq'(;)'",
            "größe$$",
        ] {
            assert_eq!(parts(quoted), [SqlPart::Text(0)], "{quoted}");
            let both = format!("\u{feff} /* ; /* ' */ ; */ {quoted} -- ;\n;");
            let found = parts(&both);
            assert!(
                matches!(found[..], [SqlPart::Text(_), SqlPart::Semicolon(_)]),
                "{both}: {found:?}"
            );
        }
        // A word is not a prefix, a parameter no delimiter, a number no word.
        assert_eq!(parts("some_e'\\'").len(), 2);
        assert_eq!(parts("$1;$2").len(), 5);
        assert_eq!(parts("1$$;$$").len(), 2);
        assert_eq!(parts("a$b$;").len(), 2);
    }

    #[test]
    fn what_does_not_close_is_open() {
        for (open, what) in [
            ("'x;''", "quote"),
            ("E'\\'", "quote"),
            ("E'\\", "quote"),
            ("$$;$", "quote"),
            ("$a$;$$", "quote"),
            ("q'[;'", "quote"),
            ("/* ; /* */", "comment"),
        ] {
            assert_eq!(
                parts(&format!("x {open}"))[1],
                SqlPart::Open { at: 2, what },
                "{open}"
            );
        }
    }
}
