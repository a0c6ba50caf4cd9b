//! Conditions on the rows of a table, kept as SQL: [`RowCondition`].
//!
//! A condition depends on nothing but its row: it has no subquery, no function of several rows, and none
//! whose result changes. So it is planned once for a table, without a session. Its times are those of UTC.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, LogicalTableSource, Volatility,
};
use datafusion::optimizer::Analyzer;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use halocline_sql::EngineError;
use halocline_sql::semantics::{self, AfterCoercion, BeforeCoercion};
use halocline_sql::syntax::SqlDialect;

/// The state that conditions are planned with: the functions and the operators of every session.
static PLANNER: LazyLock<SessionState> = LazyLock::new(|| {
    let mut config = SessionConfig::new();
    semantics::configure(config.options_mut());
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(BeforeCoercion));
    rules.push(Arc::new(AfterCoercion));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_expr_planners(semantics::planners())
        .with_default_features()
        .with_analyzer_rules(rules);
    semantics::register(builder.build())
});

/// A planned condition on the rows of a table.
#[derive(Debug)]
pub struct RowCondition(Arc<dyn PhysicalExpr>);

impl RowCondition {
    /// Plans a condition on the columns of a table.
    ///
    /// # Errors
    /// The text is no condition, or one that does not depend on the row alone.
    pub fn plan(table: &str, schema: &SchemaRef, text: &str) -> Result<Self, EngineError> {
        let wrong = |reason: &str| {
            EngineError::Query(format!(
                "table {table}: CHECK ({text}) {reason}; a condition depends on its row only"
            ))
        };
        let mut parser = Parser::new(&SqlDialect)
            .try_with_sql(text)
            .map_err(|error| wrong(&error.to_string()))?;
        let mut expr = parser.parse_expr().map_err(|error| wrong(&error.to_string()))?;
        semantics::refine_expression(&mut expr)?;
        let columns = DFSchema::try_from_qualified_schema(TableReference::bare(table), schema)?;
        let expr = ast::ExprWithAlias { expr, alias: None };
        let logical = PLANNER.create_logical_expr_from_sql_expr(expr, &columns)?;
        if !find_aggregate_exprs([&logical]).is_empty() || !find_window_exprs([&logical]).is_empty() {
            return Err(wrong("combines several rows"));
        }
        if let Some(part) = outside_of_row(&logical)? {
            return Err(wrong(&format!("has {part}")));
        }
        let source = Arc::new(LogicalTableSource::new(Arc::clone(schema)));
        let plan = LogicalPlanBuilder::scan(TableReference::bare(table), source, None)?
            .project([logical.alias("condition")])?
            .build()?;
        let plan = PLANNER
            .analyzer()
            .execute_and_check(plan, PLANNER.config_options(), |_, _| {})?;
        let (LogicalPlan::Projection(projection), true) = (&plan, plan.schema().fields().len() == 1) else {
            return Err(wrong("cannot be planned for one row"));
        };
        let condition = projection.expr[0].clone().unalias();
        if condition.get_type(&columns)? != DataType::Boolean {
            return Err(wrong("is neither true nor false"));
        }
        Ok(Self(PLANNER.create_physical_expr(condition, &columns)?))
    }

    /// Returns the first row of a batch with the columns of the table for which the condition is false.
    ///
    /// # Errors
    /// The condition cannot be evaluated, as a division by zero.
    pub fn first_false(&self, batch: &RecordBatch) -> Result<Option<usize>, EngineError> {
        let truth = self.0.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(truth) = truth.as_boolean_opt() else {
            return Ok(None);
        };
        let is_false = |row: &usize| truth.is_valid(*row) && !truth.value(*row);
        Ok((0..truth.len()).find(is_false))
    }
}

/// Returns the part of a condition that depends on more than the row.
fn outside_of_row(condition: &Expr) -> Result<Option<String>, EngineError> {
    let mut part = None;
    condition.exists(|expr| {
        part = match expr {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => {
                Some("a subquery".to_owned())
            }
            Expr::Placeholder(_) => Some("a parameter".to_owned()),
            Expr::ScalarFunction(call) => {
                let changes = match call.func.signature().volatility {
                    Volatility::Immutable => false,
                    // Of the statement, as now(); or of the time zone, which is UTC here.
                    Volatility::Stable => call.args.is_empty(),
                    Volatility::Volatile => true,
                };
                changes.then(|| format!("{}(), whose result changes", call.func.name()))
            }
            _ => None,
        };
        Ok(part.is_some())
    })?;
    Ok(part)
}
