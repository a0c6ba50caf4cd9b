//! Grouping expressions over the fact table: a column, or an expression over a single one, which is evaluated
//! once for each code.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use halocline_catalog::OpenTable;
use halocline_catalog::filter::unqualified;

/// A grouping expression over the fact table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FactGroup {
    pub(super) column: usize,
    /// The expression over the column; `None` if that is the column itself.
    pub(super) expr: Option<Expr>,
}

/// A grouping expression that is ready to be evaluated.
pub(super) struct GroupExpression {
    schema: SchemaRef,
    physical: Option<Arc<dyn PhysicalExpr>>,
}

impl FactGroup {
    /// Reads an expression over the fact table; `None` unless it is one over a single column.
    pub(super) fn from_expr(expr: &Expr, open: &OpenTable) -> Option<FactGroup> {
        let mut names = expr.column_refs().into_iter().map(|column| column.name.as_str());
        let name = names.next()?;
        let column = open.table.schema().index_of(name).ok()?;
        if matches!(expr, Expr::Column(_)) {
            return Some(FactGroup { column, expr: None });
        }
        let of_groups = |node: &Expr| {
            Ok(matches!(
                node,
                Expr::GroupingSet(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
            ))
        };
        if names.any(|other| other != name) || expr.exists(of_groups).unwrap_or(true) {
            return None;
        }
        Some(FactGroup {
            column,
            expr: Some(unqualified(expr.clone())?),
        })
    }

    /// Returns the text of the expression.
    pub(super) fn name(&self, open: &OpenTable) -> String {
        match &self.expr {
            Some(expr) => expr.to_string(),
            None => open.table.schema().field(self.column).name().clone(),
        }
    }

    /// Plans the expression.
    ///
    /// # Errors
    /// DataFusion cannot plan it.
    pub(super) fn plan(&self, open: &OpenTable, state: &dyn Session) -> Result<GroupExpression> {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            open.table.schema().field(self.column).clone().with_nullable(true),
        ]));
        let physical = match &self.expr {
            Some(expr) => {
                let named = DFSchema::try_from(Arc::clone(&schema))?;
                Some(state.create_physical_expr(expr.clone(), &named)?)
            }
            None => None,
        };
        Ok(GroupExpression { schema, physical })
    }
}

impl GroupExpression {
    /// Evaluates the expression for values of the column.
    ///
    /// # Errors
    /// It fails for one of them.
    pub(super) fn evaluate(&self, values: ArrayRef) -> Result<ArrayRef> {
        let Some(physical) = &self.physical else {
            return Ok(values);
        };
        let rows = values.len();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?;
        physical.evaluate(&batch)?.into_array(rows)
    }
}
