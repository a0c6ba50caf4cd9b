//! Conditions of filters in the form that DataFusion's rule for pushing them down reads correctly.
//!
//! That rule compares the conditions of one column with constants, and leaves out those that others imply. It
//! takes `1 = x AND x = 1` for a contradiction, since the texts differ, and likewise two forms of one value;
//! it leaves out `x > NULL` beside `x > 5`, and fails for constants of different types. Simplification
//! normalizes what is written so; but conditions that meet when filters move have not been simplified. So
//! constants are put on the right before, comparisons with NULL are NULL, and of two conditions whose
//! constants cannot be compared, one is hidden.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule of this name.
#[derive(Debug, Default)]
pub(super) struct PushDownNormalized {
    inner: PushDownFilter,
}

impl OptimizerRule for PushDownNormalized {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(filter) => {
                normalized(filter)?.transform_data(|plan| self.inner.rewrite(plan, config))
            }
            other => self.inner.rewrite(other, config),
        }
    }
}

/// Returns a filter, joined with those directly below it, whose conditions are in that form.
fn normalized(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let mut conditions = split_conjunction_owned(filter.predicate);
    let mut input = filter.input;
    let mut is_changed = false;
    while let LogicalPlan::Filter(below) = input.as_ref() {
        let mut all = split_conjunction_owned(below.predicate.clone());
        let below = Arc::clone(&below.input);
        conditions.retain(|condition| condition.is_volatile() || !all.contains(condition));
        all.append(&mut conditions);
        (conditions, input, is_changed) = (all, below, true);
    }
    let mut known: Vec<Comparison> = Vec::new();
    for condition in &mut conditions {
        let Some(comparison) = Comparison::from_condition(condition) else {
            continue;
        };
        let normal = match comparison.constant.is_null() {
            true => Expr::Literal(ScalarValue::Boolean(None), None),
            false if known.iter().any(|other| !comparison.is_comparable(other)) => {
                Expr::IsTrue(Box::new(comparison.condition()))
            }
            false => {
                let normal = comparison.condition();
                known.push(comparison);
                normal
            }
        };
        if *condition != normal {
            (*condition, is_changed) = (normal, true);
        }
    }
    let Some(predicate) = conjunction(conditions) else {
        return Ok(Transformed::yes(Arc::unwrap_or_clone(input)));
    };
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, input)?);
    Ok(Transformed::new_transformed(filter, is_changed))
}

/// A condition that compares a column with a constant.
struct Comparison {
    column: Column,
    op: Operator,
    constant: ScalarValue,
}

impl Comparison {
    fn from_condition(condition: &Expr) -> Option<Self> {
        use Operator as O;
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
            return None;
        };
        if !matches!(op, O::Eq | O::Lt | O::LtEq | O::Gt | O::GtEq) {
            return None;
        }
        let (column, op, constant) = match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Literal(constant, _)) => (column, *op, constant),
            (Expr::Literal(constant, _), Expr::Column(column)) => (column, op.swap()?, constant),
            _ => return None,
        };
        Some(Self {
            column: column.clone(),
            op,
            constant: constant.clone(),
        })
    }

    /// Returns true if DataFusion's rule may compare the constants: another column, or values of one type, of
    /// which each has one form.
    fn is_comparable(&self, other: &Self) -> bool {
        let data_type = self.constant.data_type();
        self.column != other.column
            || data_type == other.constant.data_type()
                && (!data_type.is_floating() || self.op != Operator::Eq)
    }

    fn condition(&self) -> Expr {
        let column = Expr::Column(self.column.clone());
        let constant = Expr::Literal(self.constant.clone(), None);
        Expr::BinaryExpr(BinaryExpr::new(Box::new(column), self.op, Box::new(constant)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use arrow_schema::{DataType, Field, Schema};
    use datafusion::functions::math::expr_fn::random;
    use datafusion::logical_expr::{col, lit, table_scan};

    use super::*;

    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let fields = ["x", "y"].map(|name| Field::new(name, DataType::Int64, true));
        let float = Field::new("f", DataType::Float64, true);
        Schema::new(fields.into_iter().chain([float]).collect::<Vec<_>>())
    });

    fn predicate(conditions: &[Expr]) -> String {
        let mut plan = table_scan(Some("t"), &SCHEMA, None).unwrap().build().unwrap();
        // One filter for each condition, the first at the top.
        for condition in conditions.iter().rev() {
            plan = LogicalPlan::Filter(Filter::try_new(condition.clone(), Arc::new(plan)).unwrap());
        }
        let LogicalPlan::Filter(filter) = plan else {
            unreachable!("there is a condition")
        };
        match normalized(filter).unwrap().data {
            LogicalPlan::Filter(filter) => {
                assert!(!matches!(filter.input.as_ref(), LogicalPlan::Filter(_)));
                filter.predicate.to_string()
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn conditions_have_constants_on_the_right_that_can_be_compared() {
        let null = || lit(ScalarValue::Int64(None));
        for (conditions, expected) in [
            (
                vec![lit(1_i64).eq(col("x")), col("x").eq(lit(1_i64))],
                "x = Int64(1) AND x = Int64(1)",
            ),
            (
                vec![lit(1_i64).lt(col("x")), col("x").lt(col("y"))],
                "x < y AND x > Int64(1)",
            ),
            (
                vec![col("x").gt(null()), lit(5_i64).lt_eq(col("x"))],
                "x >= Int64(5) AND Boolean(NULL)",
            ),
            (
                vec![col("f").eq(lit(0.0)), col("f").eq(lit(-0.0))],
                "f = Float64(-0) AND f = Float64(0) IS TRUE",
            ),
            (
                vec![col("f").lt(lit(0.0)), col("f").gt(lit(-1.0))],
                "f > Float64(-1) AND f < Float64(0)",
            ),
            (
                vec![col("x").eq(lit(1_i64)), col("x").gt(lit(1_i32))],
                "x > Int32(1) AND x = Int64(1) IS TRUE",
            ),
            (
                vec![col("x").not_eq(lit(1_i64)), col("x").not_eq(lit(1_i64))],
                "x != Int64(1)",
            ),
        ] {
            assert_eq!(predicate(&conditions), expected, "{conditions:?}");
        }
    }

    #[test]
    fn volatile_conditions_are_evaluated_each() {
        let luck = || random().gt(lit(0.5));
        assert_eq!(
            predicate(&[luck(), luck()]),
            "random() > Float64(0.5) AND random() > Float64(0.5)"
        );
    }
}
