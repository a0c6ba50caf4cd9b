//! Truth of one comparison: `column op literal`, BETWEEN, IN, LIKE, IS NULL, or anything a probe can decide.

use std::ops::Bound;

use arrow_array::Array;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_sql::semantics::without_sign_of_zero;

use super::codes::CodeDomain;
use super::probe;
use super::strings;
use super::truth::{self, Truth};

/// Evaluates the truth of a condition other than AND, OR and NOT.
pub(super) fn truth_of_atom(expr: &Expr, codes: &CodeDomain<'_>) -> Option<Truth> {
    let probed = || every_string(expr, codes).or_else(|| probe::every_code(expr, codes));
    direct(expr, codes).or_else(probed)
}

/// Evaluates a condition that is NULL for NULL on every string of a dictionary.
fn every_string(expr: &Expr, codes: &CodeDomain<'_>) -> Option<Truth> {
    let predicate = strings::read_strict(expr, codes.space.data_type())?;
    Some(Truth::strict(codes.matching(&predicate)?, codes))
}

fn direct(expr: &Expr, codes: &CodeDomain<'_>) -> Option<Truth> {
    match expr {
        Expr::Column(_) => compare(Operator::Eq, &ScalarValue::Boolean(Some(true)), codes),
        Expr::IsNull(inner) if matches!(**inner, Expr::Column(_)) => {
            Some(Truth::total(codes.nulls.clone(), codes))
        }
        Expr::IsNotNull(inner) if matches!(**inner, Expr::Column(_)) => {
            Some(Truth::total(codes.values.clone(), codes))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (value, Expr::Literal(literal, _)) => side(value, *op, literal, codes),
            (Expr::Literal(literal, _), value) => side(value, op.swap()?, literal, codes),
            _ => None,
        },
        Expr::Between(between) => self::between(between, codes),
        Expr::InList(list) => in_list(list, codes),
        Expr::Like(like) => self::like(like, codes),
        _ => None,
    }
}

/// Evaluates `value op literal`, where the value is the column or a monotone function of it.
fn side(value: &Expr, op: Operator, literal: &ScalarValue, codes: &CodeDomain<'_>) -> Option<Truth> {
    match column_or(value) {
        Expr::Column(_) => compare(op, literal, codes),
        _ => probe::monotone(value, op, literal, codes),
    }
}

/// Returns the column below a function that only unifies the zeros of floats, as codes do; otherwise the
/// expression.
fn column_or(value: &Expr) -> &Expr {
    match without_sign_of_zero(value) {
        column @ Expr::Column(_) => column,
        _ => value,
    }
}

/// Evaluates `column op literal`.
fn compare(op: Operator, literal: &ScalarValue, codes: &CodeDomain<'_>) -> Option<Truth> {
    if literal.is_null() {
        return match op {
            Operator::IsDistinctFrom => Some(Truth::total(codes.values.clone(), codes)),
            Operator::IsNotDistinctFrom => Some(Truth::total(codes.nulls.clone(), codes)),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => Some(Truth::unknown()),
            _ => None,
        };
    }
    let array = codes.array(literal)?;
    let value: &dyn Array = &array;
    let space = codes.space;
    let predicate = match op {
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
            space.equal(value)
        }
        Operator::Lt => space.range(Bound::Unbounded, Bound::Excluded(value)),
        Operator::LtEq => space.range(Bound::Unbounded, Bound::Included(value)),
        Operator::Gt => space.range(Bound::Excluded(value), Bound::Unbounded),
        Operator::GtEq => space.range(Bound::Included(value), Bound::Unbounded),
        _ => return None,
    };
    let matching = codes.set(&predicate.ok()?);
    Some(match op {
        Operator::NotEq => Truth::strict(matching, codes).not(),
        Operator::IsDistinctFrom => Truth::total(matching, codes).not(),
        Operator::IsNotDistinctFrom => Truth::total(matching, codes),
        _ => Truth::strict(matching, codes),
    })
}

fn between(between: &Between, codes: &CodeDomain<'_>) -> Option<Truth> {
    let bound = |op, bound: &Expr| {
        Expr::BinaryExpr(BinaryExpr::new(between.expr.clone(), op, Box::new(bound.clone())))
    };
    let low = bound(Operator::GtEq, &between.low);
    let high = bound(Operator::LtEq, &between.high);
    let both = truth::truth_of(
        &Expr::BinaryExpr(BinaryExpr::new(Box::new(low), Operator::And, Box::new(high))),
        codes,
    )?;
    Some(if between.negated { both.not() } else { both })
}

fn in_list(list: &InList, codes: &CodeDomain<'_>) -> Option<Truth> {
    if !matches!(column_or(&list.expr), Expr::Column(_)) {
        return one_of_few(list, codes);
    }
    let (mut values, mut has_null) = (Vec::with_capacity(list.list.len()), false);
    for item in &list.list {
        let Expr::Literal(value, _) = item else {
            return None;
        };
        if value.is_null() {
            has_null = true;
        } else {
            values.push(codes.literal(value)?);
        }
    }
    let matching = if values.is_empty() {
        Truth::strict(super::intervals::Intervals::empty(), codes)
    } else {
        let array = ScalarValue::iter_to_array(values).ok()?;
        Truth::strict(codes.set(&codes.space.set(&array).ok()?), codes)
    };
    // `x IN (1, NULL)` is true or NULL, never false.
    let matching = if has_null {
        Truth {
            no: super::intervals::Intervals::empty(),
            ..matching
        }
    } else {
        matching
    };
    Some(if list.negated { matching.not() } else { matching })
}

/// Evaluates `function(column) IN (…)` as an OR, for few values, since each needs a bisection.
fn one_of_few(list: &InList, codes: &CodeDomain<'_>) -> Option<Truth> {
    const MAX_BISECTED_VALUES: usize = 32;
    if list.list.len() > MAX_BISECTED_VALUES {
        return None;
    }
    let mut any = Truth::total(super::intervals::Intervals::empty(), codes);
    for item in &list.list {
        let Expr::Literal(value, _) = item else {
            return None;
        };
        let one = if value.is_null() {
            Truth::unknown()
        } else {
            probe::monotone(&list.expr, Operator::Eq, value, codes)?
        };
        any = any.or(&one);
    }
    Some(if list.negated { any.not() } else { any })
}

fn like(like: &Like, codes: &CodeDomain<'_>) -> Option<Truth> {
    if like.case_insensitive
        || !matches!(*like.expr, Expr::Column(_))
        || like.escape_char.is_some_and(|c| c != '\\')
    {
        return None;
    }
    let Expr::Literal(pattern, _) = &*like.pattern else {
        return None;
    };
    let Some(text) = pattern.try_as_str()? else {
        return Some(Truth::unknown());
    };
    let predicate = match read_pattern(text)? {
        Pattern::Prefix(prefix) => codes.space.prefix(&prefix).ok()?,
        Pattern::Whole(text) => {
            let array = codes.array(&ScalarValue::Utf8(Some(text)))?;
            codes.space.equal(&array).ok()?
        }
    };
    let matching = Truth::strict(codes.set(&predicate), codes);
    Some(if like.negated { matching.not() } else { matching })
}

#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    Prefix(String),
    Whole(String),
}

/// Reads a LIKE pattern that is a text, or a text followed by `%`; a backslash takes the next character as it
/// is.
fn read_pattern(pattern: &str) -> Option<Pattern> {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '_' => return None,
            '%' => {
                return characters
                    .all(|rest| rest == '%')
                    .then_some(Pattern::Prefix(text));
            }
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
    Some(Pattern::Whole(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let prefix = |text: &str| Some(Pattern::Prefix(text.into()));
        assert_eq!(read_pattern("abc%"), prefix("abc"));
        assert_eq!(read_pattern("%%"), prefix(""));
        assert_eq!(read_pattern("a\\%b\\_%"), prefix("a%b_"));
        assert_eq!(read_pattern("abc"), Some(Pattern::Whole("abc".into())));
        assert_eq!(read_pattern("a%c"), None);
        assert_eq!(read_pattern("a_"), None);
        assert_eq!(read_pattern("a\\"), None);
    }
}
