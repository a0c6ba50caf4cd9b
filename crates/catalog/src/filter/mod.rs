//! Filters as predicates on codes: the part of a WHERE clause that scans and indexes can answer.
//!
//! A filter on one column whose truth depends only on the value is translated to the set of
//! codes for which it is true, exactly, in the three-valued logic of SQL. Other filters remain expressions.
//!
//! Strings without codes have predicates on their bytes instead, and a dictionary of up to 65,536 strings is
//! compared with a pattern string by string.
//!
//! Sets of codes are sorted ranges. A set of one range, or of at most 65,536 codes, becomes a `CodePredicate`
//! and is reported to DataFusion as exact. Expressions that are neither comparisons nor monotone are
//! evaluated on every code if the column has at most 1,024.

mod atom;
mod codes;
mod intervals;
mod physical;
mod probe;
mod strings;
mod truth;

use arrow_schema::{Field, Schema};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Expr;
use halocline_columns::{CodePredicate, CodeSpace, StringPredicate};

pub use physical::{PossibleCodes, possible_codes};

use codes::CodeDomain;

/// A filter over one column, with unqualified column names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnCondition {
    /// Position of the column in the table.
    pub column: usize,
    /// The filter.
    pub expr: Expr,
}

impl ColumnCondition {
    /// Reads a filter; `None` unless it refers to exactly one column of `schema` and is not volatile.
    pub fn read(filter: &Expr, schema: &Schema) -> Option<Self> {
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

    /// Returns the codes of `space` for which the condition is true; `None` if there is no exact translation.
    pub fn translate(&self, field: &Field, space: &CodeSpace) -> Option<CodePredicate> {
        self.translate_in(&CodeDomain::new(field, space))
    }

    /// Translates like [`translate`](Self::translate), for the column's own codes: if there is a dictionary,
    /// its strings may be compared one by one.
    pub fn translate_own(&self, field: &Field, space: &CodeSpace) -> Option<CodePredicate> {
        self.translate_in(&CodeDomain::new(field, space).with_every_string())
    }

    fn translate_in(&self, codes: &CodeDomain<'_>) -> Option<CodePredicate> {
        truth::truth_of(&self.expr, codes)?
            .yes
            .to_predicate(codes.space.max_code())
    }

    /// Returns the strings for which the condition is true; `None` if there is no exact translation.
    pub fn on_strings(&self, field: &Field) -> Option<StringPredicate> {
        strings::read(&self.expr, field.data_type())
    }
}

/// Returns the expression with unqualified column names.
pub fn unqualified(expr: Expr) -> Option<Expr> {
    expr.transform(|node| match node {
        Expr::Column(column) if column.relation.is_some() => Ok(Transformed::yes(Expr::Column(
            Column::new_unqualified(column.name),
        ))),
        other => Ok(Transformed::no(other)),
    })
    .data()
    .ok()
}
