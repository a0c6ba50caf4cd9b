//! The DataFusion states that a session plans its statements with, made once for each change of its settings.
//!
//! A state has some hundreds of functions in hash tables, so that cloning one takes longer than planning a
//! lookup. Statements borrow a state ([`StateLease`]) and return it; plans of one table are optimised with
//! states whose lists of rules are short and which all statements share ([`PlanShape`]).
//!
//! Invariant: a state that is not borrowed refers to no version of the database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::catalog::{CatalogProvider, CatalogProviderList};
use datafusion::execution::{SessionState, SessionStateBuilder};
use halocline_catalog::settings::{FeatureMode, SessionSettings, SwitchSetting};

use super::disabled;
use super::rules::{PhysicalRule, logical_rules, own_physical_rules, physical_rules};
use super::second_try::Retry;
use super::shape::PlanShape;

/// Number of idle states that a session keeps: as many statements may run at a time without a clone.
const MAX_IDLE_STATES: usize = 4;

/// The states for one set of settings.
pub(crate) struct SessionStates {
    /// A number that no other set of settings of the process has.
    version: u64,
    complete: SessionState,
    /// States with short lists of rules, by shape; made when first needed.
    selection: OnceLock<Arc<SessionState>>,
    single_table: OnceLock<Arc<SessionState>>,
    pushed_down: OnceLock<Arc<SessionState>>,
    idle: Mutex<Vec<Arc<SessionState>>>,
}

impl SessionStates {
    /// Returns the states for the settings of `state`.
    pub(crate) fn new(mut state: SessionState) -> Self {
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        let settings = state.config_options().extensions.get::<SessionSettings>();
        let disabled = settings
            .map(|settings| settings.disabled_rules.0.clone())
            .unwrap_or_default();
        if !disabled.is_empty() {
            state = disabled::without(state, &disabled);
        }
        state.register_catalog_list(Arc::new(NoCatalogs));
        Self {
            version: VERSIONS.fetch_add(1, Ordering::Relaxed),
            complete: state,
            selection: OnceLock::new(),
            single_table: OnceLock::new(),
            pushed_down: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    /// Returns the number of this set of settings.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the settings of the engine.
    pub(crate) fn settings(&self) -> Option<&SessionSettings> {
        self.complete.config_options().extensions.get::<SessionSettings>()
    }

    /// Returns a state that belongs to the caller until the lease is dropped.
    pub(crate) fn lease(self: &Arc<Self>) -> StateLease {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut state = idle.unwrap_or_else(|| Arc::new(self.complete.clone()));
        Arc::make_mut(&mut state).mark_start_execution();
        StateLease {
            state,
            home: Some(Arc::clone(self)),
        }
    }

    /// Returns the shared state for plans of a shape; `None` if they need every rule.
    pub(crate) fn short(&self, shape: PlanShape) -> Option<&Arc<SessionState>> {
        let slot = match shape {
            PlanShape::Selection => &self.selection,
            PlanShape::SingleTable => &self.single_table,
            PlanShape::General => return None,
        };
        Some(slot.get_or_init(|| {
            let mut state =
                self.with_rules(shape, physical_rules(self.complete.physical_optimizers(), shape));
            if shape == PlanShape::Selection {
                // One pass leaves nothing for a second one to do.
                state.config_mut().options_mut().optimizer.max_passes = 1;
            }
            Arc::new(state)
        }))
    }

    /// Returns the shared state for plans that are a scan and a projection, which have been optimised.
    pub(crate) fn pushed_down(&self) -> &Arc<SessionState> {
        self.pushed_down.get_or_init(|| {
            let own = own_physical_rules(self.complete.physical_optimizers());
            Arc::new(self.with_rules(PlanShape::Selection, own))
        })
    }

    /// Returns a state that plans queries of operators that spill.
    pub(super) fn spilling(&self, retry: Retry) -> SessionState {
        let mut state = self.complete.clone();
        state.mark_start_execution();
        if let Some(rows) = retry.batch_rows {
            let rows = rows.min(state.config().batch_size());
            let config = state.config().clone();
            *state.config_mut() = config.with_target_partitions(1).with_batch_size(rows);
            // Groups of distinct values are sorted, which needs a few batches; tables of them need more.
            state = disabled::without(state, "single_distinct_aggregation_to_group_by");
        }
        let extensions = &mut state.config_mut().options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<SessionSettings>() {
            settings.star_join = SwitchSetting(false);
            settings.fused_aggregate = SwitchSetting(false);
            settings.spilling_join = FeatureMode::Force;
        }
        state
    }

    fn with_rules(&self, shape: PlanShape, physical: Vec<PhysicalRule>) -> SessionState {
        SessionStateBuilder::new_from_existing(self.complete.clone())
            .with_optimizer_rules(logical_rules(self.complete.optimizers(), shape))
            .with_physical_optimizer_rules(physical)
            .build()
    }
}

/// A state that belongs to one statement.
pub(crate) struct StateLease {
    /// Has no other reference, so that changing it copies nothing.
    state: Arc<SessionState>,
    /// The states that it returns to; `None` if it has been changed.
    home: Option<Arc<SessionStates>>,
}

impl StateLease {
    pub(crate) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Sets the catalogs that names are looked up in.
    pub(crate) fn set_catalogs(&mut self, catalogs: Arc<dyn CatalogProviderList>) {
        Arc::make_mut(&mut self.state).register_catalog_list(catalogs);
    }

    /// Returns the state for a change of its settings. It is not used for another statement afterwards.
    pub(crate) fn change(&mut self) -> &mut SessionState {
        self.home = None;
        Arc::make_mut(&mut self.state)
    }
}

impl Drop for StateLease {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else {
            return;
        };
        self.set_catalogs(Arc::new(NoCatalogs));
        let mut idle = home.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_STATES {
            idle.push(Arc::clone(&self.state));
        }
    }
}

/// The list of catalogs of a state that no statement uses.
#[derive(Debug)]
struct NoCatalogs;

impl CatalogProviderList for NoCatalogs {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn catalog(&self, _: &str) -> Option<Arc<dyn CatalogProvider>> {
        None
    }
}
