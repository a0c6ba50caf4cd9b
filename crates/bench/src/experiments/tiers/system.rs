//! Systems to compare: an index in DRAM, or on the slow tier with something of it in DRAM.

use std::sync::Arc;
use std::time::Duration;

use halocline_cache::Placement;
use halocline_elf::{Elf, PlaceOptions, PlacementStatus};
use halocline_emulator::{Counts, Device, Watch};
use halocline_measure::machine;
use halocline_media::{Bytes, HugeVec};
use serde_json::json;

use super::index::Checksum;
use super::{Index, Queries, SelectionMode};
use crate::{BenchError, Config, config};

/// The memory that an index is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) enum IndexMemory {
    /// This host's own DRAM. No read is charged.
    HostDram,
    /// DRAM that is emulated as the slow tier is.
    EmulatedDram,
    /// The emulated slow tier. Copies in DRAM are read from this host's, and not charged.
    SlowTier,
}

/// One of those that are compared.
pub(in crate::experiments) struct IndexSystem {
    pub(in crate::experiments) name: String,
    pub(in crate::experiments) index: Box<dyn Index>,
    pub(super) placement: Placement,
    pub(super) memory: IndexMemory,
    pub(super) device: Option<Arc<Device>>,
    /// Bytes of DRAM it may have.
    pub(in crate::experiments) budget: Option<u64>,
    /// Bytes of DRAM that the system says it took.
    pub(in crate::experiments) counted: Option<f64>,
    /// Of a whole copy that the index was opened over.
    pub(super) copied: Option<PlacementStatus>,
    pub(super) way: SelectionMode,
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
    /// Opens the index in this host's DRAM alone.
    pub(in crate::experiments) fn volatile(bytes: &Arc<HugeVec<u8>>) -> Result<Self, BenchError> {
        Self::over(Arc::clone(bytes), Placement::Volatile)
    }

    /// Opens the index over bytes that are not a copy. The system is named after the placement.
    pub(super) fn over(bytes: impl Bytes, placement: Placement) -> Result<Self, BenchError> {
        Ok(Self {
            name: placement.to_string(),
            index: Box::new(Elf::open(bytes)?),
            placement,
            memory: IndexMemory::HostDram,
            device: None,
            budget: None,
            counted: None,
            copied: None,
            way: SelectionMode::Sequential,
        })
    }

    /// Returns true if all of the index is in DRAM, and nothing of it durable.
    pub(in crate::experiments) fn is_volatile(&self) -> bool {
        self.placement == Placement::Volatile
    }

    /// Returns the memory that the index is read from.
    pub(in crate::experiments) fn memory(&self) -> IndexMemory {
        self.memory
    }

    /// Sets how selections are run, and names the system after that.
    pub(in crate::experiments) fn run_by(self, way: SelectionMode) -> Self {
        Self {
            name: way.name().to_owned(),
            way,
            ..self
        }
    }

    /// Renames the system.
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
        self.copied.clone().unwrap_or_else(|| self.index.placed())
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
            "memory": self.memory_name(),
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

    /// Returns the memory that the index is read from, in words.
    fn memory_name(&self) -> String {
        match &self.device {
            None => "DRAM of this host".to_owned(),
            Some(device) => device.to_string(),
        }
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
