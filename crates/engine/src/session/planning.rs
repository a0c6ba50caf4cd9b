//! Planning of one statement over one version of the database.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, ResolvedTableReference, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::planner::{
    ContextProvider, ParserOptions, PlannerContext, SqlToRel, object_name_to_table_reference,
};
use datafusion::sql::sqlparser::ast::{self, Query};
use halocline_catalog::Catalog;
use halocline_catalog::settings::SessionSettings;
use halocline_scan::plan::{ScanRecorder, record};
use halocline_scan::provider::PoolCatalogList;
use halocline_sql::error::external;
use halocline_sql::names::{CaseRewriter, Depth, OtherCase, Renamer};
use halocline_sql::syntax::{RelationNames, visit};
use halocline_sql::using::{self, MergedColumns, PlannedColumns};
use halocline_sql::{CATALOG, SCHEMA};
use halocline_sql::{EngineError, names, semantics, syntax};

use super::states::{SessionStates, StateLease};
use super::views::StatementNames;
use super::{PlanShape, StatementTimes};

/// A planner of one statement; all of the statement sees one version of the database.
pub(crate) struct StatementPlanner {
    states: Arc<SessionStates>,
    lease: StateLease,
    pub(super) catalog: Arc<Catalog>,
    pub(super) tables: PoolCatalogList,
    pub(super) names: StatementNames,
}

impl StatementPlanner {
    /// Creates a planner for these tables, which look views up in `names` and note there which names they
    /// lack.
    pub(super) fn new(
        states: Arc<SessionStates>,
        catalog: &Arc<Catalog>,
        tables: PoolCatalogList,
        names: StatementNames,
    ) -> Self {
        let mut lease = states.lease();
        lease.set_catalogs(Arc::new(tables.clone()));
        Self {
            states,
            lease,
            catalog: Arc::clone(catalog),
            tables,
            names,
        }
    }

    /// Returns the state that the statement is planned with.
    pub(crate) fn state(&self) -> &SessionState {
        self.lease.state()
    }

    /// Returns the session's time zone; `None` for UTC.
    pub(crate) fn time_zone(&self) -> Option<Tz> {
        let options = self.state().config_options();
        halocline_values::times::session_zone(options.execution.time_zone.as_deref())
    }

    /// Returns the states of the session.
    pub(crate) fn states(&self) -> &Arc<SessionStates> {
        &self.states
    }

    /// Returns the state for optimising a plan and making a physical plan of it if a short list of rules is
    /// enough.
    pub(super) fn short_state(&self, plan: &LogicalPlan) -> Option<&Arc<SessionState>> {
        self.states.short(PlanShape::from_plan(plan))
    }

    /// Makes scans record what they select. The plans must not be run.
    pub(super) fn record(&mut self, recorder: Arc<dyn ScanRecorder>) {
        let extensions = &mut self.lease.change().config_mut().options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<SessionSettings>() {
            settings.star_join.0 &= !recorder.needs_every_scan();
            record(settings, recorder);
        }
    }

    /// Returns the logical plan of a statement. The names of its columns may have [marks](names), which are
    /// not shown.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn plan(&self, mut statement: Parsed) -> Result<LogicalPlan, EngineError> {
        self.expand_macros(|expander| syntax::visit_mut(&mut statement, expander))?;
        self.plan_views_of(&statement).await?;
        self.plan_over_views(statement).await
    }

    /// Does the same as [`plan`](Self::plan) for a statement without macros whose views are planned.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(super) async fn plan_over_views(&self, mut statement: Parsed) -> Result<LogicalPlan, EngineError> {
        let written = syntax::query(&statement).is_some().then(|| statement.clone());
        semantics::refine(&mut statement)?;
        self.merge_columns(&mut statement).await?;
        let unnamed = syntax::query(&statement)
            .is_some_and(|query| names::may_repeat(query) || names::depth_of_order(query).is_some())
            .then(|| statement.clone());
        let planned = self.state().statement_to_plan(statement).await;
        let planned = match (planned, unnamed) {
            (Ok(plan), Some(statement)) => {
                let depth = if names::are_numbered(&plan) || names::has_equal_groups(&plan) {
                    Some(Depth::Columns)
                } else {
                    syntax::query(&statement).and_then(names::depth_of_order)
                };
                match depth {
                    Some(depth) => Ok(self.plan_renamed(statement, depth).await.unwrap_or(plan)),
                    None => Ok(plan),
                }
            }
            (Err(error), Some(statement)) if names::is_about_names(&error) => {
                self.plan_renamed(statement, Depth::Columns).await.ok_or(error)
            }
            (planned, _) => planned,
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                if let Some(case) = OtherCase::cause(&error)
                    && let Some(mut respelt) = written
                {
                    let mut rewriter = CaseRewriter::new(case);
                    let _ = syntax::visit_mut(&mut respelt, &mut rewriter);
                    if rewriter.changed {
                        return Box::pin(self.plan_over_views(respelt)).await;
                    }
                }
                return Err(match self.names.missing.cause(&error) {
                    Some(name) => self.no_table(&name),
                    None => error.into(),
                });
            }
        };
        Ok(match plan {
            LogicalPlan::Copy(mut copy) => {
                copy.input = names::stored_plan(copy.input)?;
                LogicalPlan::Copy(copy)
            }
            plan => plan,
        })
    }

    /// Returns the plan of a statement with distinct names of its columns, if that can be planned. Names are
    /// made distinct to a depth, or deeper.
    async fn plan_renamed(&self, statement: Parsed, least: Depth) -> Option<LogicalPlan> {
        let mut relations = RelationNames::default();
        let _ = visit(&statement, &mut relations);
        let context = self.context_of(relations).await.ok()?;
        let depths = [Depth::Columns, Depth::Expressions];
        for depth in depths.into_iter().filter(|depth| *depth >= least) {
            let mut renamed = statement.clone();
            self.rename(depth, &context, |renamer| {
                let _ = syntax::visit_mut(&mut renamed, renamer);
            });
            if let Ok(plan) = self.state().statement_to_plan(renamed).await
                && !names::has_equal_groups(&plan)
            {
                return Some(plan);
            }
        }
        None
    }

    /// Lets a visitor make the names of columns distinct.
    fn rename(&self, depth: Depth, context: &ExpressionContext<'_>, rename: impl FnOnce(&mut Renamer<'_>)) {
        let columns_of = |query| {
            let planner = self.syntax_planner(context);
            let plan = planner.sql_statement_to_plan(ast::Statement::Query(Box::new(query)));
            plan.ok().map(|plan| Arc::clone(plan.schema()))
        };
        rename(&mut Renamer::new(depth, &columns_of));
    }

    /// Plans a query and starts it.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn query(&self, query: Box<Query>) -> Result<SendableRecordBatchStream, EngineError> {
        let statement = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        self.start(&self.plan(statement).await?).await
    }

    /// Starts a plan that returns rows.
    ///
    /// # Errors
    /// No physical plan can be made of it, or it fails at once.
    pub(crate) async fn start(&self, plan: &LogicalPlan) -> Result<SendableRecordBatchStream, EngineError> {
        self.start_timed(plan, &mut StatementTimes::start()).await
    }

    /// Plans SQL expressions over the columns of `schema`; their subqueries read the tables of the
    /// statement's version.
    ///
    /// # Errors
    /// One of them cannot be planned.
    pub(crate) async fn expressions(
        &self,
        expressions: Vec<ast::Expr>,
        schema: &DFSchema,
    ) -> Result<Vec<Expr>, EngineError> {
        let mut expressions = expressions;
        self.expand_macros(|expander| syntax::walk_mut(&mut expressions, expander))?;
        let mut names = RelationNames::default();
        let _ = syntax::walk(&expressions, &mut names);
        self.plan_views_named(&names).await?;
        let context = self.context_of(names).await?;
        let planner = self.syntax_planner(&context);
        let planned = |mut expression: ast::Expr| {
            loop {
                let mut respelt = expression.clone();
                let error = match planner.sql_to_expr(expression, schema, &mut PlannerContext::new()) {
                    Ok(planned) => return Ok(planned),
                    Err(error) => error,
                };
                let Some(mut rewriter) = OtherCase::cause(&error).map(CaseRewriter::new) else {
                    return Err(error);
                };
                let _ = syntax::walk_mut(&mut respelt, &mut rewriter);
                if !rewriter.changed {
                    return Err(error);
                }
                expression = respelt;
            }
        };
        let plan = |mut expression: ast::Expr| {
            semantics::refine_expression(&mut expression)?;
            if using::merges_columns(&expression) {
                let columns = PlannedColumns::new(&context, self.syntax_planner(&context));
                MergedColumns::new(&columns).names(&mut expression)?;
            }
            let unnamed = names::may_repeat(&expression).then(|| expression.clone());
            let error = match (planned(expression), &unnamed) {
                (Err(error), Some(_)) if names::is_about_names(&error) => error,
                (planned, _) => return Ok(planned?),
            };
            for depth in [Depth::Columns, Depth::Expressions] {
                let mut renamed = unnamed.clone();
                self.rename(depth, &context, |renamer| {
                    let _ = syntax::walk_mut(&mut renamed, renamer);
                });
                if let Some(Ok(planned)) = renamed.map(planned) {
                    return Ok(planned);
                }
            }
            Err(error.into())
        };
        expressions.into_iter().map(plan).collect()
    }

    /// Rewrites joins of a statement that merge columns.
    async fn merge_columns(&self, statement: &mut Parsed) -> Result<(), EngineError> {
        if !using::merges_columns_in(statement) {
            return Ok(());
        }
        let mut names = RelationNames::default();
        let _ = visit(statement, &mut names);
        let context = self.context_of(names).await?;
        let columns = PlannedColumns::new(&context, self.syntax_planner(&context));
        MergedColumns::new(&columns).statement(statement)
    }

    fn syntax_planner<'a>(&self, context: &'a ExpressionContext<'a>) -> SqlToRel<'a, ExpressionContext<'a>> {
        let options = ParserOptions::from(&self.state().config_options().sql_parser);
        SqlToRel::new_with_options(context, options)
    }

    /// Returns a context with the tables of these names, as far as there are such tables.
    async fn context_of(&self, names: RelationNames) -> Result<ExpressionContext<'_>> {
        let mut tables = HashMap::new();
        for name in names.0 {
            let name = object_name_to_table_reference(name, true)?.resolve(CATALOG, SCHEMA);
            if let Ok(schema) = self.state().schema_for_ref(name.clone())
                && let Some(table) = schema.table(&name.table).await?
            {
                tables.insert(name, provider_as_source(table));
            }
        }
        Ok(ExpressionContext {
            planner: self,
            tables,
        })
    }

    /// Returns the error for a table, or a file named in place of one, that is not there.
    fn no_table(&self, name: &str) -> EngineError {
        if name.contains(['/', '.']) {
            return EngineError::Query(format!(
                "there is neither a table nor a Parquet or CSV file '{name}'"
            ));
        }
        self.catalog.no_table(name)
    }
}

/// The tables and functions that parts of a statement are planned with.
struct ExpressionContext<'a> {
    planner: &'a StatementPlanner,
    tables: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
}

impl ContextProvider for ExpressionContext<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = name.resolve(CATALOG, SCHEMA);
        match self.tables.get(&name) {
            Some(table) => Ok(Arc::clone(table)),
            None if *name.catalog == *CATALOG && *name.schema == *SCHEMA => {
                Err(external(self.planner.no_table(&name.table)))
            }
            None => Err(DataFusionError::Plan(format!("table '{name}' not found"))),
        }
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let state = self.planner.state();
        let function = state
            .table_functions()
            .get(name)
            .ok_or_else(|| DataFusionError::Plan(format!("table function '{name}' not found")))?;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(state.config_options()))
            .build();
        let (simplifier, schema) = (ExprSimplifier::new(context), DFSchema::empty());
        let args = args
            .into_iter()
            .map(|arg| simplifier.simplify(simplifier.coerce(arg, &schema)?))
            .collect::<Result<Vec<Expr>>>()?;
        let table = function.create_table_provider_with_args(TableFunctionArgs::new(&args, state))?;
        Ok(provider_as_source(table))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.planner.state().expr_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.planner.state().scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.planner.state().higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.planner.state().aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.planner.state().window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.planner.state().config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.planner.state().scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.planner
            .state()
            .higher_order_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.planner
            .state()
            .aggregate_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.planner.state().window_functions().keys().cloned().collect()
    }
}
