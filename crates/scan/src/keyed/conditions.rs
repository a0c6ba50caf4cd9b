//! Filters as conditions on key columns.

use std::ops::Bound;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_keyed::{KeyCondition, KeyedTable};

use super::prefix;

/// Returns conditions on key columns, by position, that hold for every row for which a filter is true; none
/// if it gives none.
pub(super) fn conditions(filter: &Expr, table: &KeyedTable) -> Vec<(usize, KeyCondition)> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, op, &**right) {
            (left, Operator::And, right) => {
                let mut both = conditions(left, table);
                both.extend(conditions(right, table));
                both
            }
            (_, Operator::Or, _) => {
                let one_of =
                    alternatives(filter, table).and_then(|(column, values)| one_of(column, &values, table));
                one_of.into_iter().collect()
            }
            (Expr::Column(_), op, Expr::Literal(value, _)) => {
                comparison(left, *op, value, table).into_iter().collect()
            }
            (Expr::Literal(value, _), op, Expr::Column(_)) => {
                let swapped = op.swap().and_then(|op| comparison(right, op, value, table));
                swapped.into_iter().collect()
            }
            _ => Vec::new(),
        },
        Expr::Between(between) if !between.negated => match (&*between.low, &*between.high) {
            (Expr::Literal(low, _), Expr::Literal(high, _)) => {
                let low = comparison(&between.expr, Operator::GtEq, low, table);
                let high = comparison(&between.expr, Operator::LtEq, high, table);
                low.into_iter().chain(high).collect()
            }
            _ => Vec::new(),
        },
        Expr::InList(list) if !list.negated => {
            let literals = list.list.iter().map(|item| match item {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            let literals: Option<Vec<&ScalarValue>> = literals.collect();
            let one_of = literals.and_then(|literals| one_of(&list.expr, &literals, table));
            one_of.into_iter().collect()
        }
        Expr::Like(like) => on_text(prefix::of_like(like), table),
        Expr::ScalarFunction(function) => on_text(prefix::of_function(function), table),
        _ => Vec::new(),
    }
}

/// Returns a condition on a column as one on its position, if it is a key column of texts.
fn on_text(condition: Option<(&Expr, KeyCondition)>, table: &KeyedTable) -> Vec<(usize, KeyCondition)> {
    let positioned = condition.and_then(|(column, condition)| {
        let (position, data_type) = key_column(column, table)?;
        (*data_type == DataType::Utf8View).then_some((position, condition))
    });
    positioned.into_iter().collect()
}

/// Returns the column and the values of `column = a OR column = b …`, as which short lists arrive.
fn alternatives<'a>(filter: &'a Expr, table: &KeyedTable) -> Option<(&'a Expr, Vec<&'a ScalarValue>)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    match (&**left, op, &**right) {
        (left, Operator::Or, right) => {
            let (column, mut values) = alternatives(left, table)?;
            let (other, more) = alternatives(right, table)?;
            values.extend(more);
            (key_column(column, table)?.0 == key_column(other, table)?.0).then_some((column, values))
        }
        (column @ Expr::Column(_), Operator::Eq, Expr::Literal(value, _))
        | (Expr::Literal(value, _), Operator::Eq, column @ Expr::Column(_)) => Some((column, vec![value])),
        _ => None,
    }
}

/// Returns the position and the type of a key column.
fn key_column<'a>(expr: &Expr, table: &'a KeyedTable) -> Option<(usize, &'a DataType)> {
    let Expr::Column(column) = expr else {
        return None;
    };
    let position = table.schema().index_of(&column.name).ok()?;
    let is_key = table.definition().key().contains(&position);
    is_key.then(|| (position, table.schema().field(position).data_type()))
}

fn comparison(
    column: &Expr,
    op: Operator,
    literal: &ScalarValue,
    table: &KeyedTable,
) -> Option<(usize, KeyCondition)> {
    let (position, data_type) = key_column(column, table)?;
    if literal.is_null() {
        let is_comparison = matches!(
            op,
            Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        return is_comparison.then(|| (position, KeyCondition::OneOf(new_empty_array(data_type))));
    }
    let value = exact(literal, data_type)?;
    let condition = match op {
        Operator::Eq => KeyCondition::OneOf(value),
        Operator::Lt => KeyCondition::Range(Bound::Unbounded, Bound::Excluded(value)),
        Operator::LtEq => KeyCondition::Range(Bound::Unbounded, Bound::Included(value)),
        Operator::Gt => KeyCondition::Range(Bound::Excluded(value), Bound::Unbounded),
        Operator::GtEq => KeyCondition::Range(Bound::Included(value), Bound::Unbounded),
        _ => return None,
    };
    Some((position, condition))
}

fn one_of(column: &Expr, literals: &[&ScalarValue], table: &KeyedTable) -> Option<(usize, KeyCondition)> {
    let (position, data_type) = key_column(column, table)?;
    let literals = literals.iter().filter(|literal| !literal.is_null());
    let values: Vec<ScalarValue> = literals
        .map(|literal| exact_value(literal, data_type))
        .collect::<Option<_>>()?;
    let values = if values.is_empty() {
        new_empty_array(data_type)
    } else {
        ScalarValue::iter_to_array(values).ok()?
    };
    Some((position, KeyCondition::OneOf(values)))
}

fn exact(literal: &ScalarValue, to: &DataType) -> Option<ArrayRef> {
    exact_value(literal, to)?.to_array().ok()
}

/// Returns a literal as a value of another type; `None` if it has no equal there.
fn exact_value(literal: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    if literal.data_type() == *to {
        return Some(literal.clone());
    }
    let value = literal.cast_to(to).ok()?;
    let back = value.cast_to(&literal.data_type()).ok()?;
    (back == *literal).then_some(value)
}
