//! Readers of the stores beside a writer, here or in another process:
//! [`Stores::open_reader`](crate::Stores::open_reader).
//!
//! A reader has trees of its own: those of a checkpoint, and the log after it in memtables. The writer
//! changes leaves in place meanwhile, so that an entry may point to a version that is too new; version links
//! lead from there to the one of the commit that the reader has pinned. See [`crate::readers`] for what the
//! writer does.
//!
//! A decided batch counts as committed even if it is not yet in the log. A reader waits up to `BATCH_TIMEOUT`
//! for the writer to append it. If the writer was killed, a reader with write access completes the commit by
//! opening the stores for writing, and another one [annexes](crate::annexed) the batch.
//!
//! Invariants: nothing is stored. What is read counts only if the epoch afterwards is the one in which the
//! trees were read. If only space was reused, the reader reloads the trees and keeps its pinned commit. If
//! another writer has opened the stores, the pins are void.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use halocline_pool::{Pool, PoolError, Slab, SlabPin};

use crate::annexed::AnnexedBatch;
use crate::decided::DecidedObject;
use crate::error::{Result, StoreError};
use crate::handle::StoresHandle;
use crate::layout::{OBJECT, OWNER, ReaderEpoch};
use crate::options::StoresOptions;
use crate::readers::{EpochWords, OPENING, pin_of};
use crate::recover;
use crate::state::{Opening, StoresState};

/// Time that a reader waits for the batch of a transaction that was committed with tables. Tests explore many
/// crashes after which it does not come.
const BATCH_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 200 });
/// Interval at which the reader polls for that batch.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Attempts of a read before it fails with `Overtaken`, because the writer reused the space meanwhile; the
/// writer does so once per eighth of its log, or 16 MiB.
const MAX_READ_ATTEMPTS: u32 = 32;

/// Times that stores are read again because a newer checkpoint was made meanwhile. A writer that makes them
/// as fast as a reader reads leaves it with counters that may count replaced keys twice.
const MAX_OUTDATED_READS: u32 = 16;

/// A reader's knowledge of the writer.
pub(crate) struct Observer {
    words: EpochWords,
    /// The epoch of the trees.
    epoch: Mutex<ReaderEpoch>,
    /// Held while the trees are read again.
    reloading: Mutex<()>,
    /// A pin for the visible commit, and for each that a snapshot sees.
    pins: Mutex<BTreeMap<u64, SlabPin>>,
    /// The commit that was visible when this reader first saw the present writer. Earlier pins are those of
    /// an earlier writer, and void.
    oldest: AtomicU64,
    /// The batch that is annexed to the medium.
    annexed: Option<AnnexedBatch>,
    /// True while the memtables point into the annexed batch.
    shows_annexed: AtomicBool,
    /// True if the trees are newer than the visible commit; counters and log position still belong to that
    /// commit.
    is_ahead: AtomicBool,
}

/// A reader's treatment of a decided batch that the log lacks.
#[derive(Debug, Clone, Copy)]
enum Undecided {
    /// The reader stays on an earlier commit.
    Ignore,
    /// The reader applies the batch, without waiting for the writer if it has annexed this very batch.
    See(Option<AnnexedBatch>),
}

/// The stores as a reader has found them.
struct Loaded {
    state: StoresState,
    epoch: ReaderEpoch,
    annexed: Option<AnnexedBatch>,
}

/// Opens the stores of a pool for reading.
pub(crate) fn open(pool: &Pool, options: &StoresOptions) -> Result<Arc<StoresState>> {
    let slab = slab_of(pool)?;
    let opening = slab.pin(OPENING)?;
    let Loaded {
        mut state,
        epoch,
        annexed,
    } = load(pool, options, Opening::new(), Undecided::See(None))?;
    let commit = state.visible.load(Ordering::Acquire);
    let pin = slab.pin(pin_of(commit))?;
    // Release the earlier pin only now: the writer must see one of the two at any time.
    drop(opening);
    state.observer = Some(Observer {
        words: EpochWords::for_slab(&slab),
        epoch: Mutex::new(epoch),
        reloading: Mutex::default(),
        pins: Mutex::new(BTreeMap::from([(commit, pin)])),
        oldest: AtomicU64::new(commit),
        annexed,
        shows_annexed: AtomicBool::new(annexed.is_some()),
        is_ahead: AtomicBool::new(false),
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
fn load(pool: &Pool, options: &StoresOptions, opening: Opening, undecided: Undecided) -> Result<Loaded> {
    let started = Instant::now();
    let (mut overtaken, mut outdated, mut has_waited) = (0, 0, false);
    loop {
        // Read before the log: the log contains, or will shortly contain, the batch of every generation
        // published so far.
        let decided = match undecided {
            Undecided::Ignore => None,
            Undecided::See(_) => DecidedObject::newest(pool)?,
        };
        let slab = slab_of(pool)?;
        slab.medium().refresh()?;
        let words = EpochWords::for_slab(&slab);
        let epoch = words.load();
        let state = recover::observe(slab, options.clone(), opening);
        if words.load() != epoch {
            overtaken += 1;
            if overtaken == MAX_READ_ATTEMPTS {
                return Err(overtaken_in(pool));
            }
            continue;
        }
        let mut state = state?;
        // Once there is a newer checkpoint, records no longer lead to the versions of this one, which the
        // counters need.
        let newest = recover::newest_number(&state.slab)?;
        if newest != Some(state.committer().checkpoint) && outdated < MAX_OUTDATED_READS {
            outdated += 1;
            continue;
        }
        let mut annexed = None;
        if let Undecided::See(known) = undecided
            && let Some(pending) = decided.filter(|decided| state.lacks(decided))
        {
            let is_known = known.is_some_and(|known| known.commit == pending.commit());
            // What can be ended here is, however long it took to read.
            if !is_known && (!has_waited || started.elapsed() < BATCH_TIMEOUT) {
                has_waited = true;
                if !end_commit(pool, options) {
                    thread::sleep(POLL_INTERVAL);
                }
                continue;
            }
            annexed = Some(state.annex(&pending)?);
        }
        return Ok(Loaded {
            state,
            epoch,
            annexed,
        });
    }
}

/// Ends the commit of a writer that was killed, by opening the stores for writing. Returns false if the
/// writer lives, or this handle cannot write.
fn end_commit(pool: &Pool, options: &StoresOptions) -> bool {
    let opened = recover::open(pool, options.clone().with_background(false));
    match opened {
        Ok(state) => {
            drop(StoresHandle::new(state, None));
            true
        }
        Err(error) => {
            tracing::debug!(%error, "a commit that was decided is not ended here");
            false
        }
    }
}

fn overtaken_in(pool: &Pool) -> StoreError {
    StoreError::Overtaken {
        path: pool.path().to_path_buf(),
        attempts: MAX_READ_ATTEMPTS,
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
    /// Runs `read`, which reads as of a commit, and repeats it up to [`MAX_READ_ATTEMPTS`] times if the
    /// writer reused space meanwhile.
    pub(crate) fn reading<T>(&self, commit: u64, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        let Some(observer) = &self.observer else {
            return read();
        };
        for _ in 0..MAX_READ_ATTEMPTS {
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

    /// Returns true if a writer has reused space since the trees of this reader were read.
    pub(crate) fn has_moved_on(&self) -> bool {
        let observer = self.observer.as_ref();
        observer.is_some_and(|observer| observer.words.load() != observer.epoch())
    }

    pub(crate) fn stale(&self) -> StoreError {
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
        if observer.shows_annexed.load(Ordering::Acquire) {
            return Err(self.stale());
        }
        let fresh = load(self.slab.pool(), &self.options, self.opening, Undecided::Ignore)?;
        if fresh.epoch.openings != observer.epoch().openings {
            return Err(self.stale());
        }
        self.adopt(observer, &fresh);
        observer.is_ahead.store(true, Ordering::Release);
        Ok(())
    }

    /// Lets a reader see the newest commit from now on. Its snapshots keep theirs.
    pub(crate) fn refresh(&self) -> Result<()> {
        let Some(observer) = &self.observer else {
            return Ok(());
        };
        let _one_at_a_time = observer.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = self.slab.pin(OPENING)?;
        if self.follow(observer)? {
            return Ok(());
        }
        let undecided = Undecided::See(observer.annexed);
        let fresh = load(self.slab.pool(), &self.options, self.opening, undecided)?;
        if fresh.annexed.is_some() && fresh.annexed != observer.annexed {
            return Err(StoreError::Interrupted {
                path: self.slab.pool().path().to_path_buf(),
            });
        }
        let commit = fresh.state.visible.load(Ordering::Acquire);
        let pin = self.slab.pin(pin_of(commit))?;
        drop(opening);
        let is_same_writer = fresh.epoch.openings == observer.epoch().openings;
        self.adopt(observer, &fresh);
        observer.is_ahead.store(false, Ordering::Release);
        let mut stores = self.stores_mut();
        for (name, fresh) in fresh.state.stores().iter() {
            let store = stores.entry(name.clone()).or_insert_with(|| Arc::clone(fresh));
            for (old, new) in [(&store.keys, &fresh.keys), (&store.bytes, &fresh.bytes)] {
                old.store(new.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        drop(stores);
        std::mem::swap(&mut *self.committer(), &mut *fresh.state.committer());
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

    /// Advances the reader to the end of the log. Returns false if that needs a newer checkpoint or a batch
    /// that is not in the log. O(new commits).
    pub(crate) fn follow(&self, observer: &Observer) -> Result<bool> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if observer.words.load() != observer.epoch()
            || is_set(&observer.shows_annexed)
            || is_set(&observer.is_ahead)
        {
            return Ok(false);
        }
        // Before the log, as in `load`.
        let decided = DecidedObject::newest(self.slab.pool())?;
        self.medium().refresh()?;
        let Some(unread) = self.unread_log()? else {
            return Ok(false);
        };
        let is_missing =
            decided.is_some_and(|decided| unread.commit < decided.commit() && self.lacks(&decided));
        if is_missing || observer.words.load() != observer.epoch() {
            return Ok(false);
        }
        let commit = unread.commit;
        let pin = self.slab.pin(pin_of(commit))?;
        // What looks like damage may be new contents of space that the writer has reused meanwhile.
        if self.follow_log(unread).is_err() || observer.words.load() != observer.epoch() {
            return Ok(false);
        }
        let snapshots = self.snapshots();
        observer.pins().entry(commit).or_insert(pin);
        self.visible.store(commit, Ordering::Release);
        drop(snapshots);
        self.unpin_unseen();
        Ok(true)
    }

    /// Takes the trees of a state that was read later. Stores that it does not have are dropped.
    fn adopt(&self, observer: &Observer, fresh: &Loaded) {
        let mut stores = self.stores_mut();
        let newer = fresh.state.stores();
        let mut kept = Vec::with_capacity(stores.len());
        stores.retain(|name, store| {
            let still = newer.get(name).filter(|newer| newer.id == store.id);
            match still {
                Some(newer) => kept.push((Arc::clone(store), newer)),
                None => store.dropped.store(true, Ordering::Release),
            }
            still.is_some()
        });
        // Trees are read with the segments and the commit of their checkpoint, so all are locked until these
        // are replaced, too.
        let mut trees: Vec<_> = kept.iter().map(|(store, newer)| (store.write(), newer)).collect();
        for (trees, newer) in &mut trees {
            **trees = std::mem::take(&mut *newer.write());
        }
        *self.segments() = std::mem::take(&mut *fresh.state.segments());
        let checkpoint = fresh.state.frozen.load(Ordering::Acquire);
        self.frozen.store(checkpoint, Ordering::Release);
        *observer.epoch.lock().unwrap_or_else(PoisonError::into_inner) = fresh.epoch;
        let shows_annexed = fresh.annexed.is_some();
        observer.shows_annexed.store(shows_annexed, Ordering::Release);
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
