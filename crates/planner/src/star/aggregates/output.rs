//! Results of aggregates as arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, Int64Array};
use arrow_schema::DataType;
use datafusion::error::{DataFusionError, Result};
use halocline_joins::star::GroupStates;
use halocline_sql::EngineError;

use super::statistics::{Covariance, PairSums};
use crate::star::group_domain::from_integers;

/// A column of the result, computed from the aggregates of the join, which are given by position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::star) enum AggregateOutput {
    /// Rows of the group.
    Rows,
    /// Values that are not NULL.
    Count(usize),
    /// A sum, minimum or maximum of this type.
    Value(usize, DataType),
    /// A sum, minimum or maximum of integers as a double, divided by this power of ten.
    Cast(usize, i8),
    /// A sum, minimum or maximum of floats of this type.
    Float(usize, DataType),
    /// A sum of integers divided by the count.
    Average(usize),
    /// A sum of floats divided by the count.
    FloatAverage(usize),
    /// The average of decimals: sum, precision, scale, and the number of additional digits after the point.
    DecimalAverage(usize, u8, i8, u32),
    /// A covariance, or its root, of values whose scales have this sum.
    Covariance(PairSums, Covariance, i32),
    /// A correlation of x and y: the sums over the pairs of x and y, of x and x, and of y and y.
    Correlation(PairSums, PairSums, PairSums),
}

impl AggregateOutput {
    /// Returns the column of these groups.
    ///
    /// # Errors
    /// A sum is outside of its type; an average of decimals has more digits than its type.
    pub(in crate::star) fn array(&self, groups: &GroupStates) -> Result<ArrayRef> {
        let positions = 0..groups.len();
        Ok(match self {
            AggregateOutput::Rows => integers(positions, |group| Some(groups.rows(group) as i64)),
            AggregateOutput::Count(number) => {
                integers(positions, |group| Some(groups.count(group, *number) as i64))
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
            AggregateOutput::Cast(number, scale) => {
                let divisor = 10_f64.powi((*scale).into());
                doubles(positions, |group| {
                    Some(groups.value(group, *number)? as f64 / divisor)
                })
            }
            AggregateOutput::Float(number, DataType::Float32) => {
                let value = |group: usize| groups.float(group, *number).map(|value| value as f32);
                Arc::new(positions.map(value).collect::<Float32Array>())
            }
            AggregateOutput::Float(number, _) => doubles(positions, |group| groups.float(group, *number)),
            AggregateOutput::Average(number) => doubles(positions, |group| {
                let sum = groups.value(group, *number)?;
                Some(sum as f64 / groups.count(group, *number) as f64)
            }),
            AggregateOutput::FloatAverage(number) => doubles(positions, |group| {
                let sum = groups.float(group, *number)?;
                Some(sum / groups.count(group, *number) as f64)
            }),
            AggregateOutput::Covariance(pairs, statistic, scale) => doubles(positions, |group| {
                pairs.covariance(groups, group, *statistic, *scale)
            }),
            AggregateOutput::Correlation(pairs, lefts, rights) => doubles(positions, |group| {
                pairs.correlation((lefts, rights), groups, group)
            }),
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

fn integers(positions: Range<usize>, value: impl Fn(usize) -> Option<i64>) -> ArrayRef {
    Arc::new(positions.map(value).collect::<Int64Array>())
}

fn doubles(positions: Range<usize>, value: impl Fn(usize) -> Option<f64>) -> ArrayRef {
    Arc::new(positions.map(value).collect::<Float64Array>())
}
