//! The way of conditions down a physical plan, by position.
//!
//! DataFusion's own pushdown finds columns by name, and so takes one column for another where both sides of a
//! join, or a projection, have equal names. Here each node says from which column of a child each of its
//! columns comes.

use std::sync::Arc;

use arrow_schema::Field;
use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

use crate::first_of_groups::FirstOfGroupsExec;
use crate::spill_join::SpillingJoin;

/// For each column of a node, the expression over the columns of a child that it is; none for a column that
/// is no function of one row of the child.
pub(super) type Sources = Vec<Option<Arc<dyn PhysicalExpr>>>;

/// Returns where the columns of a node come from in one of its children, if rows of the child that fail a
/// condition on these columns can be left out there instead of in the node's output. `None` if they cannot,
/// as below a limit.
pub fn sources(node: &Arc<dyn ExecutionPlan>, child: usize) -> Option<Sources> {
    if node.fetch().is_some() {
        return None;
    }
    let width = node.schema().fields().len();
    if let Some(join) = hash_join(node) {
        return of_join(join, child);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let exprs = projection.expr().iter();
        return Some(exprs.map(|projected| Some(Arc::clone(&projected.expr))).collect());
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let all = columns_of(filter.input());
        return Some(match filter.projection() {
            Some(projection) => projection.iter().map(|at| all[*at].clone()).collect(),
            None => all,
        });
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        // Conditions on all keys of a group hold for all of its rows or for none.
        let groups = aggregate.group_expr();
        if !groups.is_single() || groups.is_true_no_grouping() || aggregate.limit_options().is_some() {
            return None;
        }
        let mut sources: Sources = groups
            .expr()
            .iter()
            .map(|(expr, _)| Some(Arc::clone(expr)))
            .collect();
        sources.resize(width, None);
        return Some(sources);
    }
    if let Some(groups) = node.downcast_ref::<FirstOfGroupsExec>() {
        let columns = columns_of(groups.input()).into_iter();
        let is_key = |column: &Arc<dyn PhysicalExpr>| groups.keys().contains(column);
        return Some(columns.map(|column| column.filter(is_key)).collect());
    }
    let passes_rows = node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<SortExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<UnionExec>()
        || node.is::<InterleaveExec>();
    passes_rows.then(|| columns_of(node.children()[child]))
}

/// Returns the description of a hash join, whichever it is.
pub(super) fn hash_join(node: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let spilling = || node.downcast_ref().map(SpillingJoin::description);
    node.downcast_ref().or_else(spilling)
}

/// Returns each column of a plan as an expression on its output.
fn columns_of(plan: &Arc<dyn ExecutionPlan>) -> Sources {
    let schema = plan.schema();
    let column = |(at, field): (usize, &Arc<Field>)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        Some(column)
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// Does the same as [`sources`] for a hash join: only the side of which every row is output, as far as it
/// has matches, or whose rows are what is output.
fn of_join(join: &HashJoinExec, child: usize) -> Option<Sources> {
    let (left, right) = (columns_of(join.left()), columns_of(join.right()));
    let (lefts, rights) = (left.len(), right.len());
    let none = |count: usize| vec![None; count];
    let is_left = child == 0;
    // The columns before the join's projection, as far as they are the child's.
    let mut sources = match join.join_type {
        JoinType::Inner if is_left => [left, none(rights)].concat(),
        JoinType::Inner => [none(lefts), right].concat(),
        JoinType::Left if is_left => [left, none(rights)].concat(),
        JoinType::Right if !is_left => [none(lefts), right].concat(),
        JoinType::LeftSemi if is_left => left,
        JoinType::LeftSemi => none(lefts),
        JoinType::RightSemi if !is_left => right,
        JoinType::RightSemi => none(rights),
        JoinType::LeftAnti if is_left && !join.null_aware => left,
        JoinType::RightAnti if !is_left => right,
        JoinType::LeftMark if is_left => [left, none(1)].concat(),
        JoinType::RightMark if !is_left => [right, none(1)].concat(),
        _ => return None,
    };
    // Rows that are joined have equal keys, so that a condition on the key of one side is one on the other's.
    let position = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().map(Column::index);
    for (left_key, right_key) in join.on() {
        let (Some(left_at), Some(right_at)) = (position(left_key), position(right_key)) else {
            continue;
        };
        let (at, source) = match (join.join_type, is_left) {
            (JoinType::Inner, true) => (lefts + right_at, left_key),
            (JoinType::Inner, false) => (left_at, right_key),
            (JoinType::LeftSemi, false) => (left_at, right_key),
            (JoinType::RightSemi, true) => (right_at, left_key),
            _ => continue,
        };
        if sources.get(at).is_some_and(Option::is_none) {
            sources[at] = Some(Arc::clone(source));
        }
    }
    Some(match &join.projection {
        Some(projection) => projection.iter().map(|at| sources[*at].clone()).collect(),
        None => sources,
    })
}
