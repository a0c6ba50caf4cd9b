//! Execution of statements that return rows: with a template of the plan cache, or planned as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::format::ExplainFormat;
use datafusion::common::{ScalarValue, ToDFSchema};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{Analyze, LogicalPlan};
use datafusion::sql::parser::Statement as Parsed;
use halocline_catalog::context::EngineContext;
use halocline_pool::VerifyMode;
use halocline_sql::EngineError;
use halocline_sql::stack;

use super::second_try::with_second_try;
use super::shape::PlanShape;
use super::times::{CacheUse, StatementTimes};
use super::{DatabaseSession, StatementPlanner};
use crate::prepared::{PlanLookup, QueryTemplate};

impl DatabaseSession {
    /// Looks up a text in the plan cache.
    pub(crate) fn look_up(&self, text: &str) -> PlanLookup {
        let states = self.states();
        if states.settings().is_some_and(|settings| settings.plan_cache.0) {
            self.plans.look_up(text, states.version())
        } else {
            PlanLookup::Uncacheable
        }
    }

    /// Starts a query from its template; `None` if the template cannot be used for these values, or for the
    /// table as it is now. `EXPLAIN ANALYZE` of the query if `explains`.
    ///
    /// # Errors
    /// The pool cannot be read; the query fails at once.
    pub(crate) async fn run_template(
        &self,
        engine: &EngineContext,
        template: &QueryTemplate,
        values: &[ScalarValue],
        times: &mut StatementTimes,
        explains: bool,
    ) -> Result<Option<SendableRecordBatchStream>, EngineError> {
        let states = self.states();
        if template.settings() != states.version() {
            return Ok(None);
        }
        if engine.pool.verify_mode() == VerifyMode::Always {
            engine.pool.forget_verified();
        }
        let (catalog, view) = self.versions(engine, None)?;
        let tables = self.tables(&catalog, view);
        // Whatever fails here is planned again, which reports the error.
        let Ok(Some(bound)) = template.bind(&tables, values, &states).await else {
            return Ok(None);
        };
        let state = if bound.is_pushed_down() {
            states.pushed_down()
        } else {
            match states.short(bound.shape) {
                Some(state) => state,
                None => return Ok(None),
            }
        };
        let plan = if explains {
            analyzed(bound.plan)?
        } else {
            bound.plan
        };
        times.planned();
        let Ok(physical) = state.query_planner().create_physical_plan(&plan, &**state).await else {
            return Ok(None);
        };
        times.optimised();
        let rows = stack::execute(physical, light_context(state))?;
        Ok(Some(match bound.shape {
            PlanShape::Selection => rows,
            _ => with_second_try(rows, &states, &Arc::new(plan)),
        }))
    }

    /// Runs a statement that returns rows and is not in the plan cache; a text that was seen before is added
    /// to it.
    ///
    /// # Errors
    /// It cannot be planned, or fails at once.
    pub(crate) async fn select(
        &self,
        engine: &EngineContext,
        parsed: Parsed,
        lookup: PlanLookup,
        mut times: StatementTimes,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let shows_times = shows_times(&parsed);
        let form = lookup.repeated().cloned();
        let rows = match self.add_plan(engine, &parsed, lookup, &mut times).await? {
            Some(rows) => rows,
            None => self.plan_and_start(engine, parsed, form, &mut times).await?,
        };
        Ok(if shows_times { times.add_to(rows) } else { rows })
    }

    /// Makes a template of a text that was seen before, and starts the query from it; `None` if it has none.
    async fn add_plan(
        &self,
        engine: &EngineContext,
        parsed: &Parsed,
        lookup: PlanLookup,
        times: &mut StatementTimes,
    ) -> Result<Option<SendableRecordBatchStream>, EngineError> {
        let form = match lookup {
            PlanLookup::Repeated(form) | PlanLookup::Hit { form, .. } => form,
            PlanLookup::First => {
                times.cache = CacheUse::First;
                return Ok(None);
            }
            PlanLookup::Uncacheable | PlanLookup::Refused(_) => return Ok(None),
        };
        let settings = self.states().version();
        let query = match parsed {
            Parsed::Explain(explain) if form.explains() => (*explain.statement).clone(),
            other => other.clone(),
        };
        // A literal that is no date is reported by the plan.
        let Some(literals) = form.literals_of(query) else {
            return Ok(None);
        };
        let planner = self.schema_planner(engine)?;
        let Ok(built) = QueryTemplate::build(&planner, literals.statement, &literals.values).await else {
            return Ok(None);
        };
        drop(planner);
        let Some(template) = built.map(Arc::new) else {
            self.plans.refuse(&form, settings);
            return Ok(None);
        };
        self.plans.add(&form, literals.operands, Arc::clone(&template));
        times.cache = CacheUse::Planned;
        self.run_template(engine, &template, &literals.values, times, form.explains())
            .await
    }
}

impl StatementPlanner {
    /// Starts a plan that returns rows, and notes the times.
    ///
    /// # Errors
    /// No physical plan can be made of it, or it fails at once.
    pub(crate) async fn start_timed(
        &self,
        plan: &LogicalPlan,
        times: &mut StatementTimes,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        if let Some(state) = self.short_state(plan) {
            let physical = state.create_physical_plan(plan).await?;
            times.optimised();
            let rows = stack::execute(physical, light_context(state))?;
            return Ok(match PlanShape::from_plan(plan) {
                // A selection holds no rows.
                PlanShape::Selection => rows,
                _ => with_second_try(rows, self.states(), &Arc::new(plan.clone())),
            });
        }
        let state = self.state();
        let physical = state.create_physical_plan(plan).await?;
        times.optimised();
        let rows = stack::execute(physical, Arc::new(TaskContext::from(state)))?;
        Ok(with_second_try(rows, self.states(), &Arc::new(plan.clone())))
    }
}

/// Returns a context for the execution of a plan of tables of the pool. It has no functions: only tables of
/// the information schema look them up by name.
pub(super) fn light_context(state: &SessionState) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Arc::clone(state.runtime_env()),
    ))
}

/// Returns true for `EXPLAIN ANALYZE` in the format in which its output is rows of text.
fn shows_times(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Explain(explain) => {
            let options = &explain.options;
            options.analyze && matches!(options.format, None | Some(ExplainFormat::Indent))
        }
        _ => false,
    }
}

/// Returns `EXPLAIN ANALYZE` of a plan, as DataFusion plans it.
fn analyzed(plan: LogicalPlan) -> Result<LogicalPlan, EngineError> {
    Ok(LogicalPlan::Analyze(Analyze {
        verbose: false,
        format: ExplainFormat::Indent,
        input: Arc::new(plan),
        schema: LogicalPlan::explain_schema().to_dfschema_ref()?,
        analyze_level: None,
        analyze_categories: None,
    }))
}
