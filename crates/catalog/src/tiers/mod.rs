//! The memory that a pool lies in, as the planner sees it: what of the pool is in DRAM, and how fast the
//! device below is.
//!
//! A pool in DRAM has one tier. Of a pool in persistent memory, or on an emulated medium, all bytes are in
//! the slow tier, and costs do not differ, as the medium has no cache that could hold some of them. Of a file
//! behind the page cache some bytes are in memory, and the others must be read from its device first.

mod residency;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use halocline_costs::machine::{DeviceSpeed, MediumCosts};
use halocline_media::{MediumKind, Profile};
use halocline_pool::Pool;

use crate::options::DatabaseOptions;

pub use residency::TableResidency;

/// The memory of a pool.
#[derive(Debug)]
pub enum PoolMemory {
    /// Everything is in DRAM.
    Dram,
    /// Memory that is slower than DRAM and read in place.
    SlowTier(MediumProfile),
    /// A file behind the page cache.
    File(MediumProfile),
}

/// A medium and what its profile says, which is read when it is first needed.
#[derive(Debug)]
pub struct MediumProfile {
    path: PathBuf,
    speed: OnceLock<DeviceSpeed>,
    join_costs: OnceLock<MediumCosts>,
}

impl MediumProfile {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            speed: OnceLock::new(),
            join_costs: OnceLock::new(),
        }
    }
}

/// Returns the profile of the medium that a path is on, if there is one that can be used.
fn profile_of(path: &Path) -> Option<Profile> {
    match Profile::for_path(path) {
        Ok(found) => found.map(|(_, profile)| profile),
        Err(error) => {
            tracing::warn!(%error, "the profile of the medium is not used: run halocline calibrate again");
            None
        }
    }
}

/// Reads the speed of the device of a file from the profile of its medium; without one, assumes a speed.
fn device_speed(path: &Path) -> DeviceSpeed {
    DeviceSpeed::of_profile(profile_of(path).as_ref())
}

impl PoolMemory {
    /// Returns the memory of an open pool.
    pub fn for_pool(pool: &Pool, options: &DatabaseOptions) -> Self {
        match pool.kind() {
            _ if options.medium.is_some() => Self::slow_tier(pool.path()),
            MediumKind::Dax | MediumKind::AssumedDax => Self::slow_tier(pool.path()),
            MediumKind::PageCache { .. } => Self::file(pool.path()),
            _ => Self::Dram,
        }
    }

    /// Returns the memory of a file behind the page cache.
    pub fn file(path: &Path) -> Self {
        Self::File(MediumProfile::new(path))
    }

    /// Returns a medium that is slower than DRAM and read in place.
    pub fn slow_tier(path: &Path) -> Self {
        Self::SlowTier(MediumProfile::new(path))
    }

    /// Returns the speed of the device below the page cache, if there is one.
    pub fn device(&self) -> Option<DeviceSpeed> {
        match self {
            Self::File(medium) => Some(*medium.speed.get_or_init(|| device_speed(&medium.path))),
            Self::Dram | Self::SlowTier(_) => None,
        }
    }

    /// Returns the speeds that joins are planned with: those of the profile of the medium, or assumed ones.
    pub fn join_costs(&self) -> Cow<'_, MediumCosts> {
        let of_profile = |medium: &MediumProfile| {
            let costs = profile_of(&medium.path).and_then(|profile| MediumCosts::of_profile(&profile).ok());
            costs.unwrap_or_else(MediumCosts::assumed)
        };
        match self {
            Self::Dram => Cow::Owned(MediumCosts::assumed()),
            Self::SlowTier(medium) | Self::File(medium) => {
                Cow::Borrowed(medium.join_costs.get_or_init(|| of_profile(medium)))
            }
        }
    }

    /// Returns the name of the tier below DRAM, for EXPLAIN; `None` if there is only DRAM.
    pub fn lower_tier(&self) -> Option<&'static str> {
        match self {
            Self::Dram => None,
            Self::SlowTier(_) => Some("the slow tier"),
            Self::File(_) => Some("disk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_profile_is_assumed_to_be_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.pool");
        // A profile above the temporary directory, if there is one, is not ours.
        if Profile::for_path(&path).is_ok_and(|found| found.is_none()) {
            assert_eq!(device_speed(&path), DeviceSpeed::ASSUMED);
        }
        std::fs::write(folder.path().join(Profile::FILE_NAME), "{}").unwrap();
        assert_eq!(device_speed(&path), DeviceSpeed::ASSUMED);
        let memory = PoolMemory::file(&path);
        assert_eq!(memory.device(), Some(DeviceSpeed::ASSUMED));
        assert_eq!(memory.lower_tier(), Some("disk"));
        let slow = PoolMemory::slow_tier(&path);
        assert_eq!(slow.device(), None);
        assert_eq!(*slow.join_costs(), MediumCosts::assumed());
        assert_eq!(*PoolMemory::Dram.join_costs(), MediumCosts::assumed());
    }

    #[test]
    fn a_profile_tells_the_speed_of_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("../media/tests/profiles/version-1.json");
        let mut profile = Profile::read(&frozen).unwrap();
        let costs = MediumCosts::of_profile(&profile).unwrap();
        let known = folder.path().join(Profile::FILE_NAME);
        let device = profile.warm.clone();
        profile.cold = None;
        profile.write(&known).unwrap();
        assert_eq!(device_speed(&folder.path().join("p")), DeviceSpeed::ASSUMED);
        assert_eq!(*PoolMemory::file(&folder.path().join("p")).join_costs(), costs);
        let mut device = halocline_media::AccessFigures {
            random_read_ns: 80_000.0,
            unit_measured: false,
            ..device
        };
        device.strides.clear();
        device.probes.clear();
        let peak = device.peak_read;
        profile.cold = Some(device);
        profile.medium = halocline_media::ProfiledMedium::PageCache;
        profile.write(&known).unwrap();
        let speed = device_speed(&folder.path().join("p"));
        assert_eq!(speed, DeviceSpeed::new(peak, 80_000.0));
        assert!((speed.byte_ns - 1e9 / peak).abs() < 1e-9 && speed.page_ns == 20_000.0);
    }
}
