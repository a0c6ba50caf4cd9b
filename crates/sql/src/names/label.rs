//! A function that returns its argument under another name. The optimizer removes that of an output column.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::MARK;

/// `label(x, text)` is x.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Label {
    signature: Signature,
}

static LABEL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Label {
        signature: Signature::any(2, Volatility::Immutable),
    }))
});

/// Returns an expression whose name has the literal `label` between marks.
pub(super) fn labelled(expr: Expr, label: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&LABEL), vec![expr, label]))
}

fn one_argument() -> DataFusionError {
    DataFusionError::Internal("label has an expression and a text".to_owned())
}

impl ScalarUDFImpl for Label {
    fn name(&self) -> &'static str {
        "label"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [value, Expr::Literal(label, _)] = args else {
            return Err(one_argument());
        };
        Ok(format!(
            "{MARK}{label}{MARK}{}{MARK}{label}{MARK}",
            value.schema_name()
        ))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(one_argument)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        args.arg_fields.first().cloned().ok_or_else(one_argument)
    }

    /// Removes a label of an output column. Others stay: rules of the optimizer give groups the names of
    /// their expressions.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_number = match args.get(1) {
            Some(Expr::Literal(label, _)) => label.to_string().bytes().all(|byte| byte.is_ascii_digit()),
            _ => false,
        };
        if !is_number {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let value = args.into_iter().next();
        value.map(ExprSimplifyResult::Simplified).ok_or_else(one_argument)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(one_argument)
    }
}
