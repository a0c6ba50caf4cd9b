//! Patterns of `LIKE … ESCAPE` and `SIMILAR TO`.
//!
//! DataFusion knows no escape character but the backslash, and takes the pattern of `SIMILAR TO` for a
//! regular expression that may match a part of the text. So the patterns are rewritten: literals in the
//! syntax tree, others by a function.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr as LogicalExpr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

/// A language of patterns that is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    /// To one with the backslash as its escape character.
    Like,
    /// To a regular expression.
    Similar,
}

/// The character that makes the next one of a pattern stand for itself, if there is one.
type Escape = Option<char>;

impl Pattern {
    const fn operator(self) -> &'static str {
        match self {
            Self::Like => "\u{1}like",
            Self::Similar => "\u{1}similar",
        }
    }

    /// Translates a pattern.
    ///
    /// # Errors
    /// It ends with the escape character.
    fn translate(self, pattern: &str, escape: Escape) -> Result<String> {
        let translated = match self {
            Self::Like => like(pattern, escape),
            Self::Similar => similar(pattern, escape),
        };
        translated.ok_or_else(|| {
            let escape = escape.map(String::from).unwrap_or_default();
            let text = format!(
                "the pattern '{pattern}' ends with its escape character '{escape}'; write it twice, or choose another one with \
                 ESCAPE"
            );
            DataFusionError::Execution(text)
        })
    }
}

/// Returns a pattern of `LIKE` in which the backslash is the escape character; `None` if it ends with its
/// own.
fn like(pattern: &str, escape: Escape) -> Option<String> {
    let mut like = String::with_capacity(pattern.len() + 2);
    let mut chars = pattern.chars();
    while let Some(mut char) = chars.next() {
        if Some(char) == escape {
            char = chars.next()?;
            if matches!(char, '%' | '_') {
                like.push('\\');
            }
        }
        if char == '\\' {
            like.push('\\');
        }
        like.push(char);
    }
    Some(like)
}

/// Returns the regular expression of a pattern of `SIMILAR TO`; `None` if it ends with its escape character.
fn similar(pattern: &str, escape: Escape) -> Option<String> {
    let mut regex = String::with_capacity(pattern.len() + 8);
    regex.push_str("^(?s:");
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        if Some(char) == escape {
            push_literal(&mut regex, chars.next()?);
            continue;
        }
        match char {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '|' | '*' | '+' | '?' | '{' | '}' | ')' => regex.push(char),
            '[' => push_class(&mut regex, &mut chars, escape)?,
            other => push_literal(&mut regex, other),
        }
    }
    regex.push_str(")$");
    Some(regex)
}

/// Adds the rest of `[…]`. A letter in it stands for itself, apart from `^`, `-` and the names of classes, as
/// in `[[:digit:]]`.
fn push_class(regex: &mut String, chars: &mut Peekable<Chars<'_>>, escape: Escape) -> Option<()> {
    regex.push('[');
    if chars.next_if_eq(&'^').is_some() {
        regex.push('^');
    }
    // A bracket that comes first closes nothing.
    if chars.next_if_eq(&']').is_some() {
        regex.push_str("\\]");
    }
    while let Some(char) = chars.next() {
        match char {
            char if Some(char) == escape => push_literal(regex, chars.next()?),
            ']' => {
                regex.push(']');
                break;
            }
            '[' if chars.peek() == Some(&':') => {
                regex.push('[');
                for char in chars.by_ref() {
                    regex.push(char);
                    if char == ']' {
                        break;
                    }
                }
            }
            '-' => regex.push('-'),
            other => push_literal(regex, other),
        }
    }
    Some(())
}

fn push_literal(regex: &mut String, char: char) {
    if char.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(char);
}

/// Rewrites `LIKE … ESCAPE` and `SIMILAR TO`; other expressions stay as they are, and so do escapes that are
/// no character, which planning reports.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Like {
            any: false,
            pattern,
            escape_char,
            ..
        }
        | Expr::ILike {
            any: false,
            pattern,
            escape_char,
            ..
        } if escape_char.is_some() => {
            if let Some(escape) = escape_of(escape_char.as_ref()) {
                translate(Pattern::Like, pattern, escape);
                *escape_char = None;
            }
        }
        Expr::SimilarTo {
            negated,
            expr: text,
            pattern,
            escape_char,
        } => {
            let escape = match escape_char {
                Some(_) => escape_of(escape_char.as_ref()),
                None => Some(Ok(Some('\\'))),
            };
            let Some(escape) = escape else {
                return;
            };
            translate(Pattern::Similar, pattern, escape);
            let op = if *negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            let nothing = || Box::new(Expr::value(Value::Null));
            let left = std::mem::replace(text, nothing());
            let right = std::mem::replace(pattern, nothing());
            *expr = Expr::BinaryOp { left, op, right };
        }
        _ => {}
    }
}

/// NULL in place of an escape character.
struct NullEscape;

/// Returns the character of a literal; `None` if it is no character.
fn escape_of(literal: Option<&ValueWithSpan>) -> Option<std::result::Result<Escape, NullEscape>> {
    match &literal?.value {
        Value::Null => Some(Err(NullEscape)),
        Value::SingleQuotedString(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (escape, None) => Some(Ok(escape)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Translates a literal, or makes another pattern the argument of the function that does.
fn translate(language: Pattern, pattern: &mut Box<Expr>, escape: std::result::Result<Escape, NullEscape>) {
    let Ok(escape) = escape else {
        **pattern = Expr::value(Value::Null);
        return;
    };
    if let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(text),
        ..
    }) = &mut **pattern
        && let Ok(translated) = language.translate(text, escape)
    {
        *text = translated;
        return;
    }
    let escape = escape.map(String::from).unwrap_or_default();
    let original = std::mem::replace(&mut **pattern, Expr::value(Value::Null));
    **pattern = Expr::BinaryOp {
        left: Box::new(original),
        op: BinaryOperator::Custom(language.operator().to_owned()),
        right: Box::new(Expr::value(Value::SingleQuotedString(escape))),
    };
}

/// Translates patterns that are no literals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TranslatedPattern {
    language: Pattern,
    signature: Signature,
}

static LIKE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Pattern::Like));
static SIMILAR: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Pattern::Similar));

fn function(language: Pattern) -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Utf8, DataType::Utf8], Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(TranslatedPattern {
        language,
        signature,
    }))
}

/// Returns the translation of a pattern; `None` if the operator is none of this module.
pub(super) fn planned(operator: &str, pattern: &LogicalExpr, escape: &LogicalExpr) -> Option<LogicalExpr> {
    let function = [(Pattern::Like, &LIKE), (Pattern::Similar, &SIMILAR)]
        .into_iter()
        .find(|(language, _)| language.operator() == operator)?
        .1;
    let args = vec![pattern.clone(), escape.clone()];
    Some(LogicalExpr::ScalarFunction(ScalarFunction::new_udf(
        Arc::clone(function),
        args,
    )))
}

impl ScalarUDFImpl for TranslatedPattern {
    fn name(&self) -> &'static str {
        match self.language {
            Pattern::Like => "like_pattern",
            Pattern::Similar => "similar_pattern",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [patterns, ColumnarValue::Scalar(ScalarValue::Utf8(Some(escape)))] = args.args.as_slice() else {
            let text = format!("{} has a pattern and a character", self.name());
            return Err(DataFusionError::Internal(text));
        };
        let escape = escape.chars().next();
        let of = |pattern: &str| self.language.translate(pattern, escape);
        Ok(match patterns {
            ColumnarValue::Scalar(value) => {
                let pattern = value.try_as_str().flatten().map(of).transpose()?;
                ColumnarValue::Scalar(ScalarValue::Utf8(pattern))
            }
            ColumnarValue::Array(values) => {
                let patterns = values.as_string::<i32>().iter();
                let patterns: StringArray = patterns
                    .map(|pattern| pattern.map(of).transpose())
                    .collect::<Result<_>>()?;
                ColumnarValue::Array(Arc::new(patterns) as ArrayRef)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_like_get_the_backslash() {
        let of = |pattern, escape| like(pattern, escape);
        assert_eq!(of("a!%%", Some('!')).as_deref(), Some("a\\%%"));
        assert_eq!(of("a!b!!", Some('!')).as_deref(), Some("ab!"));
        assert_eq!(of("a\\%", Some('!')).as_deref(), Some("a\\\\%"));
        assert_eq!(of("a\\%", None).as_deref(), Some("a\\\\%"));
        assert_eq!(of("a%%_", Some('%')).as_deref(), Some("a\\%_"));
        assert_eq!(of("ab!", Some('!')), None);
    }

    #[test]
    fn patterns_of_similar_match_the_whole_text() {
        let of = |pattern| similar(pattern, Some('\\'));
        assert_eq!(of("a%b_").as_deref(), Some("^(?s:a.*b.)$"));
        assert_eq!(of("(a|b){2}").as_deref(), Some("^(?s:(?:a|b){2})$"));
        assert_eq!(of("a.\\%$").as_deref(), Some("^(?s:a\\.\\%\\$)$"));
        assert_eq!(
            of("[^a-c%][[:digit:]]").as_deref(),
            Some("^(?s:[^a-c\\%][[:digit:]])$")
        );
        assert_eq!(of("a\\"), None);
    }
}
