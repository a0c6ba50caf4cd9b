//! Predicted costs of the table references of a workload with indexes that do not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_catalog::OpenTable;
use halocline_elf::{DimensionTest, Forecast, SampledColumn};
use halocline_scan::plan::segment_selection;
use halocline_sql::EngineError;

use super::recorder::QueryScan;
use super::sample::{ColumnTest, TableSample};

/// The table references of a workload to one table.
pub(super) struct TableWorkload {
    pub(super) open: Arc<OpenTable>,
    pub(super) sample: TableSample,
    pub(super) scans: Vec<ScanCosts>,
}

/// A table reference with its costs in nanoseconds.
pub(super) struct ScanCosts {
    pub(super) scan: QueryScan,
    /// Position among all table references of the workload.
    pub(super) part: usize,
    pub(super) weight: f64,
    /// Estimated share of the rows that satisfy all conditions that an index can answer.
    pub(super) share: f64,
    /// Cost with the indexes there are, and the position of the one that is used.
    pub(super) now: (f64, Option<usize>),
    /// Tests by column, per sampled segment.
    tests: Vec<BTreeMap<usize, ColumnTest>>,
}

/// The forecast of an index on a table.
#[derive(Debug, Clone)]
pub(super) struct IndexForecast {
    /// Positions of the columns, in order.
    pub(super) columns: Vec<usize>,
    pub(super) bytes: u64,
    /// Cost of each table reference that it can answer, by position in [`TableWorkload::scans`].
    pub(super) costs: Vec<(usize, f64)>,
}

impl ScanCosts {
    /// Returns the columns with conditions that an index can answer.
    pub(super) fn columns(&self) -> BTreeSet<usize> {
        let mut segments = self.tests.iter();
        let first = segments
            .next()
            .map_or_else(BTreeSet::new, |tests| tests.keys().copied().collect());
        // An index covers all segments.
        segments.fold(first, |all, tests| {
            all.into_iter()
                .filter(|column| tests.contains_key(column))
                .collect()
        })
    }

    /// Returns the share of the rows that satisfy the conditions on a column.
    pub(super) fn column_share(&self, column: usize) -> f64 {
        let shares = self
            .tests
            .iter()
            .filter_map(|tests| Some(tests.get(&column)?.share));
        let shares: Vec<f64> = shares.collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

impl TableWorkload {
    /// Samples the table and computes the costs of its references, each with its position and weight. `None`
    /// if `cancel` was set.
    ///
    /// # Errors
    /// The table or one of its indexes cannot be read.
    pub(super) fn new(
        open: Arc<OpenTable>,
        scans: Vec<(usize, f64, QueryScan)>,
        cancel: &AtomicBool,
    ) -> Result<Option<Self>, EngineError> {
        let conditions = scans.iter().flat_map(|(_, _, scan)| &scan.filters.conditions);
        let columns: BTreeSet<usize> = conditions.map(|(condition, _)| condition.column).collect();
        let Some(sample) = TableSample::new(&open, &columns, cancel)? else {
            return Ok(None);
        };
        let mut costs = Vec::with_capacity(scans.len());
        for (part, weight, scan) in scans {
            if cancel.load(Ordering::Relaxed) {
                return Ok(None);
            }
            costs.push(scan_costs(&sample, part, weight, scan)?);
        }
        Ok(Some(Self {
            open,
            sample,
            scans: costs,
        }))
    }

    /// Forecasts the index on these columns; `None` if it is not possible.
    pub(super) fn forecast(&self, columns: &[usize]) -> Option<IndexForecast> {
        let (mut bytes, mut forecasts) = (0.0, Vec::new());
        for segment in &self.sample.segments {
            let samples: Option<Vec<_>> = columns.iter().map(|column| segment.columns.get(column)).collect();
            let samples = samples?;
            let sampled: Vec<&SampledColumn> = samples.iter().map(|sample| &sample.sampled).collect();
            let forecast = Forecast::new(segment.rows, &sampled)?;
            bytes += forecast.bytes() as f64;
            bytes += samples.iter().map(|sample| sample.dictionary_bytes).sum::<f64>();
            forecasts.push(forecast);
        }
        let costs = self.scans.iter().enumerate();
        let costs = costs.filter_map(|(at, scan)| Some((at, self.cost(scan, columns, &forecasts)?)));
        Some(IndexForecast {
            columns: columns.to_vec(),
            bytes: (bytes * self.sample.scale) as u64,
            costs: costs.collect(),
        })
    }

    /// Returns the cost of a table reference through an index; `None` if it has no condition on its columns.
    fn cost(&self, costs: &ScanCosts, columns: &[usize], forecasts: &[Forecast]) -> Option<f64> {
        let what_if = costs.scan.what_if();
        let answerable = costs.columns();
        if !columns.iter().any(|column| answerable.contains(column)) {
            return None;
        }
        let mut answered = vec![false; costs.scan.filters.conditions.len()];
        let first = costs.tests.first()?;
        for column in columns.iter().filter(|column| answerable.contains(column)) {
            for condition in &first.get(column)?.conditions {
                answered[*condition] = true;
            }
        }
        let remaining = what_if.remaining(&answered);
        let mut sum = 0.0;
        for ((segment, tests), forecast) in self.sample.segments.iter().zip(&costs.tests).zip(forecasts) {
            let test = |column: &usize| {
                let test = tests.get(column).filter(|_| answerable.contains(column))?;
                Some(DimensionTest {
                    passes: &test.passes,
                    share: test.share,
                })
            };
            let tests: Vec<Option<DimensionTest<'_>>> = columns.iter().map(test).collect();
            let estimate = forecast.estimate(&tests);
            let selection = segment_selection(estimate, forecast.is_clustered(), forecast.bytes());
            sum += what_if.segment_cost(&remaining, segment.number, selection);
        }
        Some(sum * self.stored_scale() + what_if.aggregate_cost())
    }

    /// Returns the stored rows of the table for each row of a sampled segment.
    fn stored_scale(&self) -> f64 {
        let sampled: u64 = self.sample.segments.iter().map(|segment| segment.rows).sum();
        self.open.table.rows() as f64 / sampled.max(1) as f64
    }
}

fn scan_costs(
    sample: &TableSample,
    part: usize,
    weight: f64,
    scan: QueryScan,
) -> Result<ScanCosts, EngineError> {
    let tests = sample.tests(&scan);
    let (mut matching, mut sampled_rows) = (0.0, 0.0);
    for (segment, tests) in sample.segments.iter().zip(&tests) {
        matching += share_of(segment, tests) * segment.rows as f64;
        sampled_rows += segment.rows as f64;
    }
    let share = if sampled_rows > 0.0 {
        matching / sampled_rows
    } else {
        0.0
    };
    let what_if = scan.what_if();
    let rows = (share * scan.open.table.rows() as f64).min(what_if.scan_rows().max(1.0));
    let scanned = what_if.scan_cost(rows);
    let mut now = (scanned, None);
    for (number, cost) in what_if.index_costs()? {
        if cost < now.0 {
            now = (cost, Some(number));
        }
    }
    Ok(ScanCosts {
        scan,
        part,
        weight,
        share,
        now,
        tests,
    })
}

/// Returns the share of the sampled rows that pass all tests.
fn share_of(segment: &super::sample::SegmentSample, tests: &BTreeMap<usize, ColumnTest>) -> f64 {
    let columns: Vec<(&[u32], &[bool])> = tests
        .iter()
        .map(|(column, test)| (segment.columns[column].sampled.rank_of_rows(), &test.passes[..]))
        .collect();
    let Some((first, _)) = columns.first() else {
        return 1.0;
    };
    let passes = |row: &usize| columns.iter().all(|(ranks, passes)| passes[ranks[*row] as usize]);
    (0..first.len()).filter(passes).count() as f64 / first.len().max(1) as f64
}
