//! `date_trunc` that fails where the result is before the least timestamp, as DataFusion's does for years and
//! days; for seconds and less it wraps.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// The function, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

impl DateTrunc {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }
}

/// Returns the longest distance in units that truncating to an hour or less moves a timestamp.
fn reach(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 3_600,
        TimeUnit::Millisecond => 3_600_000,
        TimeUnit::Microsecond => 3_600_000_000,
        TimeUnit::Nanosecond => 3_600_000_000_000,
    }
}

/// Returns the first value of timestamps that lies so near to the least one that truncating it could wrap.
fn too_early(values: &ArrayRef) -> Option<i64> {
    let DataType::Timestamp(unit, _) = values.data_type() else {
        return None;
    };
    let least = i64::MIN + reach(*unit);
    macro_rules! first {
        ($kind:ty) => {{
            let values = values.as_primitive::<$kind>();
            // Most columns are decided by a pass without branches.
            let any = values.values().iter().any(|value| *value < least);
            any.then(|| values.iter().flatten().find(|value| *value < least))
                .flatten()
        }};
    }
    match unit {
        TimeUnit::Second => first!(TimestampSecondType),
        TimeUnit::Millisecond => first!(TimestampMillisecondType),
        TimeUnit::Microsecond => first!(TimestampMicrosecondType),
        TimeUnit::Nanosecond => first!(TimestampNanosecondType),
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let early = match args.args.get(1) {
            Some(ColumnarValue::Array(values)) => too_early(values),
            Some(ColumnarValue::Scalar(value)) => too_early(&value.to_array()?),
            None => None,
        };
        match early {
            None => self.inner.invoke_with_args(args),
            Some(value) => Err(DataFusionError::Execution(format!(
                "date_trunc: timestamp {value} is so near to the least one that the result is out of range; leave such rows \
                 out in WHERE"
            ))),
        }
    }
}
