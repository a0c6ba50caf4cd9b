//! The emulated medium that an experiment's pools or indexes lie on, if its caller wants one.

use std::sync::Arc;

use halocline_emulator::{CacheShape, ClockMode, Device, DeviceProfile, EmulatedSpec, Host};
use halocline_engine::DatabaseOptions;
use serde_json::{Value, json};

use crate::{BenchError, Reporter, Settings, SlowTierMedium};

impl Settings {
    /// Returns the requested emulated medium, or `None` for the real one. A relative medium gets the measured
    /// figures of this host.
    ///
    /// # Errors
    /// The host cannot be measured; a cache is requested without a medium.
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

    /// Returns the emulated medium asked for, or `default` if none is named. `in_dram` says how the
    /// experiment measures DRAM instead.
    ///
    /// # Errors
    /// The host cannot be measured; the medium asked for is not emulated.
    pub(crate) fn emulated_or(
        &self,
        default: SlowTierMedium,
        in_dram: &str,
    ) -> Result<EmulatedSpec, BenchError> {
        let mut asked = self.clone();
        asked.tiers.medium.get_or_insert(default);
        asked.emulated()?.ok_or_else(|| {
            BenchError::Setup(format!(
                "{in_dram}; --medium can be emulated:PROFILE[:virtual|:delay]"
            ))
        })
    }

    /// Returns the requested emulated medium of pools, or `None` for the real one, which `--dir` selects.
    ///
    /// # Errors
    /// As [`emulated`](Self::emulated); no file can lie on the medium.
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

    /// Returns the options that open the pools of an experiment, with all its threads and on the requested
    /// medium.
    ///
    /// # Errors
    /// As [`pool_medium`](Self::pool_medium).
    pub(crate) fn database_options(&self) -> Result<DatabaseOptions, BenchError> {
        Ok(DatabaseOptions::default()
            .with_threads(Some(self.threads()))
            .with_medium(self.pool_medium()?))
    }
}

/// Returns an emulation of this host's DRAM below its own cache. What is read from it takes as long as it
/// does without an emulation, but for what the emulation costs its caller.
pub(crate) fn host_dram(spec: &EmulatedSpec) -> EmulatedSpec {
    EmulatedSpec {
        profile: DeviceProfile::dram(),
        absolute: false,
        cache: CacheShape::host(),
        ..spec.clone()
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
    report.line(&device_text(device))
}

/// Returns the emulated medium in words, and what times on it mean.
pub(crate) fn device_text(device: &Device) -> String {
    let times = match device.spec().clock {
        ClockMode::Virtual => {
            "times are those of its own clock, without work of the CPU: ratios to what lies in DRAM say nothing"
        }
        ClockMode::Delay => "accesses wait for it; what the emulation computes itself is not in the times",
    };
    format!("medium: {device}; {times}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_of_the_host_lies_below_the_cache_of_the_host() {
        let spec: EmulatedSpec = "emulated:cxl:virtual:absolute:cache=14".parse().unwrap();
        let host = host_dram(&spec);
        assert_eq!(host.profile, DeviceProfile::dram());
        assert_eq!((host.cache, host.absolute), (CacheShape::host(), false));
    }

    #[test]
    fn a_medium_that_is_not_emulated_is_refused() {
        let mut settings = Settings::default();
        let medium = |settings: &Settings| {
            let default = "emulated:cxl:virtual:absolute".parse().unwrap();
            settings.emulated_or(default, "DRAM is measured anyway")
        };
        assert_eq!(medium(&settings).unwrap().profile.name, "cxl");
        settings.tiers.cache_model = Some(1 << 20);
        assert_eq!(medium(&settings).unwrap().cache.bytes(), 1 << 20);
        settings.tiers.medium = Some(SlowTierMedium::Dram);
        let refused = medium(&settings).unwrap_err().to_string();
        assert!(refused.starts_with("DRAM is measured anyway; "), "{refused}");
    }
}
