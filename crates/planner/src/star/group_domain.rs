//! Columns of the fact table that rows are grouped by: the numbers of their values, and the values again.
//!
//! The codes of a table of one segment are numbers already. Otherwise integers are counted from the least
//! one, and other values are listed without duplicates, which takes time and memory for each value in a
//! dictionary. So are the values of an expression over a column: one for each code.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, NullArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use halocline_catalog::OpenTable;
use halocline_columns::{CodeSpace, Segment};
use halocline_joins::star::{GroupCodes, GroupColumn};
use halocline_sql::error::external;

use super::aggregates::is_countable;
use super::delta_rows::integers;
use super::fact_group::{FactGroup, GroupExpression};

/// Most values of a column that are listed, those of all segments together.
const MAX_LISTED_VALUES: u64 = 1 << 20;

/// The values of a group column.
pub(super) struct GroupDomain {
    /// Their numbers.
    pub(super) group: GroupColumn,
    values: DomainValues,
}

enum DomainValues {
    /// Numbers are the codes of the only segment.
    Coded(CodeSpace),
    /// Numbers count from the least value; NULL, if there may be one, comes before it.
    Integers {
        low: i64,
        has_null: bool,
        data_type: DataType,
    },
    /// The values in the order of their numbers.
    Listed(ArrayRef),
}

/// Estimates the number of groups by an expression; `None` if rows cannot be grouped by it.
pub(super) fn estimated_groups(open: &OpenTable, group: &FactGroup) -> Option<u64> {
    let column = group.column;
    let data_type = open.table.schema().field(column).data_type();
    let segments = open.table.segments();
    let added = open.delta.as_ref().map_or(0, |delta| delta.live_rows() as u64);
    let spaces: Option<Vec<&CodeSpace>> = segments
        .iter()
        .map(|segment| segment.column(column).code_space())
        .collect();
    let spaces = spaces?;
    if spaces.iter().any(|space| space.data_type() != data_type) {
        return None;
    }
    let codes = spaces.iter().try_fold(added, |all, space| {
        all.checked_add(space.max_code().checked_add(1)?)
    });
    let is_numbered = segments.len() == 1 && added == 0 || are_integers(data_type, segments, column);
    if codes? > MAX_LISTED_VALUES && (group.expr.is_some() || !is_numbered) {
        return None;
    }
    let distinct = spaces.iter().map(|space| space.distinct_estimate() + 1).max();
    let groups = distinct.unwrap_or(1).saturating_add(added);
    Some(groups.min(open.live_rows().max(1)))
}

/// Returns true if values of all segments are numbers that the rows of the log can be converted to.
fn are_integers(data_type: &DataType, segments: &[Segment], column: usize) -> bool {
    // Rows of the log may have decimals of more than 64 bits.
    let is_wide = matches!(data_type, DataType::Decimal128(precision, _) if *precision > 18);
    let convertible = (is_countable(data_type) && !is_wide) || *data_type == DataType::Date64;
    let base = |segment: &Segment| segment.column(column).code_space()?.integer_base();
    convertible && segments.iter().all(|segment| base(segment).is_some())
}

impl GroupDomain {
    /// Assigns numbers to the values of a group column. Returns the domain and, batch by batch, the numbers
    /// of the values in added rows; `None` if 64 bits cannot number them, or if an expression fails for a
    /// value that might not occur in any row.
    ///
    /// # Errors
    /// A dictionary cannot be read.
    pub(super) fn build(
        open: &OpenTable,
        group: &FactGroup,
        added: &[RecordBatch],
        state: &dyn Session,
    ) -> Result<Option<(GroupDomain, Vec<Vec<u64>>)>> {
        let column = group.column;
        let (field, segments) = (open.table.schema().field(column), open.table.segments());
        let values: Vec<&ArrayRef> = added.iter().map(|batch| batch.column(column)).collect();
        if group.expr.is_some() {
            let expression = group.plan(open, state)?;
            return Ok(GroupDomain::listed(&expression, segments, column, &values).unwrap_or(None));
        }
        if let ([segment], []) = (segments, added) {
            let coded = segment.column(column).code_space().and_then(|space| {
                let codes = GroupCodes::Shifted {
                    shift: 0,
                    has_null: false,
                };
                Some(GroupDomain {
                    group: GroupColumn {
                        column,
                        size: space.max_code().checked_add(1)?,
                        codes: vec![codes],
                    },
                    values: DomainValues::Coded(space.clone()),
                })
            });
            return Ok(coded.map(|domain| (domain, Vec::new())));
        }
        if are_integers(field.data_type(), segments, column) {
            GroupDomain::of_integers(field, segments, column, &values)
        } else {
            GroupDomain::listed(&group.plan(open, state)?, segments, column, &values)
        }
    }

    fn of_integers(
        field: &Field,
        segments: &[Segment],
        column: usize,
        added: &[&ArrayRef],
    ) -> Result<Option<(GroupDomain, Vec<Vec<u64>>)>> {
        let added = added
            .iter()
            .map(|array| integers(array))
            .collect::<Result<Vec<_>>>()?;
        let added: Vec<&Int64Array> = added
            .iter()
            .map(|array| array.as_primitive::<Int64Type>())
            .collect();
        let mut has_null = added.iter().any(|array| array.null_count() > 0);
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let mut note = |value: i64| (low, high) = (low.min(value), high.max(value));
        let mut bases = Vec::with_capacity(segments.len());
        for segment in segments {
            let of_segment = segment.column(column);
            let Some(space) = of_segment.code_space() else {
                return Ok(None);
            };
            let base = space.integer_base().unwrap_or_default();
            has_null |= space.has_null();
            if of_segment.null_count() < of_segment.rows() {
                note(base.wrapping_add(i64::from(space.has_null())));
                note(base.wrapping_add_unsigned(space.max_code()));
            }
            bases.push((base, space.has_null()));
        }
        added
            .iter()
            .flat_map(|array| array.iter().flatten())
            .for_each(note);
        // Without any value there is none to be numbered.
        let span = (i128::from(high) - i128::from(low) + 1).max(0) + i128::from(has_null);
        let Ok(size) = u64::try_from(span) else {
            return Ok(None);
        };
        let first = u64::from(has_null);
        let number = |value: i64| (value.wrapping_sub(low) as u64).wrapping_add(first);
        let codes = bases.into_iter().map(|(base, has_null)| GroupCodes::Shifted {
            shift: number(base),
            has_null,
        });
        let numbers = added.iter().map(|array| {
            let numbers = array.iter().map(|value| value.map_or(0, number));
            numbers.collect()
        });
        let domain = GroupDomain {
            group: GroupColumn {
                column,
                size,
                codes: codes.collect(),
            },
            values: DomainValues::Integers {
                low,
                has_null,
                data_type: field.data_type().clone(),
            },
        };
        Ok(Some((domain, numbers.collect())))
    }

    fn listed(
        expression: &GroupExpression,
        segments: &[Segment],
        column: usize,
        added: &[&ArrayRef],
    ) -> Result<Option<(GroupDomain, Vec<Vec<u64>>)>> {
        let mut values: Option<Box<dyn GroupValues>> = None;
        let mut number = |array: ArrayRef| -> Result<Vec<usize>> {
            let array = expression.evaluate(array)?;
            let values = match &mut values {
                Some(values) => values,
                None => {
                    let field = Field::new("value", array.data_type().clone(), true);
                    let schema = Arc::new(Schema::new(vec![field]));
                    values.insert(new_group_values(schema, &GroupOrdering::None)?)
                }
            };
            let mut numbers = Vec::with_capacity(array.len());
            values.intern(&[array], &mut numbers)?;
            Ok(numbers)
        };
        let mut codes = Vec::with_capacity(segments.len());
        for segment in segments {
            let Some(space) = segment.column(column).code_space() else {
                return Ok(None);
            };
            let all: Vec<u64> = (0..=space.max_code()).collect();
            let numbers = number(space.decode(&all).map_err(external)?)?;
            codes.push(GroupCodes::Listed(
                numbers.iter().map(|number| *number as u32).collect(),
            ));
        }
        let mut of_added = Vec::with_capacity(added.len());
        for array in added {
            let numbers = number(Arc::clone(array))?;
            of_added.push(numbers.iter().map(|number| *number as u64).collect());
        }
        let (size, listed) = match values {
            Some(mut values) => (values.len() as u64, values.emit(EmitTo::All)?.pop()),
            None => (0, None),
        };
        let domain = GroupDomain {
            group: GroupColumn { column, size, codes },
            values: DomainValues::Listed(listed.unwrap_or_else(|| Arc::new(NullArray::new(0)))),
        };
        Ok(Some((domain, of_added)))
    }

    /// Returns the values of numbers.
    ///
    /// # Errors
    /// A dictionary cannot be read.
    pub(super) fn values(&self, numbers: &[u64]) -> Result<ArrayRef> {
        match &self.values {
            DomainValues::Coded(space) => space.decode(numbers).map_err(external),
            DomainValues::Integers {
                low,
                has_null,
                data_type,
            } => {
                let value = |number: &u64| {
                    let above = number.checked_sub(u64::from(*has_null))?;
                    Some(low.wrapping_add_unsigned(above))
                };
                from_integers(numbers.iter().map(value).collect(), data_type)
            }
            DomainValues::Listed(values) => {
                let rows: UInt32Array = numbers.iter().map(|number| Some(*number as u32)).collect();
                Ok(arrow_select::take::take(values, &rows, None)?)
            }
        }
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        let of_codes = |codes: &GroupCodes| match codes {
            GroupCodes::Listed(list) => size_of_val(&**list),
            GroupCodes::Shifted { .. } => 0,
        };
        let values = match &self.values {
            DomainValues::Listed(values) => values.get_array_memory_size(),
            _ => 0,
        };
        self.group.codes.iter().map(of_codes).sum::<usize>() + values
    }
}

/// Converts integers to the type whose values they are: the opposite of [`integers`].
///
/// # Errors
/// A value does not fit the type.
pub(super) fn from_integers(values: Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    let values: ArrayRef = match data_type {
        DataType::Decimal128(precision, scale) => {
            let wide = values.unary::<_, arrow_array::types::Decimal128Type>(i128::from);
            return Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?));
        }
        // Days are counted in 32 bits, from which a date is made.
        DataType::Date32 => arrow_cast::cast(&values, &DataType::Int32)?,
        _ => Arc::new(values),
    };
    Ok(arrow_cast::cast(&values, data_type)?)
}
