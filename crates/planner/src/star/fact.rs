//! The fact table of a star query.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use halocline_catalog::OpenTable;
use halocline_columns::CodeSpace;
use halocline_joins::star::has_string_keys;
use halocline_scan::plan::PoolTable;

use super::aggregates::{Aggregates, is_whole, widens};
use super::branch::Branch;
use super::fact_group::FactGroup;
use super::group_domain::estimated_groups;
use super::join_graph::JoinGraph;

/// The fact table.
pub(super) struct FactTable {
    /// Its position among the parts of the join graph.
    pub(super) part: usize,
    pub(super) open: Arc<OpenTable>,
    /// The conditions that have been pushed down to it.
    pub(super) filters: Vec<Expr>,
}

impl FactTable {
    /// Returns the largest table of the pool among the parts; `None` if another part reads a larger one, or
    /// an outer join does not keep all of its rows.
    pub(super) fn find(graph: &JoinGraph) -> Option<FactTable> {
        let tables = graph.parts.iter().enumerate().filter_map(|(part, plan)| {
            let (open, filters) = pool_table(plan)?;
            Some(FactTable { part, open, filters })
        });
        let fact = tables.max_by_key(|fact| fact.open.live_rows())?;
        let smaller = |plan: &LogicalPlan| largest_in(plan).is_none_or(|rows| rows <= fact.open.live_rows());
        let is_kept = !graph.is_optional(fact.part);
        (is_kept && graph.parts.iter().all(smaller)).then_some(fact)
    }

    /// Returns the column whose values an expression over the fact table has: a plain column, or one cast to
    /// a wider type.
    pub(super) fn key(&self, expr: &Expr) -> Option<usize> {
        let schema = self.open.table.schema();
        let column_of = |column: &Column| schema.index_of(&column.name).ok();
        match expr {
            Expr::Column(column) => column_of(column),
            Expr::Cast(cast) => match &*cast.expr {
                Expr::Column(column) => {
                    let column = column_of(column)?;
                    widens(schema.field(column).data_type(), cast.field.data_type()).then_some(column)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if a column has strings that can be keys: few of them, in dictionaries.
    pub(super) fn has_string_keys(&self, column: usize) -> bool {
        let mut segments = self.open.table.segments().iter();
        self.open.table.schema().field(column).data_type().is_string()
            && segments.all(|segment| has_string_keys(segment.column(column)))
    }

    /// Reads a grouping expression over the fact table; `None` if rows cannot be grouped by it.
    pub(super) fn group(&self, expr: &Expr) -> Option<FactGroup> {
        let group = FactGroup::from_expr(expr, &self.open)?;
        estimated_groups(&self.open, &group).map(|_| group)
    }

    /// Returns true if keys that are no strings can be read as integers in all segments, and the measures as
    /// integers or floats.
    pub(super) fn is_readable(&self, branches: &[Branch], aggregates: &Aggregates) -> bool {
        let schema = self.open.table.schema();
        let keys = branches.iter().filter(|branch| !branch.has_string_keys);
        let keys = keys.flat_map(|branch| &branch.columns);
        let whole = |column: &usize| is_whole(schema.field(*column).data_type());
        let coded = |column: usize, reads: fn(&CodeSpace) -> bool| {
            let mut segments = self.open.table.segments().iter();
            segments.all(|segment| segment.column(column).code_space().is_some_and(reads))
        };
        let integers = |space: &CodeSpace| space.integer_base().is_some();
        let numbers = |space: &CodeSpace| space.integer_base().is_some() || space.floats().is_some();
        keys.clone().all(whole)
            && keys.copied().all(|column| coded(column, integers))
            && aggregates.of_fact().all(|column| coded(column, numbers))
    }
}

/// Returns the table that a plan references, and the conditions pushed down to it.
pub(super) fn pool_table(plan: &LogicalPlan) -> Option<(Arc<OpenTable>, Vec<Expr>)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => pool_table(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => Some((provider(scan)?, scan.filters.clone())),
        _ => None,
    }
}

fn provider(scan: &TableScan) -> Option<Arc<OpenTable>> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<PoolTable>()?;
    table.without_addresses()
}

/// Returns the number of rows of the largest table of the pool in a plan.
fn largest_in(plan: &LogicalPlan) -> Option<u64> {
    let mut largest = None;
    let walked = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            largest = largest.max(provider(scan).map(|open| open.live_rows()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.ok().and(largest)
}
