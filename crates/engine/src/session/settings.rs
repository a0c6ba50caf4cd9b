//! `SET` and `RESET`: settings of a session, and those of the database that all of its sessions share.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as PlannedStatement};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use halocline_catalog::context::EngineContext;
use halocline_catalog::settings::{SessionSettings, Setting};
use halocline_catalog::threads::MAX_THREADS;
use halocline_sql::EngineError;
use halocline_sql::semantics::UTC;

use super::{DatabaseSession, disabled};
use crate::compaction_thread::set_compaction;
use crate::scrub_thread::set_scrub;

/// Prefix of the engine's own settings.
const PREFIX: &str = "halocline.";
/// The setting whose values depend on the rules that a session has.
const DISABLED_RULES: &str = "halocline.disabled_rules";

/// The session's time zone.
const TIME_ZONE: &str = "datafusion.execution.time_zone";

/// Settings of DataFusion that a session cannot change, and what to do instead: they have no effect here, or
/// would change what statements mean or lose the order of their rows.
const FIXED_SETTINGS: [(&str, &str); 6] = [
    (
        "datafusion.sql_parser.dialect",
        "statements are read in DataFusion's generic dialect",
    ),
    (
        "datafusion.sql_parser.enable_ident_normalization",
        "quote names that are not in lower case",
    ),
    (
        "datafusion.sql_parser.parse_float_as_decimal",
        "write a literal with an exponent, as 1.5e0, for a double",
    ),
    (
        "datafusion.optimizer.enable_piecewise_merge_join",
        "its plans lose the order that ORDER BY asks for",
    ),
    (
        "datafusion.runtime.temp_directory",
        "name the directory when the database is opened",
    ),
    (
        "datafusion.runtime.max_temp_directory_size",
        "temporary files end where their file system is full",
    ),
];

impl DatabaseSession {
    /// Returns the time zone by which texts and timestamps without one become instants; `None` for UTC.
    pub(crate) fn time_zone(&self) -> Option<Tz> {
        let state = self.context.state_ref();
        halocline_values::times::session_zone(state.read().config_options().execution.time_zone.as_deref())
    }

    /// Runs `SET` or `RESET`.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have this value.
    pub(crate) async fn set(
        &self,
        engine: &Arc<EngineContext>,
        statement: Parsed,
    ) -> Result<(), EngineError> {
        let set = self.set_in_context(engine, statement).await;
        // Of a setting that was refused, a part may have changed.
        self.renew_states();
        set
    }

    async fn set_in_context(
        &self,
        engine: &Arc<EngineContext>,
        statement: Parsed,
    ) -> Result<(), EngineError> {
        let statement = with_time_zone(statement);
        let mut plan = self.context.state().statement_to_plan(statement).await?;
        let setting = match &plan {
            LogicalPlan::Statement(PlannedStatement::SetVariable(set)) => set.variable.clone(),
            LogicalPlan::Statement(PlannedStatement::ResetVariable(reset)) => {
                let variable = reset.variable.clone();
                // DataFusion resets its own settings; it does not know with which values the database was
                // opened.
                if let Some(value) = default_value(&variable, engine) {
                    let variable = variable.clone();
                    let set = PlannedStatement::SetVariable(SetVariable { variable, value });
                    plan = LogicalPlan::Statement(set);
                }
                variable
            }
            _ => String::new(),
        };
        if let Some((name, instead)) = FIXED_SETTINGS.iter().find(|(name, _)| *name == setting) {
            return Err(EngineError::Unsupported {
                what: format!("changing {name}"),
                instead: (*instead).into(),
            });
        }
        if let LogicalPlan::Statement(PlannedStatement::SetVariable(set)) = &plan
            && set.variable == TIME_ZONE
            && set.value.parse::<Tz>().is_err()
        {
            let name = &set.value;
            return Err(EngineError::Query(format!(
                "there is no time zone '{name}'; write a name as 'Europe/Berlin', or an offset as '+02:00'"
            )));
        }
        if setting == DISABLED_RULES
            && let LogicalPlan::Statement(PlannedStatement::SetVariable(set)) = &plan
        {
            disabled::check(&set.value, &self.context.state())?;
        }
        let partitions = self.target_partitions();
        self.context.execute_logical_plan(plan).await?;
        let set = self.target_partitions();
        if set > MAX_THREADS {
            let state = self.context.state_ref();
            let mut state = state.write();
            state.config_mut().options_mut().execution.target_partitions = partitions;
            return Err(EngineError::Query(format!(
                "datafusion.execution.target_partitions is {MAX_THREADS} at most, not {set}"
            )));
        }
        match setting.strip_prefix(PREFIX) {
            Some(name) => self.apply(engine, name).await,
            None => Ok(()),
        }
    }

    /// Makes a new value of a setting effective if the setting belongs to the whole database.
    ///
    /// # Errors
    /// The pool or its log cannot be read.
    async fn apply(&self, engine: &Arc<EngineContext>, name: &str) -> Result<(), EngineError> {
        let state = self.context.state();
        let Some(settings) = state.config_options().extensions.get::<SessionSettings>() else {
            return Ok(());
        };
        match name {
            "compaction" => set_compaction(engine, settings.compaction),
            "verify" => engine.pool.set_verify_mode(settings.verify.0),
            "scrub" => set_scrub(engine, settings.scrub.0),
            "memory" => {
                engine.set_memory(usize::try_from(settings.memory.0).unwrap_or(usize::MAX));
                let config = self.context.state().config().clone();
                let config = engine.budget().configure(config, engine.query_threads());
                *self.context.state_ref().write().config_mut() = config;
            }
            "dram_budget" => {
                let (engine, limit) = (Arc::clone(engine), settings.dram_budget.0);
                // Placed indexes are placed anew within the budget, which may take a while.
                let set = tokio::task::spawn_blocking(move || engine.set_dram_budget(limit)).await;
                set.map_err(|error| EngineError::Query(format!("the statement failed: {error}")))??;
            }
            _ => {}
        }
        Ok(())
    }

    fn target_partitions(&self) -> usize {
        self.context.state_ref().read().config().target_partitions()
    }
}

/// Returns `SET TIME ZONE 'zone'` as an assignment; other statements as they are.
fn with_time_zone(statement: Parsed) -> Parsed {
    match statement {
        Parsed::Statement(inner) => match *inner {
            ast::Statement::Set(ast::Set::SetTimeZone { value, .. }) => {
                let assignment = ast::Set::SingleAssignment {
                    scope: None,
                    hivevar: false,
                    variable: ast::ObjectName::from(vec![ast::Ident::new("timezone")]),
                    values: vec![value],
                };
                Parsed::Statement(Box::new(ast::Statement::Set(assignment)))
            }
            other => Parsed::Statement(Box::new(other)),
        },
        other => other,
    }
}

/// Returns the value that a setting of the engine had when the database was opened; `None` for the other
/// settings of DataFusion.
fn default_value(setting: &str, engine: &EngineContext) -> Option<String> {
    if setting == TIME_ZONE {
        return Some(UTC.to_owned());
    }
    let setting = Setting::named(setting.strip_prefix(PREFIX)?);
    // Setting a name that there is not fails with an error that lists the settings there are.
    Some(setting.map_or_else(String::new, |setting| (setting.default)(&engine.options)))
}
