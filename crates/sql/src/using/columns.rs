//! The names of the columns of tables and queries.

use datafusion::sql::planner::{ContextProvider, SqlToRel, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement, TableFactor, With};

use crate::syntax::{all_from, query_of};

/// Finds out the columns of parts of a FROM clause.
pub trait TableColumns {
    /// Returns the names of the columns of a table or query, where the queries of `with` are visible; `None`
    /// if it cannot be planned on its own.
    fn columns(&self, factor: &TableFactor, with: &With) -> Option<Vec<String>>;
}

/// The columns of tables, and of the plans of everything else.
pub struct PlannedColumns<'a, S: ContextProvider> {
    context: &'a S,
    planner: SqlToRel<'a, S>,
}

impl<'a, S: ContextProvider> PlannedColumns<'a, S> {
    /// Creates a source of the columns that `planner` finds in `context`.
    pub fn new(context: &'a S, planner: SqlToRel<'a, S>) -> Self {
        Self { context, planner }
    }

    /// Returns the columns of a table of the database.
    fn of_table(&self, factor: &TableFactor, with: &With) -> Option<Vec<String>> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return None;
        };
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) || !with.cte_tables.is_empty() {
            return None;
        }
        let name = object_name_to_table_reference(name.clone(), true).ok()?;
        let source = self.context.get_table_source(name).ok()?;
        let schema = source.schema();
        Some(schema.fields().iter().map(|field| field.name().clone()).collect())
    }
}

impl<S: ContextProvider> TableColumns for PlannedColumns<'_, S> {
    fn columns(&self, factor: &TableFactor, with: &With) -> Option<Vec<String>> {
        if let Some(columns) = self.of_table(factor, with) {
            return Some(columns);
        }
        let statement = Statement::Query(Box::new(all_of(factor.clone(), with)));
        let plan = self.planner.sql_statement_to_plan(statement).ok()?;
        let fields = plan.schema().fields().iter();
        Some(fields.map(|field| field.name().clone()).collect())
    }
}

/// Returns `WITH … SELECT * FROM factor`.
fn all_of(factor: TableFactor, with: &With) -> Query {
    Query {
        with: (!with.cte_tables.is_empty()).then(|| with.clone()),
        ..query_of(SetExpr::Select(Box::new(all_from(factor))))
    }
}
