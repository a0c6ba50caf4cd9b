//! LIKE patterns: [`LikePattern`].
//!
//! A pattern is a list of *pieces* between its `%`s; a piece is text and `_`s, so that it matches a fixed
//! number of characters. The first piece is compared with the beginning of a string unless a `%` precedes it,
//! the last one with the end, and the others are searched for from left to right: as a piece has a fixed
//! length, the leftmost place leaves the most for the pieces after it.
//!
//! Strings are compared as bytes. In bytes that are no UTF-8 a character is a byte and the continuation bytes
//! after it.

use memchr::memmem::Finder;

/// A compiled LIKE pattern: `%` stands for any text, `_` for one character, and a backslash takes the next
/// character as it is.
///
/// ```
/// use halocline_columns::LikePattern;
/// let pattern = LikePattern::parse("%b_t%").expect("no escape is open");
/// assert!(pattern.matches(b"a bit") && pattern.matches("b\u{e4}t".as_bytes()));
/// assert!(!pattern.matches(b"bt"));
/// ```
#[derive(Debug, Clone)]
pub struct LikePattern {
    pieces: Vec<Piece>,
    /// True if the first piece is compared with the beginning of a string.
    from_start: bool,
    /// True if the last piece is compared with the end of a string.
    to_end: bool,
    /// Searches for the longest text of the pattern; `None` if it has no text.
    longest: Option<Finder<'static>>,
}

/// A part of a pattern that matches a fixed number of characters.
#[derive(Debug, Clone, Default)]
struct Piece {
    parts: Vec<Part>,
    characters: usize,
    /// Searches for the piece, if it is a text without `_`.
    finder: Option<Finder<'static>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// A number of characters of any kind.
    Any(usize),
}

impl LikePattern {
    /// Reads a pattern. `None` if it ends with a backslash that takes no character.
    pub fn parse(pattern: &str) -> Option<Self> {
        let (mut pieces, mut piece) = (Vec::new(), Piece::default());
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => pieces.push(std::mem::take(&mut piece)),
                '_' => piece.push_any(),
                '\\' => piece.push(characters.next()?),
                other => piece.push(other),
            }
        }
        pieces.push(piece);
        Some(Self::new(pieces))
    }

    /// Returns the pattern of the strings that contain a text.
    pub fn containing(text: &str) -> Self {
        Self::new(vec![Piece::default(), Piece::from_text(text), Piece::default()])
    }

    /// Returns the pattern of the strings that end with a text.
    pub fn ending_with(text: &str) -> Self {
        Self::new(vec![Piece::default(), Piece::from_text(text)])
    }

    /// Compiles a pattern of these pieces, with a `%` between each two.
    fn new(mut pieces: Vec<Piece>) -> Self {
        let is_anchor = |piece: Option<&Piece>| piece.is_some_and(|piece| !piece.parts.is_empty());
        let only = pieces.len() == 1;
        let from_start = only || is_anchor(pieces.first());
        let to_end = only || is_anchor(pieces.last());
        pieces.retain(|piece| !piece.parts.is_empty());
        for piece in &mut pieces {
            if let [Part::Text(text)] = piece.parts.as_slice() {
                piece.finder = Some(Finder::new(text).into_owned());
            }
        }
        let texts = pieces.iter().flat_map(|piece| &piece.parts);
        let texts = texts.filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Any(_) => None,
        });
        let longest = texts.max_by_key(|text| text.len());
        Self {
            longest: longest.map(|text| Finder::new(text).into_owned()),
            pieces,
            from_start,
            to_end,
        }
    }

    /// Returns true if the pattern matches a string. O(length of the string) unless the pattern has a piece
    /// with `_`, which is tried at every character.
    pub fn matches(&self, string: &[u8]) -> bool {
        let (mut from, mut to) = (0, string.len());
        let mut pieces = self.pieces.as_slice();
        if self.from_start {
            let Some((first, others)) = pieces.split_first() else {
                // The empty pattern.
                return string.is_empty();
            };
            match first.end_at(string, 0) {
                Some(end) if others.is_empty() && self.to_end => return end == to,
                Some(end) => (from, pieces) = (end, others),
                None => return false,
            }
        }
        if self.to_end
            && let Some((last, others)) = pieces.split_last()
        {
            match last.start_before_end(&string[from..]) {
                Some(start) => (to, pieces) = (from + start, others),
                None => return false,
            }
        }
        pieces.iter().all(|piece| {
            let end = piece.find_end(&string[from..to]);
            from += end.unwrap_or(0);
            end.is_some()
        })
    }

    /// Returns the text that every matching string begins with.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self.pieces.first().map(|piece| piece.parts.as_slice()) {
            Some([Part::Text(text), ..]) if self.from_start => text,
            _ => &[],
        }
    }

    /// Returns the only string that matches, if the pattern has no wildcard.
    pub(crate) fn as_equal(&self) -> Option<&[u8]> {
        if !(self.from_start && self.to_end) {
            return None;
        }
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [piece] => piece.text(),
            _ => None,
        }
    }

    /// Returns the prefix of the matching strings, if nothing else is required of them.
    pub(crate) fn as_prefix(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] if !self.from_start => Some(&[]),
            [piece] if self.from_start && !self.to_end => piece.text(),
            _ => None,
        }
    }

    /// Returns true if a string matches as soon as it contains the [longest text](Self::longest).
    pub(crate) fn is_containment(&self) -> bool {
        !self.from_start
            && !self.to_end
            && matches!(self.pieces.as_slice(), [piece] if piece.finder.is_some())
    }

    /// Returns a search for the longest text of the pattern, which every matching string contains; `None` if
    /// searching for it is not faster than matching string by string, as it is compared with one place of a
    /// string only.
    pub(crate) fn longest(&self) -> Option<&Finder<'static>> {
        let anchors = usize::from(self.from_start) + usize::from(self.to_end);
        self.longest.as_ref().filter(|_| self.pieces.len() > anchors)
    }
}

impl Piece {
    fn from_text(text: &str) -> Self {
        let mut piece = Self::default();
        text.chars().for_each(|character| piece.push(character));
        piece
    }

    fn push(&mut self, character: char) {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.extend_from_slice(bytes),
            _ => self.parts.push(Part::Text(bytes.to_vec())),
        }
        self.characters += 1;
    }

    fn push_any(&mut self) {
        match self.parts.last_mut() {
            Some(Part::Any(number)) => *number += 1,
            _ => self.parts.push(Part::Any(1)),
        }
        self.characters += 1;
    }

    /// Returns the text, if it is one without `_`.
    fn text(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the end of the piece in a string if it matches from `at` on.
    fn end_at(&self, string: &[u8], at: usize) -> Option<usize> {
        let mut end = at;
        for part in &self.parts {
            match part {
                Part::Text(text) if string[end..].starts_with(text) => end += text.len(),
                Part::Text(_) => return None,
                Part::Any(number) => {
                    for _ in 0..*number {
                        if end == string.len() {
                            return None;
                        }
                        end = next_character(string, end);
                    }
                }
            }
        }
        Some(end)
    }

    /// Returns the start of the piece in a string if it matches the end of it.
    fn start_before_end(&self, string: &[u8]) -> Option<usize> {
        if let Some(text) = self.text() {
            return string.ends_with(text).then(|| string.len() - text.len());
        }
        let mut start = string.len();
        for _ in 0..self.characters {
            start = start.checked_sub(1)?;
            while start > 0 && is_continuation(string[start]) {
                start -= 1;
            }
        }
        (self.end_at(string, start) == Some(string.len())).then_some(start)
    }

    /// Returns the end of the first match in a string.
    fn find_end(&self, string: &[u8]) -> Option<usize> {
        if let Some(finder) = &self.finder {
            return finder.find(string).map(|start| start + finder.needle().len());
        }
        let mut at = 0;
        loop {
            if let Some(end) = self.end_at(string, at) {
                return Some(end);
            }
            if at == string.len() {
                return None;
            }
            at = next_character(string, at);
        }
    }
}

/// Returns the start of the character after the one at `at`.
fn next_character(string: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while next < string.len() && is_continuation(string[next]) {
        next += 1;
    }
    next
}

/// Returns true for the bytes of a character in UTF-8 after its first.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Matches `string` by the definition of LIKE.
    fn model(pattern: &[char], string: &[char]) -> bool {
        match pattern {
            [] => string.is_empty(),
            ['%', rest @ ..] => (0..=string.len()).any(|from| model(rest, &string[from..])),
            ['_', rest @ ..] => !string.is_empty() && model(rest, &string[1..]),
            ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
                string.first() == Some(literal) && model(rest, &string[1..])
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn patterns_match_as_defined(
            pattern in "(%|_|a|b|\u{e9}|\\\\%|\\\\_|\\\\\\\\){0,7}",
            string in "[ab%_\\\\\u{e9}\u{1F980}]{0,9}",
        ) {
            let compiled = LikePattern::parse(&pattern).expect("no escape is open");
            let (pattern, characters): (Vec<char>, Vec<char>) = (pattern.chars().collect(), string.chars().collect());
            prop_assert_eq!(compiled.matches(string.as_bytes()), model(&pattern, &characters));
            if let Some(prefix) = compiled.as_prefix() {
                prop_assert_eq!(compiled.matches(string.as_bytes()), string.as_bytes().starts_with(prefix));
            }
            if let Some(text) = compiled.as_equal() {
                prop_assert_eq!(compiled.matches(string.as_bytes()), string.as_bytes() == text);
            }
            if compiled.matches(string.as_bytes()) {
                prop_assert!(string.as_bytes().starts_with(compiled.prefix()));
                let longest = compiled.longest();
                prop_assert!(longest.is_none_or(|longest| longest.find(string.as_bytes()).is_some()));
            }
        }

        #[test]
        fn other_bytes_never_panic(
            pattern in "[%_ab\u{e9}]{0,7}",
            bytes in proptest::collection::vec(prop_oneof![Just(b'a'), Just(0xA9), Just(0xC3), any::<u8>()], 0..12),
        ) {
            let _ = LikePattern::parse(&pattern).expect("no escape").matches(&bytes);
        }
    }

    #[test]
    fn forms_are_recognised() {
        let parse = |pattern: &str| LikePattern::parse(pattern).expect("no escape is open");
        assert_eq!(parse("abc%").as_prefix(), Some(&b"abc"[..]));
        assert_eq!(parse("%%").as_prefix(), Some(&b""[..]));
        assert_eq!(parse("a\\%b\\_%%").as_prefix(), Some(&b"a%b_"[..]));
        assert_eq!(parse("").as_equal(), Some(&b""[..]));
        assert_eq!(parse("a\\\\").as_equal(), Some(&b"a\\"[..]));
        assert_eq!(parse("a_%").as_prefix(), None);
        assert_eq!(parse("a_c%d").prefix(), b"a");
        assert!(parse("%a%").is_containment() && LikePattern::containing("a").is_containment());
        assert!(!parse("%a_%").is_containment() && !parse("%a").is_containment());
        assert!(LikePattern::containing("").matches(b"") && LikePattern::ending_with("").matches(b"x"));
        assert!(LikePattern::ending_with("%").matches(b"5%") && !LikePattern::ending_with("%").matches(b"5"));
        assert!(LikePattern::parse("a\\").is_none());
    }
}
