//! Aggregates whose result depends on the order of their rows.
//!
//! DataFusion sorts the input of `string_agg` and `nth_value`, so that a query cannot have two orders. Here
//! they sort the values of each group, as `array_agg` does. Other aggregates forget `ORDER BY`, which changes
//! nothing.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_plan::expressions::Literal;

/// Aggregates that `ORDER BY` among their arguments has a meaning for.
const ORDERED: [&str; 6] = [
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "nth_value",
    "any_value",
];

/// Removes the order of an aggregate that does not depend on it.
pub(super) fn without_order(function: &mut AggregateFunction) {
    let name = function.func.name();
    if !ORDERED.contains(&name) && !function.func.supports_within_group_clause() {
        function.params.order_by.clear();
    }
}

/// `string_agg` or `nth_value`, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OrderedAggregate {
    inner: Arc<AggregateUDF>,
    /// The aggregate that collects the values from which `nth_value` chooses; `None` for `string_agg`.
    array_agg: Option<Arc<AggregateUDF>>,
}

impl OrderedAggregate {
    pub(super) fn over(inner: Arc<AggregateUDF>, array_agg: Option<Arc<AggregateUDF>>) -> Self {
        Self { inner, array_agg }
    }

    /// Returns what collects values, if they have an order.
    fn collects(&self, has_order: bool) -> Option<&Arc<AggregateUDF>> {
        self.array_agg.as_ref().filter(|_| has_order)
    }
}

impl AggregateUDFImpl for OrderedAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match self.collects(!args.ordering_fields.is_empty()) {
            Some(array_agg) => array_agg.state_fields(args),
            None => self.inner.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(array_agg) = self.collects(!args.order_bys.is_empty()) else {
            return self.inner.accumulator(args);
        };
        let number = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
        let number = match number.map(Literal::value) {
            Some(ScalarValue::Int64(Some(number))) if *number != 0 => *number,
            _ => {
                let text = "the second argument of nth_value is a number other than 0".to_owned();
                return Err(DataFusionError::Plan(text));
            }
        };
        let data_type = args.return_field.data_type().clone();
        let list = Field::new("list", DataType::new_list(data_type.clone(), true), true);
        let collected = array_agg.accumulator(AccumulatorArgs {
            return_field: Arc::new(list),
            exprs: args.exprs.get(..1).unwrap_or_default(),
            expr_fields: args.expr_fields.get(..1).unwrap_or_default(),
            ..args
        })?;
        Ok(Box::new(NthOfCollected {
            collected,
            number,
            data_type,
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        args.order_bys.is_empty() && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::SoftRequirement
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The n-th of the values that another accumulator collects and sorts.
#[derive(Debug)]
struct NthOfCollected {
    collected: Box<dyn Accumulator>,
    /// Its number, from 1, or from the end if negative.
    number: i64,
    data_type: DataType,
}

impl Accumulator for NthOfCollected {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let columns = values.iter().enumerate().filter(|(at, _)| *at != 1);
        let columns: Vec<ArrayRef> = columns.map(|(_, column)| Arc::clone(column)).collect();
        self.collected.update_batch(&columns)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.collected.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.collected.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(list) = self.collected.evaluate()? else {
            return ScalarValue::try_from(&self.data_type);
        };
        let values = list.values();
        let at = match usize::try_from(self.number) {
            Ok(number) => number.checked_sub(1),
            Err(_) => usize::try_from(self.number.unsigned_abs())
                .ok()
                .and_then(|number| values.len().checked_sub(number)),
        };
        match at.filter(|at| *at < values.len()) {
            Some(at) => ScalarValue::try_from_array(values, at),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.collected.size()
    }
}
