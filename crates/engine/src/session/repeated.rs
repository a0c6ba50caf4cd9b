//! Execution of queries of several tables whose text was seen before: with the optimised plan that is kept
//! for the newest version of the database, or planned as a whole.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Parsed;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_pool::VerifyMode;
use halocline_sql::EngineError;
use halocline_sql::stack;

use super::second_try::with_second_try;
use super::select::light_context;
use super::times::{CacheUse, StatementTimes};
use super::{DatabaseSession, PlanShape, StatementPlanner};
use crate::prepared::{NormalForm, QueryPlans, RepeatedPlans, RepeatedQuery, is_repeatable, is_shallow};

/// Returns the plans that are kept for a query over a version.
fn kept_plans(
    engine: &EngineContext,
    catalog: &Arc<Catalog>,
    query: &RepeatedQuery,
) -> Option<Arc<QueryPlans>> {
    let found = engine
        .cache
        .with_state(catalog, |kept: &mut RepeatedPlans| kept.get(query));
    found.flatten()
}

/// Keeps the plans of a query over a version while that is the newest one; returns false if it is not.
fn keep_plans(
    engine: &EngineContext,
    catalog: &Arc<Catalog>,
    query: RepeatedQuery,
    plans: &Arc<QueryPlans>,
) -> bool {
    let added = engine.cache.with_state(catalog, |kept: &mut RepeatedPlans| {
        kept.add(query, Arc::clone(plans));
    });
    added.is_some()
}

impl DatabaseSession {
    /// Starts the query of a text, or its `EXPLAIN ANALYZE`, from the plan that is kept for it; `None` if
    /// there is none for the newest version of the database.
    ///
    /// # Errors
    /// The pool cannot be read; the query fails at once.
    pub(crate) async fn run_repeated(
        &self,
        engine: &EngineContext,
        form: &NormalForm,
        times: &mut StatementTimes,
    ) -> Result<Option<SendableRecordBatchStream>, EngineError> {
        if self.slot().must_be_idle("").is_err() {
            return Ok(None);
        }
        if engine.pool.verify_mode() == VerifyMode::Always {
            engine.pool.forget_verified();
        }
        let (states, catalog) = (self.states(), engine.catalog()?);
        let query = RepeatedQuery::new(form, states.version());
        let Some(plans) = kept_plans(engine, &catalog, &query) else {
            return Ok(None);
        };
        times.parsed();
        times.planned();
        times.cache = CacheUse::Hit;
        let lease = states.lease();
        let state = lease.state();
        // Whatever fails here is planned again, which reports the error.
        let Ok(physical) = state
            .query_planner()
            .create_physical_plan(&plans.optimised, state)
            .await
        else {
            return Ok(None);
        };
        times.optimised();
        let rows = stack::execute(physical, light_context(state))?;
        let rows = with_second_try(rows, &states, &plans.original);
        Ok(Some(if form.explains() {
            times.clone().add_to(rows)
        } else {
            rows
        }))
    }

    /// Plans a statement that returns rows as a whole and starts it. Its plan is kept if its text was seen
    /// before, as `form` says.
    ///
    /// # Errors
    /// It cannot be planned, or fails at once.
    pub(super) async fn plan_and_start(
        &self,
        engine: &EngineContext,
        parsed: Parsed,
        form: Option<NormalForm>,
        times: &mut StatementTimes,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let is_alone = self.slot().must_be_idle("").is_ok();
        let (catalog, view) = self.versions(engine, Some(&parsed))?;
        let planner = self.planner_with(&catalog, view);
        let plan = planner.plan(parsed).await?;
        times.planned();
        let Some(form) = form.filter(|_| is_alone) else {
            return planner.start_timed(&plan, times).await;
        };
        if PlanShape::from_plan(&plan) != PlanShape::General || !is_repeatable(&plan)? {
            return planner.start_timed(&plan, times).await;
        }
        let query = RepeatedQuery::new(&form, planner.states().version());
        let plans = planner.kept(engine, &catalog, query, plan, times)?;
        let state = planner.state();
        let physical = state
            .query_planner()
            .create_physical_plan(&plans.optimised, state)
            .await?;
        times.optimised();
        let rows = stack::execute(physical, light_context(state))?;
        Ok(with_second_try(rows, planner.states(), &plans.original))
    }
}

impl StatementPlanner {
    /// Optimises a plan and keeps it for the query if that is possible.
    fn kept(
        &self,
        engine: &EngineContext,
        catalog: &Arc<Catalog>,
        query: RepeatedQuery,
        plan: LogicalPlan,
        times: &mut StatementTimes,
    ) -> Result<Arc<QueryPlans>, EngineError> {
        let plans = Arc::new(QueryPlans {
            optimised: self.state().optimize(&plan)?,
            original: Arc::new(plan),
        });
        // Its next run is on the stack of any thread.
        if is_shallow(&plans.optimised)? && keep_plans(engine, catalog, query, &plans) {
            times.cache = CacheUse::Planned;
        }
        Ok(plans)
    }
}
