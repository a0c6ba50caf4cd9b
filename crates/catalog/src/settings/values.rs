//! The values that settings can have, each with its text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::error::DataFusionError;
use halocline_pool::VerifyMode;
use halocline_sql::duration::parse_duration;
use halocline_sql::size::{self, read_limit, write_limit};

use crate::memory::MemoryBudget;

/// Default time that a writing statement waits for another writer.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A value of a setting. `Display` writes a text that [`read`](Self::read) reads as the same value.
pub(super) trait SettingValue: fmt::Display + Sized {
    /// Reads the text that a user writes.
    ///
    /// # Errors
    /// It is no such value; the text follows the name of the setting: `is on or off, not 'x'`.
    fn read(text: &str) -> Result<Self, String>;
}

/// When something is used that is not always faster: a value of `halocline.index`, `halocline.spilling_join`
/// and `halocline.array_join`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeatureMode {
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

impl SettingValue for FeatureMode {
    fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            // DataFusion reads a bare `on` or `off` as a boolean in some positions.
            "off" | "false" => Ok(Self::Off),
            "auto" | "on" | "true" => Ok(Self::Auto),
            "force" => Ok(Self::Force),
            other => Err(format!(" is off, auto or force, not '{other}'")),
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

impl SettingValue for Compaction {
    fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self::Off),
            "auto" | "on" | "true" => Ok(Self::Auto),
            other => Err(format!(" is off or auto, not '{other}'")),
        }
    }
}

impl FromStr for Compaction {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self, DataFusionError> {
        let wrong = |reason| DataFusionError::Configuration(format!("halocline.compaction{reason}"));
        Self::read(text).map_err(wrong)
    }
}

/// `halocline.verify`: when data is verified by its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifySetting(pub VerifyMode);

impl fmt::Display for VerifySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            VerifyMode::Lazy => "lazy",
            VerifyMode::Off => "off",
            VerifyMode::Always => "always",
        })
    }
}

impl SettingValue for VerifySetting {
    fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "lazy" | "on" | "true" => Ok(Self(VerifyMode::Lazy)),
            "off" | "false" => Ok(Self(VerifyMode::Off)),
            "always" => Ok(Self(VerifyMode::Always)),
            other => Err(format!(" is lazy, off or always, not '{other}'")),
        }
    }
}

/// A setting that is on unless it is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchSetting(pub bool);

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

impl SettingValue for SwitchSetting {
    fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self(false)),
            "on" | "true" => Ok(Self(true)),
            other => Err(format!(" is on or off, not '{other}'")),
        }
    }
}

/// Bytes per second, with or without `/s`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRate(pub Option<u64>);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => write!(f, "{}/s", size::exact(rate)),
            None => f.write_str("off"),
        }
    }
}

impl SettingValue for ByteRate {
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("off") || text.eq_ignore_ascii_case("false") {
            return Ok(Self(None));
        }
        let wrong = |error| format!(" is off or bytes in a second, as in '10MiB/s': {error}");
        match size::parse_size(text.strip_suffix("/s").unwrap_or(text)) {
            Ok(0) => Err(wrong("0 bytes in a second are none; use off".to_string())),
            Ok(rate) => Ok(Self(Some(rate))),
            Err(error) => Err(wrong(error.to_string())),
        }
    }
}

/// A limit in bytes, or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteLimit(pub Option<u64>);

impl fmt::Display for ByteLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write_limit(self.0))
    }
}

impl SettingValue for ByteLimit {
    fn read(text: &str) -> Result<Self, String> {
        let limit = read_limit(text).map_err(|error| format!(": {error}"))?;
        Ok(Self(limit))
    }
}

/// Bytes of the DRAM budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySize(pub u64);

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size::exact(self.0))
    }
}

impl SettingValue for MemorySize {
    fn read(text: &str) -> Result<Self, String> {
        let bytes = size::parse_size(text).map_err(|error| format!(": {error}"))?;
        MemoryBudget::check(bytes).map_err(|error| format!(": {error}"))?;
        Ok(Self(bytes))
    }
}

/// Names with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleNames(pub String);

impl fmt::Display for RuleNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SettingValue for RuleNames {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(text.trim().to_owned()))
    }
}

/// `halocline.lock_wait`: time that a writing statement waits for another writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait(pub Duration);

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

impl SettingValue for LockWait {
    fn read(text: &str) -> Result<Self, String> {
        let wait = parse_duration(text).map_err(|error| format!(": {error}"))?;
        Ok(Self(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_a_scrub() {
        for (text, written) in [("10MiB/s", "10MiB/s"), ("2GiB", "2GiB/s"), ("OFF", "off")] {
            assert_eq!(ByteRate::read(text).unwrap().to_string(), written);
        }
        for wrong in ["0", "fast", "10MiB/h"] {
            let text = ByteRate::read(wrong).unwrap_err();
            assert!(text.starts_with(" is off or bytes in a second"), "{text}");
        }
        for mode in [VerifyMode::Lazy, VerifyMode::Off, VerifyMode::Always] {
            let setting = VerifySetting(mode);
            assert_eq!(VerifySetting::read(&setting.to_string()).unwrap(), setting);
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
            let wait = LockWait::read(text).unwrap();
            assert_eq!(wait.to_string(), written);
            assert_eq!(LockWait::read(written).unwrap(), wait);
        }
        let text = LockWait::read("5").unwrap_err();
        assert!(text.contains("'5'"), "{text}");
    }

    #[test]
    fn modes_read_what_they_write() {
        for mode in [FeatureMode::Off, FeatureMode::Auto, FeatureMode::Force] {
            assert_eq!(FeatureMode::read(&mode.to_string()).unwrap(), mode);
        }
        let text = FeatureMode::read("fast").unwrap_err();
        assert!(text.contains("off, auto or force, not 'fast'"), "{text}");
    }
}
