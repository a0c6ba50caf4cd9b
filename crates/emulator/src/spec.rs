//! The description of an emulated medium, and how it is written: [`EmulatedSpec`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CacheShape, CoreShape, DeviceProfile, EmulatedError, Host};

/// The most lines a stream prefetcher can be said to run ahead.
const MOST_AHEAD: u64 = crate::model::MOST_AHEAD as u64;

/// Where the modelled time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// A clock of its own ([`Device::elapsed`](crate::Device::elapsed)): nothing waits, and one thread's times are the
    /// same in every run.
    Virtual,
    /// Real time: accesses wait until they would be complete.
    Delay,
}

/// An emulated medium: `emulated:PROFILE[:virtual|:delay][:absolute][:cache=MIB][:ahead=LINES]` as text, where the profile is
/// a built-in name or the path of a JSON file, and `ahead` the core's prefetching.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmulatedSpec {
    /// The device.
    pub profile: DeviceProfile,
    /// Where its time goes.
    pub clock: Clock,
    /// Whether the profile's figures are taken as they are, not in proportion to this host's DRAM.
    pub absolute: bool,
    /// The cache above the device.
    pub cache: CacheShape,
    /// The core above the cache.
    pub core: CoreShape,
    /// The host to be relative to, instead of this one as measured.
    pub host: Option<Host>,
}

impl EmulatedSpec {
    /// A device of that profile: delays for real, relative, below this host's cache.
    pub fn new(profile: DeviceProfile) -> EmulatedSpec {
        EmulatedSpec {
            profile,
            clock: Clock::Delay,
            absolute: false,
            cache: CacheShape::host(),
            core: CoreShape::default(),
            host: None,
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
                "virtual" => spec.clock = Clock::Virtual,
                "delay" => spec.clock = Clock::Delay,
                "absolute" => spec.absolute = true,
                _ => {
                    let (name, number) = option.split_once('=').ok_or_else(unknown)?;
                    let number: u64 = number.parse().map_err(|_| unknown())?;
                    match (name, number) {
                        ("cache", 1..=1024) => spec.cache = CacheShape::with_bytes(number << 20),
                        ("ahead", 0..=MOST_AHEAD) => spec.core.ahead = Some(number as usize),
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
            Clock::Virtual => "virtual",
            Clock::Delay => "delay",
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
