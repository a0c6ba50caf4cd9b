//! Conditions decided by evaluating them on values of the column: all of them when they are few, or by
//! bisection when the condition compares a monotone function of the column (a widening cast, the year of a
//! date) with a literal.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use halocline_sql::semantics::is_canonical;

use super::codes::CodeDomain;
use super::intervals::Intervals;
use super::truth::Truth;

/// Most codes of a column on which a condition is evaluated one by one.
const MAX_PROBES: u64 = 1024;
/// Probes per round of the bisection.
const FANOUT: u64 = 64;

/// A condition that can be evaluated on codes.
struct CodeProbe<'a> {
    codes: &'a CodeDomain<'a>,
    schema: Arc<Schema>,
    physical: Arc<dyn PhysicalExpr>,
}

impl<'a> CodeProbe<'a> {
    fn new(expr: &Expr, codes: &'a CodeDomain<'a>) -> Option<Self> {
        let field = Field::new(codes.field.name(), codes.space.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let described = DFSchema::try_from(Arc::clone(&schema)).ok()?;
        let context = PhysicalPlanningContext::default();
        let physical = create_physical_expr(expr, &described, &ExecutionProps::new(), &context).ok()?;
        Some(Self {
            codes,
            schema,
            physical,
        })
    }

    /// Evaluates the condition at each code; `None` if that fails or the result is not boolean.
    fn at(&self, codes: &[u64]) -> Option<BooleanArray> {
        let values = self.codes.space.decode(codes).ok()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![values]).ok()?;
        let answer = self
            .physical
            .evaluate(&batch)
            .ok()?
            .into_array(codes.len())
            .ok()?;
        answer.as_boolean_opt().cloned()
    }
}

/// Evaluates a condition on every code of a column that has few codes.
pub(super) fn every_code(expr: &Expr, codes: &CodeDomain<'_>) -> Option<Truth> {
    let max = codes.space.max_code();
    if max >= MAX_PROBES {
        return None;
    }
    let all: Vec<u64> = (0..=max).collect();
    let answer = CodeProbe::new(expr, codes)?.at(&all)?;
    let with = |wanted: bool| {
        Intervals::codes(
            all.iter()
                .zip(&answer)
                .filter(|(_, a)| *a == Some(wanted))
                .map(|(code, _)| *code),
        )
    };
    Some(Truth {
        yes: with(true),
        no: with(false),
    })
}

/// Bisects for the truth of `function op literal` if the function is known to be monotone over the column.
pub(super) fn monotone(
    function: &Expr,
    op: Operator,
    literal: &ScalarValue,
    codes: &CodeDomain<'_>,
) -> Option<Truth> {
    if literal.is_null() || !is_monotone(function, codes.space.data_type()) {
        return None;
    }
    let of_values: fn(Intervals, &CodeDomain<'_>) -> Truth = match op {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => Truth::total,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            Truth::strict
        }
        _ => return None,
    };
    if codes.values == Intervals::empty() {
        // There is nothing to evaluate the function on. It is NULL, which is distinct from the literal.
        let truth = of_values(Intervals::empty(), codes);
        return Some(match op {
            Operator::IsDistinctFrom => truth.not(),
            _ => truth,
        });
    }
    let from = |op| {
        first(
            &BinaryExpr::new(
                Box::new(function.clone()),
                op,
                Box::new(Expr::Literal(literal.clone(), None)),
            ),
            codes,
        )
    };
    let first_value = codes.space.null_code().map_or(0, |null| null + 1);
    let end = Intervals::range(first_value, codes.space.max_code());
    let tail = |from: Option<u64>| {
        from.map_or(Intervals::empty(), |code| {
            Intervals::range(code, u64::MAX).intersect(&end)
        })
    };
    let yes = match op {
        Operator::GtEq => tail(from(Operator::GtEq)?),
        Operator::Gt => tail(from(Operator::Gt)?),
        Operator::Lt => tail(from(Operator::GtEq)?).complement(&end),
        Operator::LtEq => tail(from(Operator::Gt)?).complement(&end),
        _ => tail(from(Operator::Gt)?).complement(&tail(from(Operator::GtEq)?)),
    };
    let truth = of_values(yes, codes);
    Some(match op {
        Operator::NotEq | Operator::IsDistinctFrom => truth.not(),
        _ => truth,
    })
}

/// Returns the first code of a value for which `condition` is true, given that it is false before some code
/// and true from there on. The outer `None` means that the condition is not monotone (it fails or is NULL at
/// a probe), the inner one that it is never true.
#[expect(
    clippy::option_option,
    reason = "two different absences, and used in this file only"
)]
fn first(condition: &BinaryExpr, codes: &CodeDomain<'_>) -> Option<Option<u64>> {
    let probe = CodeProbe::new(&Expr::BinaryExpr(condition.clone()), codes)?;
    // Invariant: false (or outside) below `lo`, true (or outside) above `hi`.
    let (mut lo, mut hi) = (
        codes.space.null_code().map_or(0, |null| null + 1),
        codes.space.max_code(),
    );
    // A function that is defined at both ends is defined between them.
    let ends = probe.at(&[lo, hi])?;
    if ends.null_count() > 0 {
        return None;
    }
    match (ends.value(0), ends.value(1)) {
        (true, _) => return Some(Some(lo)),
        (false, false) => return Some(None),
        (false, true) => {}
    }
    // Now false at `lo`, true at `hi`.
    while hi - lo > 1 {
        let step = ((hi - lo) / FANOUT).max(1);
        let points: Vec<u64> = (1..FANOUT)
            .map_while(|i| lo.checked_add(i * step).filter(|p| *p < hi))
            .collect();
        let answers = probe.at(&points)?;
        if answers.null_count() > 0 {
            return None;
        }
        let falses = (0..points.len()).take_while(|i| !answers.value(*i)).count();
        if let Some(code) = points.get(falses) {
            hi = *code;
        }
        if falses > 0 {
            lo = points[falses - 1];
        }
    }
    Some(Some(hi))
}

/// Returns true if `expr` is monotone over the values of the column. Whether it is defined is checked at the
/// ends of the domain.
fn is_monotone(expr: &Expr, column: &DataType) -> bool {
    match expr {
        Expr::Column(_) => is_ordered(column),
        Expr::Cast(cast) => {
            is_monotone(&cast.expr, column)
                && is_ordered(cast.field.data_type())
                && keeps_order(&cast.expr, cast.field.data_type(), column)
        }
        Expr::ScalarFunction(function) => match (function.name(), function.args.as_slice()) {
            ("date_trunc", [Expr::Literal(..), value]) => is_monotone(value, column),
            ("date_part", [Expr::Literal(part, _), value]) => {
                let part = part.try_as_str().flatten().map(str::to_ascii_lowercase);
                part.as_deref() == Some("year") && is_monotone(value, column)
            }
            (_, [value]) if is_canonical(function) => is_monotone(value, column),
            _ => false,
        },
        _ => false,
    }
}

/// Casts between numbers, and between dates and timestamps, keep the order; casts between the two kinds are
/// left out, and so are those that wrap where the result is outside of its type instead of failing there.
fn keeps_order(inner: &Expr, to: &DataType, column: &DataType) -> bool {
    let from = match inner {
        Expr::Cast(cast) => cast.field.data_type(),
        Expr::Column(_) => column,
        _ => return false,
    };
    from.is_numeric() == to.is_numeric() && !wraps(from, to)
}

/// Returns true if a cast of dates or timestamps may wrap.
fn wraps(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    matches!(
        (from, to),
        (D::Date64, D::Timestamp(Microsecond | Nanosecond, _))
            | (D::Timestamp(Second, _), D::Date64)
            | (D::Timestamp(Second | Millisecond, _), D::Date32)
    )
}

fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || matches!(
            data_type,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None)
        )
}
