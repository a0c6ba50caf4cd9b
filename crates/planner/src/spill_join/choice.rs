//! The choice of a join's algorithm by estimated costs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use halocline_catalog::OpenTable;
use halocline_catalog::tiers::PoolMemory;
use halocline_joins::equi::cost::{CpuCosts, JoinAlgorithm, JoinChoice, JoinSize, choose};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

use super::array_side::ArraySide;
use super::estimate::{BuildEstimate, ROW_OVERHEAD, likely_rows, row_bytes};
use super::memory;

/// The share of the time of the next best algorithm that an array join must be estimated to take at most:
/// estimates are rough.
const MAX_TIME_SHARE: f64 = 0.9;

/// Share of the probe rows with partners below which a dynamic filter is taken to drop the others.
const FILTERED_SHARE: f64 = 0.5;

/// Seconds of one thread to test a row with a dynamic filter.
const TEST_SECONDS: f64 = 1.5e-9;

/// Seconds that it takes to start the threads of a join of its own.
const START_SECONDS: f64 = 1e-4;

/// The estimates of the algorithms that can run a join.
#[derive(Debug, Clone)]
pub(super) struct PlannedChoice {
    choice: JoinChoice,
}

/// Resources that a join is planned for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedResources {
    /// Bytes of all queries.
    pub(super) memory: usize,
    pub(super) threads: usize,
}

impl PlannedChoice {
    /// Estimates the algorithms; `array` is the side whose rows an array join would find by their keys, if
    /// there is one. `None` if the sizes of the inputs are not known.
    pub(super) fn estimate(
        join: &HashJoinExec,
        estimate: &BuildEstimate,
        array: Option<(&ArraySide, JoinSide)>,
        resources: PlannedResources,
    ) -> Option<Self> {
        let probe_rows = likely_rows(join.right())? as u64;
        let build_rows = estimate.rows?;
        let (left, right) = (Side::new(join.left()), Side::new(join.right()));
        let tables = [left.open, right.open];
        let open = tables.into_iter().flatten().next();
        let assumed = PoolMemory::Dram;
        let costs = open.map_or(&assumed, |open| &open.memory).join_costs();
        let pairs = likely_rows_of(join).unwrap_or(probe_rows);
        let size = JoinSize {
            build_rows,
            probe_rows,
            build_stored: left.stored_row,
            probe_stored: right.stored_row,
            build_row: left.row + ROW_OVERHEAD,
            probe_row: right.row,
            pairs,
            matching: (pairs as f64 / probe_rows.max(1) as f64).clamp(0.0, 1.0),
            dense_columns: None,
            rereadable: false,
        };
        let (memory, threads) = (memory::most(resources.memory), resources.threads);
        let choose = |size: &JoinSize| choose(size, memory, threads, &costs, &CpuCosts::default());
        let mut choice = filtered(join, &size, threads, choose);
        if let Some((array, side)) = array {
            let (exchanged, own) = match side {
                JoinSide::Right => (
                    JoinSize {
                        build_rows: array.rows(),
                        probe_rows: build_rows,
                        build_stored: right.stored_row,
                        probe_stored: left.stored_row,
                        build_row: right.row + ROW_OVERHEAD,
                        probe_row: left.row,
                        ..size
                    },
                    join.join_type().swap(),
                ),
                _ => (size, *join.join_type()),
            };
            // Each row has one partner at most, and most have one: the keys of a table are referred to.
            let size = JoinSize {
                pairs: exchanged.probe_rows + emitted_build_rows(own, exchanged.build_rows),
                matching: 1.0,
                dense_columns: Some(columns_of(join, side)),
                ..exchanged
            };
            if let Some(&(mut estimate)) = choose(&size).estimate(JoinAlgorithm::Array) {
                estimate.compute += array.preparation(&CpuCosts::default(), &costs);
                choice = choice.with(estimate);
            }
        }
        Some(Self { choice })
    }

    /// Returns true if an array join is clearly the cheapest.
    pub(super) fn prefers_array(&self) -> bool {
        let array = self.choice.estimate(JoinAlgorithm::Array);
        let others = self.choice.estimates().iter();
        let others = others.filter(|estimate| estimate.algorithm != JoinAlgorithm::Array);
        let best = others
            .map(|estimate| estimate.seconds())
            .fold(f64::INFINITY, f64::min);
        array.is_some_and(|array| array.seconds() + START_SECONDS <= best * MAX_TIME_SHARE)
    }
}

impl fmt::Display for PlannedChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, estimate) in self.choice.estimates().iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            let milliseconds = estimate.seconds() * 1e3;
            let digits = if milliseconds < 10.0 { 2 } else { 0 };
            write!(f, "{separator}{} {milliseconds:.digits$} ms", estimate.algorithm)?;
        }
        Ok(())
    }
}

/// Estimates a join whose probe side is scanned with a dynamic filter: only rows that pass it are joined.
fn filtered(
    join: &HashJoinExec,
    size: &JoinSize,
    threads: usize,
    choose: impl Fn(&JoinSize) -> JoinChoice,
) -> JoinChoice {
    let drops_others = join.join_type().on_lr_is_preserved().1 && !join.null_aware;
    if !drops_others || size.matching > FILTERED_SHARE || only_scan(join.right()).is_none() {
        return choose(size);
    }
    let choice = choose(&JoinSize {
        probe_rows: size.pairs,
        matching: 1.0,
        ..*size
    });
    let tested = size.probe_rows as f64 * TEST_SECONDS / threads as f64;
    let estimates = choice.estimates().to_vec().into_iter();
    estimates.fold(choice, |choice, mut estimate| {
        estimate.compute += tested;
        choice.with(estimate)
    })
}

/// Knowledge about an input.
struct Side<'a> {
    /// Bytes of a row in DRAM.
    row: f64,
    /// Bytes of a row that are read from a slow tier.
    stored_row: f64,
    /// The table that is read, if it is one.
    open: Option<&'a Arc<OpenTable>>,
}

impl<'a> Side<'a> {
    fn new(plan: &'a Arc<dyn ExecutionPlan>) -> Self {
        let scan = only_scan(plan);
        Self {
            row: row_bytes(&plan.schema()),
            stored_row: scan.map_or(0.0, PoolScan::slow_row_bytes),
            open: scan.map(PoolScan::table),
        }
    }
}

/// Returns the scan below operators with one input.
fn only_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&PoolScan> {
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        return Some(scan);
    }
    match plan.children()[..] {
        [child] => only_scan(child),
        _ => None,
    }
}

fn likely_rows_of(join: &HashJoinExec) -> Option<u64> {
    let rows = super::estimate::rows(join)?;
    rows.get_value().map(|rows| *rows as u64)
}

/// Returns the rows of the build side that a kind of join returns beside its pairs, at most.
fn emitted_build_rows(join_type: JoinType, build_rows: u64) -> u64 {
    match join_type {
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            build_rows
        }
        _ => 0,
    }
}

/// Returns the number of columns of a side that a join returns or tests.
fn columns_of(join: &HashJoinExec, side: JoinSide) -> usize {
    let (left, right) = (
        join.left().schema().fields().len(),
        join.right().schema().fields().len(),
    );
    let is_own = |column: usize| match side {
        JoinSide::Left => column < left,
        _ => (left..left + right).contains(&column),
    };
    let returned = match &join.projection {
        Some(projection) => projection.iter().filter(|column| is_own(**column)).count(),
        None if side == JoinSide::Left => left,
        None => right,
    };
    let tested = join.filter().map_or(0, |filter| {
        let columns = filter.column_indices().iter();
        columns.filter(|column| column.side == side).count()
    });
    returned + tested
}
