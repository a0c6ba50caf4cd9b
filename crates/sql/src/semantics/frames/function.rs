//! A window function that evaluates another function from the rows of a frame.

use std::sync::Arc;

use arrow_schema::{Field, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    AggregateUDF, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowFrame,
    WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_plan::expressions::{Column, Literal};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::evaluator::{Evaluator, Frame};
use super::marker::Exclusion;
use super::sliding::is_short;

/// A function over the rows of frames. Its last argument is the condition of `FILTER`, if it has one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OverFrames {
    inner: Inner,
    exclusion: Option<Exclusion>,
    is_filtered: bool,
    distinct: bool,
    /// True if frames are short and leave nothing out: their rows are all that is needed.
    is_bounded: bool,
    signature: Signature,
}

/// The function that is called for the rows that are left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Inner {
    Aggregate(Arc<AggregateUDF>),
    /// `first_value`, `last_value` or `nth_value`.
    Value(Arc<WindowUDF>, Position),
}

/// Which of the rows that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Position {
    First,
    Last,
    /// The second argument is its number.
    Nth,
}

impl OverFrames {
    /// Returns the function over another one; `None` if that one has no frame.
    pub(super) fn for_function(
        function: &WindowFunctionDefinition,
        frame: &WindowFrame,
        exclusion: Option<Exclusion>,
        is_filtered: bool,
        distinct: bool,
    ) -> Option<Self> {
        let inner = match function {
            WindowFunctionDefinition::AggregateUDF(function) => Inner::Aggregate(Arc::clone(function)),
            WindowFunctionDefinition::WindowUDF(function) => {
                let position = match function.name() {
                    "first_value" => Position::First,
                    "last_value" => Position::Last,
                    "nth_value" => Position::Nth,
                    _ => return None,
                };
                Inner::Value(Arc::clone(function), position)
            }
        };
        let volatility = match &inner {
            Inner::Aggregate(function) => function.signature().volatility,
            Inner::Value(..) => Volatility::Immutable,
        };
        Some(Self {
            inner,
            exclusion,
            is_filtered,
            distinct,
            is_bounded: exclusion.is_none() && is_short(frame),
            // The rule replaces functions whose arguments have their types.
            signature: Signature::variadic_any(volatility),
        })
    }

    /// Returns the number of arguments without the condition.
    fn arguments(&self, all: usize) -> usize {
        all - usize::from(self.is_filtered)
    }
}

impl WindowUDFImpl for OverFrames {
    fn name(&self) -> &str {
        match &self.inner {
            Inner::Aggregate(function) => function.name(),
            Inner::Value(function, _) => function.name(),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let fields = args.input_fields();
        let fields = &fields[..self.arguments(fields.len())];
        match &self.inner {
            Inner::Aggregate(function) => {
                let field = function.return_field(fields)?;
                Ok(Arc::new(field.as_ref().clone().with_name(args.name())))
            }
            Inner::Value(function, _) => {
                let field = function.field(WindowUDFFieldArgs::new(fields, args.name()))?;
                // Nothing may be left of the frame.
                Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
            }
        }
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let (exprs, fields) = (args.input_exprs(), args.input_fields());
        let number = self.arguments(fields.len());
        let frame = Frame {
            exclusion: self.exclusion,
            arguments: number,
            is_filtered: self.is_filtered,
            is_bounded: self.is_bounded,
        };
        let evaluator = match &self.inner {
            Inner::Aggregate(function) => {
                let (exprs, fields) = (&exprs[..number], &fields[..number]);
                let aggregate = expression(function, exprs, fields, args.ignore_nulls(), self.distinct)?;
                Evaluator::aggregate(frame, aggregate)
            }
            Inner::Value(_, position) => {
                let data_type = fields[0].data_type().clone();
                Evaluator::value(frame, *position, args.ignore_nulls(), data_type)
            }
        };
        Ok(Box::new(evaluator))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// Returns the aggregate that a function evaluates over all rows of its frames, if it is one of these,
/// without `EXCLUDE` and `FILTER`, and over arguments of a schema.
pub fn aggregate_over_frames(function: &WindowUDFExpr, schema: &Schema) -> Option<AggregateFunctionExpr> {
    let over_frames = function.fun().inner().downcast_ref::<OverFrames>()?;
    let Inner::Aggregate(aggregate) = &over_frames.inner else {
        return None;
    };
    if over_frames.exclusion.is_some() || over_frames.is_filtered {
        return None;
    }
    let args = function.args();
    let fields = args.iter().map(|arg| arg.return_field(schema));
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>().ok()?;
    expression(aggregate, args, &fields, false, over_frames.distinct).ok()
}

/// Returns an aggregate over arguments of these types as the columns of a schema of their own; literals,
/// whose value a function may look at, stay.
///
/// # Errors
/// There is no such aggregate of these types.
pub(super) fn expression(
    function: &Arc<AggregateUDF>,
    exprs: &[Arc<dyn PhysicalExpr>],
    fields: &[FieldRef],
    ignore_nulls: bool,
    distinct: bool,
) -> Result<AggregateFunctionExpr> {
    let name = |at: usize| format!("argument {at}");
    let schema = fields.iter().enumerate().map(|(at, field)| {
        let field: Field = field.as_ref().clone().with_name(name(at));
        field
    });
    let columns = exprs
        .iter()
        .enumerate()
        .map(|(at, expr)| match expr.downcast_ref::<Literal>() {
            Some(_) => Arc::clone(expr),
            None => Arc::new(Column::new(&name(at), at)) as Arc<dyn PhysicalExpr>,
        });
    let builder = AggregateExprBuilder::new(Arc::clone(function), columns.collect())
        .schema(Arc::new(Schema::new(schema.collect::<Vec<_>>())))
        .alias(function.name())
        .with_ignore_nulls(ignore_nulls);
    if distinct {
        builder.distinct().build()
    } else {
        builder.build()
    }
}
