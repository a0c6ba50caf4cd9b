//! The two tiers of memory below an index, and the systems on them.
//!
//! Where the slow tier is emulated, DRAM is emulated the same way, with the figures of DRAM below the same
//! modelled cache, so that the two tiers differ in nothing else: [`Tier::baselines`]. An index that is wholly
//! in DRAM is read there. Copies of a part of one are not: their reads are not reported to any medium, and
//! take what the host's own DRAM and caches take.

use std::sync::Arc;

use halocline_cache::Placement;
use halocline_elf::{Elf, ElfError, PlaceOptions, PlacementStatus};
use halocline_emulator::{ClockMode, Device, EmulatedBytes, EmulatedSpec};
use halocline_measure::machine;
use halocline_media::HugeVec;
use serde_json::Value;

use super::{IndexMemory, IndexSystem};
use crate::medium::{device_config, host_dram};
use crate::{BenchError, Settings, SlowTierMedium};

/// Names of the index in DRAM where the slow tier is emulated: on DRAM that is emulated the same way, and on
/// this host's.
pub(in crate::experiments) const IN_EMULATED_DRAM: &str = "volatile, emulated DRAM";
pub(in crate::experiments) const IN_HOST_DRAM: &str = "volatile, host DRAM";

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

    /// Returns the name of the tier in figures and results.
    pub(in crate::experiments) fn name(&self) -> String {
        self.model
            .as_ref()
            .map_or_else(|| "DRAM".to_owned(), |device| device.to_string())
    }

    /// Returns the specification of the emulated device, or `None` if the tier is DRAM.
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

    /// Creates an unused device of this kind, or returns `None` if the tier is DRAM.
    pub(in crate::experiments) fn device(&self) -> Result<Option<Arc<Device>>, BenchError> {
        Ok(match &self.medium {
            SlowTierMedium::Dram => None,
            SlowTierMedium::Emulated(spec) => Some(Device::new(spec)?),
        })
    }

    /// Creates an unused device with the figures of DRAM below the modelled cache of this tier, or returns
    /// `None` if the tier is DRAM.
    fn dram(&self) -> Result<Option<Arc<Device>>, BenchError> {
        let spec = self.emulated().map(EmulatedSpec::dram_beside);
        Ok(spec.map(|spec| Device::new(&spec)).transpose()?)
    }

    /// Opens the index on an emulation of this host's DRAM and cache, or returns `None` if there are no real
    /// delays.
    pub(super) fn twin(&self, bytes: &Arc<HugeVec<u8>>) -> Result<Option<IndexSystem>, BenchError> {
        let Some(spec) = self.emulated().filter(|_| self.is_delayed()) else {
            return Ok(None);
        };
        let device = Device::new(&host_dram(spec))?;
        emulated(bytes, device, Placement::Volatile, IndexMemory::EmulatedDram).map(Some)
    }

    /// Opens the index in DRAM, which is emulated if this tier is.
    pub(in crate::experiments) fn volatile(
        &self,
        bytes: &Arc<HugeVec<u8>>,
    ) -> Result<IndexSystem, BenchError> {
        Ok(match self.dram()? {
            None => IndexSystem::volatile(bytes)?,
            Some(device) => emulated(bytes, device, Placement::Volatile, IndexMemory::EmulatedDram)?
                .named(IN_EMULATED_DRAM),
        })
    }

    /// Opens the systems that all others are compared with: the index in DRAM, emulated if this tier is; if
    /// the tier has real delays, the index in this host's own DRAM; and the index on this tier alone.
    pub(in crate::experiments) fn baselines(
        &self,
        bytes: &Arc<HugeVec<u8>>,
    ) -> Result<Vec<IndexSystem>, BenchError> {
        let mut systems = vec![self.volatile(bytes)?];
        if self.is_delayed() {
            systems.push(IndexSystem::volatile(bytes)?.named(IN_HOST_DRAM));
        }
        systems.push(self.open(bytes)?);
        Ok(systems)
    }

    /// Opens the index on this tier.
    pub(in crate::experiments) fn open(&self, bytes: &Arc<HugeVec<u8>>) -> Result<IndexSystem, BenchError> {
        match self.device()? {
            None => IndexSystem::over(Arc::clone(bytes), Placement::SlowOnly),
            Some(device) => emulated(bytes, device, Placement::SlowOnly, IndexMemory::SlowTier),
        }
    }

    /// Returns the reason why an index cannot have a placement, regardless of the budget, or `None` if it
    /// can.
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

    /// Opens the index on this tier with part of it in DRAM, and measures the DRAM that this takes.
    pub(in crate::experiments) fn place(
        &self,
        bytes: &Arc<HugeVec<u8>>,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<IndexSystem, BenchError> {
        let fits = budget.is_none_or(|budget| bytes.len() as u64 <= budget);
        if placement == Placement::Hybrid
            && fits
            && let Some(device) = self.dram()?
        {
            return copied(bytes, device, budget);
        }
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
            placement,
            index,
            budget,
            counted,
            ..slow
        })
    }
}

/// Opens the index on a device.
fn emulated(
    bytes: &Arc<HugeVec<u8>>,
    device: Arc<Device>,
    placement: Placement,
    memory: IndexMemory,
) -> Result<IndexSystem, BenchError> {
    let bytes = EmulatedBytes::new(Arc::clone(bytes), Arc::clone(&device));
    let mut system = IndexSystem::over(bytes, placement)?;
    (system.device, system.memory) = (Some(device), memory);
    Ok(system)
}

/// Copies the whole index to emulated DRAM and opens the copy. [`Elf::place`] would have it read from this
/// host's DRAM.
fn copied(
    bytes: &Arc<HugeVec<u8>>,
    device: Arc<Device>,
    budget: Option<u64>,
) -> Result<IndexSystem, BenchError> {
    let before = machine::counted_dram();
    let copy = HugeVec::copy_of(bytes)?;
    let counted = machine::counted_dram()
        .zip(before)
        .map(|(after, before)| after as f64 - before as f64);
    let placed = PlacementStatus {
        placement: Placement::Hybrid,
        dram_bytes: copy.mapped_bytes() as u64,
        fallback: None,
    };
    let system = emulated(
        &Arc::new(copy),
        device,
        Placement::Hybrid,
        IndexMemory::EmulatedDram,
    )?;
    Ok(IndexSystem {
        budget,
        counted,
        copied: Some(placed),
        ..system
    })
}
