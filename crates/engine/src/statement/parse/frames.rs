//! Frames of windows that the parser does not know.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::EngineError;
use crate::syntax::SqlDialect;

/// Returns the error for a text that the parser does not take, if it has a frame with `EXCLUDE`.
pub(super) fn excluding(text: &str) -> Option<EngineError> {
    let tokens = Tokenizer::new(&SqlDialect, text).tokenize().ok()?;
    let words: Vec<Keyword> = tokens
        .iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .map(|token| match token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        })
        .collect();
    let is_frame = |words: &[Keyword]| {
        matches!(
            words,
            [
                Keyword::ROW | Keyword::PRECEDING | Keyword::FOLLOWING,
                Keyword::EXCLUDE,
                ..
            ]
        )
    };
    words.windows(2).any(is_frame).then(|| EngineError::Unsupported {
        what: "EXCLUDE in the frame of a window".into(),
        instead: "subtract what the row itself adds, or join the table with itself".into(),
    })
}
