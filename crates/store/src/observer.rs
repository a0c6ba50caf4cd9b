//! Readers of the stores beside a writer, here or in another process:
//! [`Stores::open_reader`](crate::Stores::open_reader).
//!
//! A reader has trees of its own: those of a checkpoint, and the log behind it in memtables. The writer
//! changes leaves in place meanwhile, so that an entry may lead to a version that is too new; the versions
//! before it lead to the one of the commit that the reader has pinned. See [`crate::readers`] for what the
//! writer does.
//!
//! Invariants: nothing is stored. What is read counts only if the epoch afterwards is the one in which the
//! trees were read. If only the space changed, the trees are read again, and the pinned commit stays. If
//! another writer has opened the stores, what was pinned is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use halocline_pool::{Pool, PoolError, Slab, SlabPin};

use crate::error::{Result, StoreError};
use crate::layout::{OBJECT, OWNER, ReaderEpoch};
use crate::options::StoresOptions;
use crate::readers::{EpochWords, OPENING, pin_of};
use crate::recover;
use crate::state::{Opening, StoresState};

/// Time that a reader waits for the batch of a transaction that was committed with tables.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(1);
/// Times that something is read before a reader gives up because its writer uses space again. The writer does
/// so once for an eighth of its log, or 16 MiB.
const ATTEMPTS: u32 = 32;

/// Times that stores are read again because a newer checkpoint was made meanwhile. A writer that makes them as
/// fast as a reader reads leaves it with counters that may count replaced keys twice.
const OUTDATED: u32 = 16;

/// A reader's knowledge of the writer.
pub(crate) struct Observer {
    words: EpochWords,
    /// The epoch of the trees.
    epoch: Mutex<ReaderEpoch>,
    /// Held while the trees are read again.
    reloading: Mutex<()>,
    /// A pin for the visible commit, and for each that a snapshot sees.
    pins: Mutex<BTreeMap<u64, SlabPin>>,
    /// Commits before this one were seen of an earlier writer.
    oldest: AtomicU64,
}

/// Opens the stores of a pool for reading.
pub(crate) fn open(pool: &Pool, options: &StoresOptions) -> Result<Arc<StoresState>> {
    let slab = slab_of(pool)?;
    let opening = slab.pin(OPENING)?;
    let (mut state, epoch) = load(pool, options, Opening::new())?;
    let commit = state.visible.load(Ordering::Acquire);
    let pin = slab.pin(pin_of(commit))?;
    // Only now, so that the writer sees one of the pins at any time.
    drop(opening);
    state.observer = Some(Observer {
        words: EpochWords::of(&slab),
        epoch: Mutex::new(epoch),
        reloading: Mutex::default(),
        pins: Mutex::new(BTreeMap::from([(commit, pin)])),
        oldest: AtomicU64::new(commit),
    });
    Ok(Arc::new(state))
}

fn slab_of(pool: &Pool) -> Result<Slab> {
    match pool.observe_slab(OBJECT, OWNER) {
        Ok(recovery) => Ok(recovery.finish()),
        Err(PoolError::NoSuchObject { .. }) => Err(StoreError::NoStores {
            path: pool.path().to_path_buf(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Reads checkpoint and log until both are of one epoch, which is returned with them.
fn load(pool: &Pool, options: &StoresOptions, opening: Opening) -> Result<(StoresState, ReaderEpoch)> {
    let started = Instant::now();
    let (mut overtaken, mut outdated) = (0, 0);
    loop {
        let slab = slab_of(pool)?;
        slab.medium().refresh()?;
        let words = EpochWords::of(&slab);
        let epoch = words.load();
        let state = recover::observe(slab, options.clone(), opening);
        if words.load() != epoch {
            overtaken += 1;
            if overtaken == ATTEMPTS {
                return Err(overtaken_in(pool));
            }
            continue;
        }
        let state = state?;
        // Once there is a newer checkpoint, records no longer lead to the versions of this one, which the
        // counters need.
        let newest = recover::newest_number(&state.slab)?;
        if newest != Some(state.committer().checkpoint) && outdated < OUTDATED {
            outdated += 1;
            continue;
        }
        if !state.has_pending_batch()? {
            return Ok((state, epoch));
        }
        // Its writer is about to store it, or was killed.
        if started.elapsed() >= PATIENCE {
            return Err(StoreError::Interrupted {
                path: pool.path().to_path_buf(),
            });
        }
        thread::sleep(PAUSE);
    }
}

fn overtaken_in(pool: &Pool) -> StoreError {
    StoreError::Overtaken {
        path: pool.path().to_path_buf(),
        attempts: ATTEMPTS,
    }
}

impl Observer {
    fn epoch(&self) -> ReaderEpoch {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pins(&self) -> MutexGuard<'_, BTreeMap<u64, SlabPin>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoresState {
    /// Returns what `read` returns, which reads as of a commit. It is called again if a writer has used space
    /// again meanwhile, a limited number of times.
    pub(crate) fn reading<T>(&self, commit: u64, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        let Some(observer) = &self.observer else {
            return read();
        };
        for _ in 0..ATTEMPTS {
            let epoch = observer.epoch();
            let len = self.medium().len();
            let found = read();
            let now = observer.words.load();
            if now.openings != epoch.openings || commit < observer.oldest.load(Ordering::Acquire) {
                return Err(self.stale());
            }
            if now != epoch {
                self.reload(observer)?;
                continue;
            }
            // A record may be in a part by which the writer has extended the pool.
            if matches!(found, Err(StoreError::Damaged { .. })) && self.medium().refresh()? > len {
                continue;
            }
            return found;
        }
        Err(overtaken_in(self.slab.pool()))
    }

    /// Returns true if a writer has used space again since the trees of this reader were read.
    pub(crate) fn has_moved_on(&self) -> bool {
        let observer = self.observer.as_ref();
        observer.is_some_and(|observer| observer.words.load() != observer.epoch())
    }

    fn stale(&self) -> StoreError {
        StoreError::Stale {
            path: self.slab.pool().path().to_path_buf(),
        }
    }

    /// Reads the trees again, unless another thread has. The pinned commits stay.
    fn reload(&self, observer: &Observer) -> Result<()> {
        let _one_at_a_time = observer.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        if observer.words.load() == observer.epoch() {
            return Ok(());
        }
        let (fresh, epoch) = load(self.slab.pool(), &self.options, self.opening)?;
        if epoch.openings != observer.epoch().openings {
            return Err(self.stale());
        }
        self.adopt(observer, &fresh, epoch);
        Ok(())
    }

    /// Lets a reader see the newest commit from now on. Its snapshots keep theirs.
    pub(crate) fn refresh(&self) -> Result<()> {
        let Some(observer) = &self.observer else {
            return Ok(());
        };
        let _one_at_a_time = observer.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = self.slab.pin(OPENING)?;
        let (fresh, epoch) = load(self.slab.pool(), &self.options, self.opening)?;
        let commit = fresh.visible.load(Ordering::Acquire);
        let pin = self.slab.pin(pin_of(commit))?;
        drop(opening);
        let is_same_writer = epoch.openings == observer.epoch().openings;
        self.adopt(observer, &fresh, epoch);
        let mut stores = self.stores_mut();
        for (name, fresh) in fresh.stores().iter() {
            let store = stores.entry(name.clone()).or_insert_with(|| Arc::clone(fresh));
            for (old, new) in [(&store.keys, &fresh.keys), (&store.bytes, &fresh.bytes)] {
                old.store(new.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        drop(stores);
        self.committer().commit = commit;
        let snapshots = self.snapshots();
        if !is_same_writer {
            observer.oldest.store(commit, Ordering::Release);
        }
        observer.pins().entry(commit).or_insert(pin);
        self.visible.store(commit, Ordering::Release);
        drop(snapshots);
        self.unpin_unseen();
        Ok(())
    }

    /// Takes the trees of a state that was read later. Stores that it does not have are dropped.
    fn adopt(&self, observer: &Observer, fresh: &StoresState, epoch: ReaderEpoch) {
        let mut stores = self.stores_mut();
        let newer = fresh.stores();
        stores.retain(|name, store| {
            let still = newer.get(name).filter(|newer| newer.id == store.id);
            if let Some(newer) = still {
                *store.write() = std::mem::take(&mut *newer.write());
            } else {
                store.dropped.store(true, Ordering::Release);
            }
            still.is_some()
        });
        *observer.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
    }

    /// Drops the pins of commits that no snapshot sees any more.
    pub(crate) fn unpin_unseen(&self) {
        if let Some(observer) = &self.observer {
            let snapshots = self.snapshots();
            let visible = self.visible.load(Ordering::Acquire);
            let mut pins = observer.pins();
            pins.retain(|commit, _| *commit == visible || snapshots.has(*commit));
        }
    }
}
