//! INTERSECT and EXCEPT.
//!
//! DataFusion makes semi and anti joins of them, with the types of the left side, and drops ALL. Here both
//! sides get common types, as those of UNION do. With ALL a row that one side has `m` times and the other `n`
//! times is in the result `min(m, n)` or `max(m - n, 0)` times: the copies of a row are numbered on each
//! side, and the number becomes one more column to compare.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder,
};

use super::floats::{canonical, is_float};
use super::meeting_times;
use super::rules::{meeting, project};

/// Columns that number the copies of a row, on the left and on the right side.
const COPIES: [&str; 2] = ["copy of left row", "copy of right row"];

/// Returns true for the join that INTERSECT or EXCEPT has become: before conditions of joins are made keys,
/// nothing else is null-safe.
pub(super) fn is_set_operation(join: &Join) -> bool {
    let is_positional = || {
        let columns = join.left.schema().fields().len();
        join.on.len() == columns && join.right.schema().fields().len() == columns
    };
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && is_positional()
}

/// Returns INTERSECT or EXCEPT of common types that counts.
pub(super) fn set_operation(join: Join) -> Result<LogicalPlan> {
    // The rows of the left side are distinct, or the operation has ALL.
    let (left, is_all) = match &*join.left {
        LogicalPlan::Distinct(Distinct::All(input)) => (Arc::clone(input), false),
        _ => (Arc::clone(&join.left), true),
    };
    let (left, right) = with_common_types(left, Arc::clone(&join.right))?;
    if is_all {
        let columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
        let [of_left, of_right] = COPIES;
        let (left, right) = (numbered(left, of_left)?, numbered(right, of_right)?);
        let counted = LogicalPlan::Join(compared(left, right, join.join_type)?);
        LogicalPlanBuilder::from(counted).project(columns)?.build()
    } else {
        let left = LogicalPlan::Distinct(Distinct::All(Arc::new(left)));
        compared(left, right, join.join_type).map(LogicalPlan::Join)
    }
}

/// Joins two plans by all of their columns.
fn compared(left: LogicalPlan, right: LogicalPlan, join_type: JoinType) -> Result<Join> {
    let columns = |plan: &LogicalPlan| plan.schema().columns().into_iter().map(Expr::Column);
    let on = columns(&left).zip(columns(&right)).collect();
    Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNull,
        false,
    )
}

/// Casts the columns of both sides to the types that the columns of a UNION would have. Columns without such
/// a type stay, and are reported when they are compared.
fn with_common_types(left: Arc<LogicalPlan>, right: Arc<LogicalPlan>) -> Result<(LogicalPlan, LogicalPlan)> {
    let types = |plan: &LogicalPlan| -> Vec<DataType> {
        let fields = plan.schema().fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    let (of_left, of_right) = (types(&left), types(&right));
    let pairs = of_left.iter().zip(&of_right);
    let common: Vec<Option<DataType>> = pairs
        .map(|(a, b)| {
            if a == b {
                None
            } else {
                meeting([a, b].into_iter())
                    .or_else(|| meeting_times::meeting([a, b].into_iter(), || false))
                    .or_else(|| type_union_coercion(a, b))
            }
        })
        .collect();
    let cast = |side: &Arc<LogicalPlan>, own: &[DataType]| {
        let to = |column: usize| {
            let to = common.get(column)?.as_ref()?;
            (own.get(column) != Some(to)).then(|| to.clone())
        };
        project(side, to, |expr, to| {
            Expr::Cast(Cast::new(Box::new(expr), to.clone()))
        })
    };
    Ok((cast(&left, &of_left)?, cast(&right, &of_right)?))
}

/// Adds a column that numbers the rows with the same values.
fn numbered(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let fields = plan.schema().fields().iter();
    let floats: Vec<bool> = fields.map(|field| is_float(field.data_type())).collect();
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let compared = columns.iter().zip(floats).map(|(column, is_float)| {
        if is_float {
            canonical(column.clone())
        } else {
            column.clone()
        }
    });
    let number = row_number().partition_by(compared.collect()).build()?;
    let with_number = LogicalPlanBuilder::from(plan).window([number])?.build()?;
    let number = with_number
        .schema()
        .columns()
        .pop()
        .map(|column| Expr::Column(column).alias(name));
    let columns = columns.into_iter().chain(number);
    LogicalPlanBuilder::from(with_number).project(columns)?.build()
}
