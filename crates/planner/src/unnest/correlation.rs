//! References of a subquery to columns of the query around it.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Subquery};

/// The columns of the outer plan that a subquery may refer to.
#[derive(Clone, Copy)]
pub(super) struct OuterScope<'a> {
    schema: &'a DFSchema,
}

impl<'a> OuterScope<'a> {
    /// Creates the scope of an outer plan of this schema.
    pub(super) fn new(schema: &'a DFSchema) -> Self {
        Self { schema }
    }

    /// Returns the column of the outer plan that a reference means; `None` if it belongs to a query further
    /// out.
    pub(super) fn resolve(self, column: &Column) -> Option<Column> {
        let exact = self
            .schema
            .iter()
            .any(|(relation, field)| *field.name() == column.name && relation == column.relation.as_ref());
        if exact {
            return Some(column.clone());
        }
        let at = self.schema.maybe_index_of_column(column)?;
        Some(Column::from(self.schema.qualified_field(at)))
    }

    /// Returns true if an expression refers to this scope.
    pub(super) fn is_used_by(self, expr: &Expr) -> bool {
        expr.exists(|expr| {
            Ok(match expr {
                Expr::OuterReferenceColumn(_, column) => self.resolve(column).is_some(),
                other => match subplan(other) {
                    Some(plan) => self.is_used_within(plan)?,
                    None => false,
                },
            })
        })
        .unwrap_or(true)
    }

    /// Returns true if an expression of a plan refers to this scope.
    ///
    /// # Errors
    /// The plan cannot be traversed.
    pub(super) fn is_used_within(self, plan: &LogicalPlan) -> Result<bool> {
        let mut used = false;
        plan.apply(|node| {
            node.apply_expressions(|expr| {
                used = used || self.is_used_by(expr);
                Ok(if used {
                    TreeNodeRecursion::Stop
                } else {
                    TreeNodeRecursion::Continue
                })
            })?;
            Ok(if used {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        Ok(used)
    }

    /// Replaces references to this scope by columns of the outer plan, for an expression that is evaluated
    /// over it.
    ///
    /// # Errors
    /// The expression cannot be traversed.
    pub(super) fn bind(self, expr: Expr) -> Result<Expr> {
        expr.transform(|expr| match &expr {
            Expr::OuterReferenceColumn(field, column) => match self.resolve(column) {
                Some(column) => {
                    let bound = Expr::Column(column);
                    // The type of the outer column may have been refined after the reference was made.
                    let of_reference = field.data_type();
                    let bound = if bound.get_type(self.schema)? == *of_reference || of_reference.is_null() {
                        bound
                    } else {
                        Expr::Cast(Cast::new(Box::new(bound), field.data_type().clone()))
                    };
                    Ok(Transformed::yes(bound))
                }
                None => Ok(Transformed::no(expr)),
            },
            _ => Ok(Transformed::no(expr)),
        })
        .data()
    }
}

/// Returns the plan of a subquery expression.
pub(super) fn subplan(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(&subquery.subquery),
        _ => None,
    }
}

/// Returns true if an expression has a subquery other than a scalar one that is known not to be correlated.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subplan(expr).is_some())).unwrap_or(true)
}

/// Returns true if a plan refers to a column of any query around it.
///
/// # Errors
/// The plan cannot be traversed.
pub(super) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = found || node.contains_outer_reference();
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Returns a subquery that refers to no column outside of it.
pub(super) fn uncorrelated(plan: LogicalPlan) -> Subquery {
    Subquery {
        subquery: std::sync::Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
    }
}

/// Replaces columns by expressions.
///
/// # Errors
/// The expression cannot be traversed.
pub(super) fn substitute(expr: Expr, by: &HashMap<Column, Expr>) -> Result<Expr> {
    expr.transform(|expr| {
        Ok(match &expr {
            Expr::Column(column) => match by.get(column) {
                Some(replacement) => Transformed::new(replacement.clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            },
            _ => Transformed::no(expr),
        })
    })
    .data()
}

/// Returns the columns that an expression uses; references to outer queries are none.
pub(super) fn columns_of(expr: &Expr) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let _ = expr.apply(|expr| {
        if let Expr::Column(column) = expr
            && !columns.contains(column)
        {
            columns.push(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}

/// Maps the output columns of one schema to those of another at the same positions.
pub(super) fn by_position(from: &DFSchema, to: &DFSchema) -> HashMap<Column, Expr> {
    let columns = from.columns().into_iter().zip(to.columns());
    columns.map(|(from, to)| (from, Expr::Column(to))).collect()
}

/// Maps the output columns of a projection to its expressions.
pub(super) fn by_output(schema: &DFSchema, exprs: &[Expr]) -> HashMap<Column, Expr> {
    let exprs = exprs.iter().map(|expr| expr.clone().unalias());
    schema.columns().into_iter().zip(exprs).collect()
}
