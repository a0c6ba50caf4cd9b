//! Physical predicates, which operators make while a query runs, as sets of codes of one column.
//!
//! Such a predicate only keeps rows from operators that would drop them, so a set may be too large: it has
//! all codes of the column for which the predicate is true with any values of the other columns. Parts that
//! are not understood are taken to be true.

use std::sync::Arc;

use arrow_schema::Field;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions as physical};
use halocline_columns::{CodePredicate, CodeSpace};

use super::codes::CodeDomain;
use super::intervals::Intervals;
use super::truth;

/// The codes of a column for which a predicate can be true.
#[derive(Debug)]
pub struct PossibleCodes {
    /// The codes that it admits.
    pub codes: CodePredicate,
    /// True if the codes say all that the predicate says, so that evaluating it would exclude no other row.
    pub are_exact: bool,
}

/// Returns the codes of the column at position `column` of the predicate's input for which it can be true.
pub fn possible_codes(
    predicate: &Arc<dyn PhysicalExpr>,
    column: usize,
    field: &Field,
    space: &CodeSpace,
) -> PossibleCodes {
    let domain = CodeDomain::new(field, space);
    let (codes, are_exact) = possible(predicate, column, &domain);
    match (codes.to_predicate(space.max_code()), codes.bounds()) {
        (Some(codes), _) => PossibleCodes { codes, are_exact },
        (None, bounds) => PossibleCodes {
            codes: bounds.map_or(CodePredicate::Any, |(lo, hi)| CodePredicate::range(lo, hi)),
            are_exact: false,
        },
    }
}

/// Returns the possible codes, and true if they are exact.
fn possible(predicate: &Arc<dyn PhysicalExpr>, column: usize, domain: &CodeDomain<'_>) -> (Intervals, bool) {
    if let Some(binary) = predicate.downcast_ref::<physical::BinaryExpr>()
        && matches!(binary.op(), Operator::And | Operator::Or)
    {
        let (left, left_exact) = possible(binary.left(), column, domain);
        let (right, right_exact) = possible(binary.right(), column, domain);
        let codes = match binary.op() {
            Operator::And => left.intersect(&right),
            _ => left.union(&right),
        };
        return (codes, left_exact && right_exact);
    }
    if let Some(case) = predicate.downcast_ref::<physical::CaseExpr>() {
        // A join with several build sides routes each key to the branch of its own. The other branches do
        // not hold for that key, so that any of them is as good as the one.
        let branches = case.when_then_expr().iter().map(|(_, then)| then);
        let mut any = (Intervals::empty(), true);
        for branch in branches.chain(case.else_expr()) {
            let (codes, exact) = possible(branch, column, domain);
            any = (any.0.union(&codes), any.1 && exact);
        }
        return any;
    }
    let logical = logical(predicate, column, domain);
    match logical.and_then(|expr| truth::truth_of(&expr, domain)) {
        Some(truth) => (truth.yes, true),
        None => (domain.values.union(&domain.nulls), false),
    }
}

/// Returns the logical expression that means the same; `None` if it has parts that have no such expression,
/// or refers to other columns.
fn logical(expr: &Arc<dyn PhysicalExpr>, column: usize, domain: &CodeDomain<'_>) -> Option<Expr> {
    let of = |expr: &Arc<dyn PhysicalExpr>| logical(expr, column, domain);
    let boxed = |expr: &Arc<dyn PhysicalExpr>| of(expr).map(Box::new);
    if let Some(reference) = expr.downcast_ref::<physical::Column>() {
        let name = Column::new_unqualified(domain.field.name());
        return (reference.index() == column).then_some(Expr::Column(name));
    }
    if let Some(literal) = expr.downcast_ref::<physical::Literal>() {
        let value = literal.value();
        return (!is_zero_float(value)).then(|| Expr::Literal(value.clone(), None));
    }
    if let Some(binary) = expr.downcast_ref::<physical::BinaryExpr>() {
        return Some(Expr::BinaryExpr(BinaryExpr::new(
            boxed(binary.left())?,
            *binary.op(),
            boxed(binary.right())?,
        )));
    }
    if let Some(list) = expr.downcast_ref::<physical::InListExpr>() {
        let values = list.list().iter().map(of).collect::<Option<Vec<_>>>()?;
        return Some(Expr::InList(InList::new(
            boxed(list.expr())?,
            values,
            list.negated(),
        )));
    }
    if let Some(cast) = expr.downcast_ref::<physical::CastExpr>() {
        return Some(Expr::Cast(Cast::new(
            boxed(cast.expr())?,
            cast.cast_type().clone(),
        )));
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let args = function.args().iter().map(of).collect::<Option<Vec<_>>>()?;
        let function = Arc::new(function.fun().clone());
        return Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)));
    }
    if let Some(not) = expr.downcast_ref::<physical::NotExpr>() {
        return boxed(not.arg()).map(Expr::Not);
    }
    if let Some(null) = expr.downcast_ref::<physical::IsNullExpr>() {
        return boxed(null.arg()).map(Expr::IsNull);
    }
    let null = expr.downcast_ref::<physical::IsNotNullExpr>()?;
    boxed(null.arg()).map(Expr::IsNotNull)
}

/// Returns true for a zero of floats. Operators that compare floats by their bits tell two zeros apart, which
/// codes of conditions do not.
fn is_zero_float(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use arrow_schema::{DataType, Schema};
    use datafusion::physical_expr::expressions::{binary, case, in_list, is_null, lit};
    use halocline_columns::{Table, TableOptions, TableWriter};
    use halocline_pool::{Pool, PoolOptions};

    type Predicate = Arc<dyn PhysicalExpr>;

    fn schema() -> Schema {
        let field = |name| Field::new(name, DataType::Int64, true);
        Schema::new(vec![field("other"), field("x")])
    }

    fn column(name: &str, index: usize) -> Predicate {
        Arc::new(physical::Column::new(name, index))
    }

    fn compare(left: Predicate, op: Operator, right: Predicate) -> Predicate {
        binary(left, op, right, &schema()).unwrap()
    }

    /// Runs `check` on a column `x` with the values 10 to 30 and NULL.
    fn with_space(check: impl Fn(&Field, &CodeSpace)) {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::create(dir.path().join("p.pool"), &PoolOptions::default()).unwrap();
        let values: ArrayRef = Arc::new(Int64Array::from_iter((9..=30).map(|v| (v > 9).then_some(v))));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let txn = pool.begin().unwrap();
        let mut writer = TableWriter::new(&txn, "t", batch.schema(), TableOptions::default()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        txn.commit().unwrap();
        let table = Table::open(&pool.snapshot().unwrap(), "t").unwrap();
        let column = table.segments()[0].column(0);
        check(
            &Field::new("x", DataType::Int64, true),
            column.code_space().unwrap(),
        );
    }

    /// Returns the values (NULL as 0) for which a predicate can be true, and whether they are exact.
    fn values(predicate: &Predicate, field: &Field, space: &CodeSpace) -> (Vec<i64>, bool) {
        let possible = possible_codes(predicate, 1, field, space);
        let codes: Vec<u64> = (0..=space.max_code())
            .filter(|code| possible.codes.matches(*code))
            .collect();
        let values = space.decode(&codes).unwrap();
        let values = values.as_primitive::<arrow_array::types::Int64Type>();
        (
            values.iter().map(Option::unwrap_or_default).collect(),
            possible.are_exact,
        )
    }

    #[test]
    fn predicates_of_joins_become_sets() {
        with_space(|field, space| {
            let x = || column("any name", 1);
            let list = |values: &[i64]| {
                let list = values.iter().map(|value| lit(*value)).collect();
                in_list(x(), list, &false, &schema()).unwrap()
            };
            let bounds = compare(
                compare(x(), Operator::GtEq, lit(12_i64)),
                Operator::And,
                compare(x(), Operator::LtEq, lit(20_i64)),
            );
            assert_eq!(values(&bounds, field, space), ((12..=20).collect(), true));
            let both = compare(bounds.clone(), Operator::And, list(&[3, 14, 15, 29]));
            assert_eq!(values(&both, field, space), (vec![14, 15], true));
            let routed = case(
                Some(column("hash", 0)),
                vec![(lit(0_i64), list(&[11, 12])), (lit(1_i64), list(&[13]))],
                Some(lit(false)),
            );
            assert_eq!(values(&routed.unwrap(), field, space), (vec![11, 12, 13], true));
            let opaque = case(None, vec![(column("b", 0), bounds)], Some(column("c", 0))).unwrap();
            assert_eq!(values(&opaque, field, space).0.len(), 22);
            let or_null = compare(is_null(x()).unwrap(), Operator::Or, list(&[30]));
            assert_eq!(values(&or_null, field, space), (vec![0, 30], true));
            assert_eq!(values(&lit(false), field, space), (vec![], true));
        });
    }

    #[test]
    fn other_columns_may_hold_anything() {
        with_space(|field, space| {
            let (x, other) = (|| column("x", 1), || column("x", 0));
            let less = |expr: Predicate, op, value: i64| compare(expr, op, lit(value));
            // The threshold of ORDER BY x DESC, other.
            let tie = compare(
                less(x(), Operator::Eq, 28),
                Operator::And,
                less(other(), Operator::Lt, 5),
            );
            let threshold = compare(less(x(), Operator::Gt, 28), Operator::Or, tie);
            assert_eq!(values(&threshold, field, space), (vec![28, 29, 30], false));
            let only_other = less(other(), Operator::Lt, 5);
            assert_eq!(values(&only_other, field, space).0.len(), 22);
        });
    }
}
