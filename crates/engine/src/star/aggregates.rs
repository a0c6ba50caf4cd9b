//! Aggregates of SQL as those of the star join, and their results as arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_schema::{DataType, Schema};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_joins::star::{Aggregate, Function, Groups, Measure, Width};

/// How a column of the answer comes from the join's aggregates, by number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Output {
    /// Rows of the group.
    Rows,
    /// Values that are not NULL.
    Count(usize),
    /// A sum of 64 bits, which wraps.
    Sum(usize),
    /// The least or greatest, of a type.
    Extreme(usize, DataType),
    /// A sum over how many there are.
    Average(usize),
}

/// The aggregates of a query.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Aggregates {
    /// Columns of the fact table that are read for them.
    pub(super) measured: Vec<usize>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) outputs: Vec<Output>,
}

impl Aggregates {
    /// Reads an aggregate over columns of the fact table; false if it is not one of those that are known.
    pub(super) fn add(&mut self, expr: &Expr, schema: &Schema) -> bool {
        self.read(expr, schema).is_some_and(|output| {
            self.outputs.push(output);
            true
        })
    }

    fn read(&mut self, expr: &Expr, schema: &Schema) -> Option<Output> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return None;
        };
        let plain = !params.distinct
            && params.filter.is_none()
            && params.order_by.is_empty()
            && params.null_treatment.is_none();
        let [argument] = params.args.as_slice() else {
            return None;
        };
        if !plain {
            return None;
        }
        let name = func.name();
        if let (Expr::Literal(value, _), "count") = (argument, name) {
            return (!value.is_null()).then_some(Output::Rows);
        }
        let (measure, data_type) = self.measure(argument, schema)?;
        Some(match name {
            "count" => Output::Count(self.aggregate(Function::Count, measure)),
            "sum" if data_type == DataType::Int64 => Output::Sum(self.aggregate(Function::Sum, measure)),
            "min" => Output::Extreme(self.aggregate(Function::Min, measure), data_type),
            "max" => Output::Extreme(self.aggregate(Function::Max, measure), data_type),
            // The argument is a cast to a float; sums of what 53 bits hold exactly are the same either way.
            "avg" if matches!(data_type, DataType::Float64) => {
                Output::Average(self.aggregate(Function::Sum, measure))
            }
            _ => return None,
        })
    }

    fn aggregate(&mut self, function: Function, measure: Measure) -> usize {
        let aggregate = Aggregate { function, measure };
        let known = self.aggregates.iter().position(|other| *other == aggregate);
        known.unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        })
    }

    /// An expression over the fact table, and its type: Float64 if a column of at most 32 bits was cast to that.
    fn measure(&mut self, expr: &Expr, schema: &Schema) -> Option<(Measure, DataType)> {
        match expr {
            Expr::Alias(alias) => self.measure(&alias.expr, schema),
            Expr::Column(Column { name, .. }) => {
                let column = schema.index_of(name).ok()?;
                let data_type = schema.field(column).data_type().clone();
                is_whole(&data_type).then_some(())?;
                let known = self.measured.iter().position(|other| *other == column);
                let number = known.unwrap_or_else(|| {
                    self.measured.push(column);
                    self.measured.len() - 1
                });
                Some((Measure::Column(number), data_type))
            }
            Expr::Literal(ScalarValue::Int32(Some(value)), _) => {
                Some((Measure::Literal((*value).into()), DataType::Int32))
            }
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => {
                Some((Measure::Literal(*value), DataType::Int64))
            }
            Expr::Cast(cast) => {
                let (measure, from) = self.measure(&cast.expr, schema)?;
                let to = cast.field.data_type();
                let narrow = matches!(from, DataType::Int8 | DataType::Int16 | DataType::Int32);
                let known = match to {
                    DataType::Float64 => narrow,
                    to => widens(&from, to),
                };
                known.then(|| (measure, to.clone()))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, data_type) = self.measure(left, schema)?;
                let (right, other) = self.measure(right, schema)?;
                let width = match (&data_type, other == data_type) {
                    (DataType::Int32, true) => Width::W32,
                    (DataType::Int64, true) => Width::W64,
                    _ => return None,
                };
                let (left, right) = (Box::new(left), Box::new(right));
                let measure = match op {
                    Operator::Plus => Measure::Add(width, left, right),
                    Operator::Minus => Measure::Subtract(width, left, right),
                    Operator::Multiply => Measure::Multiply(width, left, right),
                    _ => return None,
                };
                Some((measure, data_type))
            }
            _ => None,
        }
    }
}

/// Whether values of the type are whole numbers to the star join, and come back as what they were.
pub(super) fn is_whole(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::UInt8 | D::UInt16 | D::UInt32 | D::Date32
    )
}

/// Whether all values of a type of whole numbers are values of another one.
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

impl Output {
    /// The column of these groups.
    pub(super) fn array(&self, groups: &Groups, numbers: &[usize]) -> Result<ArrayRef> {
        let sum = |aggregate: usize, group: usize| groups.value(group, aggregate).map(|sum| sum as i64);
        Ok(match self {
            Output::Rows => of(numbers, |group| Some(groups.rows(group) as i64)),
            Output::Count(number) => of(numbers, |group| Some(groups.count(group, *number) as i64)),
            Output::Sum(number) => of(numbers, |group| sum(*number, group)),
            Output::Extreme(number, data_type) => {
                let values = of(numbers, |group| sum(*number, group));
                match data_type {
                    // Days are counted in 32 bits, from which a date is made.
                    DataType::Date32 => {
                        let days = arrow_cast::cast(&values, &DataType::Int32)?;
                        arrow_cast::cast(&days, data_type)?
                    }
                    other => arrow_cast::cast(&values, other)?,
                }
            }
            Output::Average(number) => {
                let average = |group: &usize| {
                    let sum = groups.value(*group, *number)?;
                    Some(sum as f64 / groups.count(*group, *number) as f64)
                };
                Arc::new(numbers.iter().map(average).collect::<Float64Array>())
            }
        })
    }
}

fn of(numbers: &[usize], value: impl Fn(usize) -> Option<i64>) -> ArrayRef {
    Arc::new(numbers.iter().map(|group| value(*group)).collect::<Int64Array>())
}
