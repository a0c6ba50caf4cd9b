//! The options of `COPY … TO` as PostgreSQL and DuckDB write them, `COPY t TO 'f' (FORMAT csv, HEADER)`,
//! which the parser does not know.
//!
//! They are replaced in the tokens by the clauses `STORED AS`, `PARTITIONED BY` and `OPTIONS`; the other
//! tokens keep their places in the text.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

use crate::EngineError;
use crate::syntax::SqlDialect;

/// Returns the tokens of a `COPY … TO` with clauses in place of its options; `None` for any other text.
///
/// # Errors
/// An option is not known, or its value is none that it may have.
pub(super) fn with_clauses(text: &str) -> Result<Option<Vec<TokenWithSpan>>, EngineError> {
    let Ok(tokens) = Tokenizer::new(&SqlDialect, text).tokenize_with_location() else {
        return Ok(None);
    };
    let left_out = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let mut tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(|token| !left_out(token)).collect();
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    let is_copy = tokens
        .first()
        .is_some_and(|first| is_word(&first.token, Keyword::COPY));
    let Some(open) = opening(&tokens).filter(|_| is_copy) else {
        return Ok(None);
    };
    let with = usize::from(is_word(&tokens[open - 1].token, Keyword::WITH));
    let is_target = open >= with + 2
        && matches!(tokens[open - with - 1].token, Token::SingleQuotedString(_))
        && is_word(&tokens[open - with - 2].token, Keyword::TO);
    if !is_target {
        return Ok(None);
    }
    let mut clauses = Clauses::default();
    let inner: Vec<Token> = tokens[open + 1..tokens.len() - 1]
        .iter()
        .map(|token| token.token.clone())
        .collect();
    for option in split(&inner) {
        clauses.add(option)?;
    }
    tokens.truncate(open - with);
    let clauses = clauses.into_tokens().into_iter();
    tokens.extend(clauses.map(|token| TokenWithSpan::new(token, Span::empty())));
    tokens.push(TokenWithSpan::new(Token::EOF, Span::empty()));
    Ok(Some(tokens))
}

fn is_word(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// Returns the place of the parenthesis that the last token closes.
fn opening(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 1 => return (at > 0).then_some(at),
            Token::LParen => depth = depth.saturating_sub(1),
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the parts between the commas that are in no parentheses.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

/// The clauses that options stand for.
#[derive(Default)]
struct Clauses {
    format: Option<String>,
    partition_by: Vec<Token>,
    /// Names and values of `OPTIONS`.
    options: Vec<(&'static str, String)>,
}

impl Clauses {
    /// Adds an option.
    ///
    /// # Errors
    /// It is not known, or its value is none that it may have.
    fn add(&mut self, option: &[Token]) -> Result<(), EngineError> {
        let [Token::Word(name), value @ ..] = option else {
            return Err(wrong("an option of COPY … TO without a name"));
        };
        let name = name.value.to_ascii_uppercase();
        let text = || match value {
            [Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)] => Ok(text.clone()),
            [Token::Word(word)] => Ok(word.value.clone()),
            [Token::Number(number, _)] => Ok(number.clone()),
            _ => Err(wrong(&format!("the value of the option {name} of COPY … TO"))),
        };
        match name.as_str() {
            "FORMAT" => self.format = Some(text()?.to_ascii_uppercase()),
            "HEADER" => {
                let on = match value {
                    [] => true,
                    _ => match text()?.to_ascii_lowercase().as_str() {
                        "true" | "on" | "1" => true,
                        "false" | "off" | "0" => false,
                        _ => return Err(wrong("the value of the option HEADER of COPY … TO")),
                    },
                };
                self.options.push(("format.has_header", on.to_string()));
            }
            "DELIMITER" | "DELIM" | "SEP" => self.options.push(("format.delimiter", text()?)),
            "QUOTE" => self.options.push(("format.quote", text()?)),
            "ESCAPE" => self.options.push(("format.escape", text()?)),
            "NULL" | "NULLSTR" => self.options.push(("format.null_value", text()?)),
            "COMPRESSION" | "CODEC" => self.options.push(("format.compression", text()?)),
            "ROW_GROUP_SIZE" => self.options.push(("format.max_row_group_size", text()?)),
            "PARTITION_BY" => {
                self.partition_by = match value {
                    [Token::LParen, names @ .., Token::RParen] if !names.is_empty() => names.to_vec(),
                    [name @ Token::Word(_)] => vec![name.clone()],
                    _ => return Err(wrong("the value of the option PARTITION_BY of COPY … TO")),
                };
            }
            _ => return Err(wrong(&format!("the option {name} of COPY … TO"))),
        }
        Ok(())
    }

    fn into_tokens(self) -> Vec<Token> {
        let mut tokens = Vec::new();
        if let Some(format) = self.format {
            tokens.extend([Token::make_keyword("STORED"), Token::make_keyword("AS")]);
            tokens.push(Token::make_word(&format, None));
        }
        if !self.partition_by.is_empty() {
            tokens.extend([Token::make_keyword("PARTITIONED"), Token::make_keyword("BY")]);
            tokens.push(Token::LParen);
            tokens.extend(self.partition_by);
            tokens.push(Token::RParen);
        }
        if !self.options.is_empty() {
            tokens.extend([Token::make_keyword("OPTIONS"), Token::LParen]);
            for (at, (name, value)) in self.options.into_iter().enumerate() {
                if at > 0 {
                    tokens.push(Token::Comma);
                }
                tokens.push(Token::SingleQuotedString(name.to_owned()));
                tokens.push(Token::SingleQuotedString(value));
            }
            tokens.push(Token::RParen);
        }
        tokens
    }
}

fn wrong(what: &str) -> EngineError {
    EngineError::Unsupported {
        what: what.to_owned(),
        instead:
            "the options are FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, COMPRESSION, ROW_GROUP_SIZE and \
                  PARTITION_BY (a, b)"
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        match with_clauses(text) {
            Ok(Some(tokens)) => {
                let words: Vec<String> = tokens.iter().map(|token| token.to_string()).collect();
                words.join(" ").trim_end_matches(" EOF").to_owned()
            }
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn options_become_clauses() {
        for (text, expected) in [
            (
                "COPY t TO 'x' (FORMAT csv, HEADER, DELIMITER '|');",
                "COPY t TO 'x' STORED AS CSV OPTIONS ( 'format.has_header' 'true' , 'format.delimiter' '|' )",
            ),
            (
                "COPY (SELECT (1)) TO 'x' WITH (NULL 'NA', header false)",
                "COPY ( SELECT ( 1 ) ) TO 'x' OPTIONS ( 'format.null_value' 'NA' , 'format.has_header' 'false' )",
            ),
            (
                "COPY t TO 'x' (FORMAT 'parquet', PARTITION_BY (a, b))",
                "COPY t TO 'x' STORED AS PARQUET PARTITIONED BY ( a , b )",
            ),
        ] {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "COPY t FROM 'x' (FORMAT csv)",
            "COPY t TO 'x' OPTIONS ('a' 'b')",
            "SELECT (1)",
            "COPY t TO 'x'",
        ] {
            assert_eq!(rewritten(text), "none", "{text}");
        }
        assert!(rewritten("COPY t TO 'x' (SIZE 3)").contains("the option SIZE of COPY … TO"));
        assert!(rewritten("COPY t TO 'x' (HEADER maybe)").contains("HEADER"));
    }
}
