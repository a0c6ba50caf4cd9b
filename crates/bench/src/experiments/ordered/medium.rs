//! Where the trees of an experiment lie: a directory for the files of one run, or an emulated device for each
//! tree.

use std::path::PathBuf;
use std::sync::Arc;

use halocline_emulator::{ClockMode, Device, EmulatedSpec};
use halocline_media::{Dram, FileMedium, FileOptions, Medium};
use halocline_pool::{Pool, PoolError, PoolOptions};
use tempfile::TempDir;

use crate::experiments::media::temporary_directory;
use crate::medium::host_dram;
use crate::{Backing, BenchError, Reporter, Settings, SlowTierMedium};

/// Bytes of a new medium that is no file; it grows.
const BYTES: u64 = 1 << 20;

/// A medium on which trees are made.
pub(in crate::experiments) struct TreeMedium {
    pub(in crate::experiments) medium: Backing,
    spec: Option<EmulatedSpec>,
    directory: TempDir,
}

/// A new medium, with the emulated device it lies on.
pub(in crate::experiments) type NewMedium = (Medium, Option<Arc<Device>>);

/// A new medium on an emulated device.
pub(in crate::experiments) type OnDevice = (Medium, Arc<Device>);

impl TreeMedium {
    /// Creates the directory of a run, and takes the emulated device from the settings if `medium` is
    /// emulated.
    ///
    /// # Errors
    /// `medium` is [`Backing::Dram`]; the directory cannot be created; `--medium` names no emulated medium.
    pub(in crate::experiments) fn new(medium: Backing, settings: &Settings) -> Result<Self, BenchError> {
        if medium == Backing::Dram {
            return Err(BenchError::Setup(
                "trees lie in a pool's file or on the emulated medium: in DRAM they are with --on dax"
                    .to_owned(),
            ));
        }
        let directory = temporary_directory(medium, settings)?;
        let spec = match medium {
            Backing::Emulated => {
                let default = SlowTierMedium::default();
                Some(settings.emulated_or(default, "trees lie on DRAM with --on dax")?)
            }
            _ => None,
        };
        Ok(Self {
            medium,
            spec,
            directory,
        })
    }

    /// Returns a description of the medium, for people and programs.
    pub(in crate::experiments) fn name(&self) -> String {
        let directory = || {
            let parent = self.directory.path().parent();
            parent.map_or_else(String::new, |parent| parent.display().to_string())
        };
        match (&self.spec, self.medium) {
            (Some(spec), _) => format!("{spec} over DRAM"),
            (None, Backing::Dax) => format!("file in {}, taken for DAX", directory()),
            (None, _) => format!("page-cache file in {}", directory()),
        }
    }

    /// Reports the description of the medium, and adds it to every value that follows.
    pub(in crate::experiments) fn announce(&self, report: &mut Reporter<'_>) -> Result<(), BenchError> {
        report.set("on", self.medium.name());
        report.set("medium", self.name());
        match &self.spec {
            None => report.line(&format!("medium: {}", self.name())),
            Some(spec) => crate::medium::announce(Some(&Device::new(spec)?), report),
        }
    }

    /// Returns the path of the file named `name` in the directory of the run.
    pub(in crate::experiments) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Creates an empty medium: on an emulated device of its own if there is one, otherwise in the file named
    /// `name`.
    pub(in crate::experiments) fn make(&self, name: &str) -> Result<NewMedium, BenchError> {
        match &self.spec {
            Some(spec) => on_device(spec).map(|(medium, device)| (medium, Some(device))),
            None => Ok((self.file(name, self.medium == Backing::Dax)?, None)),
        }
    }

    /// Creates two empty media: a file in DRAM that is assumed to be DAX, so that flushes are executed, and a
    /// medium on a device with the figures of this host's DRAM and cache. Returns `None` if there are no real
    /// delays.
    pub(in crate::experiments) fn make_twins(
        &self,
        name: &str,
    ) -> Result<Option<(Medium, OnDevice)>, BenchError> {
        let Some(spec) = self.spec.as_ref().filter(|spec| spec.clock == ClockMode::Delay) else {
            return Ok(None);
        };
        Ok(Some((self.file(name, true)?, on_device(&host_dram(spec))?)))
    }

    fn file(&self, name: &str, assume_dax: bool) -> Result<Medium, BenchError> {
        let options = FileOptions {
            create: true,
            assume_dax,
            ..FileOptions::default()
        };
        let medium = FileMedium::open(self.path(name), &options)?;
        Ok(Medium::from(medium))
    }

    /// Opens the pool in the file of that name again.
    pub(in crate::experiments) fn open(&self, name: &str) -> Result<Pool, PoolError> {
        let options = PoolOptions::default().with_assume_dax(self.medium == Backing::Dax);
        Pool::open(self.path(name), &options)
    }
}

fn on_device(spec: &EmulatedSpec) -> Result<OnDevice, BenchError> {
    let device = Device::new(spec)?;
    let medium = device.emulate(Dram::new(BYTES)?);
    Ok((medium, device))
}
