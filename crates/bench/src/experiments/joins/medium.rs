//! The media of the grid, and the costs of access to them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use halocline_calibrate::{CalibrateOptions, CalibrateTarget, calibrate};
use halocline_costs::machine::MediumCosts;
use halocline_emulator::Device;
use halocline_media::{AccessFigures, Medium, Profile};
use halocline_pool::Pool;

use crate::experiments::media::{MediumLabel, directory};
use crate::experiments::ordered::medium::TreeMedium;
use crate::{Backing, BenchError, Config, Reporter, Settings, SlowTierMedium};

/// Bytes that are copied at a time.
const COPIED: u64 = 1 << 20;

/// A medium on which the tables lie, and spilled rows.
pub(super) struct JoinMedium {
    pub(super) label: MediumLabel,
    pub(super) costs: MediumCosts,
    /// The directory of spilled rows; without one they go to the pool of the tables.
    pub(super) spill: Option<PathBuf>,
}

impl JoinMedium {
    /// Measures the media asked for, and says what they are.
    ///
    /// # Errors
    /// There is no room for a measurement; `--medium` names a medium that is not emulated.
    pub(super) fn all(settings: &Settings, report: &mut Reporter<'_>) -> Result<Vec<JoinMedium>, BenchError> {
        let mut profiles = Vec::new();
        let mut media = Vec::new();
        for &backing in settings.backings(&Backing::ALL) {
            let medium = JoinMedium::new(backing, settings, &mut profiles)?;
            medium.label.announce(report)?;
            media.push(medium);
        }
        Ok(media)
    }

    fn new(
        backing: Backing,
        settings: &Settings,
        profiles: &mut Vec<(PathBuf, Profile)>,
    ) -> Result<JoinMedium, BenchError> {
        let directory = directory(backing, settings);
        let profile = profile_of(&directory, settings, profiles)?;
        let (mut label, costs) = match backing {
            Backing::Dram => {
                let costs = MediumCosts::of_figures(&profile.dram, &profile.dram);
                (MediumLabel::new(backing, "DRAM of this host".to_owned()), costs)
            }
            Backing::Dax | Backing::PageCache => {
                let place = TreeMedium::new(backing, settings)?;
                let label = MediumLabel::new(backing, place.name());
                (label, MediumCosts::of_profile(&profile)?)
            }
            Backing::Emulated => {
                let medium = SlowTierMedium::default();
                let spec = settings.emulated_or(medium, "tables lie in DRAM with --on dram")?;
                let device = Device::new(&spec)?;
                let costs = emulated_costs(&device, &profile.dram, settings.threads());
                (MediumLabel::emulated(device), costs)
            }
        };
        let spill = (backing == Backing::PageCache).then_some(directory);
        let to = match &spill {
            Some(directory) => format!("a file in {}", directory.display()),
            None => "the pool".to_owned(),
        };
        label.text = format!("{}; rows are spilled to {to}", label.text);
        Ok(JoinMedium { label, costs, spill })
    }

    /// Opens a pool with the bytes of the one that lies on `tables`.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn open(&self, tables: &Medium, settings: &Settings) -> Result<Pool, BenchError> {
        let medium = match (&self.label.device, self.label.backing) {
            (Some(device), _) => device.emulate(tables.clone()),
            (None, Backing::Dram) => tables.clone(),
            (None, backing) => {
                let place = TreeMedium::new(backing, settings)?;
                let (medium, _) = place.make("joins")?;
                // The file has no name from here on, so nothing is left however this ends. A new name is
                // synced once, while it is there.
                medium.sync()?;
                drop(place);
                copy(tables, &medium)?;
                medium
            }
        };
        Ok(Pool::open_on(medium)?)
    }

    /// Returns all that is needed to measure on this medium again.
    pub(super) fn config(&self, threads: usize) -> Config {
        let mut config = self.label.config(&self.label.name, threads);
        config.insert("costs".to_owned(), format!("{:?}", self.costs).into());
        config
    }
}

/// Copies all bytes, and writes them to the device behind a page cache, which then has time for the joins.
fn copy(from: &Medium, to: &Medium) -> Result<(), BenchError> {
    to.grow(from.len())?;
    let mut bytes = vec![0; COPIED as usize];
    for at in (0..from.len()).step_by(COPIED as usize) {
        let part = &mut bytes[..COPIED.min(from.len() - at) as usize];
        from.load(at, part);
        to.store(at, part);
    }
    Ok(to.sync()?)
}

/// Returns the profile of the medium under a directory, measured once.
fn profile_of(
    directory: &Path,
    settings: &Settings,
    profiles: &mut Vec<(PathBuf, Profile)>,
) -> Result<Profile, BenchError> {
    if let Some((_, profile)) = profiles.iter().find(|(measured, _)| measured == directory) {
        return Ok(profile.clone());
    }
    let mut options = CalibrateOptions {
        threads: u32::try_from(settings.threads()).unwrap_or(u32::MAX),
        ..CalibrateOptions::default()
    };
    if settings.quick {
        (options.bytes, options.time) = (Some(1 << 20), Duration::from_millis(1));
    }
    let target = CalibrateTarget::Directory(directory.to_owned());
    let profile = calibrate(&target, &options, &AtomicBool::new(false), &mut |_| {})?;
    profiles.push((directory.to_owned(), profile.clone()));
    Ok(profile)
}

/// Returns the costs of an emulated device: bandwidths as it models them, and random reads of which a core
/// has several outstanding, as far as the modelled cache does not hold the bytes.
fn emulated_costs(device: &Device, dram: &AccessFigures, threads: usize) -> MediumCosts {
    let rates = |of: &dyn Fn(usize) -> f64| {
        (1..=threads)
            .map(|threads| (threads, of(threads)))
            .collect::<Vec<_>>()
    };
    let (cache, misses) = (device.spec().cache.bytes(), device.spec().core.misses.max(1));
    let missed = device.random_read_ns() / misses as f64 * 1e-9;
    let dram_reads: Vec<(usize, f64)> = dram
        .probes
        .iter()
        .map(|probe| (probe.bytes as usize, probe.batched_ns * 1e-9))
        .collect();
    let slow_reads = (0..10).map(|doublings| {
        let bytes = cache << doublings;
        let hit = cache as f64 / bytes as f64;
        let cached = dram.probe(bytes).map_or(0.0, |probe| probe.batched_ns * 1e-9);
        (bytes as usize, cached + (1.0 - hit) * missed)
    });
    MediumCosts::new(
        &rates(&|threads| device.read_bandwidth(threads)),
        &rates(&|threads| device.write_bandwidth(threads)),
        device.profile().unit as usize,
        &dram_reads,
        &slow_reads.collect::<Vec<_>>(),
    )
}
