//! Traversal of the syntax tree of a statement, whichever of DataFusion's kinds it is.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

/// Visits the statement, the explained one, or the query that is copied; other statements have nothing to
/// visit.
pub(crate) fn visit_mut<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::Explain(explain) => visit_mut(&mut explain.statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}
