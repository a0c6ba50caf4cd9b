//! Loading of a new store from pairs in any order: [`SortingLoader`].
//!
//! Pairs that come in the order of their keys are loaded at once. Those that are nearly in order, as when
//! threads hand over their parts one after the other, wait in DRAM until later ones cannot precede them.
//! Otherwise they are sorted in DRAM, spilled, and merged at the end. What was loaded until then is one of
//! the runs that are merged.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Result, StoreError};
use crate::limits::{check_key, check_value};
use crate::loader::StoreLoader;
use crate::pair_merge::PairSource;
use crate::pair_runs::SpillFactory;
use crate::pair_sorter::PairSorter;
use crate::pair_window::{NumberedPair, PairWindow};
use crate::store::Store;
use crate::stores::Stores;

/// The least memory of a load.
const MIN_MEMORY: usize = 64 << 10;

/// Pairs are nearly in order if at most one in `1 << NEARLY_SORTED_SHIFT` is less than the one before it.
const NEARLY_SORTED_SHIFT: u32 = 8;

/// Number of pairs after which a merge looks whether it is cancelled.
const CANCEL_EVERY: u64 = 1 << 10;

/// Options of [`Stores::load`].
#[derive(Clone)]
pub struct LoadOptions {
    pub(crate) memory: usize,
    pub(crate) spill: SpillFactory,
}

impl LoadOptions {
    /// Takes this many bytes of DRAM at most, besides some 3 MiB, and creates temporary files by `spill`, if
    /// there have to be any. They should have no name, so that a crash leaves none.
    pub fn new(memory: usize, spill: SpillFactory) -> Self {
        Self {
            memory: memory.max(MIN_MEMORY),
            spill,
        }
    }

    /// Returns the options with one of `parts` equal parts of the memory.
    #[must_use]
    pub fn part_of_memory(&self, parts: usize) -> Self {
        Self::new(self.memory / parts.max(1), SpillFactory::clone(&self.spill))
    }
}

impl std::fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadOptions")
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// A new store that is being loaded from pairs in any order, from [`Stores::load`].
///
/// Nobody finds the store before [`finish`](Self::finish). Dropping the loader frees what was written, and so
/// does a crash.
pub struct SortingLoader {
    loader: StoreLoader,
    options: LoadOptions,
    /// Number of pairs so far.
    pairs: u64,
    phase: LoadPhase,
}

/// The treatment of the next pair.
enum LoadPhase {
    /// It is loaded at once: all before were in order.
    Direct,
    /// It waits in the newer one of two windows. The pairs of the older one are sorted; those before the
    /// position were loaded.
    Waiting {
        older: PairWindow,
        from: usize,
        newer: PairWindow,
    },
    /// It is sorted with others, and spilled.
    Spilling(PairSorter),
}

impl Stores {
    /// Begins to load a new store from pairs in any order, none of which have the same key.
    ///
    /// # Errors
    /// Those of [`load_sorted`](Self::load_sorted).
    pub fn load(&self, name: &str, options: LoadOptions) -> Result<SortingLoader> {
        let half = options.memory / 2;
        Ok(SortingLoader {
            loader: self.load_sorted(name)?,
            pairs: 0,
            phase: LoadPhase::Waiting {
                older: PairWindow::new(half),
                from: 0,
                newer: PairWindow::new(half),
            },
            options,
        })
    }
}

impl SortingLoader {
    /// Returns a handle to the store, whose operations fail with [`StoreError::Dropped`] until
    /// [`finish`](Self::finish) returns.
    pub fn store(&self) -> Store {
        self.loader.store()
    }

    /// Returns the number of pairs so far.
    pub fn len(&self) -> u64 {
        self.pairs
    }

    /// Returns true if there is no pair so far.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// [`StoreError::DuplicateKey`], here or by [`finish`](Self::finish); [`StoreError::KeyTooLong`],
    /// [`StoreError::ValueTooLong`], [`StoreError::Spill`],
    /// [`DiskFull`](halocline_pool::PoolError::DiskFull), [`StoreError::Media`]: the loader can only be
    /// dropped.
    pub fn push(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(self.loader.state(), key)?;
        check_value(self.loader.state(), value)?;
        self.pairs += 1;
        let pair = NumberedPair {
            number: self.pairs,
            key,
            value,
        };
        if matches!(self.phase, LoadPhase::Direct) {
            if self.loader.last_key().is_some_and(|last| key < last) {
                self.spill()?
            } else {
                return load(&mut self.loader, &pair);
            }
        }
        if self.window().is_full_for(&pair) {
            self.empty_window()?;
            if matches!(self.phase, LoadPhase::Direct) {
                return self.push_again(&pair);
            }
        }
        self.window().push(&pair);
        Ok(())
    }

    /// Adds a pair that came right after the change to direct loading.
    fn push_again(&mut self, pair: &NumberedPair<'_>) -> Result<()> {
        if self.loader.last_key().is_some_and(|last| pair.key < last) {
            self.spill()?;
            self.window().push(pair);
            Ok(())
        } else {
            load(&mut self.loader, pair)
        }
    }

    /// Returns the window that takes the next pair.
    fn window(&mut self) -> &mut PairWindow {
        match &mut self.phase {
            LoadPhase::Waiting { newer, .. } => newer,
            LoadPhase::Spilling(sorter) => &mut sorter.window,
            LoadPhase::Direct => unreachable!("pairs are loaded at once"),
        }
    }

    /// Makes room in the window.
    fn empty_window(&mut self) -> Result<()> {
        let loaded = self.loader.last_key();
        match &mut self.phase {
            LoadPhase::Direct => Ok(()),
            LoadPhase::Spilling(sorter) => sorter.spill_window(),
            LoadPhase::Waiting { older, from, newer } => {
                let is_first = older.len() == 0;
                let was_sorted = newer.is_sorted();
                let is_nearly = newer.is_nearly_sorted(NEARLY_SORTED_SHIFT);
                newer.sort();
                let precedes = loaded.is_some_and(|last| newer.get(0).key <= last);
                if !is_nearly || precedes {
                    return self.spill();
                }
                let from_newer = load_older(&mut self.loader, (older, *from), newer)?;
                older.clear();
                if is_first && was_sorted {
                    load_from(&mut self.loader, newer, from_newer)?;
                    self.phase = LoadPhase::Direct;
                    return Ok(());
                }
                std::mem::swap(older, newer);
                *from = from_newer;
                Ok(())
            }
        }
    }

    /// Spills what waits, and from now on everything.
    fn spill(&mut self) -> Result<()> {
        // The allocations of its window are made with the first pair, when those here are freed.
        let mut sorter = PairSorter::new(&self.options);
        if let LoadPhase::Waiting { older, from, newer } = &mut self.phase {
            newer.sort();
            if *from < older.len() {
                sorter.spill(older, *from)?;
            }
            if newer.len() > 0 {
                sorter.spill(newer, 0)?;
            }
        }
        self.phase = LoadPhase::Spilling(sorter);
        Ok(())
    }

    /// Makes the store one of the pool, durably.
    ///
    /// # Errors
    /// [`StoreError::DuplicateKey`], [`StoreError::Spill`], and those of [`StoreLoader::finish`]: there is no
    /// such store.
    pub fn finish(self) -> Result<Store> {
        self.finish_unless(&AtomicBool::new(false))
    }

    /// Does the same as [`finish`](Self::finish), unless `cancel` is true before the store is one of the
    /// pool.
    ///
    /// # Errors
    /// [`StoreError::Cancelled`], and those of [`finish`](Self::finish).
    pub fn finish_unless(mut self, cancel: &AtomicBool) -> Result<Store> {
        if let LoadPhase::Waiting { newer, .. } = &mut self.phase
            && newer.len() > 0
        {
            newer.sort();
            if self
                .loader
                .last_key()
                .is_some_and(|last| newer.get(0).key <= last)
            {
                self.spill()?;
            }
        }
        match &mut self.phase {
            LoadPhase::Direct => {}
            LoadPhase::Waiting { older, from, newer } => {
                let rest = load_older(&mut self.loader, (older, *from), newer)?;
                load_from(&mut self.loader, newer, rest)?;
            }
            LoadPhase::Spilling(sorter) => {
                let loaded = if self.loader.is_empty() {
                    None
                } else {
                    Some(PairSource::loaded(self.loader.restart()?))
                };
                let mut sorted = sorter.sorted_with(loaded);
                while let Some(pair) = sorted.next()? {
                    load(&mut self.loader, &pair)?;
                    let is_turn = self.loader.len().is_multiple_of(CANCEL_EVERY);
                    if is_turn && cancel.load(Ordering::Relaxed) {
                        return Err(StoreError::Cancelled);
                    }
                }
            }
        }
        self.phase = LoadPhase::Direct;
        if cancel.load(Ordering::Relaxed) {
            Err(StoreError::Cancelled)
        } else {
            self.loader.finish()
        }
    }
}

/// Loads the pairs of the older window from a position on, with those of the newer one that precede them.
/// Returns the position of the first pair of the newer window that is left.
fn load_older(
    loader: &mut StoreLoader,
    (older, from): (&PairWindow, usize),
    newer: &PairWindow,
) -> Result<usize> {
    let mut next = 0;
    for at in from..older.len() {
        let pair = older.get(at);
        while next < newer.len() && newer.get(next).key < pair.key {
            load(loader, &newer.get(next))?;
            next += 1;
        }
        load(loader, &pair)?;
    }
    Ok(next)
}

/// Loads the pairs of a sorted window from a position on.
fn load_from(loader: &mut StoreLoader, window: &PairWindow, from: usize) -> Result<()> {
    (from..window.len()).try_for_each(|at| load(loader, &window.get(at)))
}

/// Loads the next pair. The error for a key that is there already names the pair.
fn load(loader: &mut StoreLoader, pair: &NumberedPair<'_>) -> Result<()> {
    loader.push(pair.key, pair.value).map_err(|error| match error {
        StoreError::DuplicateKey { store, key, .. } => StoreError::DuplicateKey {
            store,
            key,
            pair: pair.number,
        },
        error => error,
    })
}

/// Returns the error of a merge or a spill.
pub(crate) fn spill_error(error: std::io::Error) -> StoreError {
    match error.downcast() {
        Ok(error) => error,
        Err(source) => StoreError::Spill { source },
    }
}
