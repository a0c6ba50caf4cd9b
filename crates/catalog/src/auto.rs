//! `placement = 'auto'`: the recent selections through each index, and the placement chosen for it.
//!
//! Invariant: recording a selection never blocks a query.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use halocline_cache::Placement;
use halocline_columns::Table;
use halocline_elf::{AdviseOptions, PlaceOptions, Query, TableIndex};
use halocline_emulator::EmulatedSpec;
use halocline_sql::EngineError;

use super::selections::{self, IndexSelection};
use super::synthetic;

/// Number of recent selections kept for each index.
const MAX_RECORDED_SELECTIONS: usize = 256;
/// Least number of selections that represent a workload.
const MIN_WORKLOAD_SELECTIONS: usize = 16;
/// Approximate time limit of the advice that a query waits for.
const ADVICE_TIME_LIMIT: Duration = Duration::from_millis(500);

/// The placement chosen for an index.
#[derive(Debug, Clone)]
pub struct PlacementChoice {
    /// The placement.
    pub placement: Placement,
    /// The reason for it, as `EXPLAIN` and `info` show it.
    pub reason: String,
}

/// Chooses placements for the indexes of a database, by their workloads.
#[derive(Debug)]
pub struct PlacementAdvisor {
    medium: EmulatedSpec,
    workloads: Mutex<BTreeMap<String, VecDeque<IndexSelection>>>,
    choices: Mutex<BTreeMap<String, PlacementChoice>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlacementAdvisor {
    /// Creates an advisor for pools on a medium, which has seen no selection yet.
    pub fn new(medium: EmulatedSpec) -> Self {
        Self {
            medium,
            workloads: Mutex::default(),
            choices: Mutex::default(),
        }
    }

    /// Records a selection through an index, unless another thread is recording.
    pub fn record(&self, name: &str, selection: impl FnOnce() -> Option<IndexSelection>) {
        let mut workloads = match self.workloads.try_lock() {
            Ok(workloads) => workloads,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(selection) = selection() {
            if !workloads.contains_key(name) {
                workloads.insert(name.to_owned(), VecDeque::new());
            }
            if let Some(workload) = workloads.get_mut(name) {
                if workload.len() == MAX_RECORDED_SELECTIONS {
                    workload.pop_front();
                }
                workload.push_back(selection);
            }
        }
    }

    /// Returns queries like those that the index answers, and a description of them.
    ///
    /// # Errors
    /// The table's columns cannot be read.
    pub fn sample(
        &self,
        index: &TableIndex,
        table: &Table,
    ) -> Result<(Vec<Vec<Query>>, String), EngineError> {
        let recorded = lock(&self.workloads)
            .get(index.name())
            .cloned()
            .unwrap_or_default();
        if recorded.len() < MIN_WORKLOAD_SELECTIONS {
            let source = "made-up queries: rows of the table, and ranges of 2 % around them";
            return Ok((synthetic::sample(index, table)?, source.to_owned()));
        }
        let source = format!("the last {} selections of this process", recorded.len());
        Ok((selections::sample(recorded.iter(), index), source))
    }

    /// Returns the placement chosen for an index within `dram` bytes, and chooses it on the first call.
    ///
    /// # Errors
    /// The table's columns or the index cannot be read.
    pub fn resolve(
        &self,
        index: &TableIndex,
        table: &Table,
        dram: Option<u64>,
        free: u64,
    ) -> Result<PlaceOptions, EngineError> {
        let options = |placement| PlaceOptions::default().with_placement(placement).with_dram(dram);
        if let Some(picked) = self.choice(index.name()) {
            return Ok(options(picked.placement));
        }
        let picked = self.choose(index, table, dram.unwrap_or(u64::MAX).min(free))?;
        tracing::info!(
            "index {}: picked {}: {}",
            index.name(),
            picked.placement,
            picked.reason
        );
        let placement = picked.placement;
        lock(&self.choices).insert(index.name().to_owned(), picked);
        Ok(options(placement))
    }

    fn choose(&self, index: &TableIndex, table: &Table, dram: u64) -> Result<PlacementChoice, EngineError> {
        if self.medium.profile.device == self.medium.profile.dram {
            return Ok(PlacementChoice {
                placement: Placement::SlowOnly,
                reason: "the medium is as fast as DRAM".into(),
            });
        }
        let size: u64 = index.segments().iter().map(|segment| segment.elf().size()).sum();
        let options = AdviseOptions {
            most: ADVICE_TIME_LIMIT,
            // No placement can use more.
            ..AdviseOptions::new(dram.min(2 * size + (1 << 20)), self.medium.clone())
        };
        let (sample, _) = self.sample(index, table)?;
        let advice = index.advise(&sample, &options)?;
        Ok(PlacementChoice {
            placement: advice.picked().placement,
            reason: advice.reason,
        })
    }

    /// Returns the placement that was chosen for an index.
    pub fn choice(&self, name: &str) -> Option<PlacementChoice> {
        lock(&self.choices).get(name).cloned()
    }

    /// Forgets the choice for this index, or for all indexes, so that it is made anew.
    pub fn forget(&self, name: Option<&str>) {
        let mut picked = lock(&self.choices);
        match name {
            Some(name) => drop(picked.remove(name)),
            None => picked.clear(),
        }
    }

    /// Forgets indexes that no longer exist.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.choices).retain(|name, _| is_there(name));
        lock(&self.workloads).retain(|name, _| is_there(name));
    }
}
