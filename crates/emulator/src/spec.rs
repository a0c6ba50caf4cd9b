//! The specification of an emulated medium and its textual form: [`EmulatedSpec`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CacheShape, CoreShape, DeviceProfile, EmulatedError, Host};

/// Upper bound of the `ahead` option.
const MAX_AHEAD: u64 = crate::model::MAX_AHEAD as u64;

/// The clock that modelled time is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// A virtual clock ([`Device::elapsed`](crate::Device::elapsed)). Accesses do not wait, and a single
    /// thread's times are the same in every run.
    Virtual,
    /// Real time. Accesses wait until they would have completed.
    Delay,
}

/// An emulated medium. Its textual form is
/// `emulated:PROFILE[:virtual|:delay][:absolute][:cache=MIB][:ahead=LINES]`, where the profile is a built-in
/// name or the path of a JSON file, and `ahead` limits the core's stream prefetcher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmulatedSpec {
    /// The device.
    pub profile: DeviceProfile,
    /// The clock of its accesses.
    pub clock: ClockMode,
    /// True to use the profile's figures unchanged instead of in proportion to this host's DRAM.
    pub absolute: bool,
    /// The modelled cache above the device.
    pub cache: CacheShape,
    /// The modelled core above the cache.
    pub core: CoreShape,
    /// Figures of the host to scale to; `None` measures this host.
    pub host: Option<Host>,
}

impl EmulatedSpec {
    /// Returns a relative device with that profile, real delays, and this host's cache.
    pub fn new(profile: DeviceProfile) -> EmulatedSpec {
        EmulatedSpec {
            profile,
            clock: ClockMode::Delay,
            absolute: false,
            cache: CacheShape::host(),
            core: CoreShape::default(),
            host: None,
        }
    }

    /// Returns DRAM that is emulated as this medium is, with the same cache, core and clock. A medium is to
    /// be compared with it: the host's own DRAM lies below a cache of another size, which may hold all that
    /// is read. It has the figures of the DRAM in the medium's profile, which stand for this host's if the
    /// medium is relative.
    #[must_use]
    pub fn dram_beside(&self) -> EmulatedSpec {
        EmulatedSpec {
            profile: DeviceProfile {
                device: self.profile.dram.clone(),
                dram: self.profile.dram.clone(),
                ..DeviceProfile::dram()
            },
            ..self.clone()
        }
    }
}

impl FromStr for EmulatedSpec {
    type Err = EmulatedError;

    fn from_str(text: &str) -> Result<EmulatedSpec, EmulatedError> {
        let Some(rest) = text.strip_prefix("emulated:") else {
            return Err(EmulatedError::NotEmulated {
                text: text.to_owned(),
            });
        };
        let mut parts = rest.split(':');
        let name = parts.next().unwrap_or_default();
        let mut spec = EmulatedSpec::new(DeviceProfile::find(name)?);
        for option in parts {
            let unknown = || EmulatedError::UnknownOption {
                option: option.to_owned(),
            };
            match option {
                "virtual" => spec.clock = ClockMode::Virtual,
                "delay" => spec.clock = ClockMode::Delay,
                "absolute" => spec.absolute = true,
                _ => {
                    let (name, number) = option.split_once('=').ok_or_else(unknown)?;
                    let number: u64 = number.parse().map_err(|_| unknown())?;
                    match (name, number) {
                        ("cache", 1..=1024) => spec.cache = CacheShape::with_bytes(number << 20),
                        ("ahead", 0..=MAX_AHEAD) => spec.core.ahead = Some(number as usize),
                        _ => return Err(unknown()),
                    }
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for EmulatedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = match self.clock {
            ClockMode::Virtual => "virtual",
            ClockMode::Delay => "delay",
        };
        write!(f, "emulated:{}:{clock}", self.profile.name)?;
        if self.absolute {
            write!(f, ":absolute")?;
        }
        write!(f, ":cache={}", self.cache.bytes() >> 20)?;
        match self.core.ahead {
            None => Ok(()),
            Some(lines) => write!(f, ":ahead={lines}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_beside_a_medium_differs_from_it_in_the_profile_alone() {
        let spec: EmulatedSpec = "emulated:cxl:virtual:absolute:cache=14".parse().unwrap();
        let dram = spec.dram_beside();
        assert_eq!(dram.profile, DeviceProfile::dram());
        let again = EmulatedSpec {
            profile: spec.profile.clone(),
            ..dram
        };
        assert_eq!(again, spec);
    }
}
