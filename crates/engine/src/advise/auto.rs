//! `placement = 'auto'`: what the running queries ask of each index, and what was picked for it.
//!
//! Invariant: a query never waits to be noted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use halocline_columns::Table;
use halocline_elf::{AdviseOptions, PlaceOptions, Query, TableIndex};
use halocline_emulator::EmulatedSpec;

use super::made_up;
use super::noted::{self, Noted};
use crate::{EngineError, Placement};

/// Selections that are remembered of each index.
const KEPT: usize = 256;
/// Selections that say enough of a workload.
const ENOUGH: usize = 16;
/// How long a query that needs a pick may wait for it, about.
const MOST: Duration = Duration::from_millis(500);

/// What was picked for an index.
#[derive(Debug, Clone)]
pub(crate) struct Picked {
    pub(crate) placement: Placement,
    pub(crate) reason: String,
}

/// The picks for all indexes of a database, and what they are picked by.
#[derive(Debug)]
pub(crate) struct Picks {
    medium: EmulatedSpec,
    workloads: Mutex<BTreeMap<String, VecDeque<Noted>>>,
    picked: Mutex<BTreeMap<String, Picked>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Picks {
    pub(crate) fn new(medium: EmulatedSpec) -> Self {
        Self {
            medium,
            workloads: Mutex::default(),
            picked: Mutex::default(),
        }
    }

    /// A selection goes through an index.
    pub(crate) fn note(&self, name: &str, selection: impl FnOnce() -> Option<Noted>) {
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
                if workload.len() == KEPT {
                    workload.pop_front();
                }
                workload.push_back(selection);
            }
        }
    }

    /// Queries like those that the index answers, and what they are in words.
    ///
    /// # Errors
    /// The table's columns cannot be read.
    pub(crate) fn sample(
        &self,
        index: &TableIndex,
        table: &Table,
    ) -> Result<(Vec<Vec<Query>>, String), EngineError> {
        let noted = lock(&self.workloads)
            .get(index.name())
            .cloned()
            .unwrap_or_default();
        if noted.len() < ENOUGH {
            let source = "made-up queries: rows of the table, and ranges of 2 % around them";
            return Ok((made_up::sample(index, table)?, source.to_owned()));
        }
        let source = format!("the last {} selections of this process", noted.len());
        Ok((noted::sample(noted.iter(), index), source))
    }

    /// How an index is to be placed that is to have the best placement, with `dram` bytes; picked when it is first asked for.
    ///
    /// # Errors
    /// The table's columns or the index cannot be read.
    pub(crate) fn resolve(
        &self,
        index: &TableIndex,
        table: &Table,
        dram: Option<u64>,
        free: u64,
    ) -> Result<PlaceOptions, EngineError> {
        let options = |placement| PlaceOptions { placement, dram };
        if let Some(picked) = self.picked(index.name()) {
            return Ok(options(picked.placement));
        }
        let picked = self.pick(index, table, dram.unwrap_or(u64::MAX).min(free))?;
        tracing::info!(
            "index {}: picked {}: {}",
            index.name(),
            picked.placement,
            picked.reason
        );
        let placement = picked.placement;
        lock(&self.picked).insert(index.name().to_owned(), picked);
        Ok(options(placement))
    }

    fn pick(&self, index: &TableIndex, table: &Table, dram: u64) -> Result<Picked, EngineError> {
        if self.medium.profile.device == self.medium.profile.dram {
            return Ok(Picked {
                placement: Placement::SlowOnly,
                reason: "the medium is as fast as DRAM".into(),
            });
        }
        let size: u64 = index.segments().iter().map(|segment| segment.elf().size()).sum();
        let options = AdviseOptions {
            most: MOST,
            // No placement has a use for more.
            ..AdviseOptions::new(dram.min(2 * size + (1 << 20)), self.medium.clone())
        };
        let (sample, _) = self.sample(index, table)?;
        let advice = index.advise(&sample, &options)?;
        Ok(Picked {
            placement: advice.picked().placement,
            reason: advice.reason,
        })
    }

    /// What was picked for an index.
    pub(crate) fn picked(&self, name: &str) -> Option<Picked> {
        lock(&self.picked).get(name).cloned()
    }

    /// The next one who asks picks anew for this index, or for all.
    pub(crate) fn forget(&self, name: Option<&str>) {
        let mut picked = lock(&self.picked);
        match name {
            Some(name) => drop(picked.remove(name)),
            None => picked.clear(),
        }
    }

    /// Forgets indexes that are there no more.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.picked).retain(|name, _| is_there(name));
        lock(&self.workloads).retain(|name, _| is_there(name));
    }
}
