//! Estimates of tables from the statistics that DataFusion has of them.
//!
//! The estimates themselves, and what conditions and joins make of them, are in [`halocline_costs`].

pub mod position;

use datafusion::common::{ColumnStatistics, Statistics};
use halocline_costs::cardinality::{ColumnEstimate, PlanEstimate, UNKNOWN_ROWS};

/// Returns the estimate of a table from its statistics.
pub fn of_statistics(statistics: &Statistics) -> PlanEstimate {
    let rows = statistics.num_rows.get_value().map(|rows| *rows as f64);
    let number = rows.unwrap_or(UNKNOWN_ROWS);
    let columns = statistics.column_statistics.iter();
    PlanEstimate {
        rows: number,
        base_rows: number,
        columns: columns.map(|column| of_column(column, number)).collect(),
        is_known: rows.is_some(),
    }
}

fn of_column(statistics: &ColumnStatistics, rows: f64) -> ColumnEstimate {
    let distinct = statistics
        .distinct_count
        .get_value()
        .map(|distinct| *distinct as f64);
    let nulls = statistics
        .null_count
        .get_value()
        .map_or(0.0, |nulls| *nulls as f64);
    let position = |value: Option<&_>| value.and_then(position::value_position);
    let (min, max) = (statistics.min_value.get_value(), statistics.max_value.get_value());
    ColumnEstimate::of_known(distinct, nulls, position(min).zip(position(max)), rows)
}
