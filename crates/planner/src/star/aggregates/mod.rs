//! Aggregates of SQL, translated to those of the star join.

mod output;
mod statistics;
mod types;

use arrow_schema::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::split_conjunction_owned;
use halocline_joins::star::{Aggregate, AggregateFilter, Function, Measure, MeasureSource, Width};

pub(super) use output::AggregateOutput;
pub(super) use types::{is_countable, is_whole, widens};

use self::statistics::Statistic;
use super::branches::Branches;
use super::measures::MeasureReader;
use super::typed_measure::TypedMeasure;
use halocline_catalog::OpenTable;
use halocline_scan::plan::PoolTable;

/// The condition of a `FILTER` clause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FilterCondition {
    pub(super) expr: Expr,
    pub(super) codes: AggregateFilter,
}

/// The aggregates of a query.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Aggregates {
    /// Columns of the fact table and of dimensions that they read.
    pub(super) measured: Vec<MeasureSource>,
    pub(super) aggregates: Vec<Aggregate>,
    /// The conditions on the rows of single aggregates.
    pub(super) filters: Vec<FilterCondition>,
    pub(super) outputs: Vec<AggregateOutput>,
}

impl Aggregates {
    /// Adds an aggregate over columns of the fact table with a result of type `to`. Returns false if the join
    /// does not support it.
    pub(super) fn add(&mut self, expr: &Expr, to: &DataType, open: &OpenTable) -> bool {
        self.read(expr, to, open).is_some_and(|output| {
            self.outputs.push(output);
            true
        })
    }

    /// Adds an aggregate over columns of dimensions, and also of the fact table, with a result of type `to`.
    /// Returns false if the join does not support it.
    pub(super) fn add_of_dimensions(
        &mut self,
        expr: &Expr,
        to: &DataType,
        open: &OpenTable,
        branches: &mut Branches<'_>,
    ) -> bool {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return false;
        };
        let [argument] = params.args.as_slice() else {
            return false;
        };
        let is_plain = !params.distinct
            && params.order_by.is_empty()
            && params.null_treatment.is_none()
            && params.filter.is_none()
            && Statistic::from_name(func.name()).is_none();
        let mut measures = MeasureReader {
            open,
            measured: &mut self.measured,
            branches: Some(branches),
        };
        let argument = measures.read(argument).filter(|_| is_plain);
        let output = argument.and_then(|argument| self.of_measure(func.name(), argument, to, None));
        output.is_some_and(|output| {
            self.outputs.push(output);
            true
        })
    }

    /// Returns the columns of the fact table that are read.
    pub(super) fn of_fact(&self) -> impl Iterator<Item = usize> {
        self.measured.iter().filter_map(|source| source.fact())
    }

    fn read(&mut self, expr: &Expr, to: &DataType, open: &OpenTable) -> Option<AggregateOutput> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return None;
        };
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return None;
        }
        let name = func.name();
        let mut condition = params.filter.as_deref().cloned();
        if let Some(statistic) = Statistic::from_name(name) {
            let filter = match &condition {
                Some(condition) => Some(self.filter(condition, open)?),
                None => None,
            };
            return self.of_pairs(statistic, &params.args, filter, open);
        }
        let [argument] = params.args.as_slice() else {
            return None;
        };
        let mut is_counted = name == "count" && is_never_null(argument, open);
        if let Expr::Column(column) = argument
            && name == "count"
            && !is_measurable(column, open)
        {
            // Values that cannot be measured are counted by their codes.
            let is_valid = argument.clone().is_not_null();
            condition = Some(condition.into_iter().fold(is_valid, Expr::and));
            is_counted = true;
        }
        let filter = match &condition {
            Some(condition) => Some(self.filter(condition, open)?),
            None => None,
        };
        if is_counted {
            return Some(match filter {
                None => AggregateOutput::Rows,
                filter => {
                    AggregateOutput::Count(self.aggregate(Function::Count, Measure::Literal(1), filter))
                }
            });
        }
        let mut measures = MeasureReader {
            open,
            measured: &mut self.measured,
            branches: None,
        };
        let argument = measures.read(argument)?;
        // Measures are evaluated for all rows, also for those whose overflow a FILTER excludes.
        if filter.is_some() && may_overflow(&argument.measure) {
            return None;
        }
        self.of_measure(name, argument, to, filter)
    }

    /// Adds an aggregate of a measure.
    fn of_measure(
        &mut self,
        name: &str,
        argument: TypedMeasure,
        to: &DataType,
        filter: Option<usize>,
    ) -> Option<AggregateOutput> {
        if name == "count" {
            let count = self.aggregate(Function::Count, argument.measure, filter);
            return Some(AggregateOutput::Count(count));
        }
        if argument.data_type.is_floating() {
            self.of_floats(name, argument, to, filter)
        } else {
            self.of_integers(name, argument, to, filter)
        }
    }

    /// Adds an aggregate of integers, decimals, dates or timestamps.
    fn of_integers(
        &mut self,
        name: &str,
        argument: TypedMeasure,
        to: &DataType,
        filter: Option<usize>,
    ) -> Option<AggregateOutput> {
        let (measure, data_type) = (argument.measure, argument.data_type);
        let decimal = matches!(data_type, DataType::Decimal128(..));
        let function = match (name, to) {
            ("sum", DataType::Int64) if data_type == DataType::Int64 => Function::Sum,
            ("sum", DataType::Decimal128(..)) if decimal => Function::Sum,
            ("min", _) if *to == data_type => Function::Min,
            ("max", _) if *to == data_type => Function::Max,
            ("avg", DataType::Decimal128(precision, scale)) => {
                let DataType::Decimal128(_, of) = data_type else {
                    return None;
                };
                // DataFusion sums those of many digits in 256 bits. Here 128 are enough, since values have
                // 64.
                let more = u32::try_from(scale.checked_sub(of)?).ok()?;
                let sum = self.aggregate(Function::Sum, measure, filter);
                return Some(AggregateOutput::DecimalAverage(sum, *precision, *scale, more));
            }
            _ => return None,
        };
        Some(AggregateOutput::Value(
            self.aggregate(function, measure, filter),
            to.clone(),
        ))
    }

    /// Adds an aggregate of floats.
    fn of_floats(
        &mut self,
        name: &str,
        argument: TypedMeasure,
        to: &DataType,
        filter: Option<usize>,
    ) -> Option<AggregateOutput> {
        if argument.data_type != *to {
            return None;
        }
        let function = match name {
            "sum" | "avg" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            _ => return None,
        };
        let is_average = name == "avg";
        Some(match argument.cast_from {
            // The sum of integers that doubles hold exactly is the same either way, but for rounding.
            Some(0) if function == Function::Sum && argument.is_exact() => {
                let sum = self.aggregate(function, argument.measure, filter);
                if is_average {
                    AggregateOutput::Average(sum)
                } else {
                    AggregateOutput::Cast(sum, 0)
                }
            }
            // Casts keep the order.
            Some(scale) if function != Function::Sum => {
                AggregateOutput::Cast(self.aggregate(function, argument.measure, filter), scale)
            }
            // DataFusion compares others in an order of its own, in which the result depends on that of rows.
            None if function != Function::Sum && !argument.is_finite => return None,
            _ => {
                let number = self.aggregate(function, argument.into_float(), filter);
                if is_average {
                    AggregateOutput::FloatAverage(number)
                } else {
                    AggregateOutput::Float(number, to.clone())
                }
            }
        })
    }

    /// Returns true if one of them is a sum or an average.
    pub(super) fn has_sums(&self) -> bool {
        let mut functions = self.aggregates.iter().map(|aggregate| aggregate.function);
        functions.any(|function| function == Function::Sum)
    }

    /// Returns the position of a condition on the rows of an aggregate; `None` unless it is one on codes.
    fn filter(&mut self, expr: &Expr, open: &OpenTable) -> Option<usize> {
        let known = self.filters.iter().position(|other| other.expr == *expr);
        if known.is_some() {
            return known;
        }
        let conditions = PoolTable::conditions(open, &split_conjunction_owned(expr.clone()))?;
        self.filters.push(FilterCondition {
            expr: expr.clone(),
            codes: AggregateFilter { conditions },
        });
        Some(self.filters.len() - 1)
    }

    fn aggregate(&mut self, function: Function, measure: Measure, filter: Option<usize>) -> usize {
        let aggregate = Aggregate {
            function,
            measure,
            filter,
        };
        let known = self.aggregates.iter().position(|other| *other == aggregate);
        known.unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        })
    }
}

/// Returns true if an argument of `count` is never NULL.
fn is_never_null(argument: &Expr, open: &OpenTable) -> bool {
    match argument {
        Expr::Literal(value, _) => !value.is_null(),
        Expr::Column(column) => {
            let field = open.table.schema().field_with_name(&column.name);
            field.is_ok_and(|field| !field.is_nullable())
        }
        _ => false,
    }
}

/// Returns true if an operation of a measure is checked for overflow.
fn may_overflow(measure: &Measure) -> bool {
    match measure {
        Measure::Column(_) | Measure::FloatColumn(_) | Measure::Literal(_) | Measure::FloatLiteral(_) => {
            false
        }
        Measure::ToFloat(_, value) => may_overflow(value),
        Measure::Paired(left, right) => may_overflow(left) || may_overflow(right),
        Measure::Add(width, left, right)
        | Measure::Subtract(width, left, right)
        | Measure::Multiply(width, left, right) => {
            matches!(width, Width::W32 | Width::W64) || may_overflow(left) || may_overflow(right)
        }
    }
}

/// Returns true if a measure can be made of a column.
fn is_measurable(column: &Column, open: &OpenTable) -> bool {
    let field = open.table.schema().field_with_name(&column.name);
    field.is_ok_and(|field| is_countable(field.data_type()))
}
