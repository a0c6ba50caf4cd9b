//! Creation and opening of the stores of a pool.
//!
//! Opening reads the newest checkpoint and its catalog, and the log after it: a bounded number of records,
//! whatever the stores hold. Branches and leaves are read when they are first needed, also those that
//! [settling](crate::settle) needs.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::{Pool, PoolError, Slab, SlabOptions, SlabRecovery};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::catalog::Catalog;
use crate::catalog_parts::{LoadedCatalog, load_catalog};
use crate::checkpoint::{checkpoint_sum, store_copies};
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{
    ALIGN, CHECKPOINT_COPY, Checkpoint, FRAME_HEAD, FrameHead, MAGIC, MAX_NUMBER, OBJECT, OWNER, SEGMENT,
    VERSION,
};
use crate::log::{LogFrame, LogPosition, LogReader, LogStep, LogWriter};
use crate::options::StoresOptions;
use crate::page_source::is_segment;
use crate::readers::EpochWords;
use crate::segments::{Freed, SegmentUse, Segments};
use crate::state::{Opening, StoresState};
use crate::tree::Damage;

/// Bytes of the first chunk of the slab.
const FIRST_CHUNK: u64 = 16 * SEGMENT;

/// Opens the stores of a pool, which are created if there are none.
pub(crate) fn open(pool: &Pool, options: StoresOptions) -> Result<Arc<StoresState>> {
    let recovery = match pool.open_slab(OBJECT, OWNER) {
        Ok(recovery) => recovery,
        Err(PoolError::NoSuchObject { .. }) => return create(pool, options),
        Err(error) => return Err(error.into()),
    };
    match newest_checkpoint(recovery.slab())? {
        Some(checkpoint) => recover(recovery, options, &checkpoint),
        // The creation was interrupted before there was anything to keep.
        None => initialise(recovery.finish(), options),
    }
}

fn create(pool: &Pool, options: StoresOptions) -> Result<Arc<StoresState>> {
    let slab = pool.create_slab(
        OBJECT,
        &SlabOptions {
            node_size: SEGMENT as u32,
            owner: OWNER,
            chunk: FIRST_CHUNK,
        },
    );
    match slab {
        Ok(slab) => initialise(slab, options),
        Err(PoolError::AlreadyThere { .. }) => open(pool, options),
        Err(error) => Err(error.into()),
    }
}

/// Makes the first checkpoint, of no stores.
fn initialise(slab: Slab, options: StoresOptions) -> Result<Arc<StoresState>> {
    slab.begin_writing()?;
    EpochWords::for_slab(&slab).open();
    let segment = slab.alloc()?;
    let secret = std::hash::RandomState::new().hash_one(segment);
    let position = LogPosition {
        offset: segment,
        segment,
        number: 1,
        chain: 0,
    };
    let mut segments = Segments::default();
    segments.insert(segment, SegmentUse::NEW_LOG);
    let state = StoresState::new(
        Opening::new(),
        slab,
        options,
        committer(LogWriter::new(secret, position), 0, 0, Catalog::default(), 1),
        segments,
        BTreeMap::new(),
        0,
    );
    // Whatever the slab held before must not look like frames.
    state.checkpoint()?;
    Ok(Arc::new(state))
}

fn committer(log: LogWriter, commit: u64, checkpoint: u64, catalog: Catalog, next_store: u32) -> Committer {
    Committer {
        log,
        commit,
        merging: None,
        dirty: Vec::new(),
        freed: Freed::default(),
        waiting: Freed::default(),
        readers_since: commit,
        pending_records: 0,
        pending_bytes: 0,
        deletions: BTreeMap::new(),
        catalog,
        checkpoint,
        next_store,
    }
}

/// The checkpoint of the stores.
struct FoundCheckpoint {
    checkpoint: Checkpoint,
    /// True if both copies are the same.
    are_equal: bool,
}

/// Returns true if a copy of a checkpoint is one that was stored whole.
pub(crate) fn is_valid(checkpoint: &Checkpoint) -> bool {
    checkpoint.magic == MAGIC && checkpoint.checksum.get() == checkpoint_sum(checkpoint)
}

/// Returns the newest valid checkpoint, if there is one.
fn newest_checkpoint(slab: &Slab) -> Result<Option<FoundCheckpoint>> {
    let load = |at: u64| {
        let mut checkpoint = Checkpoint::default();
        slab.medium().load(slab.root() + at, checkpoint.as_mut_bytes());
        checkpoint
    };
    let copies = [load(0), load(CHECKPOINT_COPY)];
    let valid = copies.iter().filter(|copy| is_valid(copy));
    let newest = valid.max_by_key(|copy| copy.number.get());
    match newest {
        Some(newest) if newest.version.get() > VERSION => Err(StoreError::NewerFormat {
            path: slab.pool().path().to_path_buf(),
            found: newest.version.get(),
            supported: VERSION,
        }),
        Some(newest) if !is_plausible(newest) || do_contradict(&copies) => Err(StoreError::Damaged {
            path: slab.pool().path().to_path_buf(),
            offset: slab.root(),
            what: "the checkpoint contradicts itself",
        }),
        Some(newest) => Ok(Some(FoundCheckpoint {
            checkpoint: *newest,
            are_equal: copies[0] == copies[1],
        })),
        // The stores are new: not even the first copy of the first checkpoint was durable.
        None if copies[1].as_bytes().iter().all(|byte| *byte == 0) => Ok(None),
        None => Err(StoreError::Damaged {
            path: slab.pool().path().to_path_buf(),
            offset: slab.root(),
            what: "both copies of the checkpoint are damaged",
        }),
    }
}

/// Returns true if both copies are valid and of one checkpoint, and tell different things. An opening that
/// was interrupted may have changed the version of one.
fn do_contradict(copies: &[Checkpoint; 2]) -> bool {
    let told = copies.map(|copy| Checkpoint {
        version: U32::ZERO,
        checksum: U64::ZERO,
        ..copy
    });
    let are_valid = copies.iter().all(is_valid);
    are_valid && copies[0].number == copies[1].number && told[0] != told[1]
}

/// Returns true if the position in the log is one in its segment, and numbers have room to grow. The
/// [catalog](load_catalog) tells whether there is the segment.
fn is_plausible(checkpoint: &Checkpoint) -> bool {
    let (log, segment) = (checkpoint.log.get(), checkpoint.log_segment.get());
    let within = log.checked_sub(segment);
    let numbers = [checkpoint.number, checkpoint.frame, checkpoint.commit];
    let is_position = within.is_some_and(|within| within <= SEGMENT && within.is_multiple_of(ALIGN));
    injected(StoreFault::TrustOffsets)
        || is_position && numbers.iter().all(|number| number.get() < MAX_NUMBER)
}

fn recover(
    mut recovery: SlabRecovery,
    options: StoresOptions,
    checkpoints: &FoundCheckpoint,
) -> Result<Arc<StoresState>> {
    let checkpoint = &checkpoints.checkpoint;
    let path = recovery.slab().pool().path().to_path_buf();
    let damaged = |damage: Damage| StoreError::Damaged {
        path: path.clone(),
        offset: damage.offset,
        what: damage.what,
    };
    let opening = Opening::new();
    let catalog = load_catalog(recovery.slab(), checkpoint, opening).map_err(damaged)?;
    for offset in &catalog.catalog.segments {
        recovery.keep(*offset)?;
    }
    for (offset, _) in catalog.segments.iter() {
        recovery.keep(offset)?;
    }
    let tail = read_tail(recovery.slab(), checkpoint, &catalog).map_err(damaged)?;
    for segment in &tail.segments {
        recovery.keep(*segment)?;
    }
    let slab = recovery.finish();
    slab.begin_writing()?;
    EpochWords::for_slab(&slab).open();
    if !tail.unfenced.is_empty() && !injected(StoreFault::TrustUnfenced) {
        // The process that stored these frames may have been killed before they were durable. Nobody may read
        // them before they are.
        for frame in &tail.unfenced {
            slab.medium().flush(frame.start, frame.end - frame.start);
        }
        slab.medium().fence()?;
    }
    if tail.is_unfinished && !injected(StoreFault::KeepUnfinished) {
        // Its segments are free from now on. A later opening must not follow it to what they hold then.
        let at = tail.end.offset;
        slab.medium().store(at, FrameHead::default().as_bytes());
        slab.medium().flush(at, FRAME_HEAD);
        slab.medium().fence()?;
    }
    let is_current = checkpoint.version.get() == VERSION || injected(StoreFault::KeepVersion);
    if !checkpoints.are_equal || !is_current {
        // A crash left an older copy, which would count if the newer one were damaged. A program that knows
        // earlier formats only must not see what is stored from now on.
        store_copies(&slab, &current(checkpoint))?;
    }
    let state = with_tail(slab, options, checkpoint, opening, catalog, &tail);
    state.replay(&tail.batches).map_err(damaged)?;
    let state = Arc::new(state);
    state.commit_what_was_decided()?;
    Ok(state)
}

/// Returns a checkpoint with the version of this program.
fn current(checkpoint: &Checkpoint) -> Checkpoint {
    let mut current = *checkpoint;
    if !injected(StoreFault::KeepVersion) {
        current.version = VERSION.into();
    }
    current.checksum = checkpoint_sum(&current).into();
    current
}

/// Returns the number of the newest checkpoint, if there is one.
///
/// # Errors
/// [`StoreError::NewerFormat`], [`StoreError::Damaged`].
pub(crate) fn newest_number(slab: &Slab) -> Result<Option<u64>> {
    Ok(newest_checkpoint(slab)?.map(|found| found.checkpoint.number.get()))
}

/// Reads the stores without a change of anything, beside a writer or without one.
///
/// # Errors
/// [`StoreError::NoStores`], and those of [`open`]; any, if a writer uses space again meanwhile.
pub(crate) fn observe(slab: Slab, options: StoresOptions, opening: Opening) -> Result<StoresState> {
    let path = slab.pool().path().to_path_buf();
    let Some(FoundCheckpoint { checkpoint, .. }) = newest_checkpoint(&slab)? else {
        return Err(StoreError::NoStores { path });
    };
    let damaged = |damage: Damage| StoreError::Damaged {
        path: path.clone(),
        offset: damage.offset,
        what: damage.what,
    };
    let catalog = load_catalog(&slab, &checkpoint, opening).map_err(damaged)?;
    let tail = read_tail(&slab, &checkpoint, &catalog).map_err(damaged)?;
    let state = with_tail(slab, options, &checkpoint, opening, catalog, &tail);
    state.replay(&tail.batches).map_err(damaged)?;
    // What is damaged in a tree is met by whoever reads it.
    if let Err(error) = state.settle().and_then(|()| state.uncount_hidden()) {
        tracing::warn!(%error, "keys that the log replaced or deleted count as well");
    }
    Ok(state)
}

/// Returns the state of a checkpoint, to be followed by the [replay](StoresState::replay) of the log after
/// it.
fn with_tail(
    slab: Slab,
    options: StoresOptions,
    checkpoint: &Checkpoint,
    opening: Opening,
    mut catalog: LoadedCatalog,
    tail: &Tail,
) -> StoresState {
    for segment in &tail.segments {
        catalog.segments.insert(*segment, SegmentUse::NEW_LOG);
    }
    let log = LogWriter::new(checkpoint.secret.get(), tail.end);
    let commit = tail.batches.iter().flatten().map(|frame| frame.commit).max();
    let commit = commit.unwrap_or(0).max(checkpoint.commit.get());
    let number = checkpoint.number.get();
    let state = StoresState::new(
        opening,
        slab,
        options,
        committer(log, commit, number, catalog.catalog, catalog.next_store),
        catalog.segments,
        catalog.stores,
        commit,
    );
    state.frozen.store(checkpoint.commit.get(), Ordering::Release);
    state
}

/// The log after a checkpoint.
struct Tail {
    /// The frames of each batch.
    batches: Vec<Vec<LogFrame>>,
    /// Segments that the checkpoint does not name.
    segments: Vec<u64>,
    /// The position after the last whole batch.
    end: LogPosition,
    /// Ranges of frames that may not be durable.
    unfenced: Vec<Range<u64>>,
    /// True if a batch without its end, or a link, follows.
    is_unfinished: bool,
}

/// Times that a missing frame is looked for: a writer may have stored it, and others, since the first look.
const LOOKS: u32 = 4;

fn read_tail(slab: &Slab, checkpoint: &Checkpoint, catalog: &LoadedCatalog) -> Result<Tail, Damage> {
    let position = LogPosition {
        offset: checkpoint.log.get(),
        segment: checkpoint.log_segment.get(),
        number: checkpoint.frame.get(),
        chain: checkpoint.chain.get(),
    };
    let mut reader = LogReader::new(slab.medium(), checkpoint.secret.get(), position);
    if !reader.is_position() {
        return Err(Damage {
            offset: position.offset,
            what: "the log does not go on where the checkpoint says",
        });
    }
    let mut looks = LOOKS;
    let mut tail = Tail {
        batches: Vec::new(),
        segments: Vec::new(),
        end: position,
        unfenced: Vec::new(),
        is_unfinished: false,
    };
    let (mut batch, mut linked, mut given_back) = (Vec::new(), Vec::new(), None);
    loop {
        match reader.step() {
            LogStep::OpenFrame(frame) if frame.commit >= MAX_NUMBER => {
                return Err(Damage {
                    offset: reader.position().offset,
                    what: "the number of a commit is out of range",
                });
            }
            LogStep::OpenFrame(frame) => {
                looks = LOOKS;
                let goes_on = frame.goes_on();
                batch.push(frame);
                if !goes_on {
                    // Of an unfinished batch there may be frames. A whole one shows that the slab is wrong.
                    if let Some(segment) = given_back {
                        return Err(Damage::offset(segment));
                    }
                    tail.batches.push(std::mem::take(&mut batch));
                    tail.end = reader.position();
                    tail.segments.append(&mut linked);
                }
            }
            LogStep::Link(segment) => {
                let is_repeated = linked.contains(&segment) || tail.segments.contains(&segment);
                let is_in_use =
                    catalog.segments.get(segment).is_some() || catalog.catalog.segments.contains(&segment);
                // An opening before did not erase an unfinished batch, and its segment was used for pages, or
                // given back to the pool, whose file may have been shortened since.
                let is_beyond = !reader.is_within_medium();
                let is_over = is_beyond || is_in_use && reader.is_at_end();
                if is_over && !injected(StoreFault::KeepUnfinished) {
                    tail.unfenced = reader.into_unfenced();
                    tail.is_unfinished = true;
                    return Ok(tail);
                }
                if is_repeated || is_in_use || is_beyond {
                    return Err(Damage::offset(segment));
                }
                if !is_segment(slab, segment) {
                    given_back = Some(segment);
                }
                linked.push(segment);
            }
            // A batch without its end is one that no commit acknowledged.
            LogStep::End => {
                tail.unfenced = reader.into_unfenced();
                tail.is_unfinished = !batch.is_empty() || !linked.is_empty();
                return Ok(tail);
            }
            LogStep::Damaged(_) if looks > 1 => looks -= 1,
            LogStep::Damaged(offset) => {
                return Err(Damage {
                    offset,
                    what: "a part of the log that was durable is missing",
                });
            }
        }
    }
}

impl std::fmt::Debug for StoresState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoresState")
            .field("slab", &self.slab)
            .finish_non_exhaustive()
    }
}
