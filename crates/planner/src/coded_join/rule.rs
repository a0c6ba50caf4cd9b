//! The rule that makes scans return codes as the keys of a join.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halocline_joins::equi::KeyCodes;
use halocline_scan::plan::PoolScan;
use halocline_scan::plan::{CodedColumn, SharedKeys};

use super::side::{scan_below, with_codes};
use crate::late::{position, relocated};
use crate::spill_join::SpillingJoin;

/// Rows of both sides for each string of the dictionaries, below which it costs more to find the codes than
/// they save.
const ROWS_OF_STRING: u64 = 4;

/// Share of the probe rows with partners below which a dynamic filter on strings saves more than codes.
const MIN_PARTNER_SHARE: f64 = 0.5;

/// Replaces keys of hash joins by codes. It runs once operators have only the columns that they need, and
/// before dynamic filters reach the scans.
#[derive(Debug)]
pub struct CodedJoinRule;

impl PhysicalOptimizerRule for CodedJoinRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let spilling = node.downcast_ref::<SpillingJoin>();
            let join = match spilling {
                Some(spilling) if !spilling.is_array() => spilling.description(),
                _ => match node.downcast_ref::<HashJoinExec>() {
                    Some(join) if *join.partition_mode() == PartitionMode::CollectLeft => join,
                    _ => return Ok(Transformed::no(node)),
                },
            };
            let Some(coded) = coded(join)? else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(match spilling {
                Some(spilling) => Arc::new(spilling.with_description(coded)) as Arc<dyn ExecutionPlan>,
                None => Arc::new(coded),
            }))
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &str {
        "coded_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a join whose keys are codes as far as they can be; `None` if none can.
fn coded(join: &HashJoinExec) -> Result<Option<HashJoinExec>> {
    let (Some(left), Some(right)) = (scan_below(join.left()), scan_below(join.right())) else {
        return Ok(None);
    };
    let on = join.on().iter();
    let keys: Vec<Option<SharedKeys>> = on
        .map(|(own, other)| shared((left, own), (right, other)))
        .collect();
    if keys.iter().all(Option::is_none) || !is_worthwhile(join) {
        return Ok(None);
    }
    let mut kept = [BTreeSet::new(), BTreeSet::new()];
    let of_side = |side: JoinSide| usize::from(side != JoinSide::Left);
    let (_, columns) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    let output: Vec<ColumnIndex> = match &join.projection {
        Some(projection) => projection.iter().map(|column| columns[*column].clone()).collect(),
        None => columns,
    };
    let tested = join.filter().map_or(&[][..], |filter| filter.column_indices());
    for column in output
        .iter()
        .chain(tested)
        .filter(|column| column.side != JoinSide::None)
    {
        kept[of_side(column.side)].insert(column.index);
    }
    for ((own, other), _) in join.on().iter().zip(&keys).filter(|(_, keys)| keys.is_none()) {
        kept[0].extend(collect_columns(own).iter().map(Column::index));
        kept[1].extend(collect_columns(other).iter().map(Column::index));
    }
    let (mut codes, mut on) = ([Vec::new(), Vec::new()], Vec::new());
    for ((own, other), keys) in join.on().iter().zip(keys) {
        on.push(match keys {
            None => (
                relocated(own, |at| position(&kept[0], at))?,
                relocated(other, |at| position(&kept[1], at))?,
            ),
            Some(keys) => {
                let sides = CodedColumn::of_sides(keys);
                let mut number = 0;
                let [own, other] = sides.map(|coded| {
                    let at = kept[number].len() + codes[number].len();
                    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(coded.field().name(), at));
                    codes[number].push(coded);
                    number += 1;
                    column
                });
                (own, other)
            }
        });
    }
    let left = with_codes(join.left(), &kept[0], &codes[0])?;
    let right = with_codes(join.right(), &kept[1], &codes[1])?;
    let moved = |column: &ColumnIndex| ColumnIndex {
        index: match column.side {
            JoinSide::None => column.index,
            side => position(&kept[of_side(side)], column.index),
        },
        side: column.side,
    };
    let filter = join.filter().map(|filter| {
        let columns = filter.column_indices().iter().map(moved).collect();
        JoinFilter::new(
            Arc::clone(filter.expression()),
            columns,
            Arc::clone(filter.schema()),
        )
    });
    let (_, columns) = build_join_schema(&left.schema(), &right.schema(), join.join_type());
    let place = |column: &ColumnIndex| {
        let column = moved(column);
        let is_it = |other: &ColumnIndex| {
            other.side == column.side && (column.side == JoinSide::None || other.index == column.index)
        };
        columns.iter().position(is_it)
    };
    let Some(projection) = output.iter().map(place).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let builder = join.builder().reset_state().recompute_properties();
    let builder = builder.with_new_children(vec![left, right])?.with_on(on);
    let builder = builder.with_filter(filter).with_projection(Some(projection));
    builder.build().map(Some)
}

/// Returns the codes of a key that is a column of strings on both sides, if they are cheap to find.
fn shared(
    (left, own): (&PoolScan, &Arc<dyn PhysicalExpr>),
    (right, other): (&PoolScan, &Arc<dyn PhysicalExpr>),
) -> Option<SharedKeys> {
    let side = |scan: &PoolScan, key: &Arc<dyn PhysicalExpr>| {
        let column = scan.stored_output(key.downcast_ref::<Column>()?.index())?;
        let open = scan.table();
        let is_stored = open.delta.as_ref().is_none_or(|delta| delta.live_rows() == 0);
        is_stored.then(|| (Arc::clone(open), column))
    };
    let (build, probe) = (side(left, own)?, side(right, other)?);
    let rows = (left.estimated_rows() + right.estimated_rows()) as u64;
    let strings = KeyCodes::strings((&build.0.table, build.1), (&probe.0.table, probe.1))?;
    (strings * ROWS_OF_STRING <= rows).then(|| SharedKeys::new(build, probe))
}

/// Returns false if the join is estimated to drop most rows of its probe side.
fn is_worthwhile(join: &HashJoinExec) -> bool {
    let rows = |plan: &dyn ExecutionPlan| {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
        statistics.ok()?.num_rows.get_value().copied()
    };
    if !join.join_type().on_lr_is_preserved().1 || join.null_aware {
        return true;
    }
    match (join.join_type(), rows(join), rows(join.right().as_ref())) {
        (JoinType::Inner, Some(pairs), Some(probe)) => pairs as f64 >= probe as f64 * MIN_PARTNER_SHARE,
        _ => false,
    }
}
