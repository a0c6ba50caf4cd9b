//! The choice of a join's algorithm by estimated costs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use halocline_catalog::OpenTable;
use halocline_catalog::tiers::PoolMemory;
use halocline_costs::join::{JoinAlgorithm, JoinChoice, JoinSize, choose, choose_filtered, table_row_bytes};
use halocline_costs::machine::CpuCosts;
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

use super::array_side::ArraySide;
use super::estimate::{BuildEstimate, likely_rows, row_bytes};
use super::memory;

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
            build_row: table_row_bytes(left.row),
            probe_row: right.row,
            pairs,
            matching: (pairs as f64 / probe_rows.max(1) as f64).clamp(0.0, 1.0),
            dense_columns: None,
            rereadable: false,
        };
        let (memory, threads) = (memory::most(resources.memory), resources.threads);
        let cpu = CpuCosts::default();
        let mut choice = if is_filtered(join) {
            choose_filtered(&size, memory, threads, &costs, &cpu)
        } else {
            choose(&size, memory, threads, &costs, &cpu)
        };
        if let Some((array, side)) = array {
            let (exchanged, own) = match side {
                JoinSide::Right => (
                    JoinSize {
                        build_rows: array.rows(),
                        probe_rows: build_rows,
                        build_stored: right.stored_row,
                        probe_stored: left.stored_row,
                        build_row: table_row_bytes(right.row),
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
            let of_array = choose(&size, memory, threads, &costs, &cpu);
            if let Some(&(mut estimate)) = of_array.estimate(JoinAlgorithm::Array) {
                estimate.compute += array.preparation(&cpu, &costs);
                choice = choice.with(estimate);
            }
        }
        Some(Self { choice })
    }

    /// Returns true if an array join is clearly the cheapest.
    pub(super) fn prefers_array(&self) -> bool {
        self.choice.prefers_array()
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

/// Returns true if the probe side is a scan that tests its rows with a dynamic filter, so that only those
/// that pass it are joined.
fn is_filtered(join: &HashJoinExec) -> bool {
    let drops_others = join.join_type().on_lr_is_preserved().1 && !join.null_aware;
    drops_others && only_scan(join.right()).is_some()
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
