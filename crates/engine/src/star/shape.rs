//! What a star query consists of: recognised from an aggregate.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use halocline_columns::CodePredicate;

use super::aggregates::{Aggregates, is_whole};
use super::flat::Flat;
use crate::catalog::OpenTable;
use crate::plan::PoolTable;

/// A dimension of a query.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    /// The column of the fact table that holds its keys.
    pub(super) column: usize,
    /// Its key and then the attributes that are grouped by.
    pub(super) plan: LogicalPlan,
    /// In words.
    pub(super) on: String,
}

/// A star query.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fact: Arc<OpenTable>,
    /// The fact table's own conditions, by segment.
    pub(super) conditions: Vec<Vec<(usize, CodePredicate)>>,
    pub(super) filter: Vec<String>,
    pub(super) arms: Vec<Arm>,
    /// For each expression that is grouped by: which arm, and which of its attributes.
    pub(super) groups: Vec<(usize, usize)>,
    pub(super) aggregates: Aggregates,
}

/// A part that is not the fact table, until it is an arm.
struct Dimension {
    plan: LogicalPlan,
    filters: Vec<Expr>,
    key: Option<(Column, Column)>,
    attributes: Vec<Expr>,
}

impl Shape {
    /// Recognises a star query; none if it is another one, or not understood to the last detail.
    pub(super) fn of(aggregate: &Aggregate) -> Option<Shape> {
        if has_subqueries(&aggregate.input) {
            return None;
        }
        let flat = Flat::of(&aggregate.input)?;
        let (fact, open, own) = fact_of(&flat)?;
        let mut dimensions: Vec<Option<Dimension>> = flat
            .parts
            .iter()
            .enumerate()
            .map(|(part, plan)| {
                (part != fact).then(|| Dimension {
                    plan: plan.clone(),
                    filters: Vec::new(),
                    key: None,
                    attributes: Vec::new(),
                })
            })
            .collect();
        let mut own = own;
        for filter in &flat.filters {
            match flat.part_of(filter)? {
                part if part == fact => own.push(filter.clone()),
                part => dimensions[part].as_mut()?.filters.push(filter.clone()),
            }
        }
        for (a, b) in &flat.equal {
            let (left, right) = (flat.part_with(a)?, flat.part_with(b)?);
            let (of_fact, key, part) = match (left == fact, right == fact) {
                (true, false) => (a, b, right),
                (false, true) => (b, a, left),
                _ => return None,
            };
            let dimension = dimensions[part].as_mut()?;
            if dimension.key.is_some() {
                return None;
            }
            dimension.key = Some((of_fact.clone(), key.clone()));
        }
        let mut places = Vec::with_capacity(aggregate.group_expr.len());
        for expr in &aggregate.group_expr {
            let expr = flat.resolve(expr.clone().unalias())?;
            let part = flat.part_of(&expr)?;
            let attributes = &mut dimensions[part].as_mut()?.attributes;
            places.push((part, attributes.len()));
            attributes.push(expr);
        }
        let schema = open.table.schema();
        let mut aggregates = Aggregates::default();
        for expr in &aggregate.aggr_expr {
            let expr = flat.resolve(expr.clone().unalias())?;
            let known = aggregates.add(&expr, schema);
            if !known {
                return None;
            }
        }
        let conditions = PoolTable::conditions(&open, &own)?;
        let mut arms = Vec::new();
        let mut numbers = vec![None; dimensions.len()];
        for (part, dimension) in dimensions.into_iter().enumerate() {
            if let Some(dimension) = dimension {
                numbers[part] = Some(arms.len());
                arms.push(dimension.arm(&open)?);
            }
        }
        let groups = places
            .into_iter()
            .map(|(part, attribute)| Some((numbers[part]?, attribute)))
            .collect::<Option<Vec<_>>>()?;
        let readable = arms.iter().all(|arm| has_codes(&open, arm.column, u32::BITS))
            && aggregates
                .measured
                .iter()
                .all(|column| has_codes(&open, *column, u64::BITS));
        (readable && !arms.is_empty()).then(|| Shape {
            fact: open,
            conditions,
            filter: own.iter().map(ToString::to_string).collect(),
            arms,
            groups,
            aggregates,
        })
    }
}

impl Dimension {
    fn arm(self, open: &OpenTable) -> Option<Arm> {
        let (of_fact, key) = self.key.clone()?;
        let column = open.table.schema().index_of(&of_fact.name).ok()?;
        let key_type = self.plan.schema().field_from_column(&key).ok()?.data_type();
        let same = open.table.schema().field(column).data_type() == key_type;
        if !(same && is_whole(key_type)) {
            return None;
        }
        let on = format!("{} = {key}", of_fact.name);
        let plan = self.reduced(key).ok()?;
        Some(Arm { column, plan, on })
    }

    /// Its rows that match: key, attributes.
    fn reduced(self, key: Column) -> Result<LogicalPlan> {
        let mut builder = LogicalPlanBuilder::from(self.plan);
        for filter in self.filters {
            builder = builder.filter(filter)?;
        }
        let named = self.attributes.into_iter().enumerate();
        let attributes = named.map(|(number, expr)| expr.alias(format!("attribute {number}")));
        builder
            .project(std::iter::once(Expr::Column(key).alias("key")).chain(attributes))?
            .build()
    }
}

/// Whether an expression of a plan has a query in it, whose answer DataFusion hands to the plan that it belongs to.
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

/// The largest of the pool's tables among the parts, with the conditions that have been pushed down to it.
fn fact_of(flat: &Flat) -> Option<(usize, Arc<OpenTable>, Vec<Expr>)> {
    let tables = flat.parts.iter().enumerate().filter_map(|(part, plan)| {
        let (open, filters) = pool_table(plan)?;
        Some((part, open, filters))
    });
    tables.max_by_key(|(_, open, _)| open.live_rows())
}

fn pool_table(plan: &LogicalPlan) -> Option<(Arc<OpenTable>, Vec<Expr>)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => pool_table(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<PoolTable>()?;
            Some((table.whole()?, scan.filters.clone()))
        }
        _ => None,
    }
}

/// Whether all segments have whole numbers of at most so many bits in a column.
fn has_codes(open: &OpenTable, column: usize, bits: u32) -> bool {
    open.table.segments().iter().all(|segment| {
        let column = segment.column(column);
        let whole = column
            .code_space()
            .is_some_and(|space| space.integer_base().is_some());
        whole && column.code_bits().is_ok_and(|needed| needed <= bits)
    })
}
