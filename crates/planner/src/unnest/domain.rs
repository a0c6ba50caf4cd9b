//! The domain of a dependent join: the distinct values of the outer expressions that a subquery uses.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator, Projection, SubqueryAlias,
};

use super::correlation::{OuterScope, columns_of, subplan};
use super::names::FreshNames;

/// An expression over the outer plan on which a subquery depends.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    /// The expression as the subquery has it, with references to outer columns.
    pub(super) referred: Expr,
    /// The same over the outer plan.
    pub(super) outer: Expr,
    pub(super) nullable: bool,
}

/// The attributes, and where their values come from.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) attributes: Vec<Attribute>,
    /// The outer plan.
    outer: Arc<LogicalPlan>,
}

/// An occurrence of the domain in a plan.
pub(super) struct DomainInstance {
    pub(super) plan: LogicalPlan,
    /// Its column for each attribute.
    pub(super) columns: Vec<Column>,
}

impl Domain {
    /// Collects the attributes that a subquery, whose own subqueries have been replaced, needs of `outer`.
    /// `row` is the column that numbers the rows of the outer plan, if the subquery has to run for each of them.
    ///
    /// # Errors
    /// The plan cannot be traversed, or an attribute has no type.
    pub(super) fn for_subquery(
        subquery: &LogicalPlan,
        outer: &LogicalPlan,
        row: Option<&Column>,
    ) -> Result<Self> {
        let scope = OuterScope::new(outer.schema());
        let mut collector = AttributeCollector {
            scope,
            found: Vec::new(),
            known: HashSet::new(),
        };
        subquery.apply(|node| {
            collector.node(node)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if let Some(row) = row {
            let field = Arc::clone(outer.schema().field_from_column(row)?);
            collector.add(&Expr::OuterReferenceColumn(field, row.clone()));
        }
        let attributes = collector.found.into_iter().map(|referred| {
            let outer_expr = scope.bind(referred.clone())?;
            Ok(Attribute {
                nullable: outer_expr.nullable(outer.schema())?,
                outer: outer_expr,
                referred,
            })
        });
        Ok(Self {
            attributes: attributes.collect::<Result<_>>()?,
            outer: Arc::new(outer.clone()),
        })
    }

    /// Returns the scope whose references the attributes stand for.
    pub(super) fn scope(&self) -> OuterScope<'_> {
        OuterScope::new(self.outer.schema())
    }

    /// Returns the plan of the distinct values of the attributes.
    ///
    /// # Errors
    /// The plan cannot be built.
    pub(super) fn instance(&self, names: &mut FreshNames) -> Result<DomainInstance> {
        names.instances += 1;
        let relation = names.relation();
        let mut outputs = Vec::with_capacity(self.attributes.len());
        let mut columns = Vec::with_capacity(self.attributes.len());
        for attribute in &self.attributes {
            let name = names.next();
            outputs.push(attribute.outer.clone().alias(&name));
            columns.push(Column::new(Some(relation.clone()), name));
        }
        let values = Projection::try_new(outputs, Arc::clone(&self.outer))?;
        let distinct = Distinct::All(Arc::new(LogicalPlan::Projection(values)));
        let plan = SubqueryAlias::try_new(Arc::new(LogicalPlan::Distinct(distinct)), relation)?;
        Ok(DomainInstance {
            plan: LogicalPlan::SubqueryAlias(plan),
            columns,
        })
    }

    /// Replaces what refers to the outer plan by columns that represent the attributes.
    ///
    /// # Errors
    /// The expression cannot be traversed.
    pub(super) fn replace(&self, expr: Expr, representatives: &[Column]) -> Result<Expr> {
        expr.transform_down(|expr| {
            let at = self
                .attributes
                .iter()
                .position(|attribute| attribute.referred == expr);
            Ok(match at.and_then(|at| representatives.get(at)) {
                Some(column) => Transformed::new(Expr::Column(column.clone()), true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            })
        })
        .data()
    }

    /// Returns the attribute that a condition equates with an expression of the subquery, that expression, and
    /// whether NULL equals nothing.
    pub(super) fn equated(&self, condition: &Expr) -> Option<(usize, Expr, bool)> {
        let (left, right, strict) = equality(condition)?;
        let position = |expr: &Expr| {
            let mut attributes = self.attributes.iter();
            attributes.position(|attribute| attribute.referred == *expr)
        };
        let scope = self.scope();
        match (position(left), position(right)) {
            (Some(at), _) if is_inner(right, scope) => Some((at, right.clone(), strict)),
            (_, Some(at)) if is_inner(left, scope) => Some((at, left.clone(), strict)),
            _ => None,
        }
    }

    /// Returns the type of an attribute.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn data_type(&self, at: usize) -> Result<DataType> {
        match self.attributes.get(at) {
            Some(attribute) => attribute.outer.get_type(self.outer.schema()),
            None => Ok(DataType::Null),
        }
    }
}

/// Returns the sides of an equality, and whether NULL equals nothing.
pub(super) fn equality(condition: &Expr) -> Option<(&Expr, &Expr, bool)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq => Some((left, right, true)),
            Operator::IsNotDistinctFrom => Some((left, right, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true for an expression that has columns of the subquery and none of the outer plan.
fn is_inner(expr: &Expr, scope: OuterScope<'_>) -> bool {
    !columns_of(expr).is_empty() && !scope.is_used_by(expr) && !expr.is_volatile()
}

/// Returns true for an expression of nothing but the outer plan.
pub(super) fn is_outer(expr: &Expr, scope: OuterScope<'_>) -> bool {
    let own = expr.exists(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => scope.resolve(column).is_none(),
            other => subplan(other).is_some(),
        })
    });
    columns_of(expr).is_empty() && scope.is_used_by(expr) && !expr.is_volatile() && !own.unwrap_or(true)
}

struct AttributeCollector<'a> {
    scope: OuterScope<'a>,
    found: Vec<Expr>,
    known: HashSet<Expr>,
}

impl AttributeCollector<'_> {
    /// Adds what the expressions of a node need: whole sides of equalities where a filter has them, columns
    /// elsewhere.
    fn node(&mut self, node: &LogicalPlan) -> Result<()> {
        let conditions = match node {
            LogicalPlan::Filter(Filter { predicate, .. }) => Some(predicate),
            LogicalPlan::Join(Join {
                filter: Some(filter),
                join_type: JoinType::Inner | JoinType::Left,
                ..
            }) => Some(filter),
            _ => None,
        };
        if let Some(conditions) = conditions {
            for condition in split_conjunction(conditions) {
                self.condition(condition);
            }
            if let LogicalPlan::Join(join) = node {
                for (left, right) in &join.on {
                    self.columns(left);
                    self.columns(right);
                }
            }
            return Ok(());
        }
        node.apply_expressions(|expr| {
            self.columns(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn condition(&mut self, condition: &Expr) {
        if let Some((left, right, _)) = equality(condition) {
            for (outer, inner) in [(left, right), (right, left)] {
                if is_outer(outer, self.scope) && is_inner(inner, self.scope) {
                    return self.add(outer);
                }
            }
        }
        self.columns(condition);
    }

    fn columns(&mut self, expr: &Expr) {
        let _ = expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(_, column) = expr
                && self.scope.resolve(column).is_some()
            {
                self.add(expr);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    fn add(&mut self, expr: &Expr) {
        if self.known.insert(expr.clone()) {
            self.found.push(expr.clone());
        }
    }
}
