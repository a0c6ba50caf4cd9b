//! Statistics of a table for the optimizer, computed without reading rows.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use halocline_columns::{Column, Table};

use crate::EngineError;

/// Returns NULL counts and value ranges of the segments of a table, including deleted rows. Reads the zone
/// maps: O(columns x chunks).
///
/// # Errors
/// Damaged zone maps.
pub(crate) fn table_statistics(table: &Table) -> Result<Statistics, EngineError> {
    let columns = (0..table.schema().fields().len()).map(|column| column_statistics(table, column));
    Ok(Statistics {
        num_rows: Precision::Exact(table.rows() as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect::<Result<_, _>>()?,
    })
}

fn column_statistics(table: &Table, index: usize) -> Result<ColumnStatistics, EngineError> {
    let columns: Vec<&Column> = table
        .segments()
        .iter()
        .map(|segment| segment.column(index))
        .collect();
    let nulls = columns.iter().map(|column| column.null_count()).sum();
    let mut ends: Option<(ScalarValue, ScalarValue)> = None;
    let (mut known, mut distinct) = (true, 0u64);
    for column in &columns {
        let Some(space) = column.code_space() else {
            known = false;
            break;
        };
        distinct = distinct.max(space.distinct_estimate());
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
        distinct_count: if known {
            Precision::Inexact(distinct as usize)
        } else {
            Precision::Absent
        },
        ..ColumnStatistics::new_unknown()
    })
}
