//! Candidates: sets of columns that queries restrict together, each in several orders.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::costs::{IndexForecast, ScanCosts, TableWorkload};

/// Most columns of a query of which all subsets are candidates.
const SUBSET_COLUMNS: usize = 5;
/// Most columns of a candidate.
const MAX_COLUMNS: usize = 7;
/// Most sets of columns of a table that are forecast.
const MAX_SETS: usize = 96;
/// Most columns of a set of which all orders are forecast.
const MAX_PERMUTED_COLUMNS: usize = 3;
/// Most orders of a larger set.
const MAX_ORDERS: usize = 6;

/// Forecasts the candidates of a table, without those that another one makes superfluous. `None` if `cancel`
/// was set.
pub(super) fn forecasts(table: &TableWorkload, cancel: &AtomicBool) -> Option<Vec<IndexForecast>> {
    let existing: Vec<&[usize]> = table
        .open
        .indexes
        .iter()
        .filter_map(|index| Some(index.index.as_ref().ok()?.columns()))
        .collect();
    let mut forecasts = Vec::new();
    for set in column_sets(table) {
        let mut of_set = Vec::new();
        for order in orders(table, &set) {
            if cancel.load(Ordering::Relaxed) {
                return None;
            }
            if !existing.contains(&&order[..]) {
                of_set.extend(table.forecast(&order));
            }
        }
        forecasts.extend(undominated(of_set));
    }
    Some(undominated(forecasts))
}

/// Returns the sets of columns, the most promising ones if there are many.
fn column_sets(table: &TableWorkload) -> Vec<Vec<usize>> {
    let indexable = |column: &usize| {
        table
            .sample
            .segments
            .iter()
            .all(|segment| segment.columns.contains_key(column))
    };
    let mut of_queries: BTreeSet<Vec<usize>> = BTreeSet::new();
    let mut sets: BTreeSet<Vec<usize>> = BTreeSet::new();
    for scan in &table.scans {
        let mut columns: Vec<usize> = scan.columns().into_iter().filter(indexable).collect();
        columns.sort_by(|a, b| scan.column_share(*a).total_cmp(&scan.column_share(*b)));
        columns.truncate(MAX_COLUMNS);
        if columns.is_empty() {
            continue;
        }
        sets.extend(subsets(&columns[..columns.len().min(SUBSET_COLUMNS)]));
        columns.sort_unstable();
        of_queries.insert(columns);
    }
    sets.extend(of_queries.iter().cloned());
    // An index on the columns of several queries takes little more space than one of them.
    let mut merged = of_queries.clone();
    for a in &of_queries {
        for b in &of_queries {
            let union: BTreeSet<usize> = a.iter().chain(b).copied().collect();
            if union.len() <= MAX_COLUMNS {
                merged.insert(union.into_iter().collect());
            }
        }
    }
    sets.extend(merged);
    let mut sets: Vec<(f64, Vec<usize>)> = sets.into_iter().map(|set| (promise(table, &set), set)).collect();
    sets.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    sets.truncate(MAX_SETS);
    sets.into_iter().map(|(_, set)| set).collect()
}

/// Returns the non-empty subsets, each ascending.
fn subsets(columns: &[usize]) -> Vec<Vec<usize>> {
    let of_bits = |bits: usize| {
        let chosen = columns.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        let mut subset: Vec<usize> = chosen.map(|(_, column)| *column).collect();
        subset.sort_unstable();
        subset
    };
    (1..1 << columns.len()).map(of_bits).collect()
}

/// Returns what an index on a set could save at most, were the columns independent: per column, so that
/// columns without any use make a set less promising.
fn promise(table: &TableWorkload, set: &[usize]) -> f64 {
    let of_scan = |scan: &ScanCosts| {
        let columns = scan.columns();
        let restricted = set.iter().filter(|column| columns.contains(column));
        let share: f64 = restricted.map(|column| scan.column_share(*column)).product();
        scan.weight * scan.now.0 * (1.0 - share)
    };
    table.scans.iter().map(of_scan).sum::<f64>() / (1.0 + set.len() as f64 / MAX_COLUMNS as f64)
}

/// Returns orders of a set of columns.
fn orders(table: &TableWorkload, set: &[usize]) -> Vec<Vec<usize>> {
    if set.len() <= MAX_PERMUTED_COLUMNS {
        return permutations(set);
    }
    let mut orders: Vec<Vec<usize>> = Vec::new();
    let mut add = |order: Vec<usize>| {
        if order.len() == set.len() && orders.len() < MAX_ORDERS && !orders.contains(&order) {
            orders.push(order);
        }
    };
    let by = |key: &dyn Fn(usize) -> f64| {
        let mut order = set.to_vec();
        order.sort_by(|a, b| key(*a).total_cmp(&key(*b)).then(a.cmp(b)));
        order
    };
    // Segments in the order of the table's clustering need no row numbers in the index.
    add(clustering(table, set));
    let restricted = |column: usize| -> Vec<&ScanCosts> {
        table
            .scans
            .iter()
            .filter(|scan| scan.columns().contains(&column))
            .collect()
    };
    // What the conditions on a column rule out, by the cost of the queries that have them.
    let selective = |column: usize| -> f64 {
        let of_scan = |scan: &&ScanCosts| {
            scan.weight * scan.now.0 * scan.column_share(column).max(f64::MIN_POSITIVE).ln()
        };
        restricted(column).iter().map(of_scan).sum()
    };
    add(by(&selective));
    let frequent = |column: usize| -> f64 {
        -restricted(column)
            .iter()
            .map(|scan| scan.weight * scan.now.0)
            .sum::<f64>()
    };
    add(by(&frequent));
    // As CREATE INDEX orders them by default.
    let distinct = |column: usize| -> f64 {
        let first = table.sample.segments.first();
        first
            .and_then(|segment| segment.columns.get(&column))
            .map_or(0.0, |sample| sample.distinct() as f64)
    };
    add(by(&distinct));
    let mut scans: Vec<&ScanCosts> = table.scans.iter().collect();
    scans.sort_by(|a, b| (b.weight * b.now.0).total_cmp(&(a.weight * a.now.0)));
    for scan in scans {
        let columns = scan.columns();
        if set.iter().filter(|column| columns.contains(column)).count() > 1 {
            add(by(&|column| {
                if columns.contains(&column) {
                    scan.column_share(column) - 2.0
                } else {
                    selective(column).min(0.0).exp()
                }
            }));
        }
    }
    orders
}

fn permutations(set: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = set.split_first() else {
        return vec![vec![]];
    };
    let mut all = Vec::new();
    for order in permutations(rest) {
        for at in 0..=order.len() {
            let mut order = order.clone();
            order.insert(at, *first);
            all.push(order);
        }
    }
    all
}

/// Returns the columns in the order of the table's clustering; empty if it begins with others.
fn clustering(table: &TableWorkload, set: &[usize]) -> Vec<usize> {
    let table = &table.open.table;
    let names = table
        .cluster()
        .and_then(|names| names.get(..set.len()))
        .unwrap_or_default();
    let position = |name: &String| {
        table
            .schema()
            .index_of(name)
            .ok()
            .filter(|column| set.contains(column))
    };
    names
        .iter()
        .map(position)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// Drops each forecast that another one is as good as, for every query and in size.
fn undominated(mut forecasts: Vec<IndexForecast>) -> Vec<IndexForecast> {
    forecasts.sort_by_key(|forecast| forecast.bytes);
    let mut kept: Vec<IndexForecast> = Vec::new();
    for forecast in forecasts {
        if !kept.iter().any(|other| dominates(other, &forecast)) {
            kept.retain(|other| !dominates(&forecast, other));
            kept.push(forecast);
        }
    }
    kept
}

/// Returns true if `a` is no larger than `b`, and no query costs more with it.
fn dominates(a: &IndexForecast, b: &IndexForecast) -> bool {
    let as_good = |(scan, cost): &(usize, f64)| {
        let other = a.costs.binary_search_by_key(scan, |(scan, _)| *scan);
        other.is_ok_and(|at| a.costs[at].1 <= *cost)
    };
    a.bytes <= b.bytes && b.costs.iter().all(as_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_and_permutations_are_complete() {
        assert_eq!(subsets(&[4, 2]), [vec![4], vec![2], vec![2, 4]]);
        assert_eq!(subsets(&[1, 2, 3, 4, 5]).len(), 31);
        let mut all = permutations(&[1, 2, 3]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn only_the_best_forecasts_are_kept() {
        let forecast = |bytes, costs: &[(usize, f64)]| IndexForecast {
            columns: vec![],
            bytes,
            costs: costs.to_vec(),
        };
        let small = forecast(10, &[(0, 5.0)]);
        let large = forecast(20, &[(0, 4.0), (2, 1.0)]);
        let worse = forecast(20, &[(0, 4.5)]);
        let worst = forecast(30, &[(2, 1.5)]);
        let kept = undominated(vec![worst, worse, large, small]);
        let sizes: Vec<u64> = kept.iter().map(|forecast| forecast.bytes).collect();
        assert_eq!(sizes, [10, 20]);
        assert_eq!(kept[1].costs.len(), 2);
    }
}
