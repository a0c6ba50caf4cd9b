//! Frames of windows with `EXCLUDE`, which the parser does not know.
//!
//! The clause is taken out of the tokens, and a marker for it, a function without arguments, put in front of
//! the expressions of `PARTITION BY`. The remaining tokens keep their places in the text.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Word};

use crate::semantics::Exclusion;
use crate::syntax::SqlDialect;

/// Returns the tokens of a text with markers in place of `EXCLUDE`; `None` if no frame has it.
pub(super) fn with_markers(text: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().ok()?;
    let blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(|token| !blank(token)).collect();
    let (mut marked, mut open): (Vec<TokenWithSpan>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut at, mut found) = (0, false);
    while let Some(token) = tokens.get(at) {
        match &token.token {
            Token::LParen => open.push(marked.len()),
            Token::RParen => {
                open.pop();
            }
            _ => {}
        }
        match (open.last(), clause(&tokens, at)) {
            (Some(open), Some((exclusion, length))) => {
                found = true;
                at += length;
                if let Some(exclusion) = exclusion {
                    mark(&mut marked, *open, exclusion);
                }
            }
            _ => {
                marked.push(token.clone());
                at += 1;
            }
        }
    }
    found.then_some(marked)
}

fn keyword(tokens: &[TokenWithSpan], at: usize) -> Keyword {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Returns the clause that begins at a token, after the end of a frame and before that of its window: what
/// it excludes, nothing for `NO OTHERS`, and its number of tokens.
fn clause(tokens: &[TokenWithSpan], at: usize) -> Option<(Option<Exclusion>, usize)> {
    let is_end = |word| matches!(word, Keyword::ROW | Keyword::PRECEDING | Keyword::FOLLOWING);
    if keyword(tokens, at) != Keyword::EXCLUDE || !is_end(keyword(tokens, at.checked_sub(1)?)) {
        return None;
    }
    let second = || {
        tokens
            .get(at + 2)
            .map(|token| token.token.to_string().to_ascii_lowercase())
    };
    let (exclusion, length) = match keyword(tokens, at + 1) {
        Keyword::GROUP => (Some(Exclusion::Group), 2),
        Keyword::TIES => (Some(Exclusion::Ties), 2),
        Keyword::CURRENT if keyword(tokens, at + 2) == Keyword::ROW => (Some(Exclusion::CurrentRow), 3),
        Keyword::NO if second().is_some_and(|word| word == "others") => (None, 3),
        _ => return None,
    };
    let is_closed = tokens.get(at + length)?.token == Token::RParen;
    is_closed.then_some((exclusion, length))
}

/// Puts the marker into the window whose parenthesis opens at a token.
fn mark(tokens: &mut Vec<TokenWithSpan>, open: usize, exclusion: Exclusion) {
    let name = Word {
        value: exclusion.marker().to_owned(),
        quote_style: Some('"'),
        keyword: Keyword::NoKeyword,
    };
    let call = [Token::Word(name), Token::LParen, Token::RParen];
    let clauses = [
        Keyword::PARTITION,
        Keyword::ORDER,
        Keyword::ROWS,
        Keyword::RANGE,
        Keyword::GROUPS,
    ];
    let begins_with_name = !clauses.contains(&keyword(tokens, open + 1));
    let first = open + 1 + usize::from(begins_with_name);
    let (at, marker): (usize, Vec<Token>) = match keyword(tokens, first) {
        Keyword::PARTITION => (first + 2, call.into_iter().chain([Token::Comma]).collect()),
        _ => {
            let by = [Token::make_keyword("PARTITION"), Token::make_keyword("BY")];
            (first, by.into_iter().chain(call).collect())
        }
    };
    let marker = marker
        .into_iter()
        .map(|token| TokenWithSpan::new(token, Span::empty()));
    tokens.splice(at..at, marker);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> Option<String> {
        let tokens = with_markers(text)?;
        let tokens: Vec<String> = tokens.iter().map(|token| token.to_string()).collect();
        Some(tokens.join(" "))
    }

    #[test]
    fn markers_stand_in_the_windows_of_their_frames() {
        for (text, expected) in [
            (
                "f() over (rows current row exclude ties)",
                "f ( ) over ( PARTITION BY \"EXCLUDE TIES\" ( ) rows current row )",
            ),
            (
                "f() OVER (PARTITION BY g(a) ORDER BY b ROWS BETWEEN (1) PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)",
                "f ( ) OVER ( PARTITION BY \"EXCLUDE CURRENT ROW\" ( ) , g ( a ) ORDER BY b ROWS BETWEEN ( 1 ) PRECEDING AND 2 FOLLOWING )",
            ),
            (
                "f() over (w rows current row exclude ties)",
                "f ( ) over ( w PARTITION BY \"EXCLUDE TIES\" ( ) rows current row )",
            ),
            (
                "WINDOW w AS (ORDER BY a ROWS 1 PRECEDING EXCLUDE NO OTHERS)",
                "WINDOW w AS ( ORDER BY a ROWS 1 PRECEDING )",
            ),
        ] {
            assert_eq!(marked(text).unwrap().trim_end_matches(" EOF"), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_markers() {
        for text in [
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT row exclude ties FROM t",
            "SELECT 'ROW EXCLUDE TIES)'",
            "f() OVER (ROWS CURRENT ROW EXCLUDE 1)",
        ] {
            assert_eq!(marked(text), None, "{text}");
        }
    }
}
