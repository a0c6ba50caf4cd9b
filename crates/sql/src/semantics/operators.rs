//! Operators that DataFusion reads otherwise, or not at all.
//!
//! `^` is a power of doubles and `#` exclusive or, as in PostgreSQL; `xor(a, b)` is another word for it. `//`
//! divides and truncates toward zero.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::arrow::compute::kernels::numeric::div;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::math::expr_fn::power;
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, GetFieldAccess, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Distinct, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    OrderByKind, Query, SelectItem, SetExpr, Value, VisitorMut,
};

use super::patterns;

/// Rewrites patterns and `xor` in a syntax tree.
pub(super) struct OperatorRewriter;

impl VisitorMut for OperatorRewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        order_by_position(query);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(function) = expr {
            if let Some(xor) = exclusive_or(function) {
                *expr = xor;
            }
        } else {
            patterns::rewrite(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces an expression that `SELECT DISTINCT` is ordered by by its position in the list: DataFusion knows
/// only columns of the list.
fn order_by_position(query: &mut Query) {
    let (Some(order), SetExpr::Select(select)) = (&mut query.order_by, &*query.body) else {
        return;
    };
    let OrderByKind::Expressions(keys) = &mut order.kind else {
        return;
    };
    let is_column = |expr: &ast::Expr| {
        matches!(
            expr,
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Value(_)
        )
    };
    let item = |item: &SelectItem, key: &ast::Expr| match item {
        // Literals are equal only if they stand at the same place.
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            expr.to_string() == key.to_string()
        }
        _ => false,
    };
    let is_one = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    if !matches!(select.distinct, Some(Distinct::Distinct)) || !select.projection.iter().all(is_one) {
        return;
    }
    for key in keys.iter_mut().filter(|key| !is_column(&key.expr)) {
        if let Some(at) = select.projection.iter().position(|other| item(other, &key.expr)) {
            key.expr = ast::Expr::value(Value::Number((at + 1).to_string(), false));
        }
    }
}

/// Returns `xor(a, b)` as an operator.
fn exclusive_or(function: &mut ast::Function) -> Option<ast::Expr> {
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return None;
    };
    if !name.value.eq_ignore_ascii_case("xor") || function.over.is_some() || function.filter.is_some() {
        return None;
    }
    let FunctionArguments::List(FunctionArgumentList { args, clauses, .. }) = &mut function.args else {
        return None;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = args.as_mut_slice()
    else {
        return None;
    };
    let take = |expr: &mut ast::Expr| Box::new(std::mem::replace(expr, ast::Expr::value(Value::Null)));
    clauses.is_empty().then(|| ast::Expr::BinaryOp {
        left: take(left),
        op: BinaryOperator::PGBitwiseXor,
        right: take(right),
    })
}

/// Plans the operators.
#[derive(Debug)]
pub(super) struct OperatorPlanner;

impl ExprPlanner for OperatorPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let double = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Float64));
        Ok(match &expr.op {
            // The parser's name of `^`.
            BinaryOperator::BitwiseXor => {
                PlannerResult::Planned(power(double(expr.left), double(expr.right)))
            }
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => {
                let args = vec![expr.left, expr.right];
                let division = ScalarFunction::new_udf(Arc::clone(&DIVIDE), args);
                PlannerResult::Planned(Expr::ScalarFunction(division))
            }
            BinaryOperator::Custom(name) => match patterns::planned(name, &expr.left, &expr.right) {
                Some(pattern) => PlannerResult::Planned(pattern),
                None => PlannerResult::Original(expr),
            },
            _ => PlannerResult::Original(expr),
        })
    }

    /// Plans `array_agg(…)[n]` as an element of the list. DataFusion makes `nth_value` of it, which is not the
    /// corrected one.
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        Ok(match access {
            RawFieldAccessExpr {
                field_access: GetFieldAccess::ListIndex { key },
                expr: list @ Expr::AggregateFunction(_),
            } => PlannerResult::Planned(array_element(list, *key)),
            other => PlannerResult::Original(other),
        })
    }
}

/// Returns true for `a // b`.
pub(super) fn is_division(function: &ScalarFunction) -> bool {
    function
        .func
        .inner()
        .downcast_ref::<TruncatedDivision>()
        .is_some()
}

static DIVIDE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(TruncatedDivision {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
});

/// `a // b`: of integers in their type, of others in doubles.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TruncatedDivision {
    signature: Signature,
}

impl ScalarUDFImpl for TruncatedDivision {
    fn name(&self) -> &'static str {
        "div"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{} // {}", left.schema_name(), right.schema_name()),
            _ => self.name().to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else {
            return Ok(types.to_vec());
        };
        let is_whole = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
        let common = if is_whole(left) && is_whole(right) {
            BinaryTypeCoercer::new(left, &Operator::Divide, right).get_result_type()?
        } else {
            DataType::Float64
        };
        Ok(vec![common.clone(), common])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let data_type = field.map_or(DataType::Null, |field| field.data_type().clone());
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        };
        let quotient = apply(left, right, div)?;
        Ok(match quotient {
            ColumnarValue::Array(values) => ColumnarValue::Array(truncated(values)),
            ColumnarValue::Scalar(ScalarValue::Float64(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(value.map(f64::trunc)))
            }
            whole => whole,
        })
    }
}

/// Truncates floats toward zero; integers are whole.
fn truncated(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(f64::trunc),
        ),
        _ => values,
    }
}
