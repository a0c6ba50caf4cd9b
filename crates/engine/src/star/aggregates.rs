//! Aggregates of SQL, translated to those of the star join, and their results as arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array};
use arrow_schema::DataType;
use datafusion::common::Column;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::split_conjunction_owned;
use halocline_joins::star::{Aggregate, AggregateFilter, Function, GroupStates, Measure, Width};

use super::group_domain::from_integers;
use super::measures::{MeasureReader, TypedMeasure};
use crate::EngineError;
use crate::catalog::OpenTable;
use crate::plan::PoolTable;

/// A column of the result, computed from the aggregates of the join, which are given by position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum AggregateOutput {
    /// Rows of the group.
    Rows,
    /// Values that are not NULL.
    Count(usize),
    /// A sum, minimum or maximum of this type.
    Value(usize, DataType),
    /// A sum divided by the count.
    Average(usize),
    /// The average of decimals: sum, precision, scale, and the number of additional digits behind the point.
    DecimalAverage(usize, u8, i8, u32),
}

/// The condition of a `FILTER` clause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FilterCondition {
    pub(super) expr: Expr,
    pub(super) codes: AggregateFilter,
}

/// The aggregates of a query.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Aggregates {
    /// Columns of the fact table that they read.
    pub(super) measured: Vec<usize>,
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

    fn read(&mut self, expr: &Expr, to: &DataType, open: &OpenTable) -> Option<AggregateOutput> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return None;
        };
        let plain = !params.distinct && params.order_by.is_empty() && params.null_treatment.is_none();
        let [argument] = params.args.as_slice() else {
            return None;
        };
        if !plain {
            return None;
        }
        let name = func.name();
        let mut condition = params.filter.as_deref().cloned();
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
        };
        let TypedMeasure {
            measure, data_type, ..
        } = measures.read(argument)?;
        // Measures are evaluated for all rows, also for those whose overflow a FILTER excludes.
        if filter.is_some() && may_overflow(&measure) {
            return None;
        }
        let decimal = matches!(data_type, DataType::Decimal128(..));
        Some(match (name, to) {
            ("count", _) => AggregateOutput::Count(self.aggregate(Function::Count, measure, filter)),
            ("sum", DataType::Int64) if data_type == DataType::Int64 => {
                AggregateOutput::Value(self.aggregate(Function::Sum, measure, filter), to.clone())
            }
            ("sum", DataType::Decimal128(..)) if decimal => {
                AggregateOutput::Value(self.aggregate(Function::Sum, measure, filter), to.clone())
            }
            ("min", _) if *to == data_type => {
                AggregateOutput::Value(self.aggregate(Function::Min, measure, filter), to.clone())
            }
            ("max", _) if *to == data_type => {
                AggregateOutput::Value(self.aggregate(Function::Max, measure, filter), to.clone())
            }
            // The argument is a cast to a float; sums of what 53 bits hold exactly are the same either way.
            ("avg", DataType::Float64) if data_type == DataType::Float64 => {
                AggregateOutput::Average(self.aggregate(Function::Sum, measure, filter))
            }
            ("avg", DataType::Decimal128(precision, scale)) => {
                let DataType::Decimal128(_, of) = data_type else {
                    return None;
                };
                // DataFusion sums those of many digits in 256 bits. Here 128 are enough, since values have
                // 64.
                let more = u32::try_from(scale.checked_sub(of)?).ok()?;
                let sum = self.aggregate(Function::Sum, measure, filter);
                AggregateOutput::DecimalAverage(sum, *precision, *scale, more)
            }
            _ => return None,
        })
    }

    /// Returns true if one of them is a sum or an average.
    pub(super) fn has_sums(&self) -> bool {
        let mut functions = self.aggregates.iter().map(|aggregate| aggregate.function);
        functions.any(|function| function == Function::Sum)
    }

    /// Returns the position of a condition on the rows of an aggregate; none unless it is one on codes.
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
        Measure::Column(_) | Measure::Literal(_) => false,
        Measure::Add(width, left, right)
        | Measure::Subtract(width, left, right)
        | Measure::Multiply(width, left, right) => {
            *width != Width::Fits || may_overflow(left) || may_overflow(right)
        }
    }
}

/// Returns true if a measure can be made of a column.
fn is_measurable(column: &Column, open: &OpenTable) -> bool {
    let field = open.table.schema().field_with_name(&column.name);
    field.is_ok_and(|field| is_countable(field.data_type()))
}

/// Returns true if values of the type are numbers of 64 bits in the star join.
pub(super) fn is_countable(data_type: &DataType) -> bool {
    is_whole(data_type) || matches!(data_type, DataType::Decimal128(..) | DataType::Timestamp(..))
}

/// Returns true if values of the type convert to integers of the star join and back without loss.
pub(super) fn is_whole(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::UInt8 | D::UInt16 | D::UInt32 | D::Date32
    )
}

/// Returns true if all values of an integer type are values of another type.
pub(super) fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    let range = |data_type: &DataType| {
        Some(match data_type {
            D::Int8 => (-0x80, 0x7F),
            D::Int16 => (-0x8000, 0x7FFF),
            D::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            D::Int64 => (i64::MIN, i64::MAX),
            D::UInt8 => (0, 0xFF),
            D::UInt16 => (0, 0xFFFF),
            D::UInt32 => (0, i64::from(u32::MAX)),
            _ => return None,
        })
    };
    match (range(from), range(to)) {
        (Some((low, high)), Some((least, most))) => least <= low && high <= most,
        _ => from == to,
    }
}

impl AggregateOutput {
    /// Returns the column of these groups.
    ///
    /// # Errors
    /// A sum is outside of its type; an average of decimals has more digits than its type.
    pub(super) fn array(&self, groups: &GroupStates) -> Result<ArrayRef> {
        let positions = 0..groups.len();
        Ok(match self {
            AggregateOutput::Rows => of(positions, |group| Some(groups.rows(group) as i64)),
            AggregateOutput::Count(number) => {
                of(positions, |group| Some(groups.count(group, *number) as i64))
            }
            AggregateOutput::Value(number, DataType::Int64) => {
                let narrow = |group: usize| {
                    let sum = groups.value(group, *number);
                    sum.map(|sum| i64::try_from(sum).map_err(|_| outside(sum)))
                        .transpose()
                };
                let values = positions.map(narrow).collect::<Result<Vec<Option<i64>>>>()?;
                Arc::new(Int64Array::from(values))
            }
            AggregateOutput::Value(number, DataType::Decimal128(precision, scale)) => {
                let values = positions.map(|group| groups.value(group, *number));
                decimals(values.collect(), *precision, *scale)?
            }
            AggregateOutput::Value(number, data_type) => {
                let value = |group: usize| groups.value(group, *number).map(|value| value as i64);
                from_integers(positions.map(value).collect(), data_type)?
            }
            AggregateOutput::Average(number) => {
                let average = |group: usize| {
                    let sum = groups.value(group, *number)?;
                    Some(sum as f64 / groups.count(group, *number) as f64)
                };
                Arc::new(positions.map(average).collect::<Float64Array>())
            }
            AggregateOutput::DecimalAverage(number, precision, scale, more) => {
                let factor = 10_i128.checked_pow(*more);
                let average = |group: usize| {
                    let Some(sum) = groups.value(group, *number) else {
                        return Ok(None);
                    };
                    let scaled = factor.and_then(|factor| sum.checked_mul(factor));
                    let average = scaled.map(|scaled| scaled / i128::from(groups.count(group, *number)));
                    let fits = average.filter(|average| {
                        Decimal128Type::validate_decimal_precision(*average, *precision, *scale).is_ok()
                    });
                    // The text of DataFusion.
                    let overflow =
                        || DataFusionError::Execution("Arithmetic Overflow in AvgAccumulator".into());
                    fits.map(Some).ok_or_else(overflow)
                };
                let averages = positions.map(average).collect::<Result<Vec<_>>>()?;
                decimals(averages.into(), *precision, *scale)?
            }
        })
    }
}

/// Returns the error for a sum of more than 64 bits.
fn outside(sum: i128) -> DataFusionError {
    DataFusionError::External(Box::new(EngineError::Overflow {
        operation: format!("the sum {sum}"),
        data_type: "bigint".into(),
    }))
}

fn decimals(values: Decimal128Array, precision: u8, scale: i8) -> Result<ArrayRef> {
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn of(positions: Range<usize>, value: impl Fn(usize) -> Option<i64>) -> ArrayRef {
    Arc::new(positions.map(value).collect::<Int64Array>())
}
