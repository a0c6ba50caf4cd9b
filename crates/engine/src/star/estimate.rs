//! In which order the probes are likely to go, as far as that can be told before the dimensions are read.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halocline_joins::star::ProbeCost;

use super::shape::StarShape;

/// The probes in their likely order.
#[derive(Debug)]
pub(super) struct ProbeEstimates(Vec<(usize, Option<f64>)>);

impl ProbeEstimates {
    /// From what is known of the dimensions and of the fact table's largest segment: of each the share of rows that it keeps.
    pub(super) fn of(shape: &StarShape, dimensions: &[Arc<dyn ExecutionPlan>]) -> Self {
        let context = StatisticsContext::new();
        let segments = shape.fact.table.segments();
        let largest = segments.iter().max_by_key(|segment| segment.rows());
        let costs = shape.branches.iter().zip(dimensions).map(|(branch, plan)| {
            let statistics = context.compute(plan.as_ref(), &StatisticsArgs::new());
            let rows = statistics
                .ok()
                .and_then(|known| known.num_rows.get_value().copied());
            let columns: Option<Vec<_>> = largest.map(|segment| {
                branch
                    .columns
                    .iter()
                    .map(|column| segment.column(*column))
                    .collect()
            });
            ProbeCost::estimated(&columns.unwrap_or_default(), rows)
        });
        let costs: Vec<ProbeCost> = costs.collect();
        let order = ProbeCost::order(&costs);
        Self(
            order
                .into_iter()
                .map(|probe| (probe, costs[probe].share))
                .collect(),
        )
    }

    /// The probes in words. Their final order is decided when the dimensions have been read.
    pub(super) fn describe(&self, shape: &StarShape) -> String {
        let probes = self.0.iter().map(|(probe, share)| {
            let on = &shape.branches[*probe].on;
            match share {
                Some(share) => format!("{on} (keeps about {:.3}%)", share * 100.0),
                None => format!("{on} (what it keeps shows when it is read)"),
            }
        });
        probes.collect::<Vec<_>>().join(", ")
    }
}
