//! The reasons why no index is proposed for a query.

use halocline_sql::size;

use super::costs::{IndexForecast, ScanCosts, TableWorkload};

/// The best that could be done for a query.
pub(super) struct Alternatives<'a> {
    pub(super) table: &'a TableWorkload,
    pub(super) forecasts: &'a [IndexForecast],
    pub(super) space: u64,
}

/// Returns the reason why no proposed index serves a table reference.
pub(super) fn no_index_pays(scan: &ScanCosts, number: usize, of: &Alternatives<'_>) -> String {
    let open = &of.table.open;
    let table = open.table.name();
    if open.table.rows() == 0 {
        return match open.live_rows() {
            0 => format!("table {table} has no rows"),
            rows => format!("all {rows} rows of table {table} are in the log, which no index covers"),
        };
    }
    if let (cost, Some(existing)) = scan.now {
        let name = &open.indexes[existing].name;
        let better = best(number, of).filter(|(_, better)| *better < cost * 0.9);
        if better.is_none() {
            return format!("uses index {name}, which is there");
        }
    }
    if scan.scan.filters.conditions.is_empty() {
        return if scan.scan.filters.others.is_empty() {
            format!("reads all rows of table {table}")
        } else {
            format!("has no condition on one column of table {table} alone")
        };
    }
    if scan.columns().is_empty() {
        return format!("has no condition on table {table} that an index can answer");
    }
    let share = percent(scan.share);
    match best(number, of) {
        Some((forecast, cost)) if cost < scan.now.0 => {
            let columns = column_names(of.table, &forecast.columns).join(", ");
            let text = format!(
                "an index on {table} ({columns}) of {} would find the rows in {} instead of {}",
                size::rounded(forecast.bytes),
                milliseconds(cost),
                milliseconds(scan.now.0)
            );
            if forecast.bytes > of.space {
                format!("{text}, but is larger than the space")
            } else {
                format!("{text}, but others save more in the space, or it saves less than 1 % of all")
            }
        }
        Some((_, cost)) => format!(
            "selects {share} of the rows of {table}: the best index would take {}, a scan {}",
            milliseconds(cost),
            milliseconds(scan.now.0)
        ),
        None => format!("selects {share} of the rows of {table}, and no index is possible on these columns"),
    }
}

/// Returns the cheapest forecast for a table reference, and its cost.
fn best<'a>(number: usize, of: &Alternatives<'a>) -> Option<(&'a IndexForecast, f64)> {
    let cost = |forecast: &'a IndexForecast| {
        let at = forecast
            .costs
            .binary_search_by_key(&number, |(scan, _)| *scan)
            .ok()?;
        Some((forecast, forecast.costs[at].1))
    };
    of.forecasts
        .iter()
        .filter_map(cost)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the names of columns.
pub(super) fn column_names<'a>(table: &'a TableWorkload, columns: &[usize]) -> Vec<&'a str> {
    let fields = table.open.table.schema().fields();
    columns
        .iter()
        .map(|column| fields[*column].name().as_str())
        .collect()
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        share if share >= 10.0 => format!("{share:.0} %"),
        share if share >= 0.1 => format!("{share:.1} %"),
        _ => "less than 0.1 %".into(),
    }
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.2} ms", nanoseconds / 1e6)
}
