//! The normal form of a query: its tokens with only the types of its literals, so that texts that differ in
//! white space, comments and values are the same.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use halocline_sql::question_marks::parameter;
use halocline_sql::syntax::SqlDialect;

use super::operands::{LiteralOperand, for_each_operand};
use super::values::{number, number_type};

/// Bytes of the longest text that has a normal form.
const MAX_TEXT_BYTES: usize = 4096;
/// Literals of a text that has a normal form.
const MAX_LITERALS: usize = 64;

/// A query text as the plan cache knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NormalForm {
    key: Box<[u8]>,
    literals: Vec<TextLiteral>,
    /// True if the text is `EXPLAIN ANALYZE` of the query, which has the same normal form.
    explains: bool,
}

/// A literal of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextLiteral {
    /// Its digits, or the text without its quotes.
    text: String,
    is_number: bool,
    at: Location,
}

impl NormalForm {
    /// Returns the normal form of a text; `None` if it is no query, or one that is long or has many literals.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES || !may_be_query(text) {
            return None;
        }
        let mut tokens = Tokenizer::new(&SqlDialect, text)
            .tokenize_with_location()
            .ok()?
            .into_iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .peekable();
        let explains = tokens
            .next_if(|token| is_keyword(token, Keyword::EXPLAIN))
            .is_some();
        if explains {
            tokens.next_if(|token| is_keyword(token, Keyword::ANALYZE))?;
        }
        let first = tokens.peek()?;
        if !is_keyword(first, Keyword::SELECT) && !is_keyword(first, Keyword::WITH) {
            return None;
        }
        let mut form = Self {
            key: Box::default(),
            literals: Vec::new(),
            explains,
        };
        let (mut key, mut ended) = (Vec::with_capacity(text.len()), false);
        for TokenWithSpan { token, span } in tokens {
            match token {
                Token::SemiColon => ended = true,
                // Several statements are an error.
                _ if ended => return None,
                Token::EOF => break,
                Token::Placeholder(_) => return None,
                Token::Number(digits, false) => match number_type(&digits) {
                    Some(data_type) => {
                        push_number_type(&mut key, &data_type);
                        form.literals.push(TextLiteral::new(digits, true, span.start));
                    }
                    None => push(&mut key, b'n', &digits),
                },
                Token::SingleQuotedString(text) => {
                    key.push(b's');
                    form.literals.push(TextLiteral::new(text, false, span.start));
                }
                Token::Word(word) => {
                    key.push(word.quote_style.map_or(0, |quote| quote as u8));
                    push(&mut key, b'w', &word.value);
                }
                other => push(&mut key, b't', &other.to_string()),
            }
        }
        if form.literals.len() > MAX_LITERALS {
            return None;
        }
        form.key = key.into_boxed_slice();
        Some(form)
    }

    /// Returns the key: equal for two texts if and only if they have the same tokens, apart from the values
    /// of their literals.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns bytes that are equal for two texts if and only if these have the same tokens, including
    /// literals and `EXPLAIN ANALYZE`.
    pub(super) fn with_literals(&self) -> Box<[u8]> {
        let mut bytes = self.key.to_vec();
        for literal in &self.literals {
            push(&mut bytes, b'l', &literal.text);
        }
        bytes.push(self.explains.into());
        bytes.into_boxed_slice()
    }

    /// Returns true for `EXPLAIN ANALYZE`.
    pub(crate) fn explains(&self) -> bool {
        self.explains
    }

    /// Returns the literals in the order of the text.
    pub(super) fn literals(&self) -> &[TextLiteral] {
        &self.literals
    }

    /// Replaces the literals of the query that are operands by parameters, `$1` and so on in the order of the
    /// text; `None` if a value cannot be read.
    pub(crate) fn literals_of(&self, mut statement: Parsed) -> Option<QueryLiterals> {
        let mut operands: Vec<Option<LiteralOperand>> = vec![None; self.literals.len()];
        for_each_operand(&mut statement, &mut |expr| {
            if let Some(operand) = LiteralOperand::read(expr)
                && let Some(at) = self.literals.iter().position(|literal| literal.at == operand.at)
            {
                operands[at] = Some(operand);
            }
        });
        let number = |at: usize| operands[..=at].iter().flatten().count();
        for_each_operand(&mut statement, &mut |expr| {
            let at = LiteralOperand::read(expr)
                .and_then(|operand| operands.iter().position(|other| *other == Some(operand)));
            if let Some(at) = at {
                *expr = parameter(number(at));
            }
        });
        let literals = self.literals.iter().zip(&operands);
        let values = literals.filter_map(|(literal, operand)| Some(literal.value(operand.as_ref()?)));
        Some(QueryLiterals {
            values: values.collect::<Option<_>>()?,
            operands: operands.into(),
            statement,
        })
    }
}

/// A query whose literals are parameters, as far as they are operands of comparisons.
pub(crate) struct QueryLiterals {
    /// The query.
    pub(crate) statement: Parsed,
    /// The operand that each literal of the normal form is; `None` for literals that are no parameters.
    pub(crate) operands: Arc<[Option<LiteralOperand>]>,
    /// Values of the parameters.
    pub(crate) values: Vec<ScalarValue>,
}

impl TextLiteral {
    fn new(text: String, is_number: bool, at: Location) -> Self {
        Self { text, is_number, at }
    }

    /// Returns its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns its value as an operand; `None` if it is no date although it should be.
    pub(super) fn value(&self, operand: &LiteralOperand) -> Option<ScalarValue> {
        match (self.is_number, operand.date) {
            (true, _) => number(&self.text, operand.negative),
            (false, false) => Some(ScalarValue::Utf8(Some(self.text.clone()))),
            (false, true) => {
                let text = ScalarValue::Utf8(Some(self.text.clone()));
                text.cast_to(&DataType::Date32)
                    .ok()
                    .filter(|date| !date.is_null())
            }
        }
    }
}

/// Returns true unless the first word shows that the text is no query.
fn may_be_query(text: &str) -> bool {
    let word: String = text
        .trim_start()
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .take(8)
        .collect();
    ["select", "with", "explain"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// Appends a token; its length separates it from the next one.
fn push(key: &mut Vec<u8>, kind: u8, text: &str) {
    key.push(kind);
    key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn push_number_type(key: &mut Vec<u8>, data_type: &DataType) {
    match data_type {
        DataType::Decimal128(precision, scale) => key.extend([b'd', *precision, scale.unsigned_abs()]),
        _ => key.push(b'i'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Box<[u8]> {
        NormalForm::from_text(text)
            .unwrap_or_else(|| panic!("{text}"))
            .key
    }

    #[test]
    fn white_space_comments_and_values_do_not_matter() {
        let text = "SELECT a FROM t WHERE b = 17 AND c = 'x' AND d < 8.70";
        let same = "SELECT  a\nFROM t -- all\n WHERE b = 4 AND c = 'it''s' /* b */ AND d < 1.25;";
        assert_eq!(key(text), key(same));
        let form = NormalForm::from_text(same).unwrap();
        let texts: Vec<&str> = form.literals().iter().map(TextLiteral::text).collect();
        assert_eq!(texts, ["4", "it's", "1.25"]);
        let explained = NormalForm::from_text(&format!("EXPLAIN ANALYZE {text}")).unwrap();
        assert!(explained.explains() && explained.key == key(text));
    }

    #[test]
    fn types_names_and_tokens_matter() {
        let text = key("SELECT a FROM t WHERE d = 8.7");
        for other in [
            "SELECT a FROM t WHERE d = 8.70",
            "SELECT a FROM t WHERE d = 8",
            "SELECT a FROM t WHERE d = '8.7'",
            "SELECT a FROM t WHERE d = 8.7e0",
            "SELECT a FROM t WHERE d = -8.7",
            "SELECT a FROM t WHERE \"d\" = 8.7",
            "SELECT a FROM t WHERE D = 8.7",
            "SELECT a FROM t WHERE d >= 8.7",
            "SELECT ad FROM t WHERE d = 8.7",
        ] {
            assert_ne!(text, key(other), "{other}");
        }
        assert_ne!(key("SELECT ab, c FROM t"), key("SELECT a, bc FROM t"));
        assert_ne!(key("SELECT 1e5 FROM t"), key("SELECT 1e6 FROM t"));
    }

    #[test]
    fn other_texts_have_none() {
        for text in [
            "INSERT INTO t VALUES (1)",
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE VERBOSE SELECT 1",
            "SELECT 1; SELECT 2",
            "SELECT $1",
            "SELECT ?",
            "SELECT 'open",
            "selection",
            "",
        ] {
            assert_eq!(NormalForm::from_text(text), None, "{text}");
        }
        let many = vec!["1"; MAX_LITERALS + 1].join(", ");
        assert_eq!(NormalForm::from_text(&format!("SELECT {many}")), None);
        assert_eq!(
            NormalForm::from_text(&format!("SELECT {}", "a".repeat(MAX_TEXT_BYTES))),
            None
        );
    }
}
