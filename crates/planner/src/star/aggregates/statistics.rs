//! Variances, standard deviations, covariances and correlations of integers and decimals.
//!
//! SQL computes them from doubles that the values are cast to. Here they are quotients of exact integers of
//! 128 bits, which are rounded once: an aggregate is accepted only if the bounds of its arguments and the
//! number of rows prove that no product of two sums needs more. A pair with a NULL counts for neither
//! argument.

use datafusion::logical_expr::Expr;
use halocline_catalog::OpenTable;
use halocline_joins::star::{Function, GroupStates, Measure};

use super::{AggregateOutput, Aggregates, may_overflow};
use crate::star::bounds::has_nulls;
use crate::star::measures::MeasureReader;
use crate::star::typed_measure::TypedMeasure;

/// A function of pairs of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistic {
    Covariance(Covariance),
    Correlation,
}

/// A kind of covariance. A variance is the covariance of values with themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::star) struct Covariance {
    /// True if the divisor is one less than the number of pairs.
    is_sample: bool,
    /// True for the square root.
    is_root: bool,
    /// True if there is one argument, which is both values of a pair.
    is_single: bool,
}

/// The aggregates, by position, that the covariance of pairs is computed of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::star) struct PairSums {
    /// The sum of the first values.
    left: usize,
    /// The sum of the second values.
    right: usize,
    /// The sum of the products.
    products: usize,
}

impl Statistic {
    /// Returns the function of this name.
    pub(super) fn from_name(name: &str) -> Option<Statistic> {
        let covariance = |is_sample, is_root, is_single| {
            Statistic::Covariance(Covariance {
                is_sample,
                is_root,
                is_single,
            })
        };
        Some(match name {
            "var" => covariance(true, false, true),
            "var_pop" => covariance(false, false, true),
            "stddev" => covariance(true, true, true),
            "stddev_pop" => covariance(false, true, true),
            "covar_samp" => covariance(true, false, false),
            "covar_pop" => covariance(false, false, false),
            "corr" => Statistic::Correlation,
            _ => return None,
        })
    }
}

impl Aggregates {
    /// Adds a function of pairs of integers or decimals.
    pub(super) fn of_pairs(
        &mut self,
        statistic: Statistic,
        arguments: &[Expr],
        filter: Option<usize>,
        open: &OpenTable,
    ) -> Option<AggregateOutput> {
        let is_single = matches!(statistic, Statistic::Covariance(kind) if kind.is_single);
        let (left, right) = match (arguments, is_single) {
            ([value], true) => {
                let value = self.cast_integer(value, filter, open)?;
                (value.clone(), value)
            }
            ([left, right], false) => {
                let (of_left, of_right) = (
                    self.cast_integer(left, filter, open)?,
                    self.cast_integer(right, filter, open)?,
                );
                let paired = |value: &TypedMeasure, other: &TypedMeasure, may_be_null: bool| {
                    if may_be_null {
                        value.paired(other)
                    } else {
                        value.clone()
                    }
                };
                (
                    paired(&of_left, &of_right, may_be_null(right, open)),
                    paired(&of_right, &of_left, may_be_null(left, open)),
                )
            }
            _ => return None,
        };
        let scale = i32::from(left.cast_from?) + i32::from(right.cast_from?);
        let pairs = self.pair_sums(&left, &right, filter, open)?;
        Some(match statistic {
            Statistic::Covariance(kind) => AggregateOutput::Covariance(pairs, kind, scale),
            Statistic::Correlation => AggregateOutput::Correlation(
                pairs,
                self.pair_sums(&left, &left, filter, open)?,
                self.pair_sums(&right, &right, filter, open)?,
            ),
        })
    }

    /// Reads an argument that was cast to a double from an integer or a decimal.
    fn cast_integer(&mut self, expr: &Expr, filter: Option<usize>, open: &OpenTable) -> Option<TypedMeasure> {
        let mut measures = MeasureReader {
            open,
            measured: &mut self.measured,
            branches: None,
        };
        let argument = measures.read(expr)?;
        let is_supported = argument.cast_from.is_some();
        // Measures are evaluated for all rows, also for those whose overflow a FILTER excludes.
        let overflows = filter.is_some() && may_overflow(&argument.measure);
        (is_supported && !overflows).then_some(argument)
    }

    /// Adds the sums of pairs; `None` if the numerator of their covariance may exceed 128 bits.
    fn pair_sums(
        &mut self,
        left: &TypedMeasure,
        right: &TypedMeasure,
        filter: Option<usize>,
        open: &OpenTable,
    ) -> Option<PairSums> {
        let rows = i128::from(open.live_rows());
        let most = left.magnitude().max(1).checked_mul(right.magnitude().max(1))?;
        // The numerator is a difference of two numbers up to this.
        let product = rows.checked_mul(rows)?.checked_mul(most)?;
        product.checked_mul(2)?;
        let products = left.product(right)?;
        let mut sum = |measure: Measure| self.aggregate(Function::Sum, measure, filter);
        Some(PairSums {
            left: sum(left.measure.clone()),
            right: sum(right.measure.clone()),
            products: sum(products),
        })
    }
}

/// Returns true if a row may have no value of an expression.
fn may_be_null(expr: &Expr, open: &OpenTable) -> bool {
    let schema = open.table.schema();
    let mut columns = expr.column_refs().into_iter();
    columns.any(|column| {
        let position = schema.index_of(&column.name);
        position.map_or(true, |position| has_nulls(open, position))
    })
}

impl PairSums {
    /// Returns the number of pairs of a group and their covariance multiplied by its square, without the
    /// scale of the values; `None` without pairs.
    fn numerator(&self, groups: &GroupStates, group: usize) -> Option<(u64, i128)> {
        let pairs = groups.count(group, self.products);
        let sum = |aggregate| groups.value(group, aggregate);
        let (left, right) = (sum(self.left)?, sum(self.right)?);
        Some((pairs, i128::from(pairs) * sum(self.products)? - left * right))
    }

    /// Returns a covariance of a group, or its root; `None` if there are too few pairs. `scale` is the sum of
    /// the exponents of the two powers of ten that values are divided by.
    pub(super) fn covariance(
        &self,
        groups: &GroupStates,
        group: usize,
        kind: Covariance,
        scale: i32,
    ) -> Option<f64> {
        let (pairs, numerator) = self.numerator(groups, group)?;
        let divisor = pairs
            .checked_sub(kind.is_sample.into())
            .filter(|divisor| *divisor > 0)?;
        let covariance = numerator as f64 / (pairs as f64 * divisor as f64) / 10_f64.powi(scale);
        Some(if kind.is_root {
            covariance.sqrt()
        } else {
            covariance
        })
    }

    /// Returns the correlation of the pairs of a group; `None` if there are fewer than two, or all values of
    /// one side are the same. `lefts` and `rights` are the sums of each side with itself.
    pub(super) fn correlation(
        &self,
        (lefts, rights): (&PairSums, &PairSums),
        groups: &GroupStates,
        group: usize,
    ) -> Option<f64> {
        let (_, numerator) = self.numerator(groups, group)?;
        let (_, left) = lefts.numerator(groups, group)?;
        let (_, right) = rights.numerator(groups, group)?;
        // One pair has no variance either.
        if left == 0 || right == 0 {
            return None;
        }
        // Rounding may exceed the bounds of a correlation.
        Some((numerator as f64 / (left as f64 * right as f64).sqrt()).clamp(-1.0, 1.0))
    }
}
