//! `USING` and `NATURAL`.
//!
//! A column that a join merges is the one of the left side or, in rows without a left side, the one of the
//! right side: `coalesce(l.k, r.k)`. DataFusion takes the left one, which is NULL in such rows, and finds
//! merged columns ambiguous in subqueries and beside several joins. Here the joins get conditions
//! (`ON l.k = r.k`), and merged columns in the rest of the query, where they are not qualified, become
//! expressions: single columns unless the join is a full one. Qualified names stay what they are.
//!
//! Only queries with such a join are rewritten. That needs the names of the columns of everything in their
//! FROM clauses, which are taken from plans of its parts ([`columns`]).

mod columns;
mod joins;
mod rewrite;
mod scope;

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, Select, TableFactor, TableWithJoins, Visitor,
};

pub use columns::PlannedColumns;
pub use rewrite::MergedColumns;

use crate::syntax::{Node, visit, walk};

/// Returns true if a join in a node merges columns.
pub fn merges_columns<N: Node>(node: &N) -> bool {
    walk(node, &mut MergingJoins).is_break()
}

/// Returns the same of a statement.
pub fn merges_columns_in(statement: &Parsed) -> bool {
    visit(statement, &mut MergingJoins).is_break()
}

struct MergingJoins;

impl Visitor for MergingJoins {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.from.iter().any(merges) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Returns true if a join of a FROM item merges columns.
fn merges(table: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    let merging = |join: &Join| {
        let constraint = constraint(&join.join_operator);
        let is_merging = matches!(
            constraint,
            Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
        );
        is_merging || nested(&join.relation)
    };
    nested(&table.relation) || table.joins.iter().any(merging)
}

/// Returns the constraint of a join that can have one and that DataFusion knows.
fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}
