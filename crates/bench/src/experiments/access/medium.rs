//! The media of the experiments on access patterns: [`AccessMedium`].

use std::sync::Arc;

use halocline_emulator::{CacheShape, Device, DeviceProfile, EmulatedSpec};
use halocline_media::{Dram, LINE, Medium, MediumKind, kernels};

use crate::experiments::ordered::medium::TreeMedium;
use crate::medium::device_config;
use crate::{Backing, BenchError, Config, Settings, config};

/// A medium whose accesses are measured.
pub(super) struct AccessMedium {
    /// Its name in results.
    pub(super) name: String,
    pub(super) medium: Medium,
    /// The emulated device it is on, if any.
    pub(super) device: Option<Arc<Device>>,
    text: String,
    backing: Backing,
    /// Keeps the directory of a file.
    _place: Option<TreeMedium>,
}

impl AccessMedium {
    /// Makes the medium of a kind, filled with at least `bytes`; for an emulated one, also DRAM that is
    /// emulated the same way.
    ///
    /// # Errors
    /// There is no room for it; `--medium` names none that is emulated.
    pub(super) fn make(
        backing: Backing,
        bytes: u64,
        settings: &Settings,
    ) -> Result<Vec<AccessMedium>, BenchError> {
        let direct = |medium: Medium, text: String, place: Option<TreeMedium>| AccessMedium {
            name: backing.name().to_owned(),
            medium,
            device: None,
            text,
            backing,
            _place: place,
        };
        let mut media = match backing {
            Backing::Dram => vec![direct(
                Dram::new(bytes)?.into(),
                "DRAM of this host".to_owned(),
                None,
            )],
            Backing::Dax | Backing::PageCache => {
                let place = TreeMedium::new(backing, settings)?;
                let (medium, _) = place.make("access")?;
                vec![direct(medium, place.name(), Some(place))]
            }
            Backing::Emulated => {
                let (_, device) = TreeMedium::new(backing, settings)?.make("access")?;
                let spec = device.map(|device| device.spec().clone());
                let twin = spec.clone().map(|spec| EmulatedSpec {
                    profile: DeviceProfile::dram(),
                    ..spec
                });
                let specs = [spec, twin].into_iter().flatten();
                specs.map(|spec| emulated(&spec)).collect::<Result<_, _>>()?
            }
        };
        for made in &mut media {
            made.medium.grow(bytes)?;
            kernels::link(&made.medium, bytes);
        }
        Ok(media)
    }

    /// Returns the medium in words.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns all that is needed to measure on this medium again, and `threads`.
    pub(super) fn config(&self, threads: usize) -> Config {
        let mut config = config! {
            "on": self.backing.name(),
            "medium": self.text.clone(),
            "threads": threads,
        };
        if let Some(device) = &self.device {
            config.extend(device_config(device));
        }
        config
    }

    /// Returns the same with one number more.
    pub(super) fn config_with(&self, threads: usize, name: &str, value: u64) -> Config {
        let mut config = self.config(threads);
        config.insert(name.to_owned(), value.into());
        config
    }

    /// Returns the bytes that an access moves. Pages of the page cache are resident, so it is a line there.
    pub(super) fn unit(&self) -> u64 {
        match (&self.device, self.medium.kind()) {
            (Some(device), _) => device.profile().unit,
            (None, MediumKind::PageCache { .. }) => LINE,
            (None, kind) => kind.unit(),
        }
    }

    /// Returns the bytes of the last-level cache above the medium.
    pub(super) fn cache_bytes(&self) -> u64 {
        match &self.device {
            Some(device) => device.spec().cache.bytes(),
            None => CacheShape::host().bytes(),
        }
    }
}

fn emulated(spec: &EmulatedSpec) -> Result<AccessMedium, BenchError> {
    let device = Device::new(spec)?;
    Ok(AccessMedium {
        name: format!("emulated {}", spec.profile.name),
        medium: device.emulate(Dram::new(0)?),
        text: format!("{device}"),
        device: Some(device),
        backing: Backing::Emulated,
        _place: None,
    })
}
