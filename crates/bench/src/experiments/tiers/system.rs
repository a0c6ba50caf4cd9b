//! Systems to compare: an index in DRAM, or on the slow tier with something of it in DRAM.

use std::sync::Arc;
use std::time::Duration;

use halocline_cache::Placement;
use halocline_elf::{Elf, ElfError, PlaceOptions, PlacementStatus};
use halocline_emulator::{ClockMode, Counts, Device, DeviceProfile, EmulatedBytes, EmulatedSpec, Watch};
use halocline_media::HugeVec;
use serde_json::{Value, json};

use super::index::Checksum;
use super::{Index, Queries, SelectionMode};
use crate::machine;
use crate::medium::device_config;
use crate::{BenchError, Config, Settings, SlowTierMedium, config};

/// The slow tier.
#[derive(Debug)]
pub(in crate::experiments) struct Tier {
    medium: SlowTierMedium,
    /// As it describes itself; every system gets a device of its own.
    model: Option<Arc<Device>>,
}

impl Tier {
    pub(in crate::experiments) fn new(settings: &Settings) -> Result<Self, BenchError> {
        let medium = settings.tiers.medium();
        let model = match &medium {
            SlowTierMedium::Dram => None,
            SlowTierMedium::Emulated(spec) => Some(Device::new(spec)?),
        };
        Ok(Self { medium, model })
    }

    /// Its name in figures and results.
    pub(in crate::experiments) fn name(&self) -> String {
        self.model
            .as_ref()
            .map_or_else(|| "DRAM".to_owned(), |device| device.to_string())
    }

    /// The emulated device, if it is one.
    pub(in crate::experiments) fn emulated(&self) -> Option<&EmulatedSpec> {
        self.model.as_ref().map(|device| device.spec())
    }

    /// Returns true if time is real, not that of a virtual clock.
    pub(in crate::experiments) fn is_real(&self) -> bool {
        !matches!(&self.medium, SlowTierMedium::Emulated(spec) if spec.clock == ClockMode::Virtual)
    }

    /// Returns true if the tier is slower than DRAM, in real time.
    pub(in crate::experiments) fn is_delayed(&self) -> bool {
        self.is_real() && self.model.is_some()
    }

    /// Returns the parameters that reproduce the emulated tier.
    pub(in crate::experiments) fn config(&self) -> Vec<(String, Value)> {
        self.model.as_ref().map_or(vec![], |device| device_config(device))
    }

    /// A device of this kind that nothing has used yet.
    pub(in crate::experiments) fn device(&self) -> Result<Option<Arc<Device>>, BenchError> {
        Ok(match &self.medium {
            SlowTierMedium::Dram => None,
            SlowTierMedium::Emulated(spec) => Some(Device::new(spec)?),
        })
    }

    /// The index on a device with the figures of this host's DRAM; `None` without real delays.
    pub(super) fn twin(&self, bytes: &Arc<HugeVec<u8>>) -> Result<Option<IndexSystem>, BenchError> {
        let (Some(model), true) = (&self.model, self.is_delayed()) else {
            return Ok(None);
        };
        let spec = EmulatedSpec {
            profile: DeviceProfile::dram(),
            host: model.host().cloned(),
            ..model.spec().clone()
        };
        let twin = Self {
            medium: SlowTierMedium::Emulated(Box::new(spec)),
            model: None,
        };
        twin.open(bytes).map(Some)
    }

    /// The index on this tier.
    pub(in crate::experiments) fn open(&self, bytes: &Arc<HugeVec<u8>>) -> Result<IndexSystem, BenchError> {
        let device = self.device()?;
        let index: Box<dyn Index> = match &device {
            None => Box::new(Elf::open(Arc::clone(bytes))?),
            Some(device) => {
                let bytes = EmulatedBytes::new(Arc::clone(bytes), Arc::clone(device));
                Box::new(Elf::open(bytes)?)
            }
        };
        Ok(IndexSystem {
            name: Placement::SlowOnly.to_string(),
            index,
            device,
            budget: None,
            counted: None,
            way: SelectionMode::Sequential,
        })
    }

    /// Why an index cannot be placed so, whatever the budget; none if it can.
    pub(in crate::experiments) fn why_not(
        &self,
        bytes: &Arc<HugeVec<u8>>,
        placement: Placement,
    ) -> Result<Option<String>, BenchError> {
        let elf = Elf::open(Arc::clone(bytes))?;
        let placed = elf.place(
            &PlaceOptions::default()
                .with_placement(placement)
                .with_dram(Some(0)),
        );
        match placed {
            Err(error @ ElfError::Placement { .. }) => Ok(Some(format!("layout {}: {error}", elf.layout()))),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    }

    /// The index on this tier with something of it in DRAM, and how much DRAM that has taken.
    pub(in crate::experiments) fn place(
        &self,
        bytes: &Arc<HugeVec<u8>>,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<IndexSystem, BenchError> {
        let slow = self.open(bytes)?;
        let options = PlaceOptions::default()
            .with_placement(placement)
            .with_dram(budget);
        // Once to warm up: what the allocator keeps is then not counted.
        drop(slow.index.place(&options)?);
        let before = machine::counted_dram();
        let index = slow.index.place(&options)?;
        if !self.is_real() {
            // A clock that counts reads knows nothing of another thread's.
            index.copy_alone();
        }
        let counted = machine::counted_dram()
            .zip(before)
            .map(|(after, before)| after as f64 - before as f64);
        Ok(IndexSystem {
            name: placement.to_string(),
            index,
            budget,
            counted,
            ..slow
        })
    }
}

/// One of those that are compared.
pub(in crate::experiments) struct IndexSystem {
    pub(in crate::experiments) name: String,
    pub(in crate::experiments) index: Box<dyn Index>,
    device: Option<Arc<Device>>,
    /// Bytes of DRAM it may have.
    pub(in crate::experiments) budget: Option<u64>,
    /// Bytes of DRAM that the system says it took.
    pub(in crate::experiments) counted: Option<f64>,
    way: SelectionMode,
}

/// Time and counters of a batch of queries.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiments) struct BatchCost {
    /// Real ones without `overrun`, or those of the device's own clock.
    pub(in crate::experiments) seconds: f64,
    /// Seconds that the emulation itself was late and never caught up with: of the thread that had most of
    /// it.
    pub(in crate::experiments) overrun: f64,
    /// Seconds, part of the others, that cores waited for the device.
    pub(in crate::experiments) waited: f64,
    pub(in crate::experiments) counts: Counts,
    pub(in crate::experiments) checksum: Checksum,
}

impl IndexSystem {
    /// The index in DRAM alone.
    pub(in crate::experiments) fn volatile(bytes: &Arc<HugeVec<u8>>) -> Result<Self, BenchError> {
        Ok(Self {
            name: Placement::Volatile.to_string(),
            index: Box::new(Elf::open(Arc::clone(bytes))?),
            device: None,
            budget: None,
            counted: None,
            way: SelectionMode::Sequential,
        })
    }

    /// The same with selections run that way, which it is then called by.
    pub(in crate::experiments) fn run_by(self, way: SelectionMode) -> Self {
        Self {
            name: way.name().to_owned(),
            way,
            ..self
        }
    }

    /// The same under another name.
    pub(in crate::experiments) fn named(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    /// Opens what is durable of it again, and places it.
    pub(in crate::experiments) fn reopen(
        &self,
        options: &PlaceOptions,
    ) -> Result<Box<dyn Index>, BenchError> {
        self.index.reopen(options)
    }

    pub(in crate::experiments) fn placed(&self) -> PlacementStatus {
        self.index.placed()
    }

    /// Says what a call of the emulation costs the index.
    pub(super) fn charge(&self, call: Duration) {
        if let Some(device) = &self.device {
            device.charge(call);
        }
    }

    /// Returns the configuration of this system.
    pub(in crate::experiments) fn config(&self) -> Config {
        let placed = self.placed();
        let mut config = config! {
            "layout": self.index.layout(),
            "placement": self.name,
            "way": self.way.name(),
            "size": self.index.size(),
            "dram_bytes": placed.dram_bytes,
        };
        if let Some(budget) = self.budget {
            config.insert("budget".to_owned(), json!(budget));
        }
        if let Some(fallback) = placed.fallback {
            config.insert("fallback".to_owned(), json!(fallback));
        }
        config
    }

    /// Asks all queries once, and adds the DRAM that this takes to what it has.
    pub(in crate::experiments) fn warm_up(&mut self, queries: &Queries) -> Result<(), BenchError> {
        let before = machine::counted_dram();
        self.index.ask(queries, queries.len(), &self.way)?;
        // What is copied beside the queries would else count as another's.
        self.index.wait_for_copies();
        let more = machine::counted_dram()
            .zip(before)
            .map(|(after, before)| after as f64 - before as f64);
        self.counted = self.counted.zip(more).map(|(counted, more)| counted + more);
        Ok(())
    }

    /// Asks the first `count` queries, `passes` times.
    pub(in crate::experiments) fn ask(
        &self,
        queries: &Queries,
        count: usize,
        passes: usize,
    ) -> Result<BatchCost, BenchError> {
        // Another thread may be copying lists meanwhile.
        let watch = match &self.way {
            SelectionMode::Sequential => Watch::start_alone(self.device.as_ref()),
            SelectionMode::Parallel(_) | SelectionMode::Chosen(_) => Watch::start(self.device.as_ref()),
        };
        let mut checksum = Checksum::default();
        for _ in 0..passes {
            checksum = self.index.ask(queries, count, &self.way)?;
        }
        let lap = watch.lap();
        Ok(BatchCost {
            seconds: lap.time.as_secs_f64(),
            overrun: lap.overrun.as_secs_f64(),
            waited: lap.waited.as_secs_f64(),
            counts: lap.counts,
            checksum,
        })
    }
}
