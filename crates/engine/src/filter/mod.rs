//! Filters as code predicates: what of a WHERE clause the scan and the indexes can answer by themselves.
//!
//! A filter that speaks of one column and whose truth depends on nothing but the value is turned into the set of
//! codes for which it is true, exactly, in SQL's three-valued logic. Whatever cannot be turned stays an expression.

mod atom;
mod codes;
mod intervals;
mod probe;
mod truth;

use arrow_schema::{Field, Schema};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Expr;
use halocline_columns::{CodePredicate, CodeSpace};

pub(crate) use intervals::both;

use codes::CodeDomain;

/// A filter over one column, the column's name freed from its table's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ColumnCondition {
    /// Position of the column in the table.
    pub(crate) column: usize,
    /// The filter.
    pub(crate) expr: Expr,
}

impl ColumnCondition {
    /// Reads a filter, if it speaks of exactly one column of `schema` and gives the same answer each time.
    pub(crate) fn read(filter: &Expr, schema: &Schema) -> Option<Self> {
        let columns = filter.column_refs();
        let mut names = columns.iter().map(|column| column.name.as_str());
        let name = names.next()?;
        if names.any(|other| other != name) || filter.is_volatile() {
            return None;
        }
        let column = schema.index_of(name).ok()?;
        Some(Self {
            column,
            expr: unqualified(filter.clone())?,
        })
    }

    /// The codes of `space` for which the condition is true; `None` if that cannot be said exactly.
    pub(crate) fn translate(&self, field: &Field, space: &CodeSpace) -> Option<CodePredicate> {
        let codes = CodeDomain::new(field, space);
        truth::of(&self.expr, &codes)?.yes.to_predicate(space.max_code())
    }
}

/// The expression with bare column names.
pub(crate) fn unqualified(expr: Expr) -> Option<Expr> {
    expr.transform(|node| match node {
        Expr::Column(column) if column.relation.is_some() => Ok(Transformed::yes(Expr::Column(
            Column::new_unqualified(column.name),
        ))),
        other => Ok(Transformed::no(other)),
    })
    .data()
    .ok()
}
