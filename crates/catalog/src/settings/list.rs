//! The list of settings.

use super::SessionSettings;
use super::values::{
    ByteLimit, ByteRate, FeatureMode, LOCK_WAIT, LockWait, MemorySize, RuleNames, SettingValue,
    SwitchSetting, VerifySetting,
};
use crate::memory::MemoryBudget;
use crate::options::DatabaseOptions;

/// The sessions that a setting is shared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The session that sets it.
    Session,
    /// All sessions of the open database.
    Database,
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name after `halocline.`.
    pub name: &'static str,
    /// The values that it can have.
    pub values: &'static str,
    /// Its default in words or as a value.
    pub default_text: &'static str,
    /// The sessions that share it.
    pub scope: Scope,
    /// Its meaning.
    pub help: &'static str,
    /// Returns its value in a database that is opened with these options.
    pub default: fn(&DatabaseOptions) -> String,
    /// Returns its value as a text that `set` reads.
    pub get: fn(&SessionSettings) -> String,
    /// Reads a value. An error follows the name of the setting: `is on or off, not 'x'`.
    pub set: fn(&mut SessionSettings, &str) -> Result<(), String>,
}

impl Setting {
    /// Returns the setting of a name without `halocline.`.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

/// A setting of the field `$name`: `values, default in words, scope, help`, and the default by the options of
/// the database.
macro_rules! setting {
    ($name:ident: $values:literal, $text:literal, $scope:ident, $help:literal, |$options:ident| $default:expr) => {
        Setting {
            name: stringify!($name),
            values: $values,
            default_text: $text,
            scope: Scope::$scope,
            help: $help,
            default: |$options: &DatabaseOptions| $default.to_string(),
            get: |settings| settings.$name.to_string(),
            set: |settings, text| {
                settings.$name = SettingValue::read(text)?;
                Ok(())
            },
        }
    };
}

/// The settings, in the order of docs/settings.md.
pub const SETTINGS: &[Setting] = &[
    setting!(
        index: "off, auto, force",
        "auto",
        Session,
        "whether selections use an index: never, where it is estimated to be cheaper than a scan, or wherever a condition is on an indexed column",
        |_options| FeatureMode::default()
    ),
    setting!(
        star_join: "on, off",
        "on",
        Session,
        "whether aggregates over star joins run as one pipeline",
        |_options| SwitchSetting::default()
    ),
    setting!(
        fused_aggregate: "on, off",
        "on",
        Session,
        "whether aggregates over one table run as one pipeline",
        |_options| SwitchSetting::default()
    ),
    setting!(
        join_order: "on, off",
        "on",
        Session,
        "whether joins are ordered, and their build sides chosen, by estimated cost",
        |_options| SwitchSetting::default()
    ),
    setting!(
        dynamic_filters: "on, off",
        "on",
        Session,
        "whether scans exclude rows by the build sides of joins and the thresholds of ORDER BY … LIMIT above them",
        |_options| SwitchSetting::default()
    ),
    setting!(
        late_materialization: "on, off",
        "on",
        Session,
        "whether ORDER BY … LIMIT fetches columns that it does not sort by only for the rows it returns",
        |_options| SwitchSetting::default()
    ),
    setting!(
        first_rows: "on, off",
        "on",
        Session,
        "whether rows that cannot be among the first ones of their group are dropped before they are sorted, for row_number(), rank() or DISTINCT ON",
        |_options| SwitchSetting::default()
    ),
    setting!(
        spilling_join: "off, auto, force",
        "auto",
        Session,
        "whether joins spill what does not fit: never, where the build side may be large, or all hash joins",
        |_options| FeatureMode::default()
    ),
    setting!(
        array_join: "off, auto, force",
        "auto",
        Session,
        "whether joins find the rows of a table by its key, without a hash table: never, where that is estimated to be faster, or wherever the keys are dense",
        |_options| FeatureMode::default()
    ),
    setting!(
        plan_cache: "on, off",
        "on",
        Session,
        "whether the plans of query texts are used again",
        |_options| SwitchSetting::default()
    ),
    setting!(
        disabled_rules: "names, as push_down_filter, join_order",
        "none",
        Session,
        "rules of the optimizer that are left out, to find the cause of a wrong or slow answer; a wrong name is answered with the list. Rules that plans need cannot be left out",
        |_options| RuleNames::default()
    ),
    setting!(
        lock_wait: "a duration: 0, 500ms, 5s, 2min, 1h",
        "5s",
        Session,
        "how long a statement that writes waits for another writer, or for the process that has the stores open",
        |options| LockWait(options.lock_wait.unwrap_or(LOCK_WAIT))
    ),
    setting!(
        memory: "a size from 32 MiB on",
        "a quarter of the DRAM there is",
        Database,
        "DRAM for imports, index builds, compaction and queries together. What runs keeps what it has",
        |options| MemorySize(MemoryBudget::new(options.memory).bytes() as u64)
    ),
    setting!(
        dram_budget: "a size, or unlimited",
        "a quarter of the DRAM there is",
        Database,
        "DRAM for the copies of all placed indexes together; 0 allows none. Half of --memory where that is given",
        |options| ByteLimit(options.dram_budget)
    ),
    setting!(
        compaction: "off, auto",
        "off",
        Database,
        "whether segments are merged in the background; auto in halocline sql",
        |options| options.compaction
    ),
    setting!(
        verify: "lazy, off, always",
        "lazy",
        Database,
        "when queries compare what they read with its checksums: the first time, never, or every time",
        |_options| VerifySetting::default()
    ),
    setting!(
        scrub: "bytes a second, as 10MiB/s, or off",
        "off",
        Database,
        "rate at which everything is verified in the background",
        |_options| ByteRate::default()
    ),
];
