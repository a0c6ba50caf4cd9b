//! Settings of a session: `SET halocline.index = …`.
//!
//! [`SETTINGS`] is the list of them, from which `SET`, `RESET`, `SHOW` and docs/settings.md follow. A new
//! setting is a field of [`SessionSettings`] and an entry of the list.

mod list;
mod values;

use std::any::Any;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

pub use list::{SETTINGS, Scope, Setting};
pub use values::Compaction;
pub use values::{
    ByteLimit, ByteRate, FeatureMode, LOCK_WAIT, LockWait, MemorySize, RuleNames, SwitchSetting,
    VerifySetting,
};

use crate::query_memory::QueryMemory;

/// Access unit of the medium of the pool in bytes; an extension of the configuration of a session.
#[derive(Debug, Clone, Copy)]
pub struct MediumUnit(pub u64);

/// Returns the bytes of memory that queries share; `None` for a plan without a database.
pub fn query_memory(options: &ConfigOptions) -> Option<usize> {
    let settings = options.extensions.get::<SessionSettings>()?;
    settings.query_memory.as_ref().map(|memory| memory.size())
}

/// The settings under `halocline.`, and what else a session hands to its plans. [`SETTINGS`] describes each.
#[derive(Debug, Clone, Default)]
pub struct SessionSettings {
    /// `halocline.index`.
    pub index: FeatureMode,
    /// `halocline.star_join`.
    pub star_join: SwitchSetting,
    /// `halocline.fused_aggregate`.
    pub fused_aggregate: SwitchSetting,
    /// `halocline.join_order`.
    pub join_order: SwitchSetting,
    /// `halocline.dynamic_filters`.
    pub dynamic_filters: SwitchSetting,
    /// `halocline.late_materialization`.
    pub late_materialization: SwitchSetting,
    /// `halocline.first_rows`.
    pub first_rows: SwitchSetting,
    /// `halocline.spilling_join`.
    pub spilling_join: FeatureMode,
    /// `halocline.array_join`.
    pub array_join: FeatureMode,
    /// `halocline.plan_cache`.
    pub plan_cache: SwitchSetting,
    /// `halocline.disabled_rules`.
    pub disabled_rules: RuleNames,
    /// `halocline.lock_wait`.
    pub lock_wait: LockWait,
    /// `halocline.memory`.
    pub memory: MemorySize,
    /// `halocline.dram_budget`.
    pub dram_budget: ByteLimit,
    /// `halocline.compaction`.
    pub compaction: Compaction,
    /// `halocline.verify`.
    pub verify: VerifySetting,
    /// `halocline.scrub`.
    pub scrub: ByteRate,
    /// The part of the memory that queries share, which other sessions may change; `None` for a plan without
    /// a database.
    pub query_memory: Option<Arc<QueryMemory>>,
    /// The recorder of a statement that is only planned, of a type that only the scans know.
    pub recorder: Option<Arc<dyn Any + Send + Sync>>,
}

/// Describes a name that no setting has: the most similar setting, and all of them.
fn unknown_setting(key: &str) -> String {
    let prefix = SessionSettings::PREFIX;
    let mut names = Vec::from_iter(SETTINGS.iter().map(|setting| setting.name));
    let all = names.join(", ");
    names.sort_by(|left, right| strsim::jaro_winkler(key, right).total_cmp(&strsim::jaro_winkler(key, left)));
    let similar = names.first().copied().unwrap_or_default();
    format!("there is no setting {prefix}.{key}; did you mean {prefix}.{similar}? {prefix} has {all}")
}

impl ExtensionOptions for SessionSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some(setting) = Setting::named(key) else {
            return Err(DataFusionError::Configuration(unknown_setting(key)));
        };
        let wrong = |reason| DataFusionError::Configuration(format!("{}.{key}{reason}", Self::PREFIX));
        (setting.set)(self, value).map_err(wrong)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |setting: &Setting| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, setting.name),
            value: Some((setting.get)(self)),
            description: setting.help,
        };
        SETTINGS.iter().map(entry).collect()
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "halocline";
}
