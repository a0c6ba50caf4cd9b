//! A logical plan of one table with parameters in its conditions, optimised as far as that is possible
//! without their values.

use std::sync::Arc;

use arrow_schema::Field;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{Optimizer, OptimizerContext, OptimizerRule};
use datafusion::sql::parser::Statement as Parsed;
use halocline_scan::provider::PoolCatalogList;
use halocline_sql::EngineError;

use super::bind::Binding;
use super::depth::is_shallow;
use super::detached::DetachedTable;
use crate::session::{
    COMMON_SUBEXPRESSIONS, LogicalRule, PlanShape, SessionStates, StatementPlanner, logical_rules,
    own_logical_rules,
};

/// A plan with parameters.
pub(crate) struct QueryTemplate {
    plan: LogicalPlan,
    shape: PlanShape,
    table: Arc<DetachedTable>,
    /// The version of the settings that it was made with.
    settings: u64,
    /// Rules that depend on values or on the table.
    rules: Vec<LogicalRule>,
}

impl QueryTemplate {
    /// Plans a query in whose conditions parameters `$1` … stand for values of these types; `None` if it is
    /// not a query of one table of the pool, or has a function whose value depends on more than its
    /// arguments.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn build(
        planner: &StatementPlanner,
        statement: Parsed,
        values: &[ScalarValue],
    ) -> std::result::Result<Option<Self>, EngineError> {
        let plan = planner.plan(statement).await?;
        // A view or macro may get another text, which the table does not show.
        if PlanShape::from_plan(&plan) == PlanShape::General || planner.depends_on_texts() {
            return Ok(None);
        }
        Ok(Self::optimised(planner, plan, values)?)
    }

    fn optimised(
        planner: &StatementPlanner,
        plan: LogicalPlan,
        values: &[ScalarValue],
    ) -> Result<Option<Self>> {
        let states = planner.states();
        let state = planner.state();
        let Some((plan, table)) = detached(plan)? else {
            return Ok(None);
        };
        let plan = with_types(plan, values)?;
        let plan = state
            .analyzer()
            .execute_and_check(plan, state.config_options(), |_, _| {})?;
        let shape = PlanShape::from_plan(&plan);
        if shape == PlanShape::General {
            return Ok(None);
        }
        let own = own_logical_rules(state.optimizers());
        let mut rules = logical_rules(state.optimizers(), shape);
        // Expressions that are repeated may be constants once there are values.
        let is_own = |rule: &LogicalRule| own.iter().any(|other| other.name() == rule.name());
        rules.retain(|rule| rule.name() != COMMON_SUBEXPRESSIONS && !is_own(rule));
        let context = OptimizerContext::new_with_config_options(Arc::clone(state.config_options()))
            .without_query_execution_start_time();
        let plan = Optimizer::with_rules(rules).optimize(plan, &context, |_, _| {})?;
        if !is_shallow(&plan)? {
            return Ok(None);
        }
        let mut template = Self {
            // Without a scan, as for LIMIT 0, the rest of the plan is what it was.
            shape: PlanShape::from_plan(&plan).min(shape),
            rules: Vec::new(),
            settings: states.version(),
            plan,
            table,
        };
        template.rules = template.rules_for(values, own, state.config_options())?;
        Ok(Some(template))
    }

    /// Returns the rules to run for each execution.
    fn rules_for(
        &self,
        values: &[ScalarValue],
        own: Vec<LogicalRule>,
        options: &Arc<ConfigOptions>,
    ) -> Result<Vec<LogicalRule>> {
        let mut rules: Vec<LogicalRule> = Vec::new();
        if self
            .plan
            .exists(|node| Ok(matches!(node, LogicalPlan::Limit(_))))?
        {
            rules.push(Arc::new(PushDownLimit::new()));
        }
        let source: Arc<dyn TableSource> = Arc::clone(&self.table) as _;
        let bound = Binding {
            source,
            values,
            options,
        }
        .plan(&self.plan)?;
        let context = OptimizerContext::new_with_config_options(Arc::clone(options));
        if CommonSubexprEliminate::new()
            .rewrite(bound, &context)?
            .transformed
        {
            rules.push(Arc::new(CommonSubexprEliminate::new()));
        }
        if self.shape != PlanShape::Selection {
            rules.extend(own);
        }
        Ok(rules)
    }

    /// Returns the version of the settings that it is for.
    pub(crate) fn settings(&self) -> u64 {
        self.settings
    }

    /// Returns the plan for these values over a version of the database; `None` if the table is no longer
    /// what it was.
    ///
    /// # Errors
    /// The table cannot be read; an expression cannot be evaluated.
    pub(crate) async fn bind(
        &self,
        tables: &PoolCatalogList,
        values: &[ScalarValue],
        states: &SessionStates,
    ) -> Result<Option<BoundQuery>> {
        let provider = tables.table(self.table.table()).await?;
        let Some(provider) = provider.filter(|provider| self.table.fits(provider)) else {
            return Ok(None);
        };
        let Some(state) = states.short(PlanShape::Selection) else {
            return Ok(None);
        };
        let options = state.config_options();
        let source = provider_as_source(provider);
        let mut plan = Binding {
            source,
            values,
            options,
        }
        .plan(&self.plan)?;
        if !self.rules.is_empty() {
            let context = OptimizerContext::new_with_config_options(Arc::clone(options));
            plan = Optimizer::with_rules(self.rules.clone()).optimize(plan, &context, |_, _| {})?;
        }
        Ok(Some(BoundQuery {
            shape: self.shape,
            plan,
        }))
    }
}

/// A plan of a template for some values.
pub(crate) struct BoundQuery {
    /// The optimised logical plan.
    pub(crate) plan: LogicalPlan,
    /// The shape of the template.
    pub(crate) shape: PlanShape,
}

impl BoundQuery {
    /// Returns true if nothing is left but the scan, or less, and projections.
    pub(crate) fn is_pushed_down(&self) -> bool {
        let mut plan = &self.plan;
        loop {
            plan = match plan {
                LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) => return true,
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                _ => return false,
            }
        }
    }
}

/// Replaces the table of a plan by a detached one, and returns both; `None` unless it is one of the pool.
fn detached(plan: LogicalPlan) -> Result<Option<(LogicalPlan, Arc<DetachedTable>)>> {
    let mut table = None;
    let plan = plan.transform_up(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        if let Some(found) = DetachedTable::from_provider(&scan.table_name, &provider) {
            let found = Arc::new(found);
            scan.source = Arc::clone(&found) as Arc<dyn TableSource>;
            table = Some(found);
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    let plan = plan.data()?;
    Ok(table.map(|table| (plan, table)))
}

/// Gives the parameters of a plan the types of the values.
fn with_types(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let typed = |expr: Expr| {
        let Expr::Placeholder(Placeholder { id, .. }) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let number = id
            .strip_prefix('$')
            .and_then(|number| number.parse::<usize>().ok());
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        let field = value.map(|value| Arc::new(Field::new(id, value.data_type(), false)));
        let id = id.clone();
        Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(
            id, field,
        ))))
    };
    let plan = plan.transform_up(|node| node.map_expressions(|expr| expr.transform_up(typed)));
    plan.data()
}
