//! The media of the experiments on access patterns: [`AccessMedium`].

use halocline_calibrate::kernels;
use halocline_emulator::{CacheShape, Device, EmulatedSpec};
use halocline_media::{Dram, LINE, Medium, MediumKind};

use crate::experiments::media::MediumLabel;
use crate::experiments::ordered::medium::TreeMedium;
use crate::{Backing, BenchError, Config, Settings, SlowTierMedium};

/// A medium whose accesses are measured.
pub(super) struct AccessMedium {
    pub(super) label: MediumLabel,
    pub(super) medium: Medium,
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
        let mut media = match backing {
            Backing::Dram => vec![AccessMedium {
                label: MediumLabel::new(backing, "DRAM of this host".to_owned()),
                medium: Dram::new(bytes)?.into(),
                _place: None,
            }],
            Backing::Dax | Backing::PageCache => {
                let place = TreeMedium::new(backing, settings)?;
                vec![AccessMedium {
                    label: MediumLabel::new(backing, place.name()),
                    medium: place.make("access")?.0,
                    _place: Some(place),
                }]
            }
            Backing::Emulated => {
                let medium = SlowTierMedium::default();
                let spec = settings.emulated_or(medium, "DRAM is measured with --on dram")?;
                let dram = spec.dram_beside();
                vec![emulated(&spec)?, emulated(&dram)?]
            }
        };
        for made in &mut media {
            made.medium.grow(bytes)?;
            kernels::link(&made.medium, bytes);
        }
        Ok(media)
    }

    /// Returns all that is needed to measure on this medium again, and `threads`.
    pub(super) fn config(&self, threads: usize) -> Config {
        self.label.config(self.label.backing.name(), threads)
    }

    /// Returns the same with one number more.
    pub(super) fn config_with(&self, threads: usize, name: &str, value: u64) -> Config {
        let mut config = self.config(threads);
        config.insert(name.to_owned(), value.into());
        config
    }

    /// Returns the bytes that an access moves. Pages of the page cache are resident, so it is a line there.
    pub(super) fn unit(&self) -> u64 {
        match (&self.label.device, self.medium.kind()) {
            (Some(device), _) => device.profile().unit,
            (None, MediumKind::PageCache { .. }) => LINE,
            (None, kind) => kind.unit(),
        }
    }

    /// Returns the bytes of the last-level cache above the medium.
    pub(super) fn cache_bytes(&self) -> u64 {
        match &self.label.device {
            Some(device) => device.spec().cache.bytes(),
            None => CacheShape::host().bytes(),
        }
    }
}

fn emulated(spec: &EmulatedSpec) -> Result<AccessMedium, BenchError> {
    let device = Device::new(spec)?;
    Ok(AccessMedium {
        medium: device.emulate(Dram::new(0)?),
        label: MediumLabel::emulated(device),
        _place: None,
    })
}
