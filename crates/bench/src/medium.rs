//! The emulated medium that an experiment's pools or indexes lie on, if its caller wants one.

use std::sync::Arc;

use halocline_emulator::{ClockMode, Device, EmulatedSpec, Host};
use halocline_engine::DatabaseOptions;
use serde_json::{Value, json};

use crate::{BenchError, Reporter, Settings, SlowTierMedium};

impl Settings {
    /// The emulated medium asked for, with this host as measured if it is relative; none for the real one.
    ///
    /// # Errors
    /// The host cannot be measured; a cache without a medium.
    pub(crate) fn emulated(&self) -> Result<Option<EmulatedSpec>, BenchError> {
        match (&self.tiers.medium, self.tiers.cache_model) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(BenchError::Setup(
                    "--cache-model is the cache above an emulated medium: add --medium emulated:optane"
                        .to_owned(),
                ));
            }
            (Some(_), _) => {}
        }
        let SlowTierMedium::Emulated(mut spec) = self.tiers.medium() else {
            return Ok(None);
        };
        if !spec.absolute && spec.host.is_none() {
            spec.host = Some(Host::get()?);
        }
        Ok(Some(*spec))
    }

    /// The same for pools, which lie where `--dir` says otherwise.
    ///
    /// # Errors
    /// As [`emulated`](Self::emulated); a medium that no file can lie on.
    pub(crate) fn pool_medium(&self) -> Result<Option<EmulatedSpec>, BenchError> {
        match self.tiers.medium {
            Some(SlowTierMedium::Dram) => Err(BenchError::Setup(
                "the pools of this experiment are files: --medium can be emulated:PROFILE[:virtual|:delay], and \
                 --dir a directory in DRAM, as /dev/shm"
                    .to_owned(),
            )),
            _ => self.emulated(),
        }
    }

    /// How the pools of an experiment are opened: with all threads it has, on the medium asked for.
    ///
    /// # Errors
    /// As [`pool_medium`](Self::pool_medium).
    pub(crate) fn database_options(&self) -> Result<DatabaseOptions, BenchError> {
        Ok(DatabaseOptions::default()
            .with_threads(Some(self.threads()))
            .with_medium(self.pool_medium()?))
    }
}

/// Returns the parameters that reproduce an emulated device.
pub(crate) fn device_config(device: &Device) -> Vec<(String, Value)> {
    let spec = device.spec();
    let mut values = vec![
        ("profile", json!(spec.profile)),
        ("clock", json!(spec.clock)),
        ("relative", json!(!spec.absolute)),
        ("cache_model_bytes", json!(spec.cache.bytes())),
        ("cache_model_ways", json!(spec.cache.ways())),
        ("core_model", json!(spec.core)),
        ("own_cost_ns", json!(device.model_overhead())),
    ];
    if let Some(host) = device.host() {
        values.push(("host", json!(host)));
    }
    values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Says, for people and for every value that follows, what the emulated medium is and what times on it mean.
pub(crate) fn announce(device: Option<&Arc<Device>>, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let Some(device) = device else { return Ok(()) };
    for (name, value) in device_config(device) {
        report.set(&name, value);
    }
    let times = match device.spec().clock {
        ClockMode::Virtual => {
            "times are those of its own clock, without work of the CPU: ratios to what lies in DRAM say nothing"
        }
        ClockMode::Delay => "accesses wait for it; what the emulation computes itself is not in the times",
    };
    report.line(&format!("medium: {device}; {times}"))
}
