//! Conditions on strings as predicates on bytes, for columns and dictionaries that are compared string by
//! string.
//!
//! A predicate is exact for values. Its answer for NULL is tracked beside it in the three-valued logic of
//! SQL, and a condition that is true of NULL where its predicate is not, or the other way round, is not
//! translated.

use std::ops::Bound;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, InList, Like, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_columns::{LikePattern, StringPredicate};

/// A condition, as far as it is translated.
struct StringTruth {
    /// True for the values for which the condition is.
    values: StringPredicate,
    /// The truth of the condition for NULL.
    of_null: Option<bool>,
}

impl StringTruth {
    /// Returns a condition that is NULL for NULL.
    fn strict(values: StringPredicate) -> Self {
        Self {
            values,
            of_null: None,
        }
    }

    fn negated_if(self, negated: bool) -> Self {
        if negated { self.not() } else { self }
    }

    fn not(self) -> Self {
        Self {
            values: self.values.not(),
            of_null: self.of_null.map(|truth| !truth),
        }
    }

    fn and(self, other: Self) -> Self {
        match self.values.and(&other.values) {
            Some(values) => Self::strict(values),
            None => self.not().or(other.not()).not(),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            values: StringPredicate::any([self.values, other.values]),
            of_null: match (self.of_null, other.of_null) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

/// Translates a condition on a column of strings or binary values; `None` if there is no exact translation.
pub(super) fn read(expr: &Expr, column: &DataType) -> Option<StringPredicate> {
    let truth = string_truth(expr, column)?;
    let is_exact = truth.values.matches(None) == (truth.of_null == Some(true));
    is_exact.then_some(truth.values)
}

/// Translates like [`read`], for conditions that are NULL for NULL.
pub(super) fn read_strict(expr: &Expr, column: &DataType) -> Option<StringPredicate> {
    let truth = string_truth(expr, column)?;
    (truth.of_null.is_none() && !truth.values.matches(None)).then_some(truth.values)
}

fn string_truth(expr: &Expr, column: &DataType) -> Option<StringTruth> {
    use DataType as D;
    let is_text = matches!(column, D::Utf8 | D::LargeUtf8 | D::Utf8View);
    if !is_text && !matches!(column, D::Binary | D::LargeBinary | D::BinaryView) {
        return None;
    }
    match expr {
        Expr::Alias(alias) => string_truth(&alias.expr, column),
        Expr::Not(inner) => Some(string_truth(inner, column)?.not()),
        Expr::IsNull(inner) if is_column(inner) => Some(StringTruth {
            values: StringPredicate::null(),
            of_null: Some(true),
        }),
        Expr::IsNotNull(inner) if is_column(inner) => Some(StringTruth {
            values: StringPredicate::null().not(),
            of_null: Some(false),
        }),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => Some(string_truth(left, column)?.or(string_truth(right, column)?)),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => Some(string_truth(left, column)?.and(string_truth(right, column)?)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (value, Expr::Literal(literal, _)) => compare(value, *op, literal),
            (Expr::Literal(literal, _), value) => compare(value, op.swap()?, literal),
            _ => None,
        },
        Expr::Between(between) => self::between(between),
        Expr::InList(list) => in_list(list),
        Expr::Like(like) if is_text => self::like(like),
        Expr::ScalarFunction(function) if is_text => call(function),
        _ => None,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

/// Translates `value op literal`, where the value is the column or its first characters.
fn compare(value: &Expr, op: Operator, literal: &ScalarValue) -> Option<StringTruth> {
    let bytes = bytes_of(literal)?;
    if let Expr::ScalarFunction(function) = value {
        let equal = StringTruth::strict(first_characters(function)?.equal(std::str::from_utf8(bytes).ok()?));
        return match op {
            Operator::Eq => Some(equal),
            Operator::NotEq => Some(equal.not()),
            _ => None,
        };
    }
    if !is_column(value) {
        return None;
    }
    let predicate = match op {
        Operator::Eq => StringPredicate::equal(bytes),
        Operator::NotEq => StringPredicate::equal(bytes).not(),
        Operator::Lt => StringPredicate::range(Bound::Unbounded, Bound::Excluded(bytes)),
        Operator::LtEq => StringPredicate::range(Bound::Unbounded, Bound::Included(bytes)),
        Operator::Gt => StringPredicate::range(Bound::Excluded(bytes), Bound::Unbounded),
        Operator::GtEq => StringPredicate::range(Bound::Included(bytes), Bound::Unbounded),
        _ => return None,
    };
    Some(StringTruth::strict(predicate))
}

/// Returns the bytes of a literal that is not NULL.
fn bytes_of(literal: &ScalarValue) -> Option<&[u8]> {
    match literal {
        ScalarValue::Binary(value) | ScalarValue::LargeBinary(value) | ScalarValue::BinaryView(value) => {
            value.as_deref()
        }
        text => text.try_as_str()?.map(str::as_bytes),
    }
}

fn literal_bytes(expr: &Expr) -> Option<&[u8]> {
    match expr {
        Expr::Literal(literal, _) => bytes_of(literal),
        _ => None,
    }
}

fn between(between: &Between) -> Option<StringTruth> {
    let (low, high) = (literal_bytes(&between.low)?, literal_bytes(&between.high)?);
    let range = StringPredicate::range(Bound::Included(low), Bound::Included(high));
    is_column(&between.expr).then(|| StringTruth::strict(range).negated_if(between.negated))
}

fn in_list(list: &InList) -> Option<StringTruth> {
    let values: Option<Vec<&[u8]>> = list.list.iter().map(literal_bytes).collect();
    let values = values?;
    let any = match &*list.expr {
        Expr::Column(_) => StringPredicate::set(values),
        Expr::ScalarFunction(function) => {
            let first = first_characters(function)?;
            let equal = |bytes| Some(first.equal(std::str::from_utf8(bytes).ok()?));
            StringPredicate::any(values.into_iter().map(equal).collect::<Option<Vec<_>>>()?)
        }
        _ => return None,
    };
    Some(StringTruth::strict(any).negated_if(list.negated))
}

fn like(like: &Like) -> Option<StringTruth> {
    let escapes_otherwise = like.escape_char.is_some_and(|character| character != '\\');
    if like.case_insensitive || !is_column(&like.expr) || escapes_otherwise {
        return None;
    }
    let pattern = std::str::from_utf8(literal_bytes(&like.pattern)?).ok()?;
    let predicate = StringPredicate::like(LikePattern::parse(pattern)?);
    Some(StringTruth::strict(predicate).negated_if(like.negated))
}

/// Translates `contains(column, text)`, `starts_with(column, text)` and `ends_with(column, text)`.
fn call(function: &ScalarFunction) -> Option<StringTruth> {
    let [value, text] = function.args.as_slice() else {
        return None;
    };
    let text = std::str::from_utf8(literal_bytes(text).filter(|_| is_column(value))?).ok()?;
    Some(StringTruth::strict(match function.name() {
        "contains" => StringPredicate::like(LikePattern::containing(text)),
        "starts_with" => StringPredicate::prefix(text.as_bytes()),
        "ends_with" => StringPredicate::like(LikePattern::ending_with(text)),
        _ => return None,
    }))
}

/// The first characters of a column's strings.
struct FirstCharacters(usize);

impl FirstCharacters {
    /// Returns the condition that they are this text.
    fn equal(&self, text: &str) -> StringPredicate {
        match text.chars().count().cmp(&self.0) {
            std::cmp::Ordering::Less => StringPredicate::equal(text.as_bytes()),
            std::cmp::Ordering::Equal => StringPredicate::prefix(text.as_bytes()),
            std::cmp::Ordering::Greater => StringPredicate::set([]),
        }
    }
}

/// Reads `substr(column, 1, n)` and `left(column, n)`.
fn first_characters(function: &ScalarFunction) -> Option<FirstCharacters> {
    let number = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        _ => None,
    };
    let characters = match (function.name(), function.args.as_slice()) {
        ("substr", [Expr::Column(_), from, characters]) if number(from) == Some(1) => number(characters),
        ("left", [Expr::Column(_), characters]) => number(characters),
        _ => None,
    };
    usize::try_from(characters?).ok().map(FirstCharacters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    fn matches(expr: &Expr, values: [Option<&str>; 4]) -> Option<[bool; 4]> {
        let predicate = read(expr, &DataType::Utf8View)?;
        Some(values.map(|value| predicate.matches(value.map(str::as_bytes))))
    }

    #[test]
    fn null_is_true_of_no_comparison() {
        let values = [None, Some("a"), Some("ab"), Some("b")];
        let s = || col("s");
        for (condition, expected) in [
            (s().eq(lit("a")), [false, true, false, false]),
            (!s().eq(lit("a")), [false, false, true, true]),
            (s().is_null(), [true, false, false, false]),
            (!s().is_null(), [false, true, true, true]),
            (s().is_null().or(s().like(lit("a%"))), [true, true, true, false]),
            (
                !(s().is_null().or(s().like(lit("a%")))),
                [false, false, false, true],
            ),
            (
                s().gt(lit("a")).and(s().lt(lit("b"))),
                [false, false, true, false],
            ),
            (
                s().not_eq(lit("a")).and(s().like(lit("%b%"))),
                [false, false, true, true],
            ),
            (
                s().is_not_null().and(s().like(lit("%b%"))),
                [false, false, true, true],
            ),
            (lit("ab").gt(s()), [false, true, false, false]),
            (s().between(lit("aa"), lit("b")), [false, false, true, true]),
            (s().not_between(lit("aa"), lit("b")), [false, true, false, false]),
            (
                s().in_list(vec![lit("a"), lit("b")], true),
                [false, false, true, false],
            ),
        ] {
            assert_eq!(matches(&condition, values), Some(expected), "{condition}");
        }
        let true_of_null = !(s().is_not_null().or(s().is_not_null()));
        assert!(matches(&true_of_null, values).is_none());
        assert!(matches(&s().eq(lit(ScalarValue::Utf8(None))), values).is_none());
        assert!(read(&s().eq(lit("a")), &DataType::Int64).is_none());
        assert!(read_strict(&s().is_null(), &DataType::Utf8).is_none());
    }
}
