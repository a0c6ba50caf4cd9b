//! How an aggregation is divided into branches, each of which reads the input in one order.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::aggregates::AggregateExec;

/// Aggregates over distinct values that are those over the values without repetition, and ignore NULL.
const OF_DISTINCT: [&str; 9] = [
    "count",
    "sum",
    "avg",
    "bit_xor",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "var_samp",
];
/// Aggregates whose state is all values of the group.
const COLLECTING: [&str; 6] = [
    "median",
    "percentile_cont",
    "array_agg",
    "string_agg",
    "nth_value",
    "mode",
];
/// Aggregates for which repeated values, but not their order, change nothing.
const OF_A_SET: [&str; 6] = ["min", "max", "bit_and", "bit_or", "bool_and", "bool_or"];
/// Aggregates whose result may depend on the order of the input.
const OF_A_SEQUENCE: [&str; 6] = [
    "array_agg",
    "string_agg",
    "nth_value",
    "first_value",
    "last_value",
    "any_value",
];

/// Returns true if the memory of an aggregate grows with the number of values in its group.
pub(super) fn collects(aggregate: &AggregateFunctionExpr) -> bool {
    let name = aggregate.fun().name();
    COLLECTING.contains(&name) || (aggregate.is_distinct() && !OF_A_SET.contains(&name))
}

/// A column that is computed from the input: an argument, its value NULL where the filter is not true.
#[derive(Debug)]
pub(super) struct ValueColumn {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The work of a branch on its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum BranchKind {
    /// Aggregates the rows of each group.
    Groups,
    /// Aggregates the rows of each group without those that are equal in the columns of the order.
    Distinct,
    /// Selects the row at this fraction of each group, between 0 and 1, and computes the value from two rows
    /// if it is between them.
    Middle {
        fraction: f64,
        is_median: bool,
        is_distinct: bool,
    },
}

/// An aggregate over columns, with its filter.
pub(super) type FilteredAggregate = (Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>);

/// Aggregates that read the input in the same order.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) kind: BranchKind,
    /// The columns that the input is sorted by after the keys.
    pub(super) order: Vec<usize>,
    /// The aggregates over the columns, with their filters.
    pub(super) aggregates: Vec<FilteredAggregate>,
}

/// The branches of an aggregation, and the columns that they read: first the keys, then values.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) keys: usize,
    pub(super) values: Vec<ValueColumn>,
    /// True if the last column is the number of the row.
    pub(super) is_numbered: bool,
    pub(super) columns: SchemaRef,
    pub(super) branches: Vec<Branch>,
    /// All aggregates, for rows in any order; empty if some depend on the order.
    pub(super) unsorted: Vec<FilteredAggregate>,
    /// The branch of each aggregate, and its number there.
    pub(super) places: Vec<(usize, usize)>,
}

impl Layout {
    /// Returns the branches of an aggregation whose rows `first` reads.
    ///
    /// # Errors
    /// The type of an expression cannot be determined, which planning has done.
    pub(super) fn for_aggregate(first: &AggregateExec, context: &TaskContext) -> Result<Self> {
        let input = first.input().schema();
        let group_by = first.group_expr().group_schema(&input)?;
        let mut columns = ColumnsBuilder {
            input: &input,
            keys: group_by.fields().len(),
            values: Vec::new(),
            fields: group_by.fields().iter().cloned().collect(),
        };
        let is_numbered = first.aggr_expr().iter().any(|aggregate| {
            aggregate.order_bys().is_empty() && OF_A_SEQUENCE.contains(&aggregate.fun().name())
        });
        // The columns of all aggregates come first, as an aggregate is made for a complete schema.
        let mut plans = Vec::new();
        for (aggregate, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
            plans.push(columns.plan(aggregate, filter.as_ref())?);
        }
        let row_number = columns.fields.len();
        if is_numbered {
            let field = Field::new("row number", DataType::UInt64, true);
            columns.fields.push(Arc::new(field));
        }
        let schema: SchemaRef = Arc::new(Schema::new(columns.fields.clone()));
        let mut branches: Vec<Branch> = Vec::new();
        let (mut places, mut unsorted) = (Vec::new(), Vec::new());
        for (aggregate, plan) in first.aggr_expr().iter().zip(plans) {
            let mut order = plan.order.clone();
            if plan.kind == BranchKind::Groups && is_numbered {
                order.push(row_number);
            }
            let same = |branch: &Branch| branch.kind == plan.kind && branch.order == order;
            // A branch of middle rows has the values of one aggregate.
            let can_share = !matches!(plan.kind, BranchKind::Middle { .. });
            let found = branches.iter().position(|branch| can_share && same(branch));
            let number = found.unwrap_or_else(|| {
                branches.push(Branch {
                    kind: plan.kind,
                    order,
                    aggregates: Vec::new(),
                });
                branches.len() - 1
            });
            if !is_numbered {
                let built = plan.build(aggregate, aggregate.is_distinct(), &schema, context)?;
                unsorted.push((Arc::new(built), plan.filter.clone()));
            }
            let is_distinct = aggregate.is_distinct() && plan.kind == BranchKind::Groups;
            let built = plan.build(aggregate, is_distinct, &schema, context)?;
            places.push((number, branches[number].aggregates.len()));
            branches[number].aggregates.push((Arc::new(built), plan.filter));
        }
        Ok(Self {
            keys: columns.keys,
            values: columns.values,
            is_numbered,
            columns: schema,
            branches,
            unsorted,
            places,
        })
    }
}

/// How one aggregate is computed.
struct AggregatePlan {
    kind: BranchKind,
    order: Vec<usize>,
    args: Vec<Arc<dyn PhysicalExpr>>,
    order_by: Vec<PhysicalSortExpr>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl AggregatePlan {
    fn build(
        &self,
        aggregate: &AggregateFunctionExpr,
        is_distinct: bool,
        schema: &SchemaRef,
        context: &TaskContext,
    ) -> Result<AggregateFunctionExpr> {
        // The function of the plan may rely on the order of the plan's input.
        let function = context.aggregate_functions().get(aggregate.fun().name());
        let function = function.map_or_else(|| Arc::new(aggregate.fun().clone()), Arc::clone);
        AggregateExprBuilder::new(function, self.args.clone())
            .schema(Arc::clone(schema))
            .alias(aggregate.name())
            .order_by(self.order_by.clone())
            .with_distinct(is_distinct)
            .with_ignore_nulls(aggregate.ignore_nulls())
            .with_reversed(aggregate.is_reversed())
            .build()
    }
}

struct ColumnsBuilder<'a> {
    input: &'a SchemaRef,
    keys: usize,
    values: Vec<ValueColumn>,
    fields: Vec<Arc<Field>>,
}

impl ColumnsBuilder<'_> {
    fn plan(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<AggregatePlan> {
        let kind = kind_of(aggregate);
        let masks = kind != BranchKind::Groups;
        let mut order = Vec::new();
        let mut args = Vec::new();
        for arg in aggregate.expressions() {
            // Functions look for literals among their arguments.
            if arg.is::<Literal>() {
                args.push(arg);
                continue;
            }
            let number = self.column(&arg, filter.filter(|_| masks))?;
            if masks && !order.contains(&number) {
                order.push(number);
            }
            args.push(self.reference(number));
        }
        let mut order_by = Vec::new();
        if !masks {
            for sort in aggregate.order_bys() {
                let number = self.column(&sort.expr, None)?;
                order_by.push(PhysicalSortExpr::new(self.reference(number), sort.options));
            }
        }
        let filter = match filter {
            Some(filter) if !masks => {
                let number = self.column(filter, None)?;
                Some(self.reference(number))
            }
            _ => None,
        };
        Ok(AggregatePlan {
            kind,
            order,
            args,
            order_by,
            filter,
        })
    }

    /// Returns the number of a column with these values.
    fn column(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<usize> {
        let is_same = |other: &ValueColumn| other.expr.eq(expr) && other.filter.as_ref() == filter;
        if let Some(found) = self.values.iter().position(is_same) {
            return Ok(self.keys + found);
        }
        let field = expr.return_field(self.input)?.as_ref().clone();
        let name = format!("value {}", self.values.len());
        self.fields
            .push(Arc::new(field.with_name(name).with_nullable(true)));
        self.values.push(ValueColumn {
            expr: Arc::clone(expr),
            filter: filter.cloned(),
        });
        Ok(self.fields.len() - 1)
    }

    fn reference(&self, number: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(self.fields[number].name(), number))
    }
}

/// Returns what a branch does for an aggregate.
pub(super) fn kind_of(aggregate: &AggregateFunctionExpr) -> BranchKind {
    let name = aggregate.fun().name();
    let args = aggregate.expressions();
    let is_float = aggregate.field().data_type().is_floating();
    let is_distinct = aggregate.is_distinct();
    match name {
        "median" => BranchKind::Middle {
            fraction: 0.5,
            is_median: true,
            is_distinct,
        },
        "percentile_cont" if is_float => match fraction(aggregate) {
            Some(fraction) => BranchKind::Middle {
                fraction,
                is_median: false,
                is_distinct,
            },
            None => BranchKind::Groups,
        },
        _ if is_distinct && OF_DISTINCT.contains(&name) && !args.iter().all(|arg| arg.is::<Literal>()) => {
            BranchKind::Distinct
        }
        _ => BranchKind::Groups,
    }
}

/// Returns the fraction of `percentile_cont`, from the least value.
fn fraction(aggregate: &AggregateFunctionExpr) -> Option<f64> {
    let args = aggregate.expressions();
    let value = args.get(1)?.downcast_ref::<Literal>()?.value();
    let ScalarValue::Float64(Some(fraction)) = value.cast_to(&DataType::Float64).ok()? else {
        return None;
    };
    let first = aggregate.order_bys().first();
    let is_descending = first.is_some_and(|sort| sort.options.descending);
    let fraction = if is_descending { 1.0 - fraction } else { fraction };
    (0.0..=1.0).contains(&fraction).then_some(fraction)
}

/// Returns the error of a plan that the rule does not make.
pub(super) fn unexpected(what: &str) -> DataFusionError {
    DataFusionError::Internal(format!("aggregation by sorting: {what}"))
}
