//! Conditions on the beginning of a text as ranges of keys.
//!
//! Texts order by code points, as their UTF-8 does: those with a prefix are all that are at least the prefix
//! and less than the least text that is greater than all of them.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringViewArray, new_empty_array};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Like, ScalarFunction};
use halocline_keyed::KeyCondition;

/// Returns the column of a LIKE and what it implies for that column, whose type is `Utf8View`; `None` if it
/// implies nothing.
pub(super) fn of_like(like: &Like) -> Option<(&Expr, KeyCondition)> {
    let escape = like.escape_char.unwrap_or('\\');
    if like.negated || like.case_insensitive || escape != '\\' {
        return None;
    }
    let condition = match text(&like.pattern)? {
        None => KeyCondition::OneOf(new_empty_array(&DataType::Utf8View)),
        Some(pattern) => match literal_prefix(pattern) {
            (whole, true) => KeyCondition::OneOf(value(&whole)),
            (prefix, false) => range(&prefix)?,
        },
    };
    Some((&like.expr, condition))
}

/// Does the same as [`of_like`] for the function `starts_with`.
pub(super) fn of_function(function: &ScalarFunction) -> Option<(&Expr, KeyCondition)> {
    let ("starts_with", [column, prefix]) = (function.name(), function.args.as_slice()) else {
        return None;
    };
    let condition = match text(prefix)? {
        None => KeyCondition::OneOf(new_empty_array(&DataType::Utf8View)),
        Some(prefix) => range(prefix)?,
    };
    Some((column, condition))
}

/// Returns a literal text, or NULL; `None` if it is no literal text.
fn text(expr: &Expr) -> Option<Option<&str>> {
    match expr {
        Expr::Literal(ScalarValue::Null, _) => Some(None),
        Expr::Literal(value, _) => value.try_as_str(),
        _ => None,
    }
}

/// Returns the text that a pattern begins with, and true if it is the whole pattern.
fn literal_prefix(pattern: &str) -> (String, bool) {
    let (mut prefix, mut chars) = (String::new(), pattern.chars());
    while let Some(next) = chars.next() {
        match next {
            '%' | '_' => return (prefix, false),
            '\\' => match chars.next() {
                Some(escaped) => prefix.push(escaped),
                // What a backslash at the end stands for is left to the filter.
                None => return (prefix, false),
            },
            other => prefix.push(other),
        }
    }
    (prefix, true)
}

/// Returns the range of the texts with a prefix; `None` if these are all texts.
fn range(prefix: &str) -> Option<KeyCondition> {
    let end = after_all_with(prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(value(&end)));
    (!prefix.is_empty()).then(|| KeyCondition::Range(Bound::Included(value(prefix)), end))
}

/// Returns the least text that is greater than all texts with a prefix; `None` if there is no such text.
fn after_all_with(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            // Surrogates are no characters.
            '\u{D7FF}' => Some('\u{E000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn value(text: &str) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values([text]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_before_the_next_character() {
        for (prefix, end) in [
            ("abc", Some("abd")),
            ("a\u{0}", Some("a\u{1}")),
            ("a\u{7F}", Some("a\u{80}")),
            ("a\u{D7FF}", Some("a\u{E000}")),
            ("a\u{10FFFF}", Some("b")),
            ("\u{10FFFF}\u{10FFFF}", None),
            ("", None),
        ] {
            assert_eq!(after_all_with(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn patterns_are_literal_up_to_the_first_wildcard() {
        for (pattern, prefix, is_whole) in [
            ("abc%", "abc", false),
            ("a_c%", "a", false),
            ("%a", "", false),
            ("abc", "abc", true),
            (r"a\%b\_\\c%d", r"a%b_\c", false),
            (r"a\bc", "abc", true),
            (r"ab\", "ab", false),
            ("", "", true),
        ] {
            assert_eq!(
                literal_prefix(pattern),
                (prefix.to_owned(), is_whole),
                "{pattern}"
            );
        }
    }
}
