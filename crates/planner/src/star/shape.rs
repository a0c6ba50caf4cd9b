//! The shape of a star query, or of an aggregate over one table, recognised from an aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use halocline_catalog::OpenTable;
use halocline_catalog::settings::SessionSettings;
use halocline_columns::CodePredicate;
use halocline_scan::plan::{PathReads, PoolTable, recorder};

use super::aggregates::Aggregates;
use super::branch::Branch;
use super::branches::{Branches, GroupSource};
use super::fact::FactTable;
use super::fact_group::FactGroup;
use super::group_domain::estimated_groups;
use super::join_graph::JoinGraph;

/// The shape of a star query; without branches that of an aggregate over one table.
#[derive(Debug)]
pub(super) struct StarShape {
    pub(super) fact: Arc<OpenTable>,
    /// The fact table's own conditions.
    pub(super) filters: Vec<Expr>,
    /// The same conditions as predicates on codes, per segment; those on strings without codes are part of
    /// the segments.
    pub(super) conditions: Vec<Vec<(usize, CodePredicate)>>,
    pub(super) branches: Vec<Branch>,
    /// The expressions over the fact table that rows are grouped by.
    pub(super) fact_groups: Vec<FactGroup>,
    /// The source of each grouping expression.
    pub(super) groups: Vec<GroupSource>,
    pub(super) aggregates: Aggregates,
    /// The reason why no index is used, if there is no dimension.
    pub(super) no_index: Option<String>,
    /// The reads of the scan of an aggregate without joins.
    pub(super) reads: PathReads,
}

impl StarShape {
    /// Recognises a star query, or an aggregate over one table; `None` if the query has any part that the
    /// join cannot run, or the settings leave it to DataFusion.
    pub(super) fn recognise(
        aggregate: &Aggregate,
        settings: &SessionSettings,
        threads: usize,
    ) -> Option<StarShape> {
        if has_subqueries(&aggregate.input) {
            return None;
        }
        let graph = JoinGraph::from_plan(&aggregate.input);
        let is_star = graph.parts.len() > 1 || !graph.exists.is_empty();
        let wanted = if is_star {
            settings.star_join.0
        } else {
            settings.fused_aggregate.0
        };
        let fact = FactTable::find(&graph).filter(|_| wanted)?;
        let mut branches = Branches::from_graph(&graph, &fact)?;
        let exprs = aggregate.group_expr.iter();
        let exprs = exprs.map(|expr| graph.resolve(expr.clone().unalias()));
        let exprs: Vec<Expr> = exprs.collect::<Option<_>>()?;
        let mut fact_groups = Vec::new();
        let mut groups = Vec::with_capacity(exprs.len());
        for expr in &exprs {
            groups.push(branches.group(expr, &exprs, &mut fact_groups)?);
        }
        let mut aggregates = Aggregates::default();
        let fields =
            &aggregate.schema.fields()[aggregate.schema.fields().len() - aggregate.aggr_expr.len()..];
        for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
            let expr = graph.resolve(expr.clone().unalias())?;
            let of_fact = graph.parts_of(&expr)?.iter().all(|part| *part == fact.part);
            let is_added = if of_fact {
                aggregates.add(&expr, field.data_type(), &fact.open)
            } else {
                aggregates.add_of_dimensions(&expr, field.data_type(), &fact.open, &mut branches)
            };
            if !is_added {
                return None;
            }
        }
        let (branches, filters) = branches.finish()?;
        let selected = &graph.parts[fact.part];
        if Branch::exceed(&branches, selected, settings) {
            return None;
        }
        if !fact.is_readable(&branches, &aggregates) {
            return None;
        }
        let (fact, conditions) = PoolTable::selection(&fact.open, &filters)?;
        let mut shape = StarShape {
            no_index: None,
            reads: PathReads::default(),
            conditions,
            fact,
            filters,
            branches,
            fact_groups,
            groups,
            aggregates,
        };
        if !is_star {
            // A statement that is only planned records what its scans select.
            if let Some(recorder) = recorder(settings) {
                recorder.note_aggregate(shape.fact.table.name());
                return None;
            }
            let (reason, reads) = shape.scan_reason(settings, threads)?;
            (shape.no_index, shape.reads) = (Some(reason), reads);
        }
        Some(shape)
    }

    /// Returns the reason for a scan of the table of an aggregate without joins, and what it reads; `None` if
    /// an index finds the rows or statistics have the answer, so that DataFusion's plan is better.
    fn scan_reason(&self, settings: &SessionSettings, threads: usize) -> Option<(String, PathReads)> {
        if self.groups.is_empty() && self.filters.is_empty() && !self.aggregates.has_sums() {
            return None;
        }
        let columns = self.aggregated_columns();
        PoolTable::scan_reason(&self.fact, &self.filters, &columns, (settings.index, threads))
    }

    /// Returns the columns of the fact table that are grouped by, or that aggregates read.
    fn aggregated_columns(&self) -> Vec<usize> {
        let of_filters = self.aggregates.filters.iter();
        let of_filters = of_filters
            .filter_map(|filter| filter.codes.conditions.first())
            .flatten();
        let grouped = self.fact_groups.iter().map(|group| group.column);
        let columns = grouped.chain(self.aggregates.of_fact());
        columns.chain(of_filters.map(|(column, _)| *column)).collect()
    }

    /// Returns the columns of the fact table whose chunks are read, and may not be in memory: those of
    /// conditions and keys, and unless hardly any row matches the conditions, all others.
    pub(super) fn columns_ahead(&self) -> Vec<usize> {
        let compared = self.conditions.iter().flatten().map(|(column, _)| *column);
        let keys = self
            .branches
            .iter()
            .flat_map(|branch| branch.columns.iter().copied());
        let mut columns: Vec<usize> = compared.chain(keys).collect();
        if PoolTable::matches_in_most_chunks(&self.fact, &self.conditions) {
            columns.extend(self.aggregated_columns());
        }
        columns.sort_unstable();
        columns.dedup();
        self.fact.not_in_memory(columns)
    }

    /// Returns true if there is no dimension.
    pub(super) fn is_single(&self) -> bool {
        self.branches.is_empty()
    }

    /// Estimates the number of groups; `None` if it is unknown.
    pub(super) fn estimated_groups(&self) -> Option<u64> {
        if self.groups.is_empty() {
            return Some(1);
        }
        if !self.is_single() {
            return None;
        }
        let exprs = self.fact_groups.iter();
        let mut groups = exprs.map(|group| estimated_groups(&self.fact, group));
        let all = groups.try_fold(1_u64, |all, groups| Some(all.saturating_mul(groups?)))?;
        Some(all.min(self.fact.live_rows()))
    }
}

/// Returns true if an expression of a plan contains a subquery, whose result DataFusion passes to the plan
/// that contains it.
fn has_subqueries(plan: &LogicalPlan) -> bool {
    let within = |expr: &Expr| {
        expr.exists(|node| {
            Ok(matches!(
                node,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::OuterReferenceColumn(..)
            ))
        })
    };
    let found = plan.exists(|node| Ok(node.expressions().iter().any(|expr| within(expr).unwrap_or(true))));
    found.unwrap_or(true)
}
