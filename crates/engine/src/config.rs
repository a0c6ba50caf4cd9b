//! Settings of a session: `SET halocline.index = …`.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

use halocline_pool::VerifyMode;

use crate::duration::parse_duration;
use crate::memory::MemoryBudget;
use crate::plan::ScanRecorder;
use crate::query_memory::QueryMemory;
use crate::size;

/// Default time that a writing statement waits for another writer.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// When something is used that is not always faster: a value of `halocline.index`, `halocline.spilling_join`
/// and `halocline.array_join`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FeatureMode {
    /// Never.
    Off,
    /// If it is estimated to be faster.
    #[default]
    Auto,
    /// Wherever it is possible.
    Force,
}

impl fmt::Display for FeatureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Force => "force",
        })
    }
}

impl FeatureMode {
    /// Reads the value of a setting.
    fn read(setting: &str, text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            // DataFusion reads a bare `on` or `off` as a boolean in some positions.
            "off" | "false" => Ok(Self::Off),
            "auto" | "on" | "true" => Ok(Self::Auto),
            "force" => Ok(Self::Force),
            other => Err(DataFusionError::Configuration(format!(
                "halocline.{setting} is off, auto or force, not '{other}'"
            ))),
        }
    }
}

/// `halocline.compaction`: when segments are merged automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compaction {
    /// Never; `VACUUM` merges them.
    #[default]
    Off,
    /// In the background, after a moment without changes.
    Auto,
}

impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for Compaction {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self::Off),
            "auto" | "on" | "true" => Ok(Self::Auto),
            other => Err(DataFusionError::Configuration(format!(
                "halocline.compaction is off or auto, not '{other}'"
            ))),
        }
    }
}

/// `halocline.verify`: when data is verified by its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VerifySetting(pub(crate) VerifyMode);

impl fmt::Display for VerifySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            VerifyMode::Lazy => "lazy",
            VerifyMode::Off => "off",
            VerifyMode::Always => "always",
        })
    }
}

impl FromStr for VerifySetting {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "lazy" | "on" | "true" => Ok(Self(VerifyMode::Lazy)),
            "off" | "false" => Ok(Self(VerifyMode::Off)),
            "always" => Ok(Self(VerifyMode::Always)),
            other => Err(DataFusionError::Configuration(format!(
                "halocline.verify is lazy, off or always, not '{other}'"
            ))),
        }
    }
}

/// Reads what a scrub may read in a second: a size, with or without `/s`, or `off`.
fn read_rate(text: &str) -> Result<Option<u64>> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") || text.eq_ignore_ascii_case("false") {
        return Ok(None);
    }
    let wrong = |error| {
        DataFusionError::Configuration(format!(
            "halocline.scrub is off or bytes in a second, as in '10MiB/s': {error}"
        ))
    };
    match size::parse_size(text.strip_suffix("/s").unwrap_or(text)) {
        Ok(0) => Err(wrong("0 bytes in a second are none; use off".to_string())),
        Ok(rate) => Ok(Some(rate)),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Writes what [`read_rate`] reads.
fn write_rate(rate: Option<u64>) -> String {
    rate.map_or_else(|| "off".into(), |rate| format!("{}/s", size::exact(rate)))
}

/// Access unit of the medium of the pool in bytes; an extension of the configuration of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MediumUnit(pub(crate) u64);

/// Returns the bytes of memory that queries share; `None` for a plan without a database.
pub(crate) fn query_memory(options: &ConfigOptions) -> Option<usize> {
    let settings = options.extensions.get::<SessionSettings>()?;
    settings.query_memory.as_ref().map(|memory| memory.size())
}

/// A setting that is on unless it is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SwitchSetting(pub(crate) bool);

impl Default for SwitchSetting {
    fn default() -> Self {
        Self(true)
    }
}

impl fmt::Display for SwitchSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

impl FromStr for SwitchSetting {
    /// The text, if it is neither.
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self(false)),
            "on" | "true" => Ok(Self(true)),
            other => Err(other.to_owned()),
        }
    }
}

impl SwitchSetting {
    /// Reads the value of a setting.
    fn read(setting: &str, text: &str) -> Result<Self> {
        let wrong = |other| format!("halocline.{setting} is on or off, not '{other}'");
        text.parse()
            .map_err(|other| DataFusionError::Configuration(wrong(other)))
    }
}

/// `halocline.lock_wait`: time that a writing statement waits for another writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockWait(pub(crate) Duration);

impl Default for LockWait {
    fn default() -> Self {
        Self(LOCK_WAIT)
    }
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            millis if millis % 1000 == 0 => write!(f, "{}s", millis / 1000),
            millis => write!(f, "{millis}ms"),
        }
    }
}

impl FromStr for LockWait {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        parse_duration(text)
            .map(Self)
            .map_err(|error| DataFusionError::Configuration(format!("halocline.lock_wait: {error}")))
    }
}

/// The settings under `halocline.`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSettings {
    /// `halocline.index`.
    pub(crate) index: FeatureMode,
    /// `halocline.compaction`, of all sessions of the database.
    pub(crate) compaction: Compaction,
    /// `halocline.dram_budget`, of all sessions of the database; none: no limit.
    pub(crate) dram_budget: Option<u64>,
    /// `halocline.star_join`.
    pub(crate) star_join: SwitchSetting,
    /// `halocline.join_order`.
    pub(crate) join_order: SwitchSetting,
    /// `halocline.dynamic_filters`.
    pub(crate) dynamic_filters: SwitchSetting,
    /// `halocline.late_materialization`.
    pub(crate) late_materialization: SwitchSetting,
    /// `halocline.first_rows`.
    pub(crate) first_rows: SwitchSetting,
    /// `halocline.fused_aggregate`.
    pub(crate) fused_aggregate: SwitchSetting,
    /// `halocline.spilling_join`.
    pub(crate) spilling_join: FeatureMode,
    /// `halocline.array_join`.
    pub(crate) array_join: FeatureMode,
    /// `halocline.memory` in bytes, of all sessions of the database.
    pub(crate) memory: u64,
    /// The part of it that queries share, which other sessions may change; none for a plan without a
    /// database.
    pub(crate) query_memory: Option<Arc<QueryMemory>>,
    /// `halocline.plan_cache`.
    pub(crate) plan_cache: SwitchSetting,
    /// `halocline.verify`, of all sessions of the database.
    pub(crate) verify: VerifySetting,
    /// `halocline.scrub`, of all sessions of the database: bytes in a second; none: off.
    pub(crate) scrub: Option<u64>,
    /// `halocline.lock_wait`.
    pub(crate) lock_wait: LockWait,
    /// `halocline.disabled_rules`: names of rules, with commas between them.
    pub(crate) disabled_rules: String,
    /// Records the table references of statements that are only planned.
    pub(crate) recorder: Option<Arc<dyn ScanRecorder>>,
}

/// Reads a number of bytes, or `unlimited`.
///
/// # Errors
/// It is neither.
pub(crate) fn read_limit(text: &str) -> std::result::Result<Option<u64>, String> {
    match text.trim() {
        unlimited if unlimited.eq_ignore_ascii_case("unlimited") => Ok(None),
        text => match size::parse_size(text) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(format!("{error}, or unlimited")),
        },
    }
}

/// Writes what [`read_limit`] reads.
pub(crate) fn write_limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), size::exact)
}

/// Describes a name that no setting has: the most similar setting, and all of them.
fn unknown_setting(key: &str, settings: &[ConfigEntry]) -> String {
    let prefix = format!("{}.", SessionSettings::PREFIX);
    let mut names = Vec::from_iter(settings.iter().map(|entry| entry.key.trim_start_matches(&prefix)));
    let all = names.join(", ");
    names.sort_by(|left, right| strsim::jaro_winkler(key, right).total_cmp(&strsim::jaro_winkler(key, left)));
    let similar = names.first().copied().unwrap_or_default();
    format!("there is no setting {prefix}{key}; did you mean {prefix}{similar}? halocline has {all}")
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
        match key {
            "index" => self.index = FeatureMode::read(key, value)?,
            "compaction" => self.compaction = value.parse()?,
            "dram_budget" => {
                let wrong = |error| DataFusionError::Configuration(format!("halocline.dram_budget: {error}"));
                self.dram_budget = read_limit(value).map_err(wrong)?;
            }
            "memory" => {
                let wrong = |error| DataFusionError::Configuration(format!("halocline.memory: {error}"));
                let bytes = size::parse_size(value).map_err(wrong)?;
                MemoryBudget::check(bytes).map_err(wrong)?;
                self.memory = bytes;
            }
            "star_join" => self.star_join = SwitchSetting::read(key, value)?,
            "join_order" => self.join_order = SwitchSetting::read(key, value)?,
            "dynamic_filters" => self.dynamic_filters = SwitchSetting::read(key, value)?,
            "late_materialization" => self.late_materialization = SwitchSetting::read(key, value)?,
            "first_rows" => self.first_rows = SwitchSetting::read(key, value)?,
            "fused_aggregate" => self.fused_aggregate = SwitchSetting::read(key, value)?,
            "spilling_join" => self.spilling_join = FeatureMode::read(key, value)?,
            "array_join" => self.array_join = FeatureMode::read(key, value)?,
            "plan_cache" => self.plan_cache = SwitchSetting::read(key, value)?,
            "verify" => self.verify = value.parse()?,
            "scrub" => self.scrub = read_rate(value)?,
            "lock_wait" => self.lock_wait = value.parse()?,
            "disabled_rules" => self.disabled_rules = value.trim().to_owned(),
            _ => {
                return Err(DataFusionError::Configuration(unknown_setting(
                    key,
                    &self.entries(),
                )));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![
            ConfigEntry {
                key: "halocline.index".into(),
                value: Some(self.index.to_string()),
                description: "When a selection goes through an index: off, auto (by estimated cost) or force",
            },
            ConfigEntry {
                key: "halocline.star_join".into(),
                value: Some(self.star_join.to_string()),
                description: "Whether aggregates over star joins become one fused pipeline: on or off",
            },
            ConfigEntry {
                key: "halocline.join_order".into(),
                value: Some(self.join_order.to_string()),
                description: "Whether joins are ordered by their estimated cost: on or off",
            },
            ConfigEntry {
                key: "halocline.dynamic_filters".into(),
                value: Some(self.dynamic_filters.to_string()),
                description: "Whether scans exclude rows by what joins and ORDER BY … LIMIT above find out: on or off",
            },
            ConfigEntry {
                key: "halocline.late_materialization".into(),
                value: Some(self.late_materialization.to_string()),
                description: "Whether ORDER BY … LIMIT fetches columns that it does not sort by for its rows only: on or off",
            },
            ConfigEntry {
                key: "halocline.first_rows".into(),
                value: Some(self.first_rows.to_string()),
                description: "Whether rows that cannot be among the first ones of their group are dropped before they are numbered: on or off",
            },
            ConfigEntry {
                key: "halocline.fused_aggregate".into(),
                value: Some(self.fused_aggregate.to_string()),
                description: "Whether aggregates over one table become one fused pipeline: on or off",
            },
            ConfigEntry {
                key: "halocline.spilling_join".into(),
                value: Some(self.spilling_join.to_string()),
                description: "Joins that spill what does not fit memory: off, auto or force",
            },
            ConfigEntry {
                key: "halocline.array_join".into(),
                value: Some(self.array_join.to_string()),
                description: "Joins that find the rows of a table by its key, without a hash table: off, auto (by estimated cost) or force",
            },
            ConfigEntry {
                key: "halocline.memory".into(),
                value: Some(size::exact(self.memory)),
                description: "DRAM for queries, imports, index builds and compaction together",
            },
            ConfigEntry {
                key: "halocline.plan_cache".into(),
                value: Some(self.plan_cache.to_string()),
                description: "Whether plans of query texts that differ in literals only are used again: on or off",
            },
            ConfigEntry {
                key: "halocline.compaction".into(),
                value: Some(self.compaction.to_string()),
                description: "When segments are merged without being asked: off, or auto (in the background)",
            },
            ConfigEntry {
                key: "halocline.dram_budget".into(),
                value: Some(write_limit(self.dram_budget)),
                description: "DRAM for the copies of all placed indexes: a size, or unlimited",
            },
            ConfigEntry {
                key: "halocline.verify".into(),
                value: Some(self.verify.to_string()),
                description: "When what queries read is compared with its checksums: lazy (the first time), off, or always",
            },
            ConfigEntry {
                key: "halocline.scrub".into(),
                value: Some(write_rate(self.scrub)),
                description: "Bytes a second that are verified in the background, as in 10MiB/s, or off",
            },
            ConfigEntry {
                key: "halocline.lock_wait".into(),
                value: Some(self.lock_wait.to_string()),
                description: "How long a statement that writes waits for another writer: 0, 500ms, 5s, 2min or 1h",
            },
            ConfigEntry {
                key: "halocline.disabled_rules".into(),
                value: Some(self.disabled_rules.clone()),
                description: "Rules of the optimizer that are left out, to find the cause of an answer: names with commas between them",
            },
        ]
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "halocline";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_a_scrub() {
        for (text, written) in [("10MiB/s", "10MiB/s"), ("2GiB", "2GiB/s"), ("OFF", "off")] {
            assert_eq!(write_rate(read_rate(text).unwrap()), written);
        }
        for wrong in ["0", "fast", "10MiB/h"] {
            let text = read_rate(wrong).unwrap_err().to_string();
            assert!(
                text.contains("halocline.scrub is off or bytes in a second"),
                "{text}"
            );
        }
        for mode in [VerifyMode::Lazy, VerifyMode::Off, VerifyMode::Always] {
            assert_eq!(
                VerifySetting(mode).to_string().parse::<VerifySetting>().unwrap(),
                VerifySetting(mode)
            );
        }
    }

    #[test]
    fn lock_waits_read_what_they_write() {
        for (text, written) in [
            ("0", "0s"),
            ("250ms", "250ms"),
            ("1500ms", "1500ms"),
            ("5s", "5s"),
            ("2 min", "120s"),
        ] {
            let wait: LockWait = text.parse().unwrap();
            assert_eq!(wait.to_string(), written);
            assert_eq!(written.parse::<LockWait>().unwrap(), wait);
        }
        let text = "5".parse::<LockWait>().unwrap_err().to_string();
        assert!(
            text.contains("halocline.lock_wait") && text.contains("'5'"),
            "{text}"
        );
    }

    #[test]
    fn modes_read_what_they_write() {
        for mode in [FeatureMode::Off, FeatureMode::Auto, FeatureMode::Force] {
            assert_eq!(FeatureMode::read("index", &mode.to_string()).unwrap(), mode);
        }
        let text = FeatureMode::read("index", "fast").unwrap_err().to_string();
        assert!(text.contains("off, auto or force, not 'fast'"), "{text}");
    }
}
