//! Settings of a session: `SET halocline.index = …`.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

use crate::advise::Recorder;
use crate::size;

/// When a selection goes through an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexMode {
    /// Never.
    Off,
    /// Where the estimate says that it is cheaper than a scan.
    #[default]
    Auto,
    /// Wherever a condition stands on one of its columns.
    Force,
}

impl fmt::Display for IndexMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Force => "force",
        })
    }
}

impl FromStr for IndexMode {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            // DataFusion reads a bare `on` or `off` as a boolean in some positions.
            "off" | "false" => Ok(Self::Off),
            "auto" | "on" | "true" => Ok(Self::Auto),
            "force" => Ok(Self::Force),
            other => Err(DataFusionError::Configuration(format!(
                "halocline.index is off, auto or force, not '{other}'"
            ))),
        }
    }
}

/// When segments are merged without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compaction {
    /// Never; `VACUUM` and compaction do it.
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

/// Bytes of a unit of the medium that the pool is on; an extension of a session's configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit(pub(crate) u64);

/// Whether something is done: it is, unless it is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl Default for Switch {
    fn default() -> Self {
        Self(true)
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

impl FromStr for Switch {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self(false)),
            "on" | "true" => Ok(Self(true)),
            other => Err(DataFusionError::Configuration(format!(
                "halocline.star_join is on or off, not '{other}'"
            ))),
        }
    }
}

/// The settings under `halocline.`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// `halocline.index`.
    pub(crate) index: IndexMode,
    /// `halocline.compaction`, of all sessions of the database.
    pub(crate) compaction: Compaction,
    /// `halocline.dram_budget`, of all sessions of the database; none: no limit.
    pub(crate) dram_budget: Option<u64>,
    /// `halocline.star_join`.
    pub(crate) star_join: Switch,
    /// Notes what is asked of an index, where statements are only planned.
    pub(crate) recorder: Option<Arc<Recorder>>,
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

impl ExtensionOptions for Settings {
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
            "index" => self.index = value.parse()?,
            "compaction" => self.compaction = value.parse()?,
            "dram_budget" => {
                let wrong = |error| DataFusionError::Configuration(format!("halocline.dram_budget: {error}"));
                self.dram_budget = read_limit(value).map_err(wrong)?;
            }
            "star_join" => self.star_join = value.parse()?,
            _ => {
                let text = format!(
                    "there is no setting halocline.{key}; there are halocline.index, halocline.star_join, \
                     halocline.compaction and halocline.dram_budget"
                );
                return Err(DataFusionError::Configuration(text));
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
                key: "halocline.compaction".into(),
                value: Some(self.compaction.to_string()),
                description: "When segments are merged without being asked: off, or auto (in the background)",
            },
            ConfigEntry {
                key: "halocline.dram_budget".into(),
                value: Some(write_limit(self.dram_budget)),
                description: "DRAM for the copies of all placed indexes: a size, or unlimited",
            },
        ]
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "halocline";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_what_they_write() {
        for mode in [IndexMode::Off, IndexMode::Auto, IndexMode::Force] {
            assert_eq!(mode.to_string().parse::<IndexMode>().unwrap(), mode);
        }
        let text = "fast".parse::<IndexMode>().unwrap_err().to_string();
        assert!(text.contains("off, auto or force, not 'fast'"), "{text}");
    }
}
