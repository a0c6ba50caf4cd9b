//! The media of a list that an experiment runs on, as files and in results.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use halocline_emulator::Device;
use tempfile::TempDir;

use crate::medium::device_config;
use crate::{Backing, BenchError, Config, Reporter, Settings, config};

/// Files here are in DRAM.
const IN_DRAM: &str = "/dev/shm";

/// Returns the directory of files on a kind of medium: for the page cache that of the settings, or else the
/// directory of the system for temporary files; for the others one in DRAM, where there is one.
pub(super) fn directory(backing: Backing, settings: &Settings) -> PathBuf {
    let in_dram = Path::new(IN_DRAM);
    match backing {
        Backing::Dram | Backing::Dax | Backing::Emulated if in_dram.is_dir() => in_dram.to_owned(),
        _ => settings.directory.clone().unwrap_or_else(std::env::temp_dir),
    }
}

/// Makes a directory there, which is removed with the returned value.
///
/// # Errors
/// It cannot be made.
pub(super) fn temporary_directory(backing: Backing, settings: &Settings) -> Result<TempDir, BenchError> {
    let there = Settings {
        directory: Some(directory(backing, settings)),
        ..Settings::default()
    };
    there.temporary_directory()
}

/// A medium of the list in results.
#[derive(Debug, Clone)]
pub(super) struct MediumLabel {
    /// The system that results name.
    pub(super) name: String,
    pub(super) backing: Backing,
    /// In words.
    pub(super) text: String,
    /// The emulated device it is on, if any.
    pub(super) device: Option<Arc<Device>>,
}

impl MediumLabel {
    /// Returns the label of a medium that is not emulated.
    pub(super) fn new(backing: Backing, text: String) -> Self {
        Self {
            name: backing.name().to_owned(),
            backing,
            text,
            device: None,
        }
    }

    /// Returns the label of a medium on a device, which is named by its profile.
    pub(super) fn emulated(device: Arc<Device>) -> Self {
        Self {
            name: format!("emulated {}", device.profile().name),
            backing: Backing::Emulated,
            text: device.to_string(),
            device: Some(device),
        }
    }

    /// Says what the medium is.
    pub(super) fn announce(&self, report: &mut Reporter<'_>) -> Result<(), BenchError> {
        report.line(&format!("{}: {}", self.name, self.text))
    }

    /// Returns all that is needed to measure on this medium again.
    pub(super) fn config(&self, on: &str, threads: usize) -> Config {
        let mut config = config! {
            "on": on,
            "medium": self.text.clone(),
            "threads": threads,
        };
        if let Some(device) = &self.device {
            config.extend(device_config(device));
        }
        config
    }
}
