//! Statistics of a table for the optimizer, computed without reading rows.
//!
//! Distinct values are counted by the sketches of the segments, merged. A segment without sketches, written
//! by an earlier version, has a number for each column; of such segments the largest number counts.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use halocline_columns::{Column, DistinctSketch, Table};
use halocline_sql::EngineError;

/// Returns NULL counts, value ranges and distinct values of the segments of a table, including deleted rows.
/// O(columns x segments), 3 KiB for each at most.
///
/// # Errors
/// Damaged headers or sketches.
pub(crate) fn table_statistics(table: &Table) -> Result<Statistics, EngineError> {
    let distinct = distinct_values(table)?;
    let columns = distinct.into_iter().enumerate();
    let columns = columns.map(|(column, distinct)| column_statistics(table, column, distinct));
    Ok(Statistics {
        num_rows: Precision::Exact(table.rows() as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect::<Result<_, _>>()?,
    })
}

/// Returns the number of distinct values of each column; `None` where it is not known.
fn distinct_values(table: &Table) -> Result<Vec<Option<u64>>, EngineError> {
    let columns = table.schema().fields().len();
    let mut merged: Vec<DistinctSketch> = vec![DistinctSketch::default(); columns];
    // The largest number of a segment without sketches; `None` if one of them has no number.
    let mut numbers: Vec<Option<u64>> = vec![Some(0); columns];
    for segment in table.segments() {
        match segment.sketches()? {
            Some(sketches) => {
                merged
                    .iter_mut()
                    .zip(&sketches)
                    .for_each(|(all, own)| all.merge(own));
            }
            None => {
                for (number, column) in numbers.iter_mut().zip(segment.columns()) {
                    let own = column.code_space().map(|space| space.distinct_estimate());
                    *number = number.zip(own).map(|(number, own)| number.max(own));
                }
            }
        }
    }
    let of_column = |(column, (sketch, number)): (usize, (DistinctSketch, Option<u64>))| {
        // A dictionary is a list of its values.
        let exact = match table.segments() {
            [segment] => segment
                .column(column)
                .code_space()
                .and_then(|space| space.dictionary())
                .map(|dictionary| dictionary.len() as u64),
            _ => None,
        };
        exact.or_else(|| Some(number?.max(sketch.estimate())))
    };
    Ok(merged
        .into_iter()
        .zip(numbers)
        .enumerate()
        .map(of_column)
        .collect())
}

fn column_statistics(
    table: &Table,
    index: usize,
    distinct: Option<u64>,
) -> Result<ColumnStatistics, EngineError> {
    let columns: Vec<&Column> = table
        .segments()
        .iter()
        .map(|segment| segment.column(index))
        .collect();
    let nulls = columns.iter().map(|column| column.null_count()).sum();
    let mut ends: Option<(ScalarValue, ScalarValue)> = None;
    let mut known = true;
    for column in &columns {
        let Some(space) = column.code_space() else {
            known = false;
            break;
        };
        let first = space.null_code().map_or(0, |null| null + 1);
        if first > space.max_code() || column.null_count() == column.rows() {
            continue;
        }
        // A code space is dense from the smallest to the largest value of its column.
        let values = space.decode(&[first, space.max_code()])?;
        let (low, high) = (
            ScalarValue::try_from_array(&values, 0)?,
            ScalarValue::try_from_array(&values, 1)?,
        );
        ends = Some(match ends {
            None => (low, high),
            Some((a, b)) => (if low < a { low } else { a }, if high > b { high } else { b }),
        });
    }
    let floating = table.schema().field(index).data_type().is_floating();
    let exact = |value| {
        if floating {
            Precision::Inexact(value)
        } else {
            Precision::Exact(value)
        }
    };
    let (min_value, max_value) = match ends.filter(|_| known) {
        Some((low, high)) => (exact(low), exact(high)),
        None => (Precision::Absent, Precision::Absent),
    };
    Ok(ColumnStatistics {
        null_count: Precision::Exact(nulls),
        min_value,
        max_value,
        distinct_count: match distinct {
            Some(distinct) => Precision::Inexact(distinct as usize),
            None => Precision::Absent,
        },
        ..ColumnStatistics::new_unknown()
    })
}
